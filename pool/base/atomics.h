/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Atomic operations with the memory order in their names, so that an edge can
 * be read, and searched for, at the call. A call site says which edge of
 * docs/internals/memory-model.md it is an end of, or why relaxed is enough.
 */
#ifndef BINADE_POOL_BASE_ATOMICS_H_
#define BINADE_POOL_BASE_ATOMICS_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic uint64_t binadei_atomic_word;

static inline uint64_t binadei_load_relaxed(const binadei_atomic_word *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline uint64_t binadei_load_acquire(const binadei_atomic_word *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

static inline void binadei_store_relaxed(binadei_atomic_word *word,
                                         uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static inline void binadei_store_release(binadei_atomic_word *word,
                                         uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* The compare-and-swaps are weak and fail relaxed: every caller loops, and
 * uses the value of a failed attempt only to compute the next one. */
static inline bool binadei_cas_acquire(binadei_atomic_word *word,
                                       uint64_t *seen, uint64_t value)
{
    return atomic_compare_exchange_weak_explicit(
        word, seen, value, memory_order_acquire, memory_order_relaxed);
}

static inline bool binadei_cas_acq_rel(binadei_atomic_word *word,
                                       uint64_t *seen, uint64_t value)
{
    return atomic_compare_exchange_weak_explicit(
        word, seen, value, memory_order_acq_rel, memory_order_relaxed);
}

/* Where two threads each change one word and then look at the other's: of two
 * such pairs, all four seq_cst, one sees the other's change. */
static inline uint64_t binadei_load_seq_cst(const binadei_atomic_word *word)
{
    return atomic_load_explicit(word, memory_order_seq_cst);
}

static inline void binadei_store_seq_cst(binadei_atomic_word *word,
                                         uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_seq_cst);
}

static inline bool binadei_cas_seq_cst(binadei_atomic_word *word,
                                       uint64_t *seen, uint64_t value)
{
    return atomic_compare_exchange_weak_explicit(
        word, seen, value, memory_order_seq_cst, memory_order_relaxed);
}

static inline uint64_t binadei_or_seq_cst(binadei_atomic_word *word,
                                          uint64_t bits)
{
    return atomic_fetch_or_explicit(word, bits, memory_order_seq_cst);
}

static inline uint64_t binadei_and_seq_cst(binadei_atomic_word *word,
                                           uint64_t bits)
{
    return atomic_fetch_and_explicit(word, bits, memory_order_seq_cst);
}

#endif
