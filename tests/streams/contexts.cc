// SPDX-License-Identifier: Apache-2.0
//
// Two contexts that may use the memory: what is freed with ANY waits for both.
#include <memory>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace streams_test
{

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
