// SPDX-License-Identifier: Apache-2.0
//
// A device that lags beside a subject that is replayed on: what is queued on
// it, that it is held, and that a hold hangs nobody.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "bench/base/device.h"
#include "bench/lag/plan.h"
#include "bench/subjects/lagging.h"
#include "tests/pool/pool_under_test.h"
#include "tests/replay/engine_probe.h"
#include "tests/replay/subjects_under_test.h"
#include "tests/replay/watched_subject.h"

using pool_test::Calls;
using replay_test::SubjectNamed;

namespace
{

constexpr int kSuccess = 0;
constexpr int kNotReady = 600;

lag_plan PlanOf(const char *text)
{
    static lag_plans plans;
    plans = {};
    EXPECT_TRUE(lag_plans_parse(text, &plans)) << text;
    return plans.plans[0];
}

int QueryStream(unsigned stream)
{
    return pool_test::Get<int(void *)>("cuStreamQuery")(
        bench_device_streams[stream]);
}

// What a subject of the tests sees of its streams when it is called.
struct Seen {
    unsigned allocs;
    unsigned ready; // calls while nothing was pending on stream 0
    bool fails_while_pending;
    bool blocks_while_pending;
};
Seen seen;

void SeeStream()
{
    seen.ready += QueryStream(0) == kSuccess;
}

uint64_t SeeingAlloc(uint32_t, size_t size_bytes, uint32_t)
{
    seen.allocs++;
    SeeStream();
    if (seen.blocks_while_pending)
        pool_test::Get<int(void *)>("cuStreamSynchronize")(
            bench_device_streams[0]);
    if (seen.fails_while_pending && QueryStream(0) == kNotReady)
        return 0;
    return SubjectNamed("best-fit")->alloc(0, size_bytes, 0);
}

void SeeingFree(uint32_t thread, uint64_t address, size_t size_bytes,
                uint32_t stream)
{
    SeeStream();
    SubjectNamed("best-fit")->free(thread, address, size_bytes, stream);
}

class Lag : public testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        replay_test::UseStandinWithPools();
    }
    void SetUp() override
    {
        seen = {};
    }
    void TearDown() override
    {
        std::remove(path_.c_str());
    }

    // So many blocks, each freed at once; on stream 0, 1 and so on in turn, or
    // all on one that is named otherwise.
    const char *Trace(unsigned blocks, unsigned streams = 1,
                      const char *freed_on = nullptr)
    {
        path_ = testing::TempDir() + "/lag_test.mtrace";
        std::ofstream file(path_);
        file << "moiety-trace 1\nT 0 main\n";
        for (unsigned i = 0; i < streams; i++)
            file << "S " << i << " 0x" << std::hex << 4096 + i << std::dec
                 << "\n";
        if (freed_on)
            file << "S " << streams << " " << freed_on << "\n";
        for (unsigned i = 0; i < blocks; i++)
            file << "a 1 0 0 4096 " << i % streams << "\nf 1 0 0 "
                 << (freed_on ? streams : i % streams) << "\n";
        file << "E " << 2 * blocks << "\n";
        return path_.c_str();
    }

    void Use(const char *subject, const char *lag)
    {
        const lag_plan plan = PlanOf(lag);
        engine_use(subject_lagging(SubjectNamed(subject), &plan));
    }

    void UseSeeing(const char *lag)
    {
        static struct subject seeing;
        seeing = *SubjectNamed("best-fit");
        seeing.alloc = SeeingAlloc;
        seeing.free = SeeingFree;
        const lag_plan plan = PlanOf(lag);
        engine_use(subject_lagging(&seeing, &plan));
    }

    std::string path_;
};

TEST_F(Lag, IsNoneWhereTheDeviceIdles)
{
    const struct subject *subject = SubjectNamed("moiety");
    EXPECT_EQ(subject_lagging(subject, &lag_idle), subject);
    EXPECT_EQ(subject->follow, nullptr);
}

TEST_F(Lag, QueuesWorkBehindEachCall)
{
    for (const char *subject : {"moiety", "moiety-mapped", "best-fit"}) {
        Use(subject, "work:1");
        uint64_t before = Calls("cuLaunchHostFunc");
        EXPECT_EQ(engine_footprint(Trace(10, 2), 0, 0).why, nullptr);
        EXPECT_EQ(Calls("cuLaunchHostFunc") - before, 20u) << subject;
        before = Calls("cuLaunchHostFunc");
        EXPECT_EQ(engine_time(path_.c_str(), 0, true, 0).why, nullptr);
        EXPECT_EQ(Calls("cuLaunchHostFunc") - before, 20u) << subject;
    }
}

TEST_F(Lag, QueuesNothingWhereAFreeNamesNoStream)
{
    for (const char *freed_on : {"any", "done"}) {
        Use("moiety", "work:1");
        const uint64_t before = Calls("cuLaunchHostFunc");
        EXPECT_EQ(engine_footprint(Trace(10, 1, freed_on), 0, 0).why, nullptr);
        EXPECT_EQ(Calls("cuLaunchHostFunc") - before, 10u);
    }
}

TEST_F(Lag, QueuesNothingBehindWhatFails)
{
    Use("best-fit", "work:1");
    const uint64_t before = Calls("cuLaunchHostFunc");
    EXPECT_EQ(engine_footprint(Trace(10), 0, 4096).ooms, 10u);
    EXPECT_EQ(engine_time(path_.c_str(), 0, false, 4096).ooms, 10u);
    EXPECT_EQ(Calls("cuLaunchHostFunc"), before);
}

// The least that it can take: the end of a run waits for all of it.
TEST_F(Lag, WorkTakesAsLongAsItWasTold)
{
    Use("best-fit", "work:10000");
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(engine_footprint(Trace(3), 0, 0).why, nullptr);
    EXPECT_GE(std::chrono::steady_clock::now() - begin,
              std::chrono::milliseconds(60));
}

TEST_F(Lag, FillsWhatWasAllocated)
{
    Use("moiety", "fill:3");
    const uint64_t before = Calls("cuMemsetD8Async");
    EXPECT_EQ(engine_footprint(Trace(10), 0, 0).why, nullptr);
    EXPECT_EQ(Calls("cuMemsetD8Async") - before, 30u);
}

TEST_F(Lag, WaitsForTheStreamAtEveryNthCall)
{
    Use("best-fit", "work:1+sync:4");
    const uint64_t before = Calls("cuStreamSynchronize");
    EXPECT_EQ(engine_footprint(Trace(10), 0, 0).why, nullptr);
    EXPECT_EQ(Calls("cuStreamSynchronize") - before, 5u);
    UseSeeing("work:1000+sync:1");
    EXPECT_EQ(engine_footprint(Trace(10), 0, 0).why, nullptr);
    EXPECT_EQ(seen.ready, 20u);
}

TEST_F(Lag, HoldsEachStreamFromTheBeginning)
{
    UseSeeing("held");
    const uint64_t before = Calls("cuStreamWaitValue32");
    EXPECT_EQ(engine_footprint(Trace(10, 3), 0, 0).why, nullptr);
    EXPECT_EQ(seen.ready, 0u);
    EXPECT_EQ(Calls("cuStreamWaitValue32") - before, 3u);
    EXPECT_EQ(subject_lag_releases(), 0u);
}

TEST_F(Lag, LetsGoOnceForAnAllocationThatFailsAndHoldsAgain)
{
    UseSeeing("held");
    seen.fails_while_pending = true;
    const engine_found found = engine_footprint(Trace(4), 0, 0);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.ooms, 0u);
    EXPECT_EQ(subject_lag_releases(), 4u);
    EXPECT_EQ(seen.allocs, 8u);
    // At the second try of each allocation, and at no other call.
    EXPECT_EQ(seen.ready, 4u);
}

TEST_F(Lag, CountsWhatFailsAtTheSecondTry)
{
    Use("best-fit", "held");
    const engine_found found = engine_footprint(Trace(4), 0, 4096);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.ooms, 4u);
    EXPECT_EQ(subject_lag_releases(), 4u);
}

TEST_F(Lag, LetsGoForACallThatDoesNotReturnAndHoldsAgain)
{
    UseSeeing("held");
    seen.blocks_while_pending = true;
    const engine_found found = engine_footprint(Trace(2), 0, 0);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.ooms, 0u);
    EXPECT_EQ(seen.allocs, 2u);
    EXPECT_GE(subject_lag_releases(), 1u);
    EXPECT_LE(subject_lag_releases(), 2u);
}

TEST_F(Lag, HangsNoThreadOfSeveral)
{
    std::ostringstream lines;
    for (unsigned t = 0; t < 4; t++)
        lines << "T " << t << " thread\n";
    lines << "S 0 per_thread\n";
    for (unsigned i = 0; i < 400; i++)
        lines << "a 1 " << i % 4 << " 0 4096 0\nf 1 " << (i / 3) % 4
              << " 0 0\n";
    path_ = testing::TempDir() + "/lag_test.mtrace";
    std::ofstream(path_) << "moiety-trace 1\n" << lines.str() << "E 800\n";
    static struct subject failing;
    failing = *SubjectNamed("best-fit");
    failing.alloc = [](uint32_t thread, size_t size_bytes, uint32_t stream) {
        return QueryStream(stream) == kNotReady
                   ? 0
                   : SubjectNamed("best-fit")
                         ->alloc(thread, size_bytes, stream);
    };
    const lag_plan plan = PlanOf("held");
    engine_use(subject_lagging(&failing, &plan));
    const engine_found found = engine_time(path_.c_str(), 0, true, 0);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.ooms, 0u);
    EXPECT_EQ(found.timed_allocs, 400u);
    EXPECT_GT(subject_lag_releases(), 0u);
    EXPECT_LE(subject_lag_releases(), 400u);
}

TEST_F(Lag, IsRefusedWhereEachFreeWaitsForIt)
{
    Use("cuda-malloc", "held");
    EXPECT_STREQ(engine_footprint(Trace(4), 0, 0).why,
                 "each of its frees would wait for streams that are held");
    Use("cuda-malloc", "work:1");
    EXPECT_EQ(engine_footprint(path_.c_str(), 0, 0).why, nullptr);
}

TEST_F(Lag, IsRefusedWhereNoStreamIsNamedAndNobodyWaits)
{
    Use("best-fit", "work:1");
    const char *why = engine_footprint(Trace(4, 1, "any"), 0, 0).why;
    ASSERT_NE(why, nullptr);
    EXPECT_NE(std::string(why).find("names no stream"), std::string::npos);
    for (const char *subject : {"moiety", "cuda-malloc", "cuda-async"}) {
        Use(subject, "work:1");
        EXPECT_EQ(engine_footprint(path_.c_str(), 0, 0).why, nullptr)
            << subject;
    }
    Use("best-fit", "idle");
    EXPECT_EQ(engine_footprint(path_.c_str(), 0, 0).why, nullptr);
}

TEST_F(Lag, LeavesNothingBehind)
{
    for (const char *kind : {"streams", "allocations", "host", "contexts"}) {
        const int64_t before = pool_test::Live(kind);
        for (const char *subject : {"moiety", "moiety-mapped"})
            for (const char *lag : {"held", "work:1+sync:2"}) {
                Use(subject, lag);
                engine_footprint(Trace(10), 0, 0);
            }
        EXPECT_EQ(pool_test::Live(kind), before) << kind;
    }
}

TEST_F(Lag, SaysWhyTheDriverCannotHold)
{
    pool_test::SetFaults("cuMemHostAlloc:nth=1:code=2");
    Use("best-fit", "held");
    EXPECT_STREQ(engine_footprint(Trace(1), 0, 0).why,
                 "there is no pinned memory to hold streams by");
    pool_test::SetFaults("");
}

} // namespace
