// SPDX-License-Identifier: Apache-2.0
//
// The second half of "query or wait": with MOIETY_POOL_REUSE_DEPENDENCIES what
// is not done serves a stream that was made to wait for it, and no other.
#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

class HandOver : public RuleTest
{
  protected:
    HandOver() : RuleTest(MOIETY_POOL_REUSE_DEPENDENCIES) {}

    // `next` gets a block at once; what it writes there comes last.
    void ExpectServedBehind(Hold *hold, CUstream next)
    {
        ASSERT_TRUE(pool_.ServesAtOnce(next));
        EXPECT_GT(pool_.Stats().stream_waits, 0u);
        Write(next, pool_.last(), pool_.size_bytes(), kNew);
        PauseForTheForbidden();
        EXPECT_EQ(cu.StreamQuery(next), CUDA_ERROR_NOT_READY);
        hold->Release();
        EXPECT_TRUE(Holds(next, pool_.last(), pool_.size_bytes(), kNew));
    }
};
FOR_EACH_LOAD(HandOver);

TEST_P(HandOver, FromAStream)
{
    Hold hold(freed_);
    pool_.WriteAll(freed_, kOld);
    pool_.Free(freed_);
    ExpectServedBehind(&hold, next_);
}

TEST_P(HandOver, FromAStreamOfAThreadThatEnded)
{
    Worker worker;
    Hold hold(freed_);
    pool_.WriteAll(freed_, kOld);
    worker.Do([&] { pool_.Free(freed_); });
    worker.End();
    ExpectServedBehind(&hold, next_);
}

TEST_P(HandOver, FromAThreadsOwnStream)
{
    Hold hold(CU_STREAM_PER_THREAD);
    pool_.WriteAll(CU_STREAM_PER_THREAD, kOld);
    pool_.Free(MOIETY_STREAM_PER_THREAD);
    ExpectServedBehind(&hold, next_);
}

TEST_P(HandOver, ToAThreadsOwnStream)
{
    Hold hold(freed_);
    pool_.WriteAll(freed_, kOld);
    pool_.Free(freed_);
    ExpectServedBehind(&hold, CU_STREAM_PER_THREAD);
}

TEST_P(HandOver, OfWhatWasFreedWithoutAStream)
{
    Hold hold(other_);
    pool_.WriteAll(other_, kOld);
    pool_.Free(MOIETY_STREAM_ANY);
    ExpectServedBehind(&hold, next_);
}

TEST_P(HandOver, OfARecordedUse)
{
    Hold hold(other_);
    pool_.WriteAll(other_, kOld);
    pool_.RecordUse(other_);
    pool_.Free(freed_);
    ExpectServedBehind(&hold, next_);
}

TEST_P(HandOver, OfARecordedUseToTheFreedStream)
{
    Hold hold(other_);
    pool_.WriteAll(other_, kOld);
    pool_.RecordUse(other_);
    pool_.Free(freed_);
    ExpectServedBehind(&hold, freed_);
}

TEST_P(HandOver, OfWhatWasFreedAfterAnEvent)
{
    Event event;
    Hold hold(other_);
    pool_.WriteAll(other_, kOld);
    MUST(cu.EventRecord(event, other_));
    pool_.FreeAfter(event);
    ExpectServedBehind(&hold, next_);
}

TEST_P(HandOver, FromARetiredStream)
{
    Hold hold(freed_);
    pool_.WriteAll(freed_, kOld);
    pool_.Free(freed_);
    ASSERT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_OK);
    ExpectServedBehind(&hold, next_);
}

// Nobody waits for the CPU, or for a graph that is not launched yet.
TEST_P(HandOver, IsNotForAny)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
}

TEST_P(HandOver, IsNotForACapturingStream)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    // Behind an event, while no guard forbids that.
    ASSERT_EQ(moiety_pool_trim(pool_, 0, nullptr), MOIETY_OK);
    CaptureScope scope(pool_, next_);
    Capture capture(next_);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
}

using HandOverOfSeveral = HandOver;
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
    ExpectServedBehind(&hold, other_);
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
