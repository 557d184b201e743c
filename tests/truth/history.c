/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/truth/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/truth/kit.h"

#define FOUND_MAX 4096
#define SHOWN_MAX 24

struct found {
    const struct history_line *line;
    uint32_t thread;
};

void history_note(struct history *history, struct history_line line)
{
    line.time_ns = kit_now_ns();
    history->line[history->count++ % HISTORY_LINES] = line;
}

static int by_time(const void *left, const void *right)
{
    uint64_t a = ((const struct found *)left)->line->time_ns;
    uint64_t b = ((const struct found *)right)->line->time_ns;
    return (a > b) - (a < b);
}

static size_t collect(struct history *const *histories, uint32_t count,
                      CUdeviceptr address, struct found found[FOUND_MAX])
{
    size_t found_count = 0;
    for (uint32_t thread = 0; thread < count; thread++) {
        const struct history *history = histories[thread];
        for (size_t i = 0; i < HISTORY_LINES && i < history->count; i++) {
            const struct history_line *line = &history->line[i];
            if (line->address <= address && found_count < FOUND_MAX &&
                address - line->address < line->size_bytes)
                found[found_count++] = (struct found){line, thread};
        }
    }
    return found_count;
}

void history_print(struct history *const *histories, uint32_t count,
                   CUdeviceptr address)
{
    static struct found found[FOUND_MAX];
    size_t found_count = collect(histories, count, address, found);
    qsort(found, found_count, sizeof(found[0]), by_time);
    size_t first = found_count > SHOWN_MAX ? found_count - SHOWN_MAX : 0;
    printf("the last owners of 0x%llx:\n", address);
    for (size_t i = first; i < found_count; i++) {
        const struct history_line *line = found[i].line;
        printf("  %+12.3f us  thread %-3" PRIu32 " word %08" PRIx32
               "  0x%llx + %" PRIu64 "  stream %p  %s\n",
               ((double)line->time_ns -
                (double)found[found_count - 1].line->time_ns) /
                   1000,
               found[i].thread, line->word, line->address, line->size_bytes,
               (void *)line->stream, line->what);
    }
}
