/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The offset space, and the metadata bytes of blocks.
 */
#include <stdlib.h>

#include "pool/heap/state.h"

struct moietyi_space *moietyi_space_create(uint32_t page_capacity)
{
    struct moietyi_space *space = calloc(1, sizeof(*space));
    if (!space)
        return NULL;
    space->page_capacity = page_capacity;
    /* 0 is none, and no chain is of two parts. */
    atomic_init(&space->extent_end, MOIETYI_CHAIN_RECORDS);
    space->owner_end = MOIETYI_OWNER_DONE;
    pthread_mutex_init(&space->owners_lock, NULL);
    if (moietyi_tables_reserve(space))
        space->done = moietyi_heap_create(space);
    if (!space->done) {
        moietyi_space_destroy(space);
        return NULL;
    }
    return space;
}

void moietyi_space_destroy(struct moietyi_space *space)
{
    if (!space)
        return;
    while (space->retired) {
        struct moietyi_heap *heap = space->retired;
        space->retired = heap->retired_next;
        free(heap);
    }
    free(space->done);
    moietyi_tables_release(space);
    pthread_mutex_destroy(&space->owners_lock);
    free(space);
}

/* --- metadata bytes --- */

/* The bytes below are relaxed, as state.h declares. */
uint8_t moietyi_space_class(const struct moietyi_space *space,
                            moietyi_grain start)
{
    return atomic_load_explicit(&space->classes[start.index],
                                memory_order_relaxed);
}

/* Where free memory lies at the start of a page, none begins until it ends. */
moietyi_grain moietyi_space_next_class(const struct moietyi_space *space,
                                       moietyi_grain start, moietyi_grain end)
{
    for (uint64_t at = start.index; at < end.index; at++) {
        if (at % MOIETYI_PAGE_GRAINS == 0)
            at += moietyi_space_free_from(space, moietyi_grain_at(at), end);
        if (at < end.index && moietyi_space_class(space, moietyi_grain_at(at)))
            return moietyi_grain_at(at);
    }
    return end;
}

void moietyi_space_set_class(struct moietyi_space *space, moietyi_grain start,
                             uint8_t class_byte)
{
    /* relaxed: the holder owns the byte. */
    atomic_store_explicit(&space->classes[start.index], class_byte,
                          memory_order_relaxed);
}

const _Atomic uint8_t *moietyi_space_classes(const struct moietyi_space *space)
{
    return space->classes;
}

uint8_t moietyi_space_end_class(struct moietyi_space *space,
                                moietyi_grain start)
{
    /* relaxed: of two that free a block by mistake, one gets the class. */
    return atomic_exchange_explicit(&space->classes[start.index], 0,
                                    memory_order_relaxed);
}

uint64_t moietyi_space_run_grains(const struct moietyi_space *space,
                                  moietyi_grain start)
{
    moietyi_chunk chunk = moietyi_chunk_of_grain(start);
    return atomic_load_explicit(&space->run_grains[chunk.index],
                                memory_order_relaxed);
}

void moietyi_space_set_run_grains(struct moietyi_space *space,
                                  moietyi_grain start, uint64_t grains)
{
    moietyi_chunk chunk = moietyi_chunk_of_grain(start);
    atomic_store_explicit(&space->run_grains[chunk.index], (uint32_t)grains,
                          memory_order_relaxed);
}
