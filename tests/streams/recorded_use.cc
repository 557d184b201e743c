// SPDX-License-Identifier: Apache-2.0
//
// Row: freed on F with record_use C..., next allocation for N.
#include <memory>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

using RecordedUse = RuleTest;
FOR_EACH_LOAD(RecordedUse);

TEST_P(RecordedUse, IsWaitedForByTheFreedStream)
{
    Hold hold(other_);
    pool_.WriteAll(other_, kOld);
    pool_.RecordUse(other_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    hold.Release();
    ASSERT_TRUE(pool_.ServesInTheEnd(freed_));
    Write(freed_, pool_.last(), pool_.size_bytes(), kNew);
    EXPECT_TRUE(pool_.AllHold(freed_, kNew));
}

TEST_P(RecordedUse, IsWaitedForByAnotherStream)
{
    Hold hold(other_);
    pool_.RecordUse(other_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(RecordedUse, DoesNotReplaceTheFreedStream)
{
    Hold hold(freed_);
    pool_.RecordUse(other_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    ASSERT_TRUE(pool_.ServesNothing(other_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(RecordedUse, MayBeSeveral)
{
    Hold hold(next_);
    pool_.RecordUse(other_);
    pool_.RecordUse(next_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    ASSERT_TRUE(pool_.ServesNothing(other_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

TEST_P(RecordedUse, MayBeNamedTwice)
{
    Hold hold(other_);
    pool_.RecordUse(other_);
    pool_.RecordUse(other_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

// An event of the context waits for all streams; the block does not.
TEST_P(RecordedUse, IsNotHeldByWorkOfOthers)
{
    Hold hold(next_);
    pool_.RecordUse(other_);
    pool_.Free(freed_);
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

// What was queued after the use was recorded, and before the free, counts too.
TEST_P(RecordedUse, CountsUpToTheFree)
{
    pool_.RecordUse(other_);
    Hold hold(other_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

TEST_P(RecordedUse, OfAnyIsEveryStream)
{
    Hold hold(other_);
    pool_.RecordUse(MOIETY_STREAM_ANY);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

TEST_P(RecordedUse, OfAThreadsOwnStreamIsThatThreads)
{
    Worker worker;
    std::unique_ptr<Hold> hold;
    worker.Do([&] {
        hold.reset(new Hold(CU_STREAM_PER_THREAD));
        pool_.RecordUse(MOIETY_STREAM_PER_THREAD);
    });
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_PER_THREAD));
    hold->Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

// A thread that comes later is another one, even if the pool keeps it at the
// same address. The first threads are there to use up what the allocator of
// the C library keeps of freed memory by thread.
TEST_P(RecordedUse, OfAThreadsOwnStreamOutlivesTheThread)
{
    std::unique_ptr<Hold> hold;
    for (int thread = 0; thread < 10; thread++) {
        Worker worker;
        worker.Do([&] {
            ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_PER_THREAD));
            if (thread < 9)
                return;
            hold.reset(new Hold(CU_STREAM_PER_THREAD));
            pool_.RecordUse(MOIETY_STREAM_PER_THREAD);
        });
        worker.End();
        ASSERT_TRUE(pool_.ServesNothing(next_)); // and what it left is adopted
    }
    Worker later;
    later.Do([&] {
        ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_PER_THREAD));
        pool_.Free(freed_);
        ASSERT_TRUE(pool_.ServesNothing(freed_));
        ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_PER_THREAD));
        hold->Release();
        EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
    });
}

TEST_P(RecordedUse, EndsWithTheBlocksLife)
{
    pool_.RecordUse(other_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesInTheEnd(freed_));
    Hold hold(other_);
    ASSERT_EQ(pool_.FreeLast(freed_), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesAtOnce(freed_));
}

} // namespace streams_test
