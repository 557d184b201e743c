/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/lag/touch.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096U
#define LINE_BYTES 64U
#define LINES 8U
/* More than caches have, and twice what is touched at a time. */
#define LEAST_PAGES 8192U

static uint64_t room_of(const struct touch *touch)
{
    uint64_t twice = 2 * (uint64_t)touch->pages;
    return twice > LEAST_PAGES ? twice : LEAST_PAGES;
}

bool touch_init(struct touch *touch, uint32_t pages)
{
    *touch = (struct touch){.pages = pages};
    if (!pages)
        return true;
    touch->memory = malloc(room_of(touch) * PAGE_BYTES);
    if (touch->memory)
        memset(touch->memory, 1, room_of(touch) * PAGE_BYTES);
    return touch->memory != NULL;
}

void touch_fini(struct touch *touch)
{
    free(touch->memory);
}

void touch_next(struct touch *touch)
{
    for (uint32_t i = 0; i < touch->pages; i++) {
        uint64_t page = touch->next_page++ % room_of(touch);
        volatile unsigned char *lines = touch->memory + page * PAGE_BYTES;
        /* Others from page to page, so that they go to all sets of a cache. */
        for (unsigned line = 0; line < LINES; line++)
            lines[(line * PAGE_BYTES / LINES + page * LINE_BYTES) %
                  PAGE_BYTES]++;
    }
}
