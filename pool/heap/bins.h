/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Extents by their length: eight bins for each doubling, exact ones below 16
 * grains. A bin is a list; a bit says that it is not empty. For the files of this
 * folder only, which hold the lock of the bins' heap.
 */
#ifndef MOIETY_POOL_HEAP_BINS_H_
#define MOIETY_POOL_HEAP_BINS_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/heap/extent.h"

#define MOIETYI_BINS 296U
#define MOIETYI_BIN_WORDS 5U

struct moietyi_bins {
    /* Edge: none; relaxed. Written under the lock; a hint to others. */
    _Atomic uint64_t used[MOIETYI_BIN_WORDS];
    moietyi_extent_id heads[MOIETYI_BINS];
};

_Static_assert(MOIETYI_BIN_WORDS * 64 >= MOIETYI_BINS, "a bin has no bit");

/* `grains` is from 1 to 2^38. As classes.h has it: 15 keeps the shift at 0 for the first
 * sixteen. */
static inline unsigned moietyi_bin_of(uint64_t grains)
{
    unsigned shift = 60U - (unsigned)__builtin_clzll(grains | UINT64_C(15));
    return 8 * shift + (unsigned)(grains >> shift);
}

static inline uint64_t moietyi_bins_used(const struct moietyi_bins *bins,
                                         unsigned word)
{
    return atomic_load_explicit(&bins->used[word], memory_order_relaxed);
}

/* The first bin from `bin` on that is not empty; MOIETYI_BINS if all are. */
static inline unsigned moietyi_bins_next(const struct moietyi_bins *bins,
                                         unsigned bin)
{
    if (bin >= MOIETYI_BINS)
        return MOIETYI_BINS;
    unsigned word = bin / 64;
    uint64_t used = moietyi_bins_used(bins, word) & ~UINT64_C(0) << bin % 64;
    while (!used) {
        if (++word == MOIETYI_BIN_WORDS)
            return MOIETYI_BINS;
        used = moietyi_bins_used(bins, word);
    }
    return word * 64 + (unsigned)__builtin_ctzll(used);
}

/* The last bin below `end` that is not empty; 0, which is always empty, if all
 * are. */
static inline unsigned moietyi_bins_last(const struct moietyi_bins *bins,
                                         unsigned end)
{
    uint64_t used = 0;
    unsigned word = (end + 63) / 64;
    if (end % 64)
        used =
            moietyi_bins_used(bins, --word) & ((UINT64_C(1) << end % 64) - 1);
    while (!used && word)
        used = moietyi_bins_used(bins, --word);
    return used ? word * 64 + 63U - (unsigned)__builtin_clzll(used) : 0;
}

#endif
