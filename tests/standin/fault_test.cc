// SPDX-License-Identifier: Apache-2.0
//
// The fault plan: which calls fail, and how a bad plan is refused.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/standin/standin_under_test.h"

namespace
{

int SetFaults(const char *plan)
{
    return standin::Get<moiety_standin_set_faults_fn>(
        "moiety_standin_set_faults")(plan);
}

std::string FaultError()
{
    return standin::Get<moiety_standin_fault_error_fn>(
        "moiety_standin_fault_error")();
}

uint64_t Calls(const char *entry)
{
    return standin::Get<moiety_standin_calls_fn>("moiety_standin_calls")(entry);
}

class FaultPlan : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        standin::StartOnDevice0();
    }
    void TearDown() override
    {
        SetFaults(nullptr);
    }
};

CUresult AllocAndFree()
{
    CUdeviceptr address = 0;
    CUresult code = standin::MemAlloc(&address, 4096);
    if (code == CUDA_SUCCESS) {
        EXPECT_EQ(standin::MemFree(address), CUDA_SUCCESS);
    }
    return code;
}

TEST_F(FaultPlan, FailsTheNthCallOnce)
{
    ASSERT_EQ(SetFaults("cuMemAlloc:nth=3:code=2"), 0);
    EXPECT_EQ(AllocAndFree(), CUDA_SUCCESS);
    EXPECT_EQ(AllocAndFree(), CUDA_SUCCESS);
    EXPECT_EQ(AllocAndFree(), CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(AllocAndFree(), CUDA_SUCCESS);
}

TEST_F(FaultPlan, FailsEveryKthCallWithANamedCode)
{
    ASSERT_EQ(SetFaults("cuMemAlloc_v2:every=2:code=CUDA_ERROR_UNKNOWN"), 0);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(AllocAndFree(), CUDA_SUCCESS);
        EXPECT_EQ(AllocAndFree(), CUDA_ERROR_UNKNOWN);
    }
}

TEST_F(FaultPlan, FailsAllCallsFromOneOn)
{
    ASSERT_EQ(SetFaults("cuMemAlloc:from=3:code=2"), 0);
    EXPECT_EQ(AllocAndFree(), CUDA_SUCCESS);
    EXPECT_EQ(AllocAndFree(), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(AllocAndFree(), CUDA_ERROR_OUT_OF_MEMORY);
    ASSERT_EQ(SetFaults(""), 0);
    EXPECT_EQ(AllocAndFree(), CUDA_SUCCESS);
}

TEST_F(FaultPlan, AFailedCallHasNoEffect)
{
    CUdeviceptr address = 0;
    ASSERT_EQ(standin::MemAlloc(&address, 4096), CUDA_SUCCESS);
    ASSERT_EQ(SetFaults("cuMemFree:nth=1:code=999"), 0);
    EXPECT_EQ(standin::MemFree(address), CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(standin::MemFree(address), CUDA_SUCCESS);
}

TEST_F(FaultPlan, FailsAWaitAndCountsIt)
{
    auto waits = standin::Get<moiety_standin_waits_fn>("moiety_standin_waits");
    auto hold = standin::Get<moiety_standin_hold_fn>("moiety_standin_hold");
    auto release =
        standin::Get<moiety_standin_release_fn>("moiety_standin_release");
    auto fill =
        standin::Get<CUresult(CUdeviceptr, unsigned char, size_t, CUstream)>(
            "cuMemsetD8Async");
    CUdeviceptr address = 0;
    ASSERT_EQ(standin::MemAlloc(&address, 4096), CUDA_SUCCESS);
    ASSERT_EQ(SetFaults("wait:code=999"), 0);
    const uint64_t before = waits();
    EXPECT_EQ(AllocAndFree(), CUDA_SUCCESS);
    EXPECT_EQ(waits(), before);
    ASSERT_EQ(hold(nullptr), 0);
    ASSERT_EQ(fill(address, 1, 1, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(standin::MemFree(address), CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(waits(), before + 1);
    ASSERT_EQ(release(nullptr), 0);
    ASSERT_EQ(SetFaults(""), 0);
    EXPECT_EQ(standin::MemFree(address), CUDA_SUCCESS);
}

TEST_F(FaultPlan, AStarCountsCallsOfEveryEntryTogether)
{
    ASSERT_EQ(SetFaults("*:nth=2:code=CUDA_ERROR_UNKNOWN"), 0);
    CUdeviceptr address = 0;
    ASSERT_EQ(standin::MemAlloc(&address, 4096), CUDA_SUCCESS);
    EXPECT_EQ(standin::MemFree(address), CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(standin::MemFree(address), CUDA_SUCCESS);
}

TEST_F(FaultPlan, RulesForSeveralEntriesCountApart)
{
    ASSERT_EQ(SetFaults("cuMemAlloc:nth=2:code=2,cuMemFree:nth=1:code=999"), 0);
    CUdeviceptr address = 0;
    EXPECT_EQ(standin::MemAlloc(&address, 4096), CUDA_SUCCESS);
    EXPECT_EQ(standin::MemFree(address), CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(standin::MemFree(address), CUDA_SUCCESS);
    EXPECT_EQ(AllocAndFree(), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(FaultPlan, CountsCallsPerEntryFailedOnesIncluded)
{
    standin::Get<moiety_standin_reset_calls_fn>("moiety_standin_reset_calls")();
    ASSERT_EQ(SetFaults("cuMemAlloc:nth=1:code=2"), 0);
    AllocAndFree();
    AllocAndFree();
    EXPECT_EQ(Calls("cuMemAlloc"), 2u);
    EXPECT_EQ(Calls("cuMemFree_v2"), 1u);
    EXPECT_EQ(Calls("*"), 3u);
    EXPECT_EQ(Calls("cuNoSuchEntry"), UINT64_MAX);
}

TEST_F(FaultPlan, ABadPlanIsRefusedNamedAndChangesNothing)
{
    const char *bad[] = {
        "cuNoSuchEntry:nth=1:code=2",
        "cuMemAlloc:nth=0:code=2",
        "cuMemAlloc:nth=1",
        "cuMemAlloc:code=2",
        "cuMemAlloc:nth=1:every=2:code=2",
        "cuMemAlloc:nth=1:from=2:code=2",
        "cuMemAlloc:from=0:code=2",
        "cuMemAlloc:nth=1:code=0",
        "cuMemAlloc:nth=-1:code=2",
        "cuMemAlloc:nth=1:code=CUDA_ERROR_NONE",
        "cuMemAlloc:often:code=2",
        "event:late=soon",
        "stream:delay=-5",
        "memory:free=much",
        "memory:total=",
        "cuMemAlloc",
    };
    ASSERT_EQ(SetFaults("cuMemAlloc:nth=1:code=2"), 0);
    for (const char *plan : bad) {
        EXPECT_EQ(SetFaults(plan), -1) << plan;
        EXPECT_NE(FaultError().find("rules separated by commas"),
                  std::string::npos)
            << FaultError();
    }
    EXPECT_EQ(AllocAndFree(), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(FaultPlan, AnEmptyPlanClears)
{
    ASSERT_EQ(SetFaults("cuMemAlloc:every=1:code=2"), 0);
    ASSERT_EQ(AllocAndFree(), CUDA_ERROR_OUT_OF_MEMORY);
    ASSERT_EQ(SetFaults(""), 0);
    EXPECT_EQ(AllocAndFree(), CUDA_SUCCESS);
}

} // namespace
