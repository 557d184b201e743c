// SPDX-License-Identifier: Apache-2.0
//
// Rows: freed with ANY, next allocation for N; for ANY, the CPU, a capturing
// stream; into the space. The streams that are held are never named to the
// pool: only a context event sees them.
#include <memory>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

using FreedWithoutAStream = RuleTest;
FOR_EACH_LOAD(FreedWithoutAStream);

TEST_P(FreedWithoutAStream, ServesAStreamOnlyWhenAllAreDone)
{
    Hold hold(other_);
    pool_.WriteAll(other_, kOld);
    pool_.Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    ASSERT_TRUE(pool_.ServesInTheEnd(next_));
    Write(next_, pool_.last(), pool_.size_bytes(), kNew);
    EXPECT_TRUE(pool_.AllHold(next_, kNew));
}

TEST_P(FreedWithoutAStream, ServesAnyOnlyWhenAllAreDone)
{
    Hold hold(other_);
    pool_.Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_DONE));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(MOIETY_STREAM_ANY));
}

TEST_P(FreedWithoutAStream, WaitsForTheLegacyStream)
{
    Hold hold(CU_STREAM_LEGACY);
    pool_.Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(FreedWithoutAStream, WaitsForOtherThreadsOwnStreams)
{
    Worker worker;
    std::unique_ptr<Hold> hold;
    worker.Do([&] { hold.reset(new Hold(CU_STREAM_PER_THREAD)); });
    pool_.Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold->Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

// With a guard held no context event is recorded: only what was retired before
// can be done.
TEST_P(FreedWithoutAStream, ServesACapturingStreamOnlyWhenAllAreDone)
{
    Hold hold(other_);
    pool_.Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    CaptureScope scope(pool_, next_);
    Capture capture(next_);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
}

TEST_P(FreedWithoutAStream, EntersTheBuddyOnlyWhenAllAreDone)
{
    Hold hold(other_);
    pool_.Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(pool_.ServesNothing(next_, size_t{64} << 10));
    EXPECT_EQ(pool_.Stats().free_bytes, 0u);
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_, size_t{64} << 10));
}

TEST_P(FreedWithoutAStream, IsTrimmedOnlyWhenAllAreDone)
{
    Hold hold(other_);
    pool_.Free(MOIETY_STREAM_ANY);
    uint64_t bytes = 1;
    EXPECT_EQ(moiety_pool_trim(pool_, 0, &bytes), MOIETY_OK);
    EXPECT_EQ(bytes, 0u);
    EXPECT_EQ(pool_.Stats().free_bytes, 0u);
}

TEST_P(FreedWithoutAStream, WaitsAfterItsThreadEnded)
{
    Worker worker;
    Hold hold(other_);
    worker.Do([&] { pool_.Free(MOIETY_STREAM_ANY); });
    worker.End();
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

// Declared in this order, the pool is gone before its context.
class WithASecondContext : public ::testing::TestWithParam<Load>
{
  protected:
    Context second_;
    Stream next_;
    TightPool pool_{GetParam()};
};
FOR_EACH_LOAD(WithASecondContext);

struct StreamOf {
    explicit StreamOf(CUcontext owner) : context(owner)
    {
        Current current(context);
        MUST(cu.StreamCreate(&handle, CU_STREAM_NON_BLOCKING));
    }
    ~StreamOf()
    {
        cu.CtxSetCurrent(context);
        cu.StreamDestroy(handle);
        cu.CtxSetCurrent(PrimaryContext());
    }
    StreamOf(const StreamOf &) = delete;
    StreamOf &operator=(const StreamOf &) = delete;
    CUcontext context;
    CUstream handle = nullptr;
};

std::unique_ptr<Hold> HoldIn(const StreamOf &stream)
{
    Current current(stream.context);
    return std::unique_ptr<Hold>(new Hold(stream.handle));
}

TEST_P(WithASecondContext, FreedWithoutAStreamWaitsForItToo)
{
    ASSERT_EQ(moiety_pool_add_context(pool_, second_), MOIETY_OK);
    StreamOf held(second_);
    std::unique_ptr<Hold> hold = HoldIn(held);
    pool_.Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    ASSERT_TRUE(pool_.ServesNothing(MOIETY_STREAM_ANY));
    hold->Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(WithASecondContext, FreedWithoutAStreamStillWaitsForTheFirst)
{
    ASSERT_EQ(moiety_pool_add_context(pool_, second_), MOIETY_OK);
    Stream held;
    Hold hold(held);
    pool_.Free(MOIETY_STREAM_ANY);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(WithASecondContext, FreedOnItsStreamWaitsForThat)
{
    ASSERT_EQ(moiety_pool_add_context(pool_, second_), MOIETY_OK);
    StreamOf held(second_);
    std::unique_ptr<Hold> hold = HoldIn(held);
    pool_.Free(held.handle);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold->Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
    ASSERT_EQ(moiety_pool_retire_stream(pool_, held.handle), MOIETY_OK);
}

} // namespace streams_test
