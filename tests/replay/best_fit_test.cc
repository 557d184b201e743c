// SPDX-License-Identifier: Apache-2.0
//
// The rules of PyTorch's caching allocator, one by one, as bench/subjects/models/best_fit.h
// models them.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "bench/subjects/models/best_fit.h"
#include "tests/replay/segment_ledger.h"

namespace
{

constexpr uint64_t kKiB = UINT64_C(1) << 10;
constexpr uint64_t kMiB = UINT64_C(1) << 20;

replay_test::SegmentLedger *ledger; // the allocator's calls have no context

uint64_t Take(uint64_t size_bytes)
{
    return ledger->Take(size_bytes);
}

void Give(uint64_t address, uint64_t size_bytes)
{
    ledger->Give(address, size_bytes);
}

class BestFit : public testing::Test
{
  protected:
    void SetUp() override
    {
        const model_source source = {Take, Give};
        ledger = &ledger_;
        allocator_ = best_fit_create(&source);
        ASSERT_NE(allocator_, nullptr);
    }
    void TearDown() override
    {
        model_destroy(allocator_);
        EXPECT_TRUE(ledger_.segments.empty());
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

    replay_test::SegmentLedger ledger_;
    model *allocator_ = nullptr;
};

TEST_F(BestFit, RoundsTo512Bytes)
{
    EXPECT_EQ(HandedFor(1), 512u);
    EXPECT_EQ(HandedFor(512), 512u);
    EXPECT_EQ(HandedFor(513), 1024u);
    EXPECT_EQ(HandedFor(0), 512u);
}

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

// Free blocks of these sizes, each between two that are not free.
std::vector<uint64_t> MakeHoles(model *allocator,
                                const std::vector<uint64_t> &sizes)
{
    std::vector<uint64_t> holes;
    model_alloc(allocator, 512, 0);
    for (uint64_t size_bytes : sizes) {
        holes.push_back(model_alloc(allocator, size_bytes, 0));
        model_alloc(allocator, 512, 0);
    }
    for (uint64_t hole : holes)
        model_free(allocator, hole);
    return holes;
}

TEST_F(BestFit, TakesTheSmallestHoleThatIsLargeEnough)
{
    const auto holes =
        MakeHoles(allocator_, {64 * kKiB, 16 * kKiB, 32 * kKiB, 8 * kKiB});
    EXPECT_EQ(Alloc(12 * kKiB), holes[1]);
    EXPECT_EQ(Alloc(32 * kKiB), holes[2]);
    EXPECT_EQ(Alloc(33 * kKiB), holes[0]);
    EXPECT_EQ(Alloc(kKiB), holes[1] + 12 * kKiB);
}

TEST_F(BestFit, TakesTheLowestOfEqualHoles)
{
    const auto holes = MakeHoles(allocator_, {8 * kKiB, 8 * kKiB, 8 * kKiB});
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

TEST_F(BestFit, RefusesWhatNobodyHas)
{
    for (uint64_t size_bytes : {UINT64_MAX, UINT64_MAX - 511,
                                UINT64_MAX - 2 * kMiB, (UINT64_C(1) << 60) + 1})
        EXPECT_EQ(Alloc(size_bytes), 0u) << size_bytes;
    EXPECT_EQ(Handed(), 0u);
    EXPECT_TRUE(ledger_.taken.empty());
}

TEST_F(BestFit, ShowsItsSegmentsByAddress)
{
    Alloc(1);
    Alloc(30 * kMiB);
    std::map<uint64_t, uint64_t> shown;
    model_each_segment(
        allocator_,
        [](void *context, uint64_t address, uint64_t size_bytes) {
            static_cast<std::map<uint64_t, uint64_t> *>(context)->emplace(
                address, size_bytes);
        },
        &shown);
    EXPECT_EQ(shown, ledger_.segments);
    EXPECT_EQ(shown.size(), 2u);
}

using BestFitDeathTest = BestFit;

TEST_F(BestFitDeathTest, AbortsAtAFreeOfWhatIsNoBlock)
{
    const uint64_t block = Alloc(kKiB);
    EXPECT_DEATH(Free(block + 512), "");
    EXPECT_DEATH(Free(0), "");
    Free(block);
    EXPECT_DEATH(Free(block), "");
}

TEST_F(BestFit, NeverHandsOutAByteTwiceNorLosesOne)
{
    std::mt19937_64 random(20261123);
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
    }
    EXPECT_GT(failures, 0u);
    for (const auto &[address, size_bytes] : live.blocks)
        Free(address);
    EXPECT_EQ(Handed(), 0u);
    // Every segment has become one block again: so all of them can go back.
    EXPECT_EQ(Alloc(ledger_.limit_bytes + 1), 0u);
    EXPECT_EQ(ledger_.reserved_bytes, 0u);
}

} // namespace
