/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Atomic operations with the memory order in their names, so that an edge can
 * be read, and searched for, at the call. A call site says which edge of
 * docs/dev/memory-model.md it is an end of, or why relaxed is enough.
 */
#ifndef MOIETY_POOL_BASE_ATOMICS_H_
#define MOIETY_POOL_BASE_ATOMICS_H_

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t moietyi_atomic_word;

static inline uint64_t moietyi_load_relaxed(const moietyi_atomic_word *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline uint64_t moietyi_load_acquire(const moietyi_atomic_word *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static inline void moietyi_store_relaxed(moietyi_atomic_word *word,
                                         uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static inline void moietyi_store_release(moietyi_atomic_word *word,
                                         uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* Where two threads each change one word and then look at the other's: of two
 * such pairs, all four seq_cst, one sees the other's change. */
static inline uint64_t moietyi_load_seq_cst(const moietyi_atomic_word *word)
{
    return atomic_load_explicit(word, memory_order_seq_cst);
}

#endif
