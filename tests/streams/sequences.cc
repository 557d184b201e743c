// SPDX-License-Identifier: Apache-2.0
//
// Reuse that no row of the rules says: of captures, trims and waits, and of more
// than one free or hold.
#include <chrono>
#include <future>
#include <memory>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

using FreedOnAStream = RuleTest;
FOR_EACH_LOAD(FreedOnAStream);

// The event comes when another stream asks, after the work that is there then.
TEST(Retirement, LooksAtTheWorkOfTheMomentWhenAnotherAsks)
{
    Stream freed, next;
    TightPool pool(kMany);
    pool.Free(freed);
    Hold hold(freed);
    ASSERT_TRUE(pool.ServesNothing(next));
    Hold later(freed);
    hold.Release();
    EXPECT_TRUE(pool.ServesInTheEnd(next));
}

// The graph may be launched on any stream: what is queued on F now does not
// come before it.
TEST_P(FreedOnAStream, ServesTheSameOnlyWhenDoneIfItCaptures)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    {
        CaptureScope scope(pool_, freed_);
        Capture capture(freed_);
        ASSERT_TRUE(pool_.ServesNothing(freed_));
    }
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

// A segment that was given back too early would be waited for by cuMemFree, in
// vain: the watchdog would see it.
TEST_P(FreedOnAStream, IsTrimmedOnlyWhenDone)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    uint64_t bytes = 1;
    EXPECT_EQ(moiety_pool_trim(pool_, 0, &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, 0u);
    hold.Release();
    // The driver would wait for it as well.
    MUST(cu.StreamSynchronize(freed_));
    EXPECT_TRUE(pool_.IsTrimmedInTheEnd());
    EXPECT_EQ(pool_.Stats().reserved_bytes_current, 0u);
}

class AllowedToWait : public RuleTest
{
  protected:
    AllowedToWait() : RuleTest(0, UINT32_MAX - 1) {}
};
FOR_EACH_LOAD(AllowedToWait);

// The allocation may only return when what was freed is done.
TEST_P(AllowedToWait, ServesAnotherWhenDone)
{
    Worker worker;
    Hold hold(freed_);
    worker.Do([&] { pool_.Free(freed_); });
    std::future<void> served =
        worker.Start([&] { EXPECT_TRUE(pool_.ServesAtOnce(next_)); });
    PauseForTheForbidden();
    EXPECT_EQ(served.wait_for(std::chrono::seconds(0)),
              std::future_status::timeout);
    hold.Release();
    served.get();
    EXPECT_GT(pool_.Stats().oom_steps[MOIETY_OOM_WAIT], 0u);
}

using FreedWithoutAStream = RuleTest;
FOR_EACH_LOAD(FreedWithoutAStream);

TEST_P(FreedWithoutAStream, IsTrimmedOnlyWhenAllAreDone)
{
    Hold hold(other_);
    pool_.Free(MOIETY_STREAM_ANY);
    uint64_t bytes = 1;
    EXPECT_EQ(moiety_pool_trim(pool_, 0, &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, 0u);
    EXPECT_EQ(pool_.Stats().free_bytes, 0u);
}

using RecordedUse = RuleTest;
FOR_EACH_LOAD(RecordedUse);

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

using RetiredStream = RuleTest;
FOR_EACH_LOAD(RetiredStream);

// The pool's record of a stream serves another stream, but only when no thread
// has blocks of the first one any more.
TEST_P(RetiredStream, IsNotMistakenForALaterOne)
{
    Worker worker;
    Hold hold(freed_);
    worker.Do([&] { pool_.Free(freed_); });
    ASSERT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    worker.Do([&] { ASSERT_TRUE(pool_.ServesNothing(next_)); });
    ASSERT_TRUE(pool_.ServesNothing(next_));
}

TEST_P(RetiredStream, KeepsItsRecordWhileAThreadHasABlockOfIt)
{
    Worker worker;
    Hold hold(freed_);
    worker.Do([&] { ASSERT_EQ(pool_.FreeLast(freed_), MOIETY_OK); });
    ASSERT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    worker.Do([&] { ASSERT_TRUE(pool_.ServesNothing(next_)); });
    ASSERT_TRUE(pool_.ServesNothing(next_));
}

TEST_P(RetiredStream, LeavesUsesRecordedOnItInForce)
{
    Hold hold(other_);
    pool_.RecordUse(other_);
    ASSERT_EQ(moiety_pool_retire_stream(pool_, other_), MOIETY_OK);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

TEST_P(RetiredStream, MakesRoomForAnother)
{
    pool_.Free(freed_);
    ASSERT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    ASSERT_TRUE(pool_.ServesInTheEnd(freed_));
    Hold hold(freed_);
    ASSERT_EQ(pool_.FreeLast(freed_), MOIETY_OK);
    EXPECT_TRUE(pool_.ServesAtOnce(freed_));
}

/* The other stream is there before: making one can wait, inside a driver, for
 * the work of one that was destroyed. */
TEST_P(RetiredStream, MayBeDestroyedAtOnce)
{
    CUstream old = nullptr;
    CUstream other = nullptr;
    MUST(cu.StreamCreate(&old, CU_STREAM_NON_BLOCKING));
    MUST(cu.StreamCreate(&other, CU_STREAM_NON_BLOCKING));
    Hold hold(old);
    pool_.Free(old);
    ASSERT_EQ(moiety_pool_retire_stream(pool_, old), MOIETY_OK);
    MUST(cu.StreamDestroy(old));
    ASSERT_TRUE(pool_.ServesNothing(other));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(other));
    EXPECT_EQ(moiety_pool_retire_stream(pool_, other), MOIETY_OK);
    MUST(cu.StreamDestroy(other));
}

// With MOIETY_POOL_REUSE_DEPENDENCIES.
class HandOverOfSeveral : public RuleTest
{
  protected:
    HandOverOfSeveral() : RuleTest(MOIETY_POOL_REUSE_DEPENDENCIES) {}
};
INSTANTIATE_TEST_SUITE_P(Blocks, HandOverOfSeveral,
                         ::testing::Values(kFew, kMany), NameOf);

// What came along with the block is the waiting stream's, and nobody else's.
TEST_P(HandOverOfSeveral, ServesOnlyStreamsThatWait)
{
    Hold hold(freed_);
    pool_.WriteAll(freed_, kOld);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesAtOnce(next_));
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    ASSERT_TRUE(pool_.ServesAtOnce(other_));
    Write(other_, pool_.last(), pool_.size_bytes(), kNew);
    PauseForTheForbidden();
    EXPECT_EQ(cu.StreamQuery(other_), CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_TRUE(Holds(other_, pool_.last(), pool_.size_bytes(), kNew));
}

// And is so in its own right: it needs no other wait.
TEST_P(HandOverOfSeveral, WaitsOnce)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesAtOnce(next_));
    uint64_t waits = pool_.Stats().stream_waits;
    ASSERT_TRUE(pool_.ServesAtOnce(next_));
    EXPECT_EQ(pool_.Stats().stream_waits, waits);
}

} // namespace streams_test
