/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pure transitions on one word of 64 units, a set bit being a free unit. No
 * memory is touched and nothing is atomic here: take.c and give.c wrap each
 * transition in one compare-and-swap.
 *
 * Lengths are in units, 1 to 64; a run is a length at any shift.
 */
#ifndef MOIETY_POOL_BUDDY_WORD_H_
#define MOIETY_POOL_BUDDY_WORD_H_

#include <stdbool.h>
#include <stdint.h>

#define MOIETYI_WORD_FULL UINT64_MAX

/* The run of `length` units that starts at bit `start`; it ends by bit 64. */
static inline uint64_t moietyi_word_run(unsigned start, unsigned length)
{
    return (MOIETYI_WORD_FULL >> (64U - length)) << start;
}

/* A set bit for each position at which a run of `length` free units starts. */
static inline uint64_t moietyi_word_starts(uint64_t word, unsigned length)
{
    /* `word` has bit i set where `covered` units are free from i on; each step
     * doubles `covered`, the last one as far as is still missing. */
    unsigned covered = 1;
    while (covered * 2 <= length) {
        word &= word >> covered;
        covered *= 2;
    }
    return covered < length ? word & (word >> (length - covered)) : word;
}

static inline bool moietyi_word_has_run(uint64_t word, unsigned length)
{
    return moietyi_word_starts(word, length) != 0;
}

/* The length of the longest run; 0: there is none. */
static inline unsigned moietyi_word_longest(uint64_t word)
{
    unsigned length = 0;
    /* Each step takes a unit off every run. */
    for (; word; word &= word >> 1)
        length++;
    return length;
}

static inline unsigned moietyi_word_lowest(uint64_t word)
{
    return (unsigned)__builtin_ctzll(word);
}

/* How many units in a row are free from the lowest on; and from the highest
 * down. */
static inline unsigned moietyi_word_low_run(uint64_t word)
{
    return word == MOIETYI_WORD_FULL ? 64U : moietyi_word_lowest(~word);
}

static inline unsigned moietyi_word_high_run(uint64_t word)
{
    return word == MOIETYI_WORD_FULL ? 64U : (unsigned)__builtin_clzll(~word);
}

static inline unsigned moietyi_word_count(uint64_t word)
{
    return (unsigned)__builtin_popcountll(word);
}

/* The part of a word that can be in a run that is longer than the word: what
 * begins at its lowest bit or ends at its highest. */
static inline uint64_t moietyi_word_ends(uint64_t word)
{
    uint64_t inner = ~word;
    if (!inner)
        return word;
    unsigned low = moietyi_word_lowest(inner);
    unsigned high = (unsigned)__builtin_clzll(inner);
    return (low ? moietyi_word_run(0, low) : 0) |
           (high ? moietyi_word_run(64U - high, high) : 0);
}

/* Picks up to `count` runs of `length` free units, lowest first, each starting
 * at one of the bits `allowed`. Returns all their bits, to be taken by one
 * compare-and-swap, and where they start, lowest first. */
static inline uint64_t moietyi_word_pick(uint64_t word, unsigned length,
                                         unsigned count, uint64_t allowed,
                                         uint64_t *out_starts)
{
    uint64_t picked = 0;
    uint64_t chosen = 0;
    uint64_t starts = moietyi_word_starts(word, length) & allowed;
    while (starts && count--) {
        unsigned start = moietyi_word_lowest(starts);
        picked |= moietyi_word_run(start, length);
        chosen |= UINT64_C(1) << start;
        /* No other run may start before this one ends. */
        starts &=
            start + length < 64U ? MOIETYI_WORD_FULL << (start + length) : 0;
    }
    *out_starts = chosen;
    return picked;
}

/* The positions that are multiples of `alignment` units, a power of two. */
static inline uint64_t moietyi_word_aligned(unsigned alignment)
{
    if (alignment <= 1)
        return MOIETYI_WORD_FULL;
    uint64_t mask = 1;
    for (unsigned step = alignment; step < 64U; step *= 2)
        mask |= mask << step;
    return mask;
}

#endif
