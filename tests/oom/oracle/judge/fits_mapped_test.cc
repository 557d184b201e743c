// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "tests/oom/oracle/judge/fits.h"

namespace
{

constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kBase = UINT64_C(1) << 40;

// A pool of 16 MiB with handles where a test puts them.
struct Pool {
    std::vector<fits_segment> segments;
    std::vector<fits_range> ranges;
    std::vector<fits_taken> taken;
    uint64_t limit_bytes = 16 * kMiB;

    size_t AddHandle(uint64_t offset_bytes, uint64_t size_bytes)
    {
        fits_segment segment = {};
        segment.address = kBase + offset_bytes;
        segment.size_bytes = size_bytes;
        segments.push_back(segment);
        return segments.size() - 1;
    }

    void AddRange(size_t segment, uint64_t offset_bytes, uint64_t size_bytes,
                  bool is_usable = false)
    {
        ranges.push_back({segments[segment].address + offset_bytes, size_bytes,
                          segment, is_usable});
    }

    void Take(uint64_t offset_bytes, uint64_t size_bytes)
    {
        taken.push_back({kBase + offset_bytes, size_bytes});
    }

    fits_answer Ask(uint64_t needed_bytes)
    {
        std::vector<fits_range> copy = ranges;
        fits_case question = {};
        question.limit_bytes = limit_bytes;
        question.needed_bytes = needed_bytes;
        question.segments = segments.data();
        question.segment_count = segments.size();
        question.ranges = copy.data();
        question.range_count = copy.size();
        question.taken = taken.data();
        question.taken_count = taken.size();
        question.base = kBase;
        return fits_mapped(&question);
    }

    bool Fits(uint64_t needed_bytes)
    {
        return Ask(needed_bytes).is_fitting;
    }
};

// 4 MiB at the beginning, whose first half is one block.
Pool HalfUsed()
{
    Pool pool;
    pool.AddRange(pool.AddHandle(0, 4 * kMiB), 0, 2 * kMiB);
    return pool;
}

TEST(FitsMapped, AnEmptyPoolHasRoomUpToItsLimit)
{
    Pool pool;
    EXPECT_TRUE(pool.Fits(16 * kMiB));
    EXPECT_FALSE(pool.Fits(16 * kMiB + 1));
}

TEST(FitsMapped, AHoleGoesOnWhereTheLimitAllowsIt)
{
    Pool pool = HalfUsed();
    EXPECT_TRUE(pool.Fits(14 * kMiB));
    EXPECT_FALSE(pool.Fits(14 * kMiB + 1));
    EXPECT_EQ(pool.Ask(1).pinned_bytes, 4 * kMiB);
    EXPECT_EQ(pool.Ask(1).hole_bytes, 2 * kMiB);
}

TEST(FitsMapped, AHoleGoesOnInWholeUnits)
{
    Pool pool = HalfUsed();
    pool.limit_bytes = 7 * kMiB;
    EXPECT_TRUE(pool.Fits(4 * kMiB));
    EXPECT_FALSE(pool.Fits(4 * kMiB + 1));
}

TEST(FitsMapped, AHoleGoesOnInFront)
{
    Pool pool;
    pool.AddRange(pool.AddHandle(6 * kMiB, 4 * kMiB), 2 * kMiB, 2 * kMiB);
    pool.limit_bytes = 8 * kMiB;
    EXPECT_TRUE(pool.Fits(6 * kMiB));
    EXPECT_FALSE(pool.Fits(6 * kMiB + 1));
}

TEST(FitsMapped, TwoHolesAreOneWhereTheGapBetweenThemIsFilled)
{
    Pool pool = HalfUsed();
    pool.AddRange(pool.AddHandle(6 * kMiB, 4 * kMiB), 3 * kMiB, kMiB);
    pool.limit_bytes = 10 * kMiB;
    EXPECT_TRUE(pool.Fits(7 * kMiB));
    EXPECT_FALSE(pool.Fits(7 * kMiB + 1));
    pool.limit_bytes = 8 * kMiB;
    EXPECT_TRUE(pool.Fits(3 * kMiB));
    EXPECT_FALSE(pool.Fits(3 * kMiB + 1));
}

TEST(FitsMapped, AHoleGoesOnIntoItsNeighbour)
{
    Pool pool = HalfUsed();
    pool.AddRange(pool.AddHandle(4 * kMiB, 4 * kMiB), 2 * kMiB, 2 * kMiB);
    pool.limit_bytes = 8 * kMiB;
    EXPECT_TRUE(pool.Fits(4 * kMiB));
    EXPECT_FALSE(pool.Fits(4 * kMiB + 1));
}

TEST(FitsMapped, HandlesWithoutABlockGoAnywhere)
{
    Pool pool = HalfUsed();
    pool.AddHandle(20 * kMiB, 4 * kMiB);
    pool.AddHandle(40 * kMiB, 4 * kMiB);
    pool.limit_bytes = 12 * kMiB;
    EXPECT_TRUE(pool.Fits(10 * kMiB));
    EXPECT_FALSE(pool.Fits(10 * kMiB + 1));
}

TEST(FitsMapped, TakenAddressesEndAHole)
{
    Pool pool = HalfUsed();
    pool.Take(4 * kMiB, 2 * kMiB);
    EXPECT_TRUE(pool.Fits(12 * kMiB));
    EXPECT_FALSE(pool.Fits(12 * kMiB + 1));
}

// The stream's own memory serves it where it is, or whole elsewhere.
TEST(FitsMapped, AUsableHandleMakesNoOtherHoleLonger)
{
    Pool pool = HalfUsed();
    pool.AddRange(pool.AddHandle(20 * kMiB, 4 * kMiB), 0, kMiB, true);
    pool.limit_bytes = 8 * kMiB;
    EXPECT_TRUE(pool.Fits(4 * kMiB));
    EXPECT_FALSE(pool.Fits(4 * kMiB + 1));
    EXPECT_EQ(pool.Ask(1).hole_bytes, 4 * kMiB);
}

TEST(FitsMapped, UsableHandlesGoTogether)
{
    Pool pool;
    pool.AddRange(pool.AddHandle(0, 4 * kMiB), 0, kMiB, true);
    pool.AddRange(pool.AddHandle(20 * kMiB, 4 * kMiB), 0, kMiB, true);
    pool.limit_bytes = 8 * kMiB;
    EXPECT_TRUE(pool.Fits(8 * kMiB));
    pool.segments[1].is_fixed = true;
    EXPECT_FALSE(pool.Fits(4 * kMiB + 1)) << "one of them stays";
    EXPECT_TRUE(pool.Fits(4 * kMiB));
}

TEST(FitsMapped, APassingHandleIsPinnedAndHasNoHoles)
{
    Pool pool = HalfUsed();
    pool.segments[0].is_passing = true;
    EXPECT_TRUE(pool.Fits(12 * kMiB));
    EXPECT_FALSE(pool.Fits(12 * kMiB + 1));
    EXPECT_EQ(pool.Ask(1).hole_bytes, 0U);
}

// Of different times, at one address.
TEST(FitsMapped, PlacesThatOverlapLeaveNoHole)
{
    Pool pool = HalfUsed();
    pool.AddRange(pool.AddHandle(2 * kMiB, 4 * kMiB), 0, 512);
    pool.limit_bytes = 8 * kMiB;
    EXPECT_FALSE(pool.Fits(2 * kMiB + 1));
    EXPECT_EQ(pool.Ask(1).pinned_bytes, 8 * kMiB);
}

TEST(FitsMapped, MoreThanTheLimitMayBePinned)
{
    Pool pool = HalfUsed();
    pool.limit_bytes = 2 * kMiB;
    EXPECT_TRUE(pool.Fits(2 * kMiB));
    EXPECT_FALSE(pool.Fits(2 * kMiB + 1));
}

} // namespace
