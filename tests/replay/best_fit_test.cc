// SPDX-License-Identifier: Apache-2.0
//
// The rules of PyTorch's caching allocator, one by one, as bench/subjects/models/best_fit.h
// models them.
#include "tests/replay/model_under_test.h"

namespace replay_test
{
namespace
{

TEST_F(BestFit, GivesBlocksOfNothingToOneOwnerEach)
{
    const uint64_t first = Alloc(0);
    const uint64_t second = Alloc(0);
    EXPECT_EQ(second, first + 512);
    EXPECT_EQ(Alloc(1), second + 512);
}

TEST_F(BestFit, CutsUpToAMebibyteFromSegmentsOfTwo)
{
    Alloc(1);
    Alloc(kMiB);
    EXPECT_EQ(ledger_.taken, std::vector<uint64_t>({2 * kMiB}));
    Alloc(kMiB);
    EXPECT_EQ(ledger_.taken, std::vector<uint64_t>({2 * kMiB, 2 * kMiB}));
}

TEST_F(BestFit, CutsUpToTenMebibytesFromSegmentsOfTwenty)
{
    Alloc(kMiB + 1);
    Alloc(10 * kMiB - 512);
    EXPECT_EQ(ledger_.taken, std::vector<uint64_t>({20 * kMiB}));
}

TEST_F(BestFit, MakesLargerSegmentsToMeasureInStepsOfTwoMebibytes)
{
    Alloc(10 * kMiB);
    Alloc(10 * kMiB + 1);
    Alloc(33 * kMiB);
    EXPECT_EQ(ledger_.taken,
              std::vector<uint64_t>({10 * kMiB, 12 * kMiB, 34 * kMiB}));
}

TEST_F(BestFit, KeepsSmallAndLargeApart)
{
    Free(Alloc(1));
    Free(Alloc(2 * kMiB));
    EXPECT_EQ(ledger_.taken.size(), 2u);
    // 20 MiB are free, and none of it is for a small block.
    Alloc(kMiB);
    Alloc(kMiB);
    Alloc(1);
    EXPECT_EQ(ledger_.taken.size(), 3u);
    EXPECT_EQ(ledger_.taken.back(), 2 * kMiB);
}

TEST_F(BestFit, SplitsASmallBlockWhere512BytesAreLeft)
{
    Alloc(kMiB);
    EXPECT_EQ(HandedFor(kMiB - 512), kMiB - 512);
    EXPECT_EQ(HandedFor(512), 512u);
    EXPECT_EQ(ledger_.taken.size(), 1u);
}

TEST_F(BestFit, SplitsALargeBlockWhereMoreThanAMebibyteIsLeft)
{
    EXPECT_EQ(HandedFor(19 * kMiB), 20 * kMiB);
    EXPECT_EQ(HandedFor(19 * kMiB - 1), 20 * kMiB);
    EXPECT_EQ(HandedFor(19 * kMiB - 512), 19 * kMiB - 512);
    EXPECT_EQ(ledger_.taken.size(), 3u);
    // What was left of the third: 1 MiB and 512 B.
    EXPECT_EQ(HandedFor(kMiB + 512), kMiB + 512);
    EXPECT_EQ(ledger_.taken.size(), 3u);
}

TEST_F(BestFit, TakesTheSmallestHoleThatIsLargeEnough)
{
    const auto holes =
        MakeHoles(512, {64 * kKiB, 16 * kKiB, 32 * kKiB, 8 * kKiB});
    EXPECT_EQ(Alloc(12 * kKiB), holes[1]);
    EXPECT_EQ(Alloc(32 * kKiB), holes[2]);
    EXPECT_EQ(Alloc(33 * kKiB), holes[0]);
    EXPECT_EQ(Alloc(kKiB), holes[1] + 12 * kKiB);
}

TEST_F(BestFit, TakesTheLowestOfEqualHoles)
{
    const auto holes = MakeHoles(512, {8 * kKiB, 8 * kKiB, 8 * kKiB});
    EXPECT_EQ(Alloc(5 * kKiB), holes[0]);
    EXPECT_EQ(Alloc(8 * kKiB), holes[1]);
}

TEST_F(BestFit, MergesAFreedBlockWithBothNeighbours)
{
    const uint64_t left = Alloc(kKiB);
    const uint64_t middle = Alloc(kKiB);
    const uint64_t right = Alloc(kKiB);
    Alloc(512);
    Free(left);
    Free(right);
    Free(middle);
    EXPECT_EQ(Alloc(3 * kKiB), left);
}

TEST_F(BestFit, NeverMergesAcrossSegments)
{
    const uint64_t first = Alloc(10 * kMiB);
    const uint64_t second = Alloc(10 * kMiB);
    ASSERT_EQ(second, first + 10 * kMiB);
    Free(first);
    Free(second);
    Alloc(20 * kMiB);
    EXPECT_EQ(ledger_.taken.back(), 20 * kMiB);
}

TEST_F(BestFit, ServesAFreedBlockToItsStreamOnly)
{
    const uint64_t block = Alloc(10 * kMiB, 1);
    Free(block);
    EXPECT_NE(Alloc(10 * kMiB, 2), block);
    EXPECT_NE(Alloc(10 * kMiB, 0), block);
    EXPECT_EQ(Alloc(10 * kMiB, 1), block);
}

TEST_F(BestFit, GivesFreeSegmentsBackBeforeItFails)
{
    ledger_.limit_bytes = 34 * kMiB;
    const uint64_t kept = Alloc(1);
    Free(Alloc(10 * kMiB, 1));
    Free(Alloc(20 * kMiB, 2));
    Free(Alloc(kMiB, 3));
    EXPECT_EQ(ledger_.reserved_bytes, 34 * kMiB);
    EXPECT_NE(Alloc(32 * kMiB, 4), 0u);
    EXPECT_EQ(ledger_.refused, 1u);
    EXPECT_EQ(ledger_.reserved_bytes, 34 * kMiB);
    Free(kept);
    EXPECT_EQ(Alloc(1), kept);
}

TEST_F(BestFit, FailsWhereThatDoesNotHelpAndGoesOn)
{
    ledger_.limit_bytes = 20 * kMiB;
    const uint64_t block = Alloc(2 * kMiB);
    EXPECT_EQ(Alloc(19 * kMiB), 0u);
    EXPECT_EQ(ledger_.refused, 2u);
    EXPECT_EQ(Handed(), 2 * kMiB);
    EXPECT_EQ(Alloc(2 * kMiB), block + 2 * kMiB);
}

TEST_F(BestFit, ShowsItsSegmentsByAddress)
{
    Alloc(1);
    Alloc(30 * kMiB);
    EXPECT_EQ(Shown(), ledger_.segments);
    EXPECT_EQ(Shown().size(), 2u);
}

} // namespace
} // namespace replay_test
