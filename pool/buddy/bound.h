/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * An upper bound of the longest free run within a page, so that a search does
 * not look again where it, or another, has found too little. It is learned by
 * looking: who looks through the page notes what was the longest run, and who
 * frees something there raises the bound to the run around it (bound.c). For the
 * files of this folder only.
 */
#ifndef BINADE_POOL_BUDDY_BOUND_H_
#define BINADE_POOL_BUDDY_BOUND_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/buddy/units.h"

/* The low bits are 0: unknown; LOOKING: somebody looks, and it is unknown; or
 * grains, plus one. The rest counts the looks, so that none ends another's.
 *
 * Edge LB: who frees sets bits, then looks at the bound and at the words around
 * them; who looks through the page marks the bound, then loads the words. All are
 * seq_cst, so either the look sees the bits, or the mark is seen and goes; and
 * who sets the last bits of a run sees all of it. */
typedef _Atomic uint32_t binadei_bound;

#define BINADEI_BOUND_BITS 13U
#define BINADEI_BOUND_MASK ((UINT32_C(1) << BINADEI_BOUND_BITS) - 1)
#define BINADEI_BOUND_LOOKING BINADEI_BOUND_MASK

static inline uint32_t binadei_bound_grains(uint32_t seen)
{
    uint32_t known = seen & BINADEI_BOUND_MASK;
    return known && known != BINADEI_BOUND_LOOKING ? known - 1
                                                   : BINADEI_PAGE_GRAINS;
}

static inline uint32_t binadei_bound_of(const binadei_bound *bound)
{
    /* relaxed: advice. */
    return binadei_bound_grains(
        atomic_load_explicit(bound, memory_order_relaxed));
}

struct binadei_look {
    uint32_t mark; /* 0: another looks already */
    uint32_t known;
};

/* Before the page's words are loaded. */
static inline struct binadei_look binadei_bound_look(binadei_bound *bound)
{
    /* relaxed: only the start of the swap. */
    uint32_t seen = atomic_load_explicit(bound, memory_order_relaxed);
    struct binadei_look look = {((seen >> BINADEI_BOUND_BITS) + 1)
                                        << BINADEI_BOUND_BITS |
                                    BINADEI_BOUND_LOOKING,
                                binadei_bound_grains(seen)};
    /* LB: before the words, by order of seq_cst. */
    if ((seen & BINADEI_BOUND_MASK) == BINADEI_BOUND_LOOKING ||
        !atomic_compare_exchange_strong_explicit(bound, &seen, look.mark,
                                                 memory_order_seq_cst,
                                                 memory_order_relaxed))
        look.mark = 0;
    return look;
}

/* No run in the words that were loaded since is longer than `grains`. */
static inline void binadei_bound_note(binadei_bound *bound,
                                      struct binadei_look look, uint64_t grains)
{
    uint32_t least = grains < look.known ? (uint32_t)grains : look.known;
    /* relaxed: advice; it fails where something was freed meanwhile. */
    if (look.mark)
        (void)atomic_compare_exchange_strong_explicit(
            bound, &look.mark, (look.mark & ~BINADEI_BOUND_MASK) + least + 1,
            memory_order_relaxed, memory_order_relaxed);
}

#endif
