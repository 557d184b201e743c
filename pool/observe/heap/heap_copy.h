/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a snapshot of the heap is made of: arrays that are filled while the pool
 * is stopped, in memory that was there before.
 */
#ifndef BINADE_POOL_OBSERVE_HEAP_HEAP_COPY_H_
#define BINADE_POOL_OBSERVE_HEAP_HEAP_COPY_H_

#include "pool/core/body.h"
#include "pool/ipc/exports.h"
#include "pool/observe/heap/enumerate_free.h"

struct binadei_heap_copy {
    binade_heap_segment *segments;
    size_t segment_capacity;
    size_t segment_count; /* there are; more than the capacity are not there */
    binade_heap_interval *intervals;
    size_t interval_capacity;
    size_t interval_count; /* likewise */
    struct binadei_enumerated_list found;
    struct binadei_exported_list exported;
    struct binadei_exported_list scoped;
};

/* Room for what was counted the last time, and some more. False: no memory. */
bool binadei_heap_reserve(struct binadei_heap_copy *copy);
/* The pool is stopped. False: there was not enough room. */
bool binadei_heap_fill(struct binadei_pool_body *body,
                       struct binadei_heap_copy *copy);
/* Tells used blocks from freed ones; the pool may go on. Times are `now_ns`'s. */
void binadei_heap_join(struct binadei_heap_copy *copy, uint64_t now_ns);
void binadei_heap_release(struct binadei_heap_copy *copy);

#endif
