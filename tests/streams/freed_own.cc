// SPDX-License-Identifier: Apache-2.0
//
// moiety_free_on_alloc_stream(): the block's own stream is the one that it was allocated
// for, whatever was freed where before.
#include <set>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"
#include "tests/support/tools/pool_maker.h"
#include "tests/support/tools/pools.h"

namespace streams_test
{

// All that the pool has is done when a test begins.
class FreedOwn : public RuleTest
{
  protected:
    FreedOwn() : RuleTest(MOIETY_POOL_NOTE_STREAMS) {}

    void SetUp() override
    {
        pool_.Free(MOIETY_STREAM_DONE);
    }

    void TakeAll(moiety_stream stream)
    {
        while (pool_.Take(stream) == MOIETY_OK) {
        }
        ASSERT_TRUE(pool_.IsWhole());
    }
};
FOR_EACH_LOAD(FreedOwn);

// It was allocated for one stream, freed on another, and allocated for that.
TEST_P(FreedOwn, IsThatOfTheLastAllocation)
{
    TakeAll(freed_);
    pool_.Free(next_);
    TakeAll(next_);
    Hold hold(next_);
    pool_.FreeOwn();
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    EXPECT_TRUE(pool_.ServesAtOnce(next_));
}

// The pool's record of the stream is another stream's by now.
TEST_P(FreedOwn, OfARetiredStreamIsNotALaterOnes)
{
    TakeAll(freed_);
    Hold hold(freed_);
    ASSERT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    pool_.FreeOwn();
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(FreedOwn, InACaptureIsKeptForIt)
{
    CaptureScope scope(pool_, freed_);
    Capture capture(freed_);
    TakeAll(freed_);
    pool_.FreeOwn();
    ASSERT_TRUE(pool_.ServesNothing(next_));
    EXPECT_TRUE(pool_.ServesAtOnce(freed_));
}

// A pool in which memory is not short, so that a miss takes more blocks than it
// was asked for.
class FreedOwnInRoom : public ::testing::Test
{
  protected:
    FreedOwnInRoom()
    {
        moiety_pool_options options = driver_options();
        options.flags = MOIETY_POOL_NOTE_STREAMS;
        EXPECT_EQ(pool_maker.create(&options, &pool_), MOIETY_OK);
    }

    ~FreedOwnInRoom() override
    {
        EXPECT_EQ(pool_maker.destroy(pool_, nullptr), MOIETY_OK);
    }

    std::set<moiety_devptr> Take(moiety_stream stream, int count)
    {
        std::set<moiety_devptr> blocks;
        for (int i = 0; i < count; i++) {
            moiety_devptr block = 0;
            EXPECT_EQ(moiety_alloc(pool_, 1024, stream, &block), MOIETY_OK);
            blocks.insert(block);
        }
        return blocks;
    }

    void Free(const std::set<moiety_devptr> &blocks, moiety_stream stream)
    {
        for (moiety_devptr block : blocks)
            EXPECT_EQ(moiety_free(pool_, block, stream), MOIETY_OK);
    }

    Stream freed_, other_;
    moiety_pool *pool_ = nullptr;
};

TEST_F(FreedOwnInRoom, IsNotThatOfALifeBeforeTheRefill)
{
    Free(Take(freed_, 1024), freed_);
    MUST(cu.StreamSynchronize(freed_));
    uint64_t trimmed_bytes = 0;
    while (trimmed_bytes == 0)
        ASSERT_EQ(moiety_pool_trim(pool_, 0, &trimmed_bytes), MOIETY_OK);
    std::set<moiety_devptr> blocks = Take(MOIETY_STREAM_ANY, 64);
    Hold hold(other_);
    for (moiety_devptr block : blocks)
        ASSERT_EQ(moiety_free_on_alloc_stream(pool_, block), MOIETY_OK);
    std::set<moiety_devptr> others = Take(freed_, 64);
    for (moiety_devptr block : others)
        EXPECT_EQ(blocks.count(block), 0u);
    hold.Release();
    Free(others, MOIETY_STREAM_DONE);
    EXPECT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
}

} // namespace streams_test
