/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Atomic operations with the memory order in their names, so that an edge can
 * be read, and searched for, at the call. A call site says which edge of
 * docs/internals/memory-model.md it is an end of, or why relaxed is enough.
 */
#ifndef MOIETY_POOL_BASE_ATOMICS_H_
#define MOIETY_POOL_BASE_ATOMICS_H_

#include <stdatomic.h>
#include <stdbool.h>
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

/* The compare-and-swaps are weak and fail relaxed: every caller loops, and
 * uses the value of a failed attempt only to compute the next one. */
static inline bool moietyi_cas_acquire(moietyi_atomic_word *word,
                                       uint64_t *seen, uint64_t value)
{
    return atomic_compare_exchange_weak_explicit(
        word, seen, value, memory_order_acquire, memory_order_relaxed);
}

static inline bool moietyi_cas_acq_rel(moietyi_atomic_word *word,
                                       uint64_t *seen, uint64_t value)
{
    return atomic_compare_exchange_weak_explicit(
        word, seen, value, memory_order_acq_rel, memory_order_relaxed);
}

/* Where two threads each change one word and then look at the other's: of two
 * such pairs, all four seq_cst, one sees the other's change. */
static inline uint64_t moietyi_load_seq_cst(const moietyi_atomic_word *word)
{
    return atomic_load_explicit(word, memory_order_seq_cst);
}

static inline void moietyi_store_seq_cst(moietyi_atomic_word *word,
                                         uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_seq_cst);
}

static inline bool moietyi_cas_seq_cst(moietyi_atomic_word *word,
                                       uint64_t *seen, uint64_t value)
{
    return atomic_compare_exchange_weak_explicit(
        word, seen, value, memory_order_seq_cst, memory_order_relaxed);
}

static inline uint64_t moietyi_or_seq_cst(moietyi_atomic_word *word,
                                          uint64_t bits)
{
    return atomic_fetch_or_explicit(word, bits, memory_order_seq_cst);
}

static inline uint64_t moietyi_and_seq_cst(moietyi_atomic_word *word,
                                           uint64_t bits)
{
    return atomic_fetch_and_explicit(word, bits, memory_order_seq_cst);
}

#endif
