/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Availability summaries. A thread that makes a run looks at its bits, at both
 * levels every time, and sets those that are clear; a thread that finds no run
 * clears the bit and then looks at the word again. The change of the word and
 * the look at the bit, the clearing and the second look are all four seq_cst:
 * so either the raiser sees the bit cleared, or the lowerer sees the run. With
 * less, on weak memory, both could miss each other and the word would be lost
 * for good; and a raiser that passed over the upper level because the lower one
 * was set could hide a free word behind another thread that has cleared that
 * bit and not yet looked again.
 */
#include "pool/buddy/state.h"

/* A look first: most bits are set already, and a line that nobody writes stays
 * with everybody who reads it. */
static void set_bit(moietyi_atomic_word *summary, uint64_t bit)
{
    /* BS, raise: after the change of what lies below, by order of seq_cst. */
    if (!(moietyi_load_seq_cst(summary) & bit))
        moietyi_or_seq_cst(summary, bit);
}

/* False: it was clear, so whoever clears or cleared it has the second look. */
static bool clear_bits(moietyi_atomic_word *summary, uint64_t bits)
{
    /* relaxed: nothing is concluded from it but that there is nothing to do. */
    if (!(moietyi_load_relaxed(summary) & bits))
        return false;
    /* BS, lower: before the second look, by order of seq_cst. */
    moietyi_and_seq_cst(summary, ~bits);
    return true;
}

static void raise_grain_page(struct moietyi_buddy *buddy, moietyi_page page,
                             unsigned plane)
{
    set_bit(&moietyi_group_of(buddy, page)->grain_pages[plane],
            moietyi_page_bit(page));
}

static void raise_chunk(struct moietyi_buddy *buddy, moietyi_chunk chunk,
                        unsigned plane)
{
    moietyi_page page = moietyi_page_of_chunk(chunk);
    set_bit(&buddy->pages[page.index].chunk_summary[plane],
            UINT64_C(1) << moietyi_chunk_bit(chunk));
    MOIETYI_STEP("summary.chunk_raised");
    raise_grain_page(buddy, page, plane);
}

void moietyi_summary_raise_chunk(struct moietyi_buddy *buddy,
                                 moietyi_chunk chunk, uint64_t before,
                                 uint64_t after)
{
    unsigned planes = moietyi_planes_of(after) & ~moietyi_planes_of(before);
    for (; planes; planes &= planes - 1)
        raise_chunk(buddy, chunk, (unsigned)__builtin_ctz(planes));
}

static void raise_page(struct moietyi_buddy *buddy, moietyi_page page,
                       unsigned plane)
{
    set_bit(&moietyi_group_of(buddy, page)->chunk_pages[plane],
            moietyi_page_bit(page));
}

void moietyi_summary_raise_page(struct moietyi_buddy *buddy, moietyi_page page,
                                uint64_t before, uint64_t after)
{
    unsigned planes = moietyi_planes_of(after) & ~moietyi_planes_of(before);
    for (; planes; planes &= planes - 1)
        raise_page(buddy, page, (unsigned)__builtin_ctz(planes));
}

void moietyi_summary_lower_grain_page(struct moietyi_buddy *buddy,
                                      moietyi_page page, unsigned plane)
{
    if (!clear_bits(&moietyi_group_of(buddy, page)->grain_pages[plane],
                    moietyi_page_bit(page)))
        return;
    MOIETYI_STEP("summary.grain_page_lowered");
    /* BS, second look. */
    if (moietyi_load_seq_cst(&buddy->pages[page.index].chunk_summary[plane]))
        raise_grain_page(buddy, page, plane);
}

void moietyi_summary_lower_chunks(struct moietyi_buddy *buddy,
                                  moietyi_page page, uint64_t mask,
                                  unsigned plane)
{
    if (!clear_bits(&buddy->pages[page.index].chunk_summary[plane], mask))
        return;
    MOIETYI_STEP("summary.chunks_lowered");
    for (; mask; mask &= mask - 1) {
        moietyi_chunk chunk =
            moietyi_chunk_in_page(page, moietyi_word_lowest(mask));
        /* BS, second look. */
        uint64_t word = moietyi_load_seq_cst(&buddy->chunk_words[chunk.index]);
        if (moietyi_is_in_plane(word, plane))
            raise_chunk(buddy, chunk, plane);
    }
}

void moietyi_summary_lower_page(struct moietyi_buddy *buddy, moietyi_page page,
                                unsigned plane)
{
    if (!clear_bits(&moietyi_group_of(buddy, page)->chunk_pages[plane],
                    moietyi_page_bit(page)))
        return;
    MOIETYI_STEP("summary.page_lowered");
    /* BS, second look. */
    uint64_t word = moietyi_load_seq_cst(&buddy->pages[page.index].word);
    if (moietyi_is_in_plane(word, plane))
        raise_page(buddy, page, plane);
}
