// SPDX-License-Identifier: Apache-2.0
//
// The rules of PyTorch's caching allocator with expandable segments, one by one,
// as bench/subjects/models/expandable.h models them.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "bench/subjects/models/expandable.h"
#include "tests/replay/segment_ledger.h"

namespace
{

constexpr uint64_t kKiB = UINT64_C(1) << 10;
constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kDeviceBytes = UINT64_C(8) << 30;

replay_test::PageLedger *ledger; // the allocator's calls have no context

class Expandable : public testing::Test
{
  protected:
    void SetUp() override
    {
        const model_pages pages = {
            [](uint64_t size_bytes) { return ledger->Reserve(size_bytes); },
            [](uint64_t address, uint64_t size_bytes) {
                ledger->Release(address, size_bytes);
            },
            [](uint64_t address, uint64_t page_bytes, uint64_t count) {
                return ledger->Map(address, page_bytes, count);
            },
            [](uint64_t address, uint64_t page_bytes, uint64_t count) {
                ledger->Unmap(address, page_bytes, count);
            },
            kDeviceBytes};
        ledger = &ledger_;
        allocator_ = expandable_create(&pages);
        ASSERT_NE(allocator_, nullptr);
    }
    void TearDown() override
    {
        model_destroy(allocator_);
        EXPECT_TRUE(ledger_.pages.empty());
        EXPECT_TRUE(ledger_.spans.empty());
    }

    uint64_t Alloc(uint64_t size_bytes, uint32_t stream = 0)
    {
        return model_alloc(allocator_, size_bytes, stream);
    }
    void Free(uint64_t address)
    {
        model_free(allocator_, address);
    }
    uint64_t Handed()
    {
        return model_handed_bytes(allocator_);
    }
    // What is handed out for one more request of this size.
    uint64_t HandedFor(uint64_t size_bytes)
    {
        const uint64_t before = Handed();
        Alloc(size_bytes);
        return Handed() - before;
    }
    std::map<uint64_t, uint64_t> Shown()
    {
        std::map<uint64_t, uint64_t> shown;
        model_each_segment(
            allocator_,
            [](void *context, uint64_t address, uint64_t size_bytes) {
                static_cast<std::map<uint64_t, uint64_t> *>(context)->emplace(
                    address, size_bytes);
            },
            &shown);
        return shown;
    }

    replay_test::PageLedger ledger_;
    model *allocator_ = nullptr;
};

TEST_F(Expandable, RoundsTo512Bytes)
{
    EXPECT_EQ(HandedFor(1), 512u);
    EXPECT_EQ(HandedFor(513), 1024u);
    EXPECT_EQ(HandedFor(0), 512u);
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

// Free blocks of these sizes, each between two that are not free.
std::vector<uint64_t> MakeHoles(model *allocator,
                                const std::vector<uint64_t> &sizes)
{
    std::vector<uint64_t> holes;
    model_alloc(allocator, 2 * kMiB, 0);
    for (uint64_t size_bytes : sizes) {
        holes.push_back(model_alloc(allocator, size_bytes, 0));
        model_alloc(allocator, 2 * kMiB, 0);
    }
    for (uint64_t hole : holes)
        model_free(allocator, hole);
    return holes;
}

TEST_F(Expandable, TakesTheSmallestHoleThatIsLargeEnoughAndTheLowest)
{
    const auto holes = MakeHoles(
        allocator_, {64 * kMiB, 16 * kMiB, 32 * kMiB, 8 * kMiB, 16 * kMiB});
    EXPECT_EQ(Alloc(12 * kMiB), holes[1]);
    EXPECT_EQ(Alloc(12 * kMiB), holes[4]);
    EXPECT_EQ(Alloc(32 * kMiB), holes[2]);
    EXPECT_EQ(Alloc(33 * kMiB), holes[0]);
}

TEST_F(Expandable, TakesAnyHoleBeforeTheBlockThatCanGrow)
{
    // 2 + 30 + 2 MiB, and 6 MiB at the end of the second page.
    const auto holes = MakeHoles(allocator_, {30 * kMiB});
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

TEST_F(Expandable, RefusesWhatNobodyHas)
{
    for (uint64_t size_bytes : {UINT64_MAX, UINT64_MAX - 511,
                                (UINT64_C(1) << 60) + 1, 2 * kDeviceBytes})
        EXPECT_EQ(Alloc(size_bytes), 0u) << size_bytes;
    EXPECT_EQ(Handed(), 0u);
    EXPECT_TRUE(ledger_.pages.empty());
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

using ExpandableDeathTest = Expandable;

TEST_F(ExpandableDeathTest, AbortsAtAFreeOfWhatIsNoBlock)
{
    const uint64_t block = Alloc(kKiB);
    EXPECT_DEATH(Free(block + 512), "");
    EXPECT_DEATH(Free(0), "");
    Free(block);
    EXPECT_DEATH(Free(block), "");
}

TEST_F(Expandable, NeverHandsOutAByteTwiceNorLosesOne)
{
    std::mt19937_64 random(20261125);
    replay_test::BlockLedger live;
    ledger_.limit_bytes = 256 * kMiB;
    uint64_t failures = 0;
    for (int i = 0; i < 20000; i++) {
        if (live.blocks.size() > 60 ||
            (!live.blocks.empty() && random() % 3 == 0)) {
            Free(live.TakeAny(random()));
            continue;
        }
        const uint64_t size_bytes = replay_test::AnySize(random);
        const uint64_t address =
            Alloc(size_bytes, static_cast<uint32_t>(random() % 3));
        failures += address == 0;
        if (address) {
            ASSERT_TRUE(ledger_.Contains(address, size_bytes));
            ASSERT_TRUE(live.Add(address, size_bytes));
        }
        if (i % 100 == 0) {
            uint64_t shown_bytes = 0;
            for (const auto &[start, bytes] : Shown())
                shown_bytes += bytes;
            ASSERT_EQ(shown_bytes, ledger_.reserved_bytes);
        }
    }
    EXPECT_GT(failures, 0u);
    for (const auto &[address, size_bytes] : live.blocks)
        Free(address);
    EXPECT_EQ(Handed(), 0u);
    // All of it has become whole free pages again.
    EXPECT_EQ(Alloc(ledger_.limit_bytes + 1), 0u);
    EXPECT_EQ(ledger_.reserved_bytes, 0u);
}

} // namespace
