// SPDX-License-Identifier: Apache-2.0
//
// Rows of ANY on a driver before 12.5, which has no cuCtxRecordEvent: the pool
// waits for all work of the context before it serves what was freed so, and
// does not while a guard is held. It may not do less.
#include <chrono>
#include <future>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"
#include "tests/support/driver_probe.h"

namespace streams_test
{

class FreedWithoutAStreamOnAnOldDriver : public RuleTest
{
  protected:
    // It must be allowed to wait, but not for long.
    FreedWithoutAStreamOnAnOldDriver() : RuleTest(0, 1) {}

    void SetUp() override
    {
        ASSERT_EQ(driver_probe_function("cuCtxRecordEvent"), nullptr);
    }

    void ExpectServedOnlyWhenAllAreDone(moiety_stream next)
    {
        Worker worker;
        Hold hold(other_);
        worker.Do([&] { pool_.Free(MOIETY_STREAM_ANY); });
        std::future<void> served = worker.Start(
            [&, next] { EXPECT_TRUE(pool_.ServesInTheEnd(next)); });
        PauseForTheForbidden();
        EXPECT_EQ(served.wait_for(std::chrono::seconds(0)),
                  std::future_status::timeout);
        hold.Release();
        served.get();
    }
};
FOR_EACH_LOAD(FreedWithoutAStreamOnAnOldDriver);

TEST_P(FreedWithoutAStreamOnAnOldDriver, ServesAStreamOnlyWhenAllAreDone)
{
    ExpectServedOnlyWhenAllAreDone(next_);
}

TEST_P(FreedWithoutAStreamOnAnOldDriver, ServesAnyOnlyWhenAllAreDone)
{
    ExpectServedOnlyWhenAllAreDone(MOIETY_STREAM_ANY);
}

TEST_P(FreedWithoutAStreamOnAnOldDriver, IsTrimmedAfterASynchronisation)
{
    Hold hold(other_);
    pool_.Free(MOIETY_STREAM_ANY);
    pool_.SynchronizeBehind(&hold);
    pool_.ExpectTrimmedAtOnce();
}

TEST_P(FreedWithoutAStreamOnAnOldDriver, BreaksNoGuardedCapture)
{
    pool_.Free(MOIETY_STREAM_ANY);
    Guard guard;
    Capture capture(freed_);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    EXPECT_EQ(capture.End(), CUDA_SUCCESS);
    guard.End();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

// Nothing but the synchronisation stands between.
TEST_P(FreedWithoutAStreamOnAnOldDriver, ServesTheFirstWhoAsks)
{
    pool_.Free(MOIETY_STREAM_ANY);
    EXPECT_TRUE(pool_.ServesAtOnce(next_));
}

TEST_P(FreedWithoutAStreamOnAnOldDriver, RowsOfStreamsAreAsEver)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    EXPECT_TRUE(pool_.ServesAtOnce(freed_));
}

// Declared in this order, the pool is gone before its context.
class TwoContextsOnAnOldDriver : public ::testing::TestWithParam<Load>
{
  protected:
    static void SetFaults(const char *plan)
    {
        auto set = reinterpret_cast<int (*)(const char *)>(
            driver_probe_symbol("moiety_standin_set_faults"));
        ASSERT_TRUE(set && set(plan) == 0);
    }

    Context second_;
    Stream next_, other_;
    TightPool pool_{GetParam(), 0, 1};
};
FOR_EACH_LOAD(TwoContextsOnAnOldDriver);

// The driver does not wait for the first, and does for the second.
TEST_P(TwoContextsOnAnOldDriver, ARefusalOfTheFirstIsNotForgotten)
{
    ASSERT_EQ(moiety_pool_add_context(pool_, second_), MOIETY_OK);
    SetFaults("cuCtxSynchronize:every=2:code=CUDA_ERROR_UNKNOWN");
    MUST(cu.CtxSynchronize()); // so that the next one is refused
    Hold hold(other_);
    pool_.Free(MOIETY_STREAM_ANY);
    EXPECT_TRUE(pool_.ServesNothing(next_));
    SetFaults("");
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

} // namespace streams_test
