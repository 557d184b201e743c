/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sets of free address (or file offset) spans: sorted, first fit, neighbours
 * merge. The book-keeping behind every allocator of the stand-in.
 *
 * All functions: lock held.
 */
#ifndef MOIETY_POOL_STANDIN_MEMORY_SPAN_H_
#define MOIETY_POOL_STANDIN_MEMORY_SPAN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span {
    uint64_t base;
    uint64_t end;
};

struct span_set {
    struct span *spans; /* sorted, disjoint */
    size_t count;
    size_t capacity;
    uint64_t boundary; /* 0, or spans never merge across its multiples */
};

/* Takes the lowest `size_bytes` whose start is a multiple of `alignment`, a
 * power of two. False when no span is large enough. */
bool span_take(struct span_set *set, uint64_t size_bytes, uint64_t alignment,
               uint64_t *out_base);

/* Takes exactly [base, end), which lies within one span. */
void span_take_exactly(struct span_set *set, uint64_t base, uint64_t end);

/* Puts [base, end) in, which is disjoint from what the set holds. Without host
 * memory to note it, the span is lost to the set: addresses are plenty, and a
 * free must not fail. */
void span_give(struct span_set *set, uint64_t base, uint64_t end);

#endif
