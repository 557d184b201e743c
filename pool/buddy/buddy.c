/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The buddy's memory: one table. Zero is a valid state: nothing is free and no
 * interval starts.
 */
#include "pool/buddy/buddy.h"

#include <stdlib.h>

#include "pool/base/table.h"
#include "pool/buddy/state.h"

struct layout {
    char *base;   /* NULL while only sizes are added up */
    size_t bytes; /* so far */
};

/* The next `count` items of `item_bytes`, on a page of their own. */
static void *buddy_place(struct layout *layout, uint64_t count,
                         size_t item_bytes)
{
    const size_t alignment = 4096;
    size_t at = layout->bytes;
    layout->bytes += (count * item_bytes + alignment - 1) & ~(alignment - 1);
    return layout->base ? layout->base + at : NULL;
}

static void buddy_lay_out(struct moietyi_buddy *buddy, struct layout *layout)
{
    uint64_t pages = buddy->page_capacity;
    uint64_t groups = (pages + MOIETYI_WORD_BITS - 1) / MOIETYI_WORD_BITS;
    const size_t word = sizeof(moietyi_atomic_word);
    buddy->chunk_words = buddy_place(layout, pages * MOIETYI_PAGE_CHUNKS, word);
    buddy->pages = buddy_place(layout, pages, sizeof(*buddy->pages));
    buddy->groups = buddy_place(layout, groups, sizeof(*buddy->groups));
    buddy->index_leaves = buddy_place(layout, groups / MOIETYI_LEAF_GROUPS + 1,
                                      sizeof(*buddy->index_leaves));
    buddy->classes = buddy_place(layout, pages * MOIETYI_PAGE_GRAINS, 1);
    buddy->run_grains = buddy_place(layout, pages * MOIETYI_PAGE_CHUNKS,
                                    sizeof(*buddy->run_grains));
}

moiety_status moietyi_buddy_create(uint32_t page_capacity,
                                   struct moietyi_buddy **out)
{
    if (page_capacity == 0)
        return MOIETY_E_INVALID;
    if (page_capacity > MOIETYI_PAGES_MAX)
        return MOIETY_E_TOO_LARGE;
    struct moietyi_buddy *buddy = calloc(1, sizeof(*buddy));
    if (!buddy)
        return MOIETY_E_NO_HOST_MEMORY;
    buddy->page_capacity = page_capacity;
    struct layout layout = {NULL, 0};
    buddy_lay_out(buddy, &layout);
    buddy->map_bytes = layout.bytes;
    buddy->map = moietyi_table_reserve(layout.bytes);
    if (!buddy->map) {
        free(buddy);
        return MOIETY_E_NO_HOST_MEMORY;
    }
    layout = (struct layout){buddy->map, 0};
    buddy_lay_out(buddy, &layout);
    pthread_mutex_init(&buddy->run_lock, NULL);
    *out = buddy;
    return MOIETY_OK;
}

void moietyi_buddy_prefer_huge(struct moietyi_buddy *buddy)
{
    moietyi_table_prefer_huge(buddy->map, buddy->map_bytes);
}

void moietyi_buddy_destroy(struct moietyi_buddy *buddy)
{
    if (!buddy)
        return;
    pthread_mutex_destroy(&buddy->run_lock);
    moietyi_table_release(buddy->map, buddy->map_bytes);
    free(buddy);
}

/* The bytes below are relaxed, as state.h declares. */
uint8_t moietyi_buddy_class(const struct moietyi_buddy *buddy,
                            moietyi_grain start)
{
    return atomic_load_explicit(&buddy->classes[start.index],
                                memory_order_relaxed);
}

/* Pages that are free as a whole have none. */
moietyi_grain moietyi_buddy_next_class(const struct moietyi_buddy *buddy,
                                       moietyi_grain start, moietyi_grain end)
{
    uint64_t at = start.index;
    while (at < end.index) {
        moietyi_page page = moietyi_page_of_grain(moietyi_grain_at(at));
        uint64_t page_end = (uint64_t)(page.index + 1) * MOIETYI_PAGE_GRAINS;
        uint64_t to = page_end < end.index ? page_end : end.index;
        /* relaxed: exact while nobody takes or gives. */
        bool is_free =
            moietyi_load_relaxed(&moietyi_group_of(buddy, page)->free_pages) &
            moietyi_page_bit(page);
        while (!is_free && at < to) {
            if (moietyi_buddy_class(buddy, moietyi_grain_at(at)))
                return moietyi_grain_at(at);
            at++;
        }
        at = to;
    }
    return end;
}

void moietyi_buddy_set_class(struct moietyi_buddy *buddy, moietyi_grain start,
                             uint8_t class_byte)
{
    /* relaxed: the holder owns the byte. */
    atomic_store_explicit(&buddy->classes[start.index], class_byte,
                          memory_order_relaxed);
}

const _Atomic uint8_t *moietyi_buddy_classes(const struct moietyi_buddy *buddy)
{
    return buddy->classes;
}

uint8_t moietyi_buddy_end_class(struct moietyi_buddy *buddy,
                                moietyi_grain start)
{
    /* relaxed: of two that free a block by mistake, one gets the class. */
    return atomic_exchange_explicit(&buddy->classes[start.index], 0,
                                    memory_order_relaxed);
}

uint64_t moietyi_buddy_run_grains(const struct moietyi_buddy *buddy,
                                  moietyi_grain start)
{
    moietyi_chunk chunk = moietyi_chunk_of_grain(start);
    return atomic_load_explicit(&buddy->run_grains[chunk.index],
                                memory_order_relaxed);
}

void moietyi_buddy_set_run_grains(struct moietyi_buddy *buddy,
                                  moietyi_grain start, uint64_t grains)
{
    moietyi_chunk chunk = moietyi_chunk_of_grain(start);
    atomic_store_explicit(&buddy->run_grains[chunk.index], (uint32_t)grains,
                          memory_order_relaxed);
}
