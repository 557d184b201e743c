// SPDX-License-Identifier: Apache-2.0
//
// moiety_pool_retire_stream(): what was freed on a stream that is about to go, and
// the next stream that gets its handle. A pool cannot see whether a handle
// names a new stream by now, so most tests just use it again.

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

using RetiredStream = RuleTest;
FOR_EACH_LOAD(RetiredStream);

TEST_P(RetiredStream, ServesOthersOnlyWhenDone)
{
    Hold hold(freed_);
    pool_.WriteAll(freed_, kOld);
    pool_.Free(freed_);
    ASSERT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    hold.Release();
    ASSERT_TRUE(pool_.ServesInTheEnd(next_));
    Write(next_, pool_.last(), pool_.size_bytes(), kNew);
    EXPECT_TRUE(pool_.AllHold(next_, kNew));
}

TEST_P(RetiredStream, ServesTheNextOfItsHandleOnlyWhenDone)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    ASSERT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

TEST_P(RetiredStream, IsForgottenByOtherThreads)
{
    Worker worker;
    Hold hold(freed_);
    worker.Do([&] { pool_.Free(freed_); });
    ASSERT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    worker.Do([&] {
        ASSERT_TRUE(pool_.ServesNothing(freed_));
        ASSERT_TRUE(pool_.ServesNothing(next_));
        hold.Release();
        EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
    });
}

TEST_P(RetiredStream, IsForgottenByThreadsThatEnded)
{
    Worker worker;
    Hold hold(freed_);
    worker.Do([&] { pool_.Free(freed_); });
    ASSERT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    worker.End();
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

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

} // namespace streams_test
