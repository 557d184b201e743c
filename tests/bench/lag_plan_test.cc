// SPDX-License-Identifier: Apache-2.0
//
// What --lag takes and what it comes to.
#include <gtest/gtest.h>

#include <string>

#include "bench/lag/plan.h"

namespace
{

class LagPlans : public testing::Test
{
  protected:
    bool Parse(const std::string &list)
    {
        plans_ = {};
        return lag_plans_parse(list.c_str(), &plans_);
    }

    lag_plans plans_ = {};
};

TEST_F(LagPlans, AreIdleHeldOrOfWork)
{
    ASSERT_TRUE(Parse("idle,held,work:50"));
    ASSERT_EQ(plans_.count, 3u);
    EXPECT_TRUE(lag_is_idle(&plans_.plans[0]));
    EXPECT_TRUE(plans_.plans[1].is_held);
    EXPECT_FALSE(plans_.plans[1].has_work);
    EXPECT_FALSE(lag_is_idle(&plans_.plans[1]));
    EXPECT_TRUE(plans_.plans[2].has_work);
    EXPECT_EQ(plans_.plans[2].work_us, 50u);
    EXPECT_EQ(plans_.plans[2].fill_count, 0u);
    EXPECT_EQ(plans_.plans[2].sync_every, 0u);
    EXPECT_FALSE(lag_is_idle(&plans_.plans[2]));
}

TEST_F(LagPlans, KeepTheirText)
{
    ASSERT_TRUE(Parse("sync:7+work:9,idle"));
    EXPECT_STREQ(plans_.plans[0].text, "sync:7+work:9");
    EXPECT_STREQ(plans_.plans[1].text, "idle");
}

TEST_F(LagPlans, PutTermsTogether)
{
    ASSERT_TRUE(Parse("fill:100+sync:1000000+work:100000"));
    EXPECT_EQ(plans_.plans[0].fill_count, 100u);
    EXPECT_EQ(plans_.plans[0].sync_every, 1000000u);
    EXPECT_EQ(plans_.plans[0].work_us, 100000u);
}

TEST_F(LagPlans, OfWaitsAloneHaveWork)
{
    ASSERT_TRUE(Parse("sync:1"));
    EXPECT_TRUE(plans_.plans[0].has_work);
    EXPECT_EQ(plans_.plans[0].work_us, 0u);
}

TEST_F(LagPlans, AreAppended)
{
    ASSERT_TRUE(lag_plans_parse("idle", &plans_));
    ASSERT_TRUE(lag_plans_parse("held", &plans_));
    EXPECT_EQ(plans_.count, 2u);
    EXPECT_FALSE(lag_plans_parse("idle", &plans_));
}

TEST_F(LagPlans, RefuseNonsense)
{
    for (const char *list : {"",
                             ",",
                             "idle,",
                             ",idle",
                             "idle,idle",
                             "Idle",
                             "idle ",
                             "busy",
                             "held+work:5",
                             "idle+sync:1",
                             "work",
                             "work:",
                             "work:0",
                             "work:05",
                             "work:-1",
                             "work:1e3",
                             "work:1.5",
                             "work:100001",
                             "work:99999999999999999999",
                             "work:5+",
                             "+work:5",
                             "work:5+work:6",
                             "work:5++sync:1",
                             "fill:0",
                             "fill:101",
                             "sync:0",
                             "sync:1000001",
                             "work: 5",
                             "work:5us"})
        EXPECT_FALSE(Parse(list)) << list;
    EXPECT_FALSE(Parse(std::string("work:") + std::string(80, '1')));
}

TEST_F(LagPlans, RefuseMoreThanThereIsRoomFor)
{
    std::string list = "idle";
    for (unsigned i = 1; i < LAG_PLANS_MAX; i++)
        list += ",work:" + std::to_string(i);
    EXPECT_TRUE(Parse(list));
    EXPECT_FALSE(Parse(list + ",held"));
}

} // namespace
