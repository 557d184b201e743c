/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a snapshot of the heap is made of: arrays that are filled while the pool
 * is stopped, in memory that was there before.
 */
#ifndef MOIETY_POOL_OBSERVE_HEAP_HEAP_COPY_H_
#define MOIETY_POOL_OBSERVE_HEAP_HEAP_COPY_H_

#include "pool/core/body.h"
#include "pool/ipc/exports.h"
#include "pool/observe/heap/enumerate_free.h"

struct moietyi_heap_copy {
    moiety_heap_segment *segments;
    size_t segment_capacity;
    size_t segment_count; /* there are; more than the capacity are not there */
    moiety_heap_interval *intervals;
    size_t interval_capacity;
    size_t interval_count; /* likewise */
    struct moietyi_enumerated_list found;
    struct moietyi_exported_list exported;
    struct moietyi_exported_list scoped;
};

/* Room for what was counted the last time, and some more. False: no memory. */
bool moietyi_heap_reserve(struct moietyi_heap_copy *copy);
/* The pool is stopped. False: there was not enough room. */
bool moietyi_heap_fill(struct moietyi_pool_body *body,
                       struct moietyi_heap_copy *copy);
/* Separates used blocks from freed ones; the pool may go on. Times are
 * `now_ns`'s. */
void moietyi_heap_join(struct moietyi_heap_copy *copy, uint64_t now_ns);
void moietyi_heap_release(struct moietyi_heap_copy *copy);

#endif
