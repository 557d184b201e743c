/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where the blocks are that nobody uses and that are not in the buddy: in caches,
 * depots, and streams' maps.
 */
#ifndef BINADE_POOL_OBSERVE_HEAP_ENUMERATE_FREE_H_
#define BINADE_POOL_OBSERVE_HEAP_ENUMERATE_FREE_H_

#include "binade/heap.h"
#include "pool/cache/state.h"

/* A block that was found. */
struct binadei_enumerated {
    binade_devptr address;
    binade_stream stream;
    uint64_t since_ns; /* of what waits: when its epoch was closed */
    uint32_t thread_id;
    uint32_t kind; /* binade_heap_kind */
};

struct binadei_enumerated_list {
    struct binadei_enumerated *blocks;
    size_t capacity;
    size_t count; /* found; more than the capacity were not written */
};

/* The pool is stopped. Takes the registry's lock and the stream states'. */
void binadei_enumerate_free(struct binadei_engine *engine,
                            struct binadei_enumerated_list *list);

/* How many grains from `start` on, up to `end`, wait in the maps of one stream,
 * without a gap; 0: none. `out` says of which, but no address. The pool is
 * stopped. */
uint64_t binadei_find_waiting(const struct binadei_engine *engine,
                              binadei_grain start, binadei_grain end,
                              struct binadei_enumerated *out);

static inline void
binadei_enumerated_add(struct binadei_enumerated_list *list,
                       const struct binadei_enumerated *found)
{
    if (list->count < list->capacity)
        list->blocks[list->count] = *found;
    list->count++;
}

#endif
