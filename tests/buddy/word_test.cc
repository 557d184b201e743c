// SPDX-License-Identifier: Apache-2.0
//
// The transitions on one word, against a loop over its bits: every length and
// shift, and words of every density.
#include "pool/buddy/word.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace
{

bool IsFree(uint64_t word, unsigned bit)
{
    return word >> bit & 1;
}

// Whether `length` free units start at `start`; by looking at each.
bool RunStartsAt(uint64_t word, unsigned start, unsigned length)
{
    if (start + length > 64)
        return false;
    for (unsigned bit = start; bit < start + length; bit++)
        if (!IsFree(word, bit))
            return false;
    return true;
}

uint64_t Starts(uint64_t word, unsigned length)
{
    uint64_t starts = 0;
    for (unsigned bit = 0; bit < 64; bit++)
        if (RunStartsAt(word, bit, length))
            starts |= UINT64_C(1) << bit;
    return starts;
}

struct Picked {
    uint64_t units = 0;
    uint64_t starts = 0;
};

Picked Pick(uint64_t word, unsigned length, unsigned count, uint64_t allowed)
{
    Picked picked;
    for (unsigned bit = 0; bit < 64 && count; bit++) {
        if (!IsFree(allowed, bit) || !RunStartsAt(word, bit, length))
            continue;
        for (unsigned unit = bit; unit < bit + length; unit++)
            picked.units |= UINT64_C(1) << unit;
        picked.starts |= UINT64_C(1) << bit;
        bit += length - 1;
        count--;
    }
    return picked;
}

// Sparse, even and dense words; words of long runs; and the two borders.
std::vector<uint64_t> Words()
{
    std::mt19937_64 random(20240607);
    std::vector<uint64_t> words = {
        0, 1, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX >> 1};
    for (int i = 0; i < 100; i++) {
        uint64_t a = random(), b = random(), c = random();
        words.insert(words.end(), {a & b & c, a & b, a, a | b, a | b | c});
        words.push_back(UINT64_MAX << (a % 64));
        words.push_back((UINT64_MAX >> (b % 64)) & (UINT64_MAX << (c % 64)));
    }
    return words;
}

TEST(Word, ARunHasItsLengthAndStartsAtItsShift)
{
    for (unsigned length = 1; length <= 64; length++) {
        for (unsigned start = 0; start + length <= 64; start++) {
            uint64_t run = moietyi_word_run(start, length);
            EXPECT_EQ(moietyi_word_count(run), length);
            EXPECT_EQ(moietyi_word_lowest(run), start);
            EXPECT_TRUE(RunStartsAt(run, start, length));
        }
    }
}

TEST(Word, ARunIsFoundWhereItIsAndNowhereElse)
{
    for (unsigned length = 1; length <= 64; length++) {
        for (unsigned start = 0; start + length <= 64; start++) {
            uint64_t run = moietyi_word_run(start, length);
            EXPECT_EQ(moietyi_word_starts(run, length), UINT64_C(1) << start);
            EXPECT_TRUE(moietyi_word_has_run(run, length));
            EXPECT_FALSE(length < 64 && moietyi_word_has_run(run, length + 1));
        }
    }
}

TEST(Word, StartsAreThoseOfALoopOverTheBits)
{
    for (uint64_t word : Words())
        for (unsigned length = 1; length <= 64; length++)
            ASSERT_EQ(moietyi_word_starts(word, length), Starts(word, length))
                << std::hex << word << " length " << std::dec << length;
}

TEST(Word, RunsAtItsEndsAreThoseOfALoopOverTheBits)
{
    for (uint64_t word : Words()) {
        unsigned low = 0, high = 0;
        while (low < 64 && IsFree(word, low))
            low++;
        while (high < 64 && IsFree(word, 63 - high))
            high++;
        ASSERT_EQ(moietyi_word_low_run(word), low) << std::hex << word;
        ASSERT_EQ(moietyi_word_high_run(word), high) << std::hex << word;
    }
}

TEST(Word, PicksAreThoseOfALoopOverTheBits)
{
    for (uint64_t word : Words())
        for (unsigned length : {1U, 2U, 3U, 7U, 8U, 13U, 31U, 32U, 33U, 64U})
            for (unsigned count : {1U, 2U, 5U, 64U, 1000U})
                for (unsigned alignment = 1; alignment <= 64; alignment *= 2) {
                    uint64_t allowed = moietyi_word_aligned(alignment);
                    uint64_t starts = ~UINT64_C(0);
                    Picked wanted = Pick(word, length, count, allowed);
                    ASSERT_EQ(moietyi_word_pick(word, length, count, allowed,
                                                &starts),
                              wanted.units)
                        << std::hex << word;
                    ASSERT_EQ(starts, wanted.starts) << std::hex << word;
                }
}

TEST(Word, APickOfNoneIsEmpty)
{
    uint64_t starts = ~UINT64_C(0);
    EXPECT_EQ(moietyi_word_pick(UINT64_MAX, 1, 0, UINT64_MAX, &starts), 0U);
    EXPECT_EQ(starts, 0U);
}

TEST(Word, APickTakesOnlyWhatIsFree)
{
    for (uint64_t word : Words())
        for (unsigned length = 1; length <= 64; length++) {
            uint64_t starts;
            uint64_t picked =
                moietyi_word_pick(word, length, 64, UINT64_MAX, &starts);
            ASSERT_EQ(picked & ~word, 0U);
            ASSERT_EQ(moietyi_word_count(picked),
                      moietyi_word_count(starts) * length);
        }
}

TEST(Word, AlignedPositionsAreTheMultiples)
{
    for (unsigned alignment = 1; alignment <= 4096; alignment *= 2)
        for (unsigned bit = 0; bit < 64; bit++)
            EXPECT_EQ(IsFree(moietyi_word_aligned(alignment), bit),
                      bit % alignment == 0);
}

} // namespace
