// SPDX-License-Identifier: Apache-2.0
//
// Work that is made of fills, as on a GPU, here on the stand-in: what is queued
// for it. How long it takes is the device's.
#include <gtest/gtest.h>

#include <cstdlib>

#include "bench/lag/plan.h"
#include "bench/lag/work.h"
#include "tests/pool/pool_under_test.h"

using pool_test::Calls;

namespace
{

lag_plan PlanOf(const char *text)
{
    lag_plans plans = {};
    EXPECT_TRUE(lag_plans_parse(text, &plans)) << text;
    return plans.plans[0];
}

class LagWork : public testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        // An eighth of it is filled; all of it is the host's memory here.
        setenv("MOIETY_STANDIN_MEMORY", "64MiB", 1);
        pool_test::UseStandin();
    }

    // Fills that are queued behind one call.
    static uint64_t Fills(const char *text, uint64_t address = 0,
                          size_t size_bytes = 0)
    {
        const lag_plan plan = PlanOf(text);
        pool_test::Stream stream;
        EXPECT_EQ(lag_work_start(&plan, true), nullptr);
        const uint64_t before = Calls("cuMemsetD8Async");
        const uint64_t functions = Calls("cuLaunchHostFunc");
        lag_work_queue(&plan, stream, address, size_bytes);
        const uint64_t fills = Calls("cuMemsetD8Async") - before;
        EXPECT_EQ(Calls("cuLaunchHostFunc"), functions);
        pool_test::Synchronize();
        lag_work_stop();
        return fills;
    }
};

TEST_F(LagWork, IsOneFillOrMore)
{
    EXPECT_GE(Fills("work:1"), 1u);
    EXPECT_GE(Fills("sync:1"), 1u);
}

TEST_F(LagWork, IsMoreFillsOfAllItsMemoryWhereItTakesLonger)
{
    // 8 MiB are filled in less than 50 ms anywhere.
    EXPECT_GE(Fills("work:100000"), 2u);
}

TEST_F(LagWork, IsBehindFillsOfTheBlock)
{
    pool_test::Pool pool;
    const moiety_devptr block = pool.Alloc(4096);
    EXPECT_EQ(Fills("fill:3", block, 4096), 3u);
    EXPECT_GE(Fills("fill:3+work:1", block, 4096), 4u);
    EXPECT_EQ(Fills("fill:3"), 0u); // behind a free
    pool.Free(block);
}

TEST_F(LagWork, GivesItsMemoryBack)
{
    const int64_t before = pool_test::Live("allocations");
    Fills("work:10");
    EXPECT_EQ(pool_test::Live("allocations"), before);
    EXPECT_EQ(pool_test::Live("events"), 0);
}

TEST_F(LagWork, SaysThatThereIsNoMemoryForIt)
{
    const lag_plan plan = PlanOf("work:10");
    pool_test::SetFaults("cuMemAlloc:nth=1:code=2");
    EXPECT_STREQ(lag_work_start(&plan, true),
                 "the device has no memory for work to be done on");
    pool_test::SetFaults("cuMemGetInfo:nth=1:code=999");
    EXPECT_STREQ(lag_work_start(&plan, true),
                 "the device does not tell its memory");
    pool_test::SetFaults("");
}

using LagWorkDeathTest = LagWork;

TEST_F(LagWorkDeathTest, EndsTheProcessWhereTheDriverRefuses)
{
    const lag_plan plan = PlanOf("work:10");
    ASSERT_EQ(lag_work_start(&plan, false), nullptr);
    EXPECT_DEATH(
        {
            pool_test::SetFaults("cuLaunchHostFunc:nth=1:code=999");
            lag_work_queue(&plan, nullptr, 0, 0);
        },
        "lag: cuLaunchHostFunc returned");
}

} // namespace
