/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where the blocks are that nobody uses and that are not in the space: in caches,
 * and streams' heaps.
 */
#ifndef MOIETY_POOL_OBSERVE_HEAP_ENUMERATE_FREE_H_
#define MOIETY_POOL_OBSERVE_HEAP_ENUMERATE_FREE_H_

#include "moiety/heap.h"
#include "pool/cache/state.h"

/* A block that was found. */
struct moietyi_enumerated {
    moiety_devptr address;
    moiety_stream stream;
    uint64_t since_ns; /* of what waits: when its epoch was closed */
    uint32_t thread_id;
    uint32_t kind; /* moiety_heap_kind */
};

struct moietyi_enumerated_list {
    struct moietyi_enumerated *blocks;
    size_t capacity;
    size_t count; /* found; more than the capacity were not written */
};

/* The pool is stopped. Takes the registry's lock and the stream states'. */
void moietyi_enumerate_free(struct moietyi_engine *engine,
                            struct moietyi_enumerated_list *list);

/* How many grains from `start` on, up to `end`, wait in the heap of one stream,
 * without a gap; 0: none. `out` says of which, but no address. The pool is
 * stopped. */
uint64_t moietyi_find_waiting(const struct moietyi_engine *engine,
                              moietyi_grain start, moietyi_grain end,
                              struct moietyi_enumerated *out);

static inline void
moietyi_enumerated_add(struct moietyi_enumerated_list *list,
                       const struct moietyi_enumerated *found)
{
    if (list->count < list->capacity)
        list->blocks[list->count] = *found;
    list->count++;
}

#endif
