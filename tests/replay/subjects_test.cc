// SPDX-License-Identifier: Apache-2.0
//
// Everything that traces are replayed on, by the engine, on the stand-in.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "bench/base/device.h"
#include "tests/pool/pool_under_test.h"
#include "tests/replay/engine_probe.h"
#include "tests/replay/subjects_under_test.h"
#include "tests/replay/watched_subject.h"

using pool_test::kMiB;
using namespace replay_test;

namespace
{

constexpr uint32_t kThreads = 4;
constexpr uint32_t kStreams = 3;
constexpr uint32_t kAllocs = 600;

// Threads and streams in turn; blocks of 1 B to 128 MiB live for a while, are
// freed by others, on a stream, on any, or when all is done.
std::string MadeTrace()
{
    std::ostringstream out;
    std::mt19937_64 random(20261123);
    std::map<uint32_t, uint64_t> live;
    uint32_t operations = 0;
    out << "moiety-trace 1\nS 0 legacy\nS 1 0x1000\nS 2 0x2000\nS 3 any\n"
        << "S 4 done\n";
    for (uint32_t i = 0; i < kThreads; i++)
        out << "T " << i << " thread\n";
    for (uint32_t i = 0; i < kAllocs; i++, operations++) {
        if (live.size() == 50) {
            const auto victim =
                std::next(live.begin(), static_cast<long>(random() % 50));
            out << "f 1 " << random() % kThreads << " " << victim->first << " "
                << random() % (kStreams + 2) << "\n";
            live.erase(victim);
            operations++;
        }
        const uint64_t size_bytes = 1 + (random() >> (37 + random() % 24));
        out << "a 1 " << random() % kThreads << " " << i << " " << size_bytes
            << " " << random() % kStreams << "\n";
        live.emplace(i, size_bytes);
    }
    out << "E " << operations << "\n";
    return out.str();
}

uint64_t DriverCalls()
{
    return pool_test::Calls("cuMemAlloc") + pool_test::Calls("cuMemFree");
}

class Subjects : public testing::TestWithParam<Subject>
{
  protected:
    static void SetUpTestSuite()
    {
        UseStandinWithPools();
    }
    void SetUp() override
    {
        path_ = testing::TempDir() + "/subjects_test.mtrace";
        std::ofstream(path_) << MadeTrace();
        engine_use(Watched(SubjectNamed(GetParam().name)));
    }
    void TearDown() override
    {
        pool_test::SetFaults("");
        std::remove(path_.c_str());
    }

    engine_found Footprint(uint64_t limit_bytes = 0)
    {
        return engine_footprint(path_.c_str(), 8, limit_bytes);
    }

    static void ExpectNothingWrong()
    {
        const Watch watch = WatchNow();
        EXPECT_EQ(watch.overlaps, 0u);
        EXPECT_EQ(watch.outside, 0u);
        EXPECT_EQ(watch.over_limit, 0u);
        EXPECT_EQ(watch.unequal, 0u);
        EXPECT_EQ(watch.live_at_stop, 0u);
        EXPECT_EQ(watch.allocs, watch.frees);
    }

    std::string path_;
};

TEST_P(Subjects, HandOutEachByteOnce)
{
    const engine_found found = Footprint();
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.ooms, 0u);
    EXPECT_EQ(WatchNow().allocs, kAllocs);
    ExpectNothingWrong();
}

TEST_P(Subjects, HandOutEachByteOnceToThreadsAtATime)
{
    const engine_found found = engine_time(path_.c_str(), 0, true, 0);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.ooms, 0u);
    EXPECT_EQ(found.run_threads, kThreads);
    EXPECT_EQ(WatchNow().allocs, kAllocs);
    ExpectNothingWrong();
}

TEST_P(Subjects, ReserveAtLeastWhatIsLive)
{
    const engine_found found = Footprint();
    EXPECT_GE(found.peak_reserved_bytes, found.peak_live_bytes);
    EXPECT_LE(found.peak_reserved_bytes, 8 * pool_test::kGiB);
    EXPECT_GT(found.peak_op, 0u);
}

TEST_P(Subjects, CountTheirDriverCalls)
{
    const uint64_t before = DriverCalls();
    const engine_found found = Footprint();
    EXPECT_GT(found.driver_calls, 0u);
    if (!GetParam().does_call_mem_alloc)
        return;
    // What is given back in the end is counted by the stand-in alone.
    const uint64_t made = DriverCalls() - before;
    EXPECT_LE(found.driver_calls, made);
    EXPECT_GE(found.driver_calls * 2, made);
}

TEST_P(Subjects, KeepToALimitAndGoOn)
{
    const engine_found whole = Footprint();
    const uint64_t limit_bytes = whole.peak_live_bytes / 2;
    if (!SubjectNamed(GetParam().name)->has_limit)
        return;
    engine_use(Watched(SubjectNamed(GetParam().name)));
    const engine_found found = Footprint(limit_bytes);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_GT(found.ooms, 0u);
    EXPECT_LT(found.ooms, kAllocs);
    EXPECT_EQ(WatchNow().failed, found.ooms);
    EXPECT_LE(found.peak_live_bytes, limit_bytes);
    if (GetParam().name == std::string("cuda-malloc"))
        return; // it is limited in bytes that are asked for
    EXPECT_LE(found.peak_reserved_bytes, limit_bytes);
    ExpectNothingWrong();
}

TEST_P(Subjects, PassAtALimitThatTheyNeverReach)
{
    if (!SubjectNamed(GetParam().name)->has_limit)
        return;
    const uint64_t peak_bytes = Footprint().peak_reserved_bytes;
    EXPECT_TRUE(engine_passes(path_.c_str(), 2 * peak_bytes).does_pass);
    EXPECT_FALSE(engine_passes(path_.c_str(), kMiB).does_pass);
    ExpectNothingWrong();
}

TEST_P(Subjects, ReportThatTheDriverHasNoMemory)
{
    const char none[] = ":every=1:code=CUDA_ERROR_OUT_OF_MEMORY";
    pool_test::SetFaults(std::string("cuMemAlloc") + none + ",cuMemAllocAsync" +
                         none + ",cuMemCreate" + none);
    const engine_found found = Footprint();
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.ooms, kAllocs);
    EXPECT_EQ(found.peak_live_bytes, 0u);
    pool_test::SetFaults("");
    EXPECT_EQ(Footprint().ooms, 0u);
    ExpectNothingWrong();
}

TEST_P(Subjects, GiveEverythingBack)
{
    const int64_t allocations = pool_test::Live("allocations");
    const int64_t streams = pool_test::Live("streams");
    Footprint();
    engine_time(path_.c_str(), 0, true, 0);
    EXPECT_EQ(pool_test::Live("allocations"), allocations);
    EXPECT_EQ(pool_test::Live("streams"), streams);
}

TEST_P(Subjects, MapMemoryWhereTheirNameSaysSoAndNowhereElse)
{
    const bool does_map = !GetParam().does_call_mem_alloc &&
                          GetParam().name != std::string("cuda-async");
    const uint64_t created = pool_test::Calls("cuMemCreate");
    const uint64_t allocated = pool_test::Calls("cuMemAlloc");
    EXPECT_EQ(Footprint().ooms, 0u);
    EXPECT_EQ(pool_test::Calls("cuMemCreate") > created, does_map);
    EXPECT_EQ(pool_test::Calls("cuMemAlloc") > allocated,
              GetParam().does_call_mem_alloc);
}

TEST_P(Subjects, SayWhyATraceHasTooManyStreams)
{
    const subject_setup setup = {1, BENCH_STREAMS_MAX + 1, 0, false, false};
    const struct subject *subject = SubjectNamed(GetParam().name);
    const char *why = subject->start(&setup);
    if (GetParam().does_make_streams)
        EXPECT_STREQ(why, "the trace has more than 1024 streams");
    else
        EXPECT_EQ(why, nullptr);
    if (!why)
        subject->stop();
}

INSTANTIATE_TEST_SUITE_P(All, Subjects, testing::ValuesIn(kSubjects), NameOf);

TEST(AllSubjects, AreTestedHereOrRefuse)
{
    size_t count = 0;
    while (replay_subjects[count])
        count++;
    EXPECT_EQ(count, std::size(kSubjects) + 3);
    unsetenv("MOIETY_TORCH_SHIM");
    UseStandinWithPools();
    const subject_setup setup = {1, 1, 0, false, false};
    EXPECT_STREQ(SubjectNamed("torch")->start(&setup),
                 "MOIETY_TORCH_SHIM names no library; "
                 "bench/subjects/shims/build_shim.sh makes one");
    setenv("MOIETY_TORCH_SHIM", "/dev/null", 1);
    const std::string why = SubjectNamed("torch")->start(&setup);
    EXPECT_NE(why.find("/dev/null"), std::string::npos) << why;
}

// So that the watch can fail: a subject that hands out one block to everybody.
TEST(WatchedSubject, IsFoundOutWhereItHandsOutABlockTwice)
{
    UseStandinWithPools();
    struct subject planted = *SubjectNamed("best-fit");
    planted.alloc = [](uint32_t, size_t, uint32_t) { return uint64_t{4096}; };
    planted.free = [](uint32_t, uint64_t, size_t, uint32_t) {};
    const struct subject *watched = Watched(&planted);
    const subject_setup setup = {1, 1, 1, false, false};
    ASSERT_EQ(watched->start(&setup), nullptr);
    watched->alloc(0, 512, 0);
    watched->alloc(0, 512, 0);
    subject_memory memory;
    watched->measure(&memory);
    EXPECT_EQ(WatchNow().overlaps, 1u);
    EXPECT_EQ(WatchNow().outside, 1u);
    watched->stop();
    EXPECT_EQ(WatchNow().live_at_stop, 1u);
}

} // namespace
