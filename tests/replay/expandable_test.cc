// SPDX-License-Identifier: Apache-2.0
//
// The rules of PyTorch's caching allocator with expandable segments, one by one,
// as bench/subjects/models/expandable.h models them.
#include "tests/replay/model_under_test.h"

namespace replay_test
{
namespace
{

TEST_F(Expandable, RoundsLargeBlocksTo512BytesToo)
{
    EXPECT_EQ(HandedFor(19 * kMiB + 1), 19 * kMiB + 512);
}

TEST_F(Expandable, ReservesNineEighthsOfTheDeviceInWholePages)
{
    Alloc(1);
    Alloc(kMiB + 1);
    ASSERT_EQ(ledger_.spans.size(), 2u);
    EXPECT_EQ(ledger_.spans.begin()->second, UINT64_C(9) << 30);
    const uint64_t large_bytes = ledger_.spans.rbegin()->second;
    EXPECT_EQ(large_bytes % (20 * kMiB), 0u);
    EXPECT_EQ(large_bytes, 461 * 20 * kMiB);
}

TEST_F(Expandable, MapsUpToAMebibyteInPagesOfTwo)
{
    Alloc(kMiB);
    Alloc(kMiB);
    EXPECT_EQ(ledger_.reserved_bytes, 2 * kMiB);
    Alloc(512);
    EXPECT_EQ(ledger_.reserved_bytes, 4 * kMiB);
}

TEST_F(Expandable, MapsLargerBlocksInPagesOfTwenty)
{
    Alloc(kMiB + 1);
    EXPECT_EQ(ledger_.reserved_bytes, 20 * kMiB);
    Alloc(41 * kMiB);
    EXPECT_EQ(ledger_.reserved_bytes, 60 * kMiB);
}

TEST_F(Expandable, MapsWhatIsMissingBehindAFreeBlock)
{
    const uint64_t first = Alloc(15 * kMiB);
    EXPECT_EQ(Alloc(25 * kMiB), first + 15 * kMiB);
    EXPECT_EQ(ledger_.reserved_bytes, 40 * kMiB);
}

TEST_F(Expandable, MergesFreeMemoryAcrossPages)
{
    const uint64_t first = Alloc(20 * kMiB);
    const uint64_t second = Alloc(20 * kMiB);
    const uint64_t third = Alloc(20 * kMiB);
    Free(third);
    Free(first);
    Free(second);
    EXPECT_EQ(Alloc(60 * kMiB), first);
    EXPECT_EQ(ledger_.reserved_bytes, 60 * kMiB);
}

TEST_F(Expandable, SplitsALargeBlockWhere512BytesAreLeft)
{
    const uint64_t first = Alloc(20 * kMiB - 1536);
    EXPECT_EQ(Alloc(2 * kMiB), first + 20 * kMiB - 1536);
    Free(first);
    EXPECT_EQ(Alloc(20 * kMiB - 2048), first);
    // The 512 bytes behind it are free, and nothing large fits there.
    EXPECT_EQ(Handed(), 22 * kMiB - 2048);
}

TEST_F(Expandable, TakesTheSmallestHoleThatIsLargeEnoughAndTheLowest)
{
    const auto holes = MakeHoles(
        2 * kMiB, {64 * kMiB, 16 * kMiB, 32 * kMiB, 8 * kMiB, 16 * kMiB});
    EXPECT_EQ(Alloc(12 * kMiB), holes[1]);
    EXPECT_EQ(Alloc(12 * kMiB), holes[4]);
    EXPECT_EQ(Alloc(32 * kMiB), holes[2]);
    EXPECT_EQ(Alloc(33 * kMiB), holes[0]);
}

TEST_F(Expandable, TakesAnyHoleBeforeTheBlockThatCanGrow)
{
    // 2 + 30 + 2 MiB, and 6 MiB at the end of the second page.
    const auto holes = MakeHoles(2 * kMiB, {30 * kMiB});
    EXPECT_EQ(ledger_.reserved_bytes, 40 * kMiB);
    EXPECT_EQ(Alloc(5 * kMiB), holes[0]);
    EXPECT_EQ(Alloc(25 * kMiB), holes[0] + 5 * kMiB);
    EXPECT_EQ(Alloc(6 * kMiB), holes[0] + 32 * kMiB);
    EXPECT_EQ(ledger_.reserved_bytes, 40 * kMiB);
}

TEST_F(Expandable, HasASpanForEachStreamAndKindOfSize)
{
    const uint64_t block = Alloc(20 * kMiB, 1);
    Free(block);
    EXPECT_NE(Alloc(20 * kMiB, 2), block);
    EXPECT_NE(Alloc(20 * kMiB, 0), block);
    Alloc(kMiB, 1);
    EXPECT_EQ(ledger_.spans.size(), 4u);
    EXPECT_EQ(Alloc(20 * kMiB, 1), block);
}

TEST_F(Expandable, UnmapsWholeFreePagesBeforeItFails)
{
    ledger_.limit_bytes = 100 * kMiB;
    const uint64_t kept = Alloc(30 * kMiB, 1);
    const uint64_t freed = Alloc(50 * kMiB, 1);
    Free(freed);
    EXPECT_EQ(ledger_.reserved_bytes, 80 * kMiB);
    // Of what is free behind 30 MiB, 10 MiB are half a page.
    EXPECT_NE(Alloc(60 * kMiB, 2), 0u);
    EXPECT_EQ(ledger_.reserved_bytes, 100 * kMiB);
    EXPECT_EQ(ledger_.refused, 1u);
    EXPECT_TRUE(ledger_.Contains(kept, 40 * kMiB));
    EXPECT_FALSE(ledger_.Contains(kept, 40 * kMiB + 1));
    EXPECT_EQ(Alloc(10 * kMiB, 1), freed);
}

TEST_F(Expandable, ReleasesASpanThatHasNoPageLeft)
{
    ledger_.limit_bytes = 40 * kMiB;
    Free(Alloc(40 * kMiB, 1));
    EXPECT_NE(Alloc(21 * kMiB, 2), 0u);
    EXPECT_EQ(ledger_.spans.size(), 1u);
}

TEST_F(Expandable, FillsTheLowestHoleOfPagesAgain)
{
    ledger_.limit_bytes = 140 * kMiB;
    const uint64_t first = Alloc(20 * kMiB);
    const uint64_t hole = Alloc(40 * kMiB);
    const uint64_t behind = Alloc(20 * kMiB);
    Free(hole);
    Alloc(100 * kMiB, 1);
    EXPECT_EQ(hole, first + 20 * kMiB);
    EXPECT_FALSE(ledger_.Contains(hole, 1));
    ledger_.limit_bytes = UINT64_MAX;
    // What does not fit goes behind all, the rest into the hole.
    EXPECT_EQ(Alloc(50 * kMiB), behind + 20 * kMiB);
    EXPECT_EQ(Alloc(30 * kMiB), hole);
    EXPECT_TRUE(ledger_.Contains(first, 80 * kMiB));
}

TEST_F(Expandable, FailsWhereThatDoesNotHelpAndGoesOn)
{
    ledger_.limit_bytes = 20 * kMiB;
    const uint64_t block = Alloc(2 * kMiB);
    EXPECT_EQ(Alloc(19 * kMiB), 0u);
    EXPECT_EQ(ledger_.refused, 2u);
    EXPECT_EQ(Handed(), 2 * kMiB);
    EXPECT_EQ(Alloc(18 * kMiB), block + 2 * kMiB);
}

TEST_F(Expandable, RefusesTwiceWhatTheDeviceHas)
{
    EXPECT_EQ(Alloc(2 * kDeviceBytes), 0u);
}

TEST_F(Expandable, FailsWhereThereAreNoAddresses)
{
    ledger_.spans_max = 1;
    const uint64_t block = Alloc(2 * kMiB);
    EXPECT_EQ(Alloc(2 * kMiB, 1), 0u);
    EXPECT_EQ(Alloc(1), 0u);
    EXPECT_EQ(Alloc(2 * kMiB), block + 2 * kMiB);
}

TEST_F(Expandable, ShowsRangesOfPagesThatTouchAsOne)
{
    Alloc(1);
    const uint64_t large = Alloc(30 * kMiB);
    Alloc(30 * kMiB);
    EXPECT_EQ(Shown(), (std::map<uint64_t, uint64_t>{
                           {ledger_.spans.begin()->first, 2 * kMiB},
                           {large, 60 * kMiB}}));
}

} // namespace
} // namespace replay_test
