// SPDX-License-Identifier: Apache-2.0
//
// The textbook's buddy.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "bench/subjects/models/pow2_buddy.h"
#include "tests/replay/segment_ledger.h"

namespace
{

constexpr uint64_t kKiB = UINT64_C(1) << 10;
constexpr uint64_t kMiB = UINT64_C(1) << 20;
constexpr uint64_t kSegmentBytes = 256 * kMiB;

replay_test::SegmentLedger *ledger; // the allocator's calls have no context

uint64_t Take(uint64_t size_bytes)
{
    return ledger->Take(size_bytes);
}

void Give(uint64_t address, uint64_t size_bytes)
{
    ledger->Give(address, size_bytes);
}

class Pow2Buddy : public testing::Test
{
  protected:
    void SetUp() override
    {
        const model_source source = {Take, Give};
        ledger = &ledger_;
        ledger_.next_address += 512; // no segment is aligned to its size
        buddy_ = pow2_buddy_create(&source);
        ASSERT_NE(buddy_, nullptr);
    }
    void TearDown() override
    {
        model_destroy(buddy_);
        EXPECT_TRUE(ledger_.segments.empty());
    }

    uint64_t Alloc(uint64_t size_bytes)
    {
        return model_alloc(buddy_, size_bytes, 0);
    }
    void Free(uint64_t address)
    {
        model_free(buddy_, address);
    }
    uint64_t Handed()
    {
        return model_handed_bytes(buddy_);
    }
    uint64_t HandedFor(uint64_t size_bytes)
    {
        const uint64_t before = Handed();
        Alloc(size_bytes);
        return Handed() - before;
    }

    replay_test::SegmentLedger ledger_;
    model *buddy_ = nullptr;
};

TEST_F(Pow2Buddy, RoundsToPowersOfTwo)
{
    EXPECT_EQ(HandedFor(0), 512u);
    EXPECT_EQ(HandedFor(512), 512u);
    EXPECT_EQ(HandedFor(513), 1024u);
    EXPECT_EQ(HandedFor(5 * kMiB), 8 * kMiB);
}

TEST_F(Pow2Buddy, GrowsByItsSegmentOrByWhatIsAskedFor)
{
    Alloc(1);
    Alloc(kSegmentBytes / 2);
    Alloc(kSegmentBytes + 1);
    EXPECT_EQ(ledger_.taken,
              std::vector<uint64_t>({kSegmentBytes, 2 * kSegmentBytes}));
}

TEST_F(Pow2Buddy, MergesTwoHalvesOfOneBlockOnly)
{
    const uint64_t first = Alloc(kSegmentBytes / 4);
    const uint64_t second = Alloc(kSegmentBytes / 4);
    const uint64_t third = Alloc(kSegmentBytes / 4);
    Alloc(kSegmentBytes / 4);
    Free(second);
    Free(third);
    // Neighbours, but of different blocks: half a segment is free, and no half.
    EXPECT_EQ(Alloc(kSegmentBytes / 2), first + kSegmentBytes);
    Free(first);
    EXPECT_EQ(Alloc(kSegmentBytes / 2), first);
}

TEST_F(Pow2Buddy, NeverMergesAcrossSegments)
{
    const uint64_t first = Alloc(kSegmentBytes);
    const uint64_t second = Alloc(kSegmentBytes);
    ASSERT_EQ(second, first + kSegmentBytes);
    Free(second);
    Free(first);
    EXPECT_EQ(Alloc(2 * kSegmentBytes), second + kSegmentBytes);
}

TEST_F(Pow2Buddy, FailsAndGoesOn)
{
    ledger_.limit_bytes = kSegmentBytes;
    const uint64_t block = Alloc(kSegmentBytes / 2);
    EXPECT_EQ(Alloc(kSegmentBytes), 0u);
    EXPECT_EQ(Alloc(kSegmentBytes / 2), block + kSegmentBytes / 2);
    EXPECT_EQ(Alloc(1), 0u);
    EXPECT_EQ(Handed(), kSegmentBytes);
}

TEST_F(Pow2Buddy, RefusesWhatNobodyHas)
{
    for (uint64_t size_bytes : {UINT64_MAX, (UINT64_C(1) << 63) + 1,
                                UINT64_C(1) << 63, (UINT64_C(1) << 60) + 1})
        EXPECT_EQ(Alloc(size_bytes), 0u) << size_bytes;
    EXPECT_TRUE(ledger_.taken.empty());
}

using Pow2BuddyDeathTest = Pow2Buddy;

TEST_F(Pow2BuddyDeathTest, AbortsAtAFreeOfWhatIsNoBlock)
{
    const uint64_t block = Alloc(kKiB);
    EXPECT_DEATH(Free(block + 512), "");
    Free(block);
    EXPECT_DEATH(Free(block), "");
}

TEST_F(Pow2Buddy, NeverHandsOutAByteTwiceNorLosesOne)
{
    std::mt19937_64 random(20261123);
    replay_test::BlockLedger live;
    for (int i = 0; i < 20000; i++) {
        if (live.blocks.size() > 60 ||
            (!live.blocks.empty() && random() % 3 == 0)) {
            Free(live.TakeAny(random()));
            continue;
        }
        const uint64_t size_bytes = replay_test::AnySize(random);
        const uint64_t address = Alloc(size_bytes);
        ASSERT_TRUE(ledger_.Contains(address, size_bytes));
        ASSERT_TRUE(live.Add(address, size_bytes));
    }
    for (const auto &[address, size_bytes] : live.blocks)
        Free(address);
    EXPECT_EQ(Handed(), 0u);
    // All has merged: nothing new is needed for blocks as large as segments.
    const size_t before = ledger_.taken.size();
    for (size_t i = 0; i < before; i++)
        EXPECT_NE(Alloc(kSegmentBytes), 0u);
    EXPECT_EQ(ledger_.taken.size(), before);
}

} // namespace
