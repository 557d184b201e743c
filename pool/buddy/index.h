/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * An index of free runs by their length, so that a search goes to a page that
 * has a run of about the right length at once: a bin for each eighth of a binary
 * order, and in each bin a bit for the page in which such a run begins. The index
 * of what is done and those of streams are apart. All of it is advice: a bit may
 * be left behind by a run that is gone, and a run may have none; the best fit of
 * all (fit.c) looks at the words themselves. For the files of this folder only.
 *
 * Bins by parts of a binary order are of M. Masmano, I. Ripoll, A. Crespo, J.
 * Real: TLSF: a New Dynamic Memory Allocator for Real-Time Systems (ECRTS 2004).
 */
#ifndef MOIETY_POOL_BUDDY_INDEX_H_
#define MOIETY_POOL_BUDDY_INDEX_H_

#include "pool/base/atomics.h"
#include "pool/buddy/units.h"

/* Grains: a chunk at least; what is longer than the most is as long. */
#define MOIETYI_INDEX_LEAST MOIETYI_CHUNK_GRAINS
#define MOIETYI_INDEX_MOST (UINT64_C(1) << 22)
#define MOIETYI_INDEX_PARTS_BITS 3U
/* Sixteen binary orders. */
#define MOIETYI_INDEX_BINS (16U << MOIETYI_INDEX_PARTS_BITS)
#define MOIETYI_INDEX_BIN_WORDS ((MOIETYI_INDEX_BINS - 1) / 64 + 1)

/* Of the pages of a group, a bit each. */
struct moietyi_index_group {
    /* Edge: none; relaxed, advice. */
    moietyi_atomic_word pages[MOIETYI_INDEX_BINS];
};

#define MOIETYI_LEAF_GROUPS 64U

/* Of 64 groups, a bit each; and which of these words are not 0. */
struct moietyi_index_leaf {
    /* Edge: none; relaxed, advice. */
    moietyi_atomic_word bins[MOIETYI_INDEX_BIN_WORDS];
    moietyi_atomic_word groups[MOIETYI_INDEX_BINS];
};

/* The bin of a run of at least MOIETYI_INDEX_LEAST grains; and the least length
 * in a bin. */
static inline unsigned moietyi_index_bin(uint64_t grains)
{
    if (grains >= MOIETYI_INDEX_MOST)
        return MOIETYI_INDEX_BINS - 1;
    unsigned order = 63U - (unsigned)__builtin_clzll(grains);
    unsigned part = (unsigned)(grains >> (order - MOIETYI_INDEX_PARTS_BITS)) &
                    ((1U << MOIETYI_INDEX_PARTS_BITS) - 1);
    return ((order - 6U) << MOIETYI_INDEX_PARTS_BITS) + part;
}

static inline uint64_t moietyi_index_bin_grains(unsigned bin)
{
    unsigned order = 6U + (bin >> MOIETYI_INDEX_PARTS_BITS);
    uint64_t part = bin & ((1U << MOIETYI_INDEX_PARTS_BITS) - 1);
    return (UINT64_C(1) << order) +
           (part << (order - MOIETYI_INDEX_PARTS_BITS));
}

#endif
