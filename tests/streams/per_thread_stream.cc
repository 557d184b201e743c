// SPDX-License-Identifier: Apache-2.0
//
// Rows: freed on the per-thread default stream of T, next allocation for the
// same T; for another; when T is gone.
#include <memory>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

using FreedOnAThreadsOwnStream = RuleTest;
FOR_EACH_LOAD(FreedOnAThreadsOwnStream);

TEST_P(FreedOnAThreadsOwnStream, ServesTheSameThreadAtOnce)
{
    Hold hold(CU_STREAM_PER_THREAD);
    pool_.WriteAll(CU_STREAM_PER_THREAD, kOld);
    pool_.Free(MOIETY_STREAM_PER_THREAD);
    ASSERT_TRUE(pool_.ServesAtOnce(MOIETY_STREAM_PER_THREAD));
    Write(CU_STREAM_PER_THREAD, pool_.last(), pool_.size_bytes(), kNew);
    hold.Release();
    EXPECT_TRUE(pool_.AllHold(CU_STREAM_PER_THREAD, kNew));
}

TEST_P(FreedOnAThreadsOwnStream, ServesAnotherStreamOnlyWhenDone)
{
    Hold hold(CU_STREAM_PER_THREAD);
    pool_.Free(MOIETY_STREAM_PER_THREAD);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

// Frees in a thread of its own whose own stream is held.
class FreedOnAnotherThreadsStream : public RuleTest
{
  protected:
    FreedOnAnotherThreadsStream()
    {
        worker_.Do([this] {
            hold_.reset(new Hold(CU_STREAM_PER_THREAD));
            pool_.WriteAll(CU_STREAM_PER_THREAD, kOld);
            pool_.Free(MOIETY_STREAM_PER_THREAD);
        });
    }

    Worker worker_;
    std::unique_ptr<Hold> hold_;
};
FOR_EACH_LOAD(FreedOnAnotherThreadsStream);

// The handle is the same, the stream is not.
TEST_P(FreedOnAnotherThreadsStream, DoesNotServeTheCallersOwn)
{
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_PER_THREAD));
}

TEST_P(FreedOnAnotherThreadsStream, ServesANamedStreamOnlyWhenDone)
{
    ASSERT_TRUE(pool_.ServesNothing(next_));
    worker_.Do([&] { ASSERT_TRUE(pool_.ServesNothing(next_)); });
    hold_->Release();
    worker_.Do([&] { EXPECT_TRUE(pool_.ServesInTheEnd(next_)); });
}

// Nobody can record on a stream that is gone: its context stands for it.
TEST_P(FreedOnAnotherThreadsStream, ServesOthersOnlyWhenDoneAfterItsThreadEnded)
{
    worker_.End();
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_PER_THREAD));
    ASSERT_TRUE(pool_.ServesNothing(next_));
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    hold_->Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(FreedOnAnotherThreadsStream, DoesNotServeALaterThreadsOwn)
{
    worker_.End();
    Worker later;
    later.Do([&] {
        ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_PER_THREAD));
        hold_->Release();
        EXPECT_TRUE(pool_.ServesInTheEnd(MOIETY_STREAM_PER_THREAD));
    });
}

} // namespace streams_test
