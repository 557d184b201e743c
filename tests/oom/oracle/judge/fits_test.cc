// SPDX-License-Identifier: Apache-2.0
#include "tests/oom/oracle/judge/fits.h"

#include <gtest/gtest.h>

#include <vector>

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kBase = UINT64_C(1) << 40;

// A pool of 8 MiB whose segments lie one behind the other.
struct Pool {
    std::vector<fits_segment> segments;
    std::vector<fits_range> ranges;
    uint64_t limit_bytes = 8 * kMiB;

    void AddSegment(uint64_t size_bytes)
    {
        uint64_t address = kBase;
        for (const fits_segment &segment : segments)
            address += segment.size_bytes;
        segments.push_back({address, size_bytes, false, false, 0});
    }

    void AddRange(size_t segment, uint64_t offset_bytes, uint64_t size_bytes,
                  bool is_usable = false)
    {
        ranges.push_back({segments[segment].address + offset_bytes, size_bytes,
                          segment, is_usable});
    }

    fits_answer Ask(uint64_t needed_bytes)
    {
        std::vector<fits_range> copy = ranges;
        const fits_case question = {limit_bytes,
                                    needed_bytes,
                                    segments.data(),
                                    copy.data(),
                                    copy.size(),
                                    0,
                                    nullptr,
                                    0,
                                    0};
        return fits(&question);
    }

    bool Fits(uint64_t needed_bytes)
    {
        return Ask(needed_bytes).is_fitting;
    }
};

// All of 8 MiB is one segment, whose first half is one block.
Pool HalfFull()
{
    Pool pool;
    pool.AddSegment(8 * kMiB);
    pool.AddRange(0, 0, 4 * kMiB);
    return pool;
}

TEST(Fits, AnEmptyPoolHasRoomUpToItsLimit)
{
    Pool pool;
    EXPECT_TRUE(pool.Fits(8 * kMiB));
    EXPECT_FALSE(pool.Fits(8 * kMiB + 1));
}

TEST(Fits, TheLimitIsUsedInWholeUnits)
{
    Pool pool;
    pool.limit_bytes = 7 * kMiB;
    EXPECT_TRUE(pool.Fits(6 * kMiB));
    EXPECT_FALSE(pool.Fits(6 * kMiB + 1));
}

TEST(Fits, SegmentsWithoutABlockAreGrownAnew)
{
    Pool pool;
    pool.AddSegment(4 * kMiB);
    pool.AddSegment(4 * kMiB);
    EXPECT_TRUE(pool.Fits(8 * kMiB));
}

TEST(Fits, ASegmentWithABlockStays)
{
    Pool pool;
    pool.AddSegment(4 * kMiB);
    pool.AddSegment(4 * kMiB);
    pool.AddRange(0, 0, 512);
    EXPECT_TRUE(pool.Fits(4 * kMiB));
    EXPECT_FALSE(pool.Fits(4 * kMiB + 512));
    EXPECT_EQ(pool.Ask(1).pinned_bytes, 4 * kMiB);
}

TEST(Fits, AHoleTakesItsLengthAndNoMore)
{
    Pool pool = HalfFull();
    EXPECT_TRUE(pool.Fits(4 * kMiB));
    EXPECT_FALSE(pool.Fits(4 * kMiB + 1));
    EXPECT_EQ(pool.Ask(1).hole_bytes, 4 * kMiB);
}

TEST(Fits, HolesBeforeBetweenAndBehindBlocksCount)
{
    for (uint64_t hole = 0; hole < 3; hole++) {
        Pool pool;
        pool.AddSegment(8 * kMiB);
        for (uint64_t i = 0; i < 3; i++)
            if (i != hole)
                pool.AddRange(0, i * 2 * kMiB, 2 * kMiB);
        pool.AddRange(0, 6 * kMiB, 2 * kMiB);
        EXPECT_TRUE(pool.Fits(2 * kMiB)) << hole;
        EXPECT_FALSE(pool.Fits(2 * kMiB + 1)) << hole;
    }
}

TEST(Fits, AHoleMayBeginAndEndAtAnyGrain)
{
    Pool pool = HalfFull();
    pool.ranges[0].size_bytes = 512;
    pool.AddRange(0, 3 * kMiB - 512, 5 * kMiB + 512);
    EXPECT_TRUE(pool.Fits(3 * kMiB - 1024));
    EXPECT_FALSE(pool.Fits(3 * kMiB - 1023));
}

TEST(Fits, HolesOfNeighbouringSegmentsAreTwo)
{
    Pool pool;
    pool.AddSegment(4 * kMiB);
    pool.AddSegment(4 * kMiB);
    pool.AddRange(0, 0, 2 * kMiB);
    pool.AddRange(1, 2 * kMiB, 2 * kMiB);
    EXPECT_TRUE(pool.Fits(2 * kMiB));
    EXPECT_FALSE(pool.Fits(4 * kMiB));
}

TEST(Fits, RangesThatOverlapLeaveNoHole)
{
    Pool pool;
    pool.AddSegment(8 * kMiB);
    pool.AddRange(0, 4 * kMiB, kMiB);
    pool.AddRange(0, 0, 7 * kMiB);
    pool.AddRange(0, 2 * kMiB, kMiB);
    EXPECT_EQ(pool.Ask(1).hole_bytes, kMiB);
}

TEST(Fits, AUsableRangeIsAHoleButKeepsItsSegment)
{
    Pool pool;
    pool.AddSegment(4 * kMiB);
    pool.AddRange(0, kMiB, kMiB, true);
    EXPECT_EQ(pool.Ask(1).hole_bytes, 4 * kMiB);
    EXPECT_FALSE(pool.Fits(8 * kMiB));
}

TEST(Fits, APassingSegmentIsPinnedButHasNoHoles)
{
    Pool pool;
    pool.AddSegment(4 * kMiB);
    pool.AddSegment(4 * kMiB);
    pool.AddRange(0, 0, 3 * kMiB);
    pool.AddRange(1, 0, kMiB);
    pool.segments[1].is_passing = true;
    EXPECT_EQ(pool.Ask(1).hole_bytes, kMiB);
    EXPECT_EQ(pool.Ask(1).pinned_bytes, 8 * kMiB);
}

// Segments of different times at one address are told apart by their indices.
TEST(Fits, MoreThanTheLimitMayBePinned)
{
    Pool pool;
    pool.AddSegment(8 * kMiB);
    pool.segments.push_back({kBase, 4 * kMiB, false, false, 0});
    pool.AddRange(0, 0, 8 * kMiB);
    pool.AddRange(1, 0, 4 * kMiB);
    pool.AddRange(0, kMiB, 512);
    EXPECT_FALSE(pool.Fits(512));
    EXPECT_EQ(pool.Ask(1).pinned_bytes, 12 * kMiB);
}

} // namespace
