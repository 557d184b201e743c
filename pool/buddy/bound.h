/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * An upper bound of the longest free run within a page, so that a search does
 * not look again where it, or another, has found too little. It is learned by
 * looking: who looks through the page notes what was the longest run, and who
 * frees something there raises the bound to the run around it (bound.c). Words
 * for 64 pages say of which ones the bound is short of a threshold, so that a
 * search passes them at once. For the files of this folder only.
 */
#ifndef BINADE_POOL_BUDDY_BOUND_H_
#define BINADE_POOL_BUDDY_BOUND_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/base/atomics.h"
#include "pool/base/step.h"
#include "pool/buddy/units.h"
#include "pool/buddy/word.h"

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

/* Grains; a search uses the largest that is not above what it needs. */
#define BINADEI_BOUND_PLANES 5U
static const uint32_t binadei_bound_threshold[BINADEI_BOUND_PLANES] = {
    64, 256, 1024, 2048, 3072};

/* Of the pages of a group. */
struct binadei_bounds {
    binadei_bound of[BINADEI_WORD_BITS];
    /* Edge BS: set after the bound was noted, which is then looked at again;
     * cleared after it was raised; all seq_cst. A set bit: the page's bound is
     * known, and short of the plane's threshold. */
    binadei_atomic_word short_of[BINADEI_BOUND_PLANES];
};

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

/* The bound became `grains`, or unknown: those. */
static inline void binadei_bound_was_raised(struct binadei_bounds *bounds,
                                            unsigned page_bit, uint32_t grains)
{
    uint64_t bit = UINT64_C(1) << page_bit;
    /* BS, raise: after the bound, by order of seq_cst. */
    for (unsigned i = 0; i < BINADEI_BOUND_PLANES; i++)
        if (binadei_bound_threshold[i] <= grains &&
            binadei_load_seq_cst(&bounds->short_of[i]) & bit)
            (void)binadei_and_seq_cst(&bounds->short_of[i], ~bit);
}

static inline void binadei_bound_was_lowered(struct binadei_bounds *bounds,
                                             unsigned page_bit, uint32_t grains)
{
    uint64_t bit = UINT64_C(1) << page_bit;
    bool is_changed = false;
    for (unsigned i = 0; i < BINADEI_BOUND_PLANES; i++) {
        if (binadei_bound_threshold[i] <= grains ||
            binadei_load_relaxed(&bounds->short_of[i]) & bit)
            continue;
        /* BS, lower: before the second look, by order of seq_cst. */
        (void)binadei_or_seq_cst(&bounds->short_of[i], bit);
        is_changed = true;
    }
    BINADEI_STEP("bound.lowered");
    if (is_changed)
        /* BS, second look. */
        binadei_bound_was_raised(
            bounds, page_bit,
            binadei_bound_grains(atomic_load_explicit(&bounds->of[page_bit],
                                                      memory_order_seq_cst)));
}

/* No run in the words that were loaded since is longer than `grains`. */
static inline void binadei_bound_note(struct binadei_bounds *bounds,
                                      unsigned page_bit,
                                      struct binadei_look look, uint64_t grains)
{
    uint32_t least = grains < look.known ? (uint32_t)grains : look.known;
    /* seq_cst: BS, the bound before its bits. It fails where something was freed
     * meanwhile. relaxed: nothing is concluded from a failure. */
    if (look.mark && atomic_compare_exchange_strong_explicit(
                         &bounds->of[page_bit], &look.mark,
                         (look.mark & ~BINADEI_BOUND_MASK) + least + 1,
                         memory_order_seq_cst, memory_order_relaxed))
        binadei_bound_was_lowered(bounds, page_bit, least);
}

/* Pages whose bound may reach `grains`. */
static inline uint64_t
binadei_bound_may_reach(const struct binadei_bounds *bounds, uint64_t grains)
{
    unsigned plane = BINADEI_BOUND_PLANES;
    while (plane && binadei_bound_threshold[plane - 1] > grains)
        plane--;
    /* relaxed: advice. */
    return plane ? ~binadei_load_relaxed(&bounds->short_of[plane - 1])
                 : BINADEI_WORD_FULL;
}

#endif
