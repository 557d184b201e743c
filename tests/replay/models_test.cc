// SPDX-License-Identifier: Apache-2.0
//
// What holds for all the allocators that traces are compared on.
#include <random>

#include "tests/replay/model_under_test.h"

namespace replay_test
{
namespace
{

template <typename T> class Models : public T
{
  protected:
    // Blocks come and go, and the reference model keeps count.
    void Run(uint64_t *failures)
    {
        std::mt19937_64 random(20261123);
        BlockLedger live;
        for (int i = 0; i < 20000; i++) {
            if (live.blocks.size() > 60 ||
                (!live.blocks.empty() && random() % 3 == 0)) {
                this->Free(live.TakeAny(random()));
                continue;
            }
            const uint64_t size_bytes = AnySize(random);
            const uint64_t address =
                this->Alloc(size_bytes, static_cast<uint32_t>(random() % 3));
            *failures += address == 0;
            if (address) {
                ASSERT_TRUE(this->ledger_.Contains(address, size_bytes));
                ASSERT_TRUE(live.Add(address, size_bytes));
            }
            if (i % 100 == 0)
                ExpectAllIsShown();
        }
        for (const auto &[address, size_bytes] : live.blocks)
            this->Free(address);
        EXPECT_EQ(this->Handed(), 0u);
    }

    void ExpectAllIsShown()
    {
        uint64_t shown_bytes = 0;
        for (const auto &[start, bytes] : this->Shown())
            shown_bytes += bytes;
        ASSERT_EQ(shown_bytes, this->ledger_.reserved_bytes);
    }
};

using AllModels = testing::Types<BestFit, Expandable, Pow2Buddy>;
TYPED_TEST_SUITE(Models, AllModels, );

TYPED_TEST(Models, RoundTo512Bytes)
{
    EXPECT_EQ(this->HandedFor(0), 512u);
    EXPECT_EQ(this->HandedFor(1), 512u);
    EXPECT_EQ(this->HandedFor(512), 512u);
    EXPECT_EQ(this->HandedFor(513), 1024u);
}

TYPED_TEST(Models, RefuseWhatNobodyHas)
{
    for (uint64_t size_bytes :
         {UINT64_MAX, UINT64_MAX - 511, UINT64_MAX - 2 * kMiB,
          (UINT64_C(1) << 63) + 1, UINT64_C(1) << 63, (UINT64_C(1) << 60) + 1})
        EXPECT_EQ(this->Alloc(size_bytes), 0u) << size_bytes;
    EXPECT_EQ(this->Handed(), 0u);
    EXPECT_EQ(this->ledger_.reserved_bytes, 0u);
}

TYPED_TEST(Models, NeverHandOutAByteTwiceNorLoseOne)
{
    uint64_t failures = 0;
    this->ledger_.limit_bytes = 256 * kMiB;
    this->Run(&failures);
    EXPECT_GT(failures, 0u);
}

template <typename T> class ModelsDeathTest : public T
{
};
TYPED_TEST_SUITE(ModelsDeathTest, AllModels, );

TYPED_TEST(ModelsDeathTest, AbortAtAFreeOfWhatIsNoBlock)
{
    const uint64_t block = this->Alloc(kKiB);
    EXPECT_DEATH(this->Free(block + 512), "");
    EXPECT_DEATH(this->Free(0), "");
    this->Free(block);
    EXPECT_DEATH(this->Free(block), "");
}

// With all free, every segment of best fit has become one block again, and every
// page of expandable segments is free: so all of them can go back.
template <typename T> class ModelsThatGiveBack : public Models<T>
{
};
using GivingModels = testing::Types<BestFit, Expandable>;
TYPED_TEST_SUITE(ModelsThatGiveBack, GivingModels, );

TYPED_TEST(ModelsThatGiveBack, GiveAllBackBeforeTheyFail)
{
    uint64_t failures = 0;
    this->ledger_.limit_bytes = 256 * kMiB;
    this->Run(&failures);
    EXPECT_EQ(this->Alloc(this->ledger_.limit_bytes + 1), 0u);
    EXPECT_EQ(this->ledger_.reserved_bytes, 0u);
}

// All has merged: nothing new is needed for blocks as large as segments.
using MergingModel = Models<Pow2Buddy>;

TEST_F(MergingModel, MergesAll)
{
    uint64_t failures = 0;
    Run(&failures);
    EXPECT_EQ(failures, 0u);
    const size_t before = ledger_.taken.size();
    for (size_t i = 0; i < before; i++)
        EXPECT_NE(Alloc(kBuddySegmentBytes), 0u);
    EXPECT_EQ(ledger_.taken.size(), before);
}

} // namespace
} // namespace replay_test
