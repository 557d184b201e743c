// SPDX-License-Identifier: Apache-2.0
//
// What the driver refuses leaves things as they were: memory that got no event
// is not taken for done. On the stand-in, which fails on demand.
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"
#include "tests/support/driver_probe.h"

namespace streams_test
{
namespace
{

// A fault plan for a scope.
class Faults
{
  public:
    explicit Faults(const std::string &plan)
    {
        Set(plan);
    }
    ~Faults()
    {
        Set("");
    }
    Faults(const Faults &) = delete;
    Faults &operator=(const Faults &) = delete;

  private:
    static void Set(const std::string &plan)
    {
        auto set = reinterpret_cast<int (*)(const char *)>(
            driver_probe_symbol("moiety_standin_set_faults"));
        if (set == nullptr || set(plan.c_str()) != 0)
            throw std::runtime_error("no such faults: " + plan);
    }
};

std::string Every(const char *entry)
{
    return std::string(entry) + ":every=1:code=CUDA_ERROR_UNKNOWN";
}

} // namespace

class RefusedByTheDriver : public RuleTest
{
  protected:
    void ExpectNotTakenForDone(const char *entry, CUstream held,
                               moiety_stream freed)
    {
        Hold hold(held);
        {
            Faults faults(Every(entry));
            (void)pool_.TryToFree(freed);
            for (int attempt = 0; attempt < 3; attempt++)
                EXPECT_NE(pool_.Take(next_), MOIETY_OK);
        }
        (void)pool_.TryToFree(freed);
        ASSERT_TRUE(pool_.ServesNothing(next_));
        hold.Release();
        EXPECT_TRUE(pool_.ServesInTheEnd(next_));
    }
};
FOR_EACH_LOAD(RefusedByTheDriver);

TEST_P(RefusedByTheDriver, AnEventOnAStreamIsNotTakenForDone)
{
    ExpectNotTakenForDone("cuEventRecord", freed_, freed_);
}

TEST_P(RefusedByTheDriver, ASingleEventIsNotTakenForDone)
{
    for (int nth = 1; nth <= 4; nth++) {
        TightPool pool(GetParam());
        Hold hold(freed_);
        Faults faults("cuEventRecord:nth=" + std::to_string(nth) +
                      ":code=CUDA_ERROR_UNKNOWN");
        (void)pool.TryToFree(freed_);
        for (int attempt = 0; attempt < 3; attempt++)
            EXPECT_NE(pool.Take(next_), MOIETY_OK) << nth;
        hold.Release();
        EXPECT_TRUE(pool.ServesInTheEnd(next_)) << nth;
    }
}

TEST_P(RefusedByTheDriver, AContextEventIsNotTakenForDone)
{
    ExpectNotTakenForDone("cuCtxRecordEvent", other_, MOIETY_STREAM_ANY);
}

TEST_P(RefusedByTheDriver, AQueryIsNotTakenForDone)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    ASSERT_TRUE(pool_.ServesNothing(next_));
    {
        Faults faults(Every("cuEventQuery"));
        for (int attempt = 0; attempt < 3; attempt++)
            EXPECT_NE(pool_.Take(next_), MOIETY_OK);
    }
    ASSERT_TRUE(pool_.ServesNothing(next_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(next_));
}

TEST_P(RefusedByTheDriver, NewEventsAreNotNeededForSafety)
{
    ExpectNotTakenForDone("cuEventCreate", freed_, freed_);
}

TEST_P(RefusedByTheDriver, AnEventOnAStreamIsNotNeededForARecordedUse)
{
    Hold hold(other_);
    pool_.RecordUse(other_);
    {
        Faults faults(Every("cuEventRecord"));
        pool_.Free(freed_);
        for (int attempt = 0; attempt < 3; attempt++)
            EXPECT_NE(pool_.Take(freed_), MOIETY_OK);
    }
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

TEST_P(RefusedByTheDriver, AFreeAfterAnEventIsNoFree)
{
    Event event;
    MUST(cu.EventRecord(event, freed_));
    Faults faults(Every("cuEventQuery"));
    EXPECT_EQ(moiety_free_on_event(pool_, pool_.last(), event),
              MOIETY_E_DRIVER);
    size_t usable = 0;
    EXPECT_EQ(moiety_usable_size(pool_, pool_.last(), &usable), MOIETY_OK);
}

// Nothing of which was retired before.
using RetiredInVain = RuleTest;
INSTANTIATE_TEST_SUITE_P(Blocks, RetiredInVain, ::testing::Values(kFew, kRun),
                         NameOf);

// The whole context stands for the stream.
TEST_P(RetiredInVain, WaitsForAllWork)
{
    Hold hold(other_);
    pool_.Free(freed_);
    {
        Faults faults(Every("cuEventRecord"));
        EXPECT_EQ(moiety_pool_retire_stream(pool_, freed_), MOIETY_E_DRIVER);
        EXPECT_NE(pool_.Take(freed_), MOIETY_OK);
    }
    ASSERT_TRUE(pool_.ServesNothing(freed_));
    hold.Release();
    EXPECT_TRUE(pool_.ServesInTheEnd(freed_));
}

class HandOverRefused : public RuleTest
{
  protected:
    HandOverRefused() : RuleTest(MOIETY_POOL_REUSE_DEPENDENCIES) {}
};
FOR_EACH_LOAD(HandOverRefused);

TEST_P(HandOverRefused, HandsNothingOver)
{
    Hold hold(freed_);
    pool_.Free(freed_);
    {
        Faults faults(Every("cuStreamWaitEvent"));
        for (int attempt = 0; attempt < 3; attempt++)
            EXPECT_NE(pool_.Take(next_), MOIETY_OK);
    }
    ASSERT_TRUE(pool_.ServesAtOnce(next_));
    Write(next_, pool_.last(), pool_.size_bytes(), kNew);
    PauseForTheForbidden();
    EXPECT_EQ(cu.StreamQuery(next_), CUDA_ERROR_NOT_READY);
}

} // namespace streams_test
