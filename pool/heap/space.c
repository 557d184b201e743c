/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The offset space, and the metadata bytes of blocks.
 */
#include <stdlib.h>

#include "pool/heap/state.h"

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
    /* 0 is none, and no chain is of two parts. */
    atomic_init(&buddy->extent_end, MOIETYI_CHAIN_RECORDS);
    buddy->owner_end = MOIETYI_OWNER_DONE;
    pthread_mutex_init(&buddy->owners_lock, NULL);
    if (moietyi_tables_reserve(buddy))
        buddy->done = moietyi_maps_create(buddy);
    if (!buddy->done) {
        moietyi_buddy_destroy(buddy);
        return MOIETY_E_NO_HOST_MEMORY;
    }
    *out = buddy;
    return MOIETY_OK;
}

void moietyi_buddy_destroy(struct moietyi_buddy *buddy)
{
    if (!buddy)
        return;
    while (buddy->retired) {
        struct moietyi_maps *heap = buddy->retired;
        buddy->retired = heap->retired_next;
        free(heap);
    }
    free(buddy->done);
    moietyi_tables_release(buddy);
    pthread_mutex_destroy(&buddy->owners_lock);
    free(buddy);
}

/* --- metadata bytes --- */

/* The bytes below are relaxed, as state.h declares. */
uint8_t moietyi_buddy_class(const struct moietyi_buddy *buddy,
                            moietyi_grain start)
{
    return atomic_load_explicit(&buddy->classes[start.index],
                                memory_order_relaxed);
}

/* Where free memory lies at the start of a page, none begins until it ends. */
moietyi_grain moietyi_buddy_next_class(const struct moietyi_buddy *buddy,
                                       moietyi_grain start, moietyi_grain end)
{
    for (uint64_t at = start.index; at < end.index; at++) {
        if (at % MOIETYI_PAGE_GRAINS == 0)
            at += moietyi_buddy_free_from(buddy, moietyi_grain_at(at), end);
        if (at < end.index && moietyi_buddy_class(buddy, moietyi_grain_at(at)))
            return moietyi_grain_at(at);
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
