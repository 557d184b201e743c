// SPDX-License-Identifier: Apache-2.0
//
// The replay engine on a subject that aborts where it is called wrongly.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/replay/engine_probe.h"

namespace
{

class Replay : public testing::Test
{
  protected:
    void SetUp() override
    {
        checking_reset();
    }
    void TearDown() override
    {
        std::remove(path_.c_str());
    }

    const char *Trace(const std::string &lines, uint64_t operations)
    {
        path_ = testing::TempDir() + "/engine_test.mtrace";
        std::ofstream file(path_);
        file << "moiety-trace 1\n" << lines << "E " << operations << "\n";
        return path_.c_str();
    }

    // Blocks that each of the threads allocates and the next one frees.
    const char *Chain(unsigned threads, unsigned blocks)
    {
        std::ostringstream lines;
        lines << "S 0 legacy\n";
        for (unsigned t = 0; t < threads; t++)
            lines << "T " << t << " thread\n";
        for (unsigned i = 0; i < blocks; i++) {
            unsigned t = i % threads;
            lines << "a 1 " << t << " 0 " << 100 + i << " 0\n";
            lines << "f 1 " << (t + 1) % threads << " 0 0\n";
        }
        return Trace(lines.str(), 2 * blocks);
    }

    std::string path_;
};

const char kSmall[] = "T 0 main\n"
                      "S 0 legacy\n"
                      "S 1 0x55d0c0\n"
                      "S 2 any\n"
                      "S 3 done\n"
                      "a 5 0 0 1000 0\n"
                      "a 5 0 1 2000 1\n"
                      "u 5 0 1 0\n"
                      "f 5 0 0 2\n"
                      "a 5 0 0 4000 2\n"
                      "q 5 0 1 1\n"
                      "s 5 0 1 3\n"
                      "a 5 0 2 0 0\n"
                      "w 5 0 0\n"
                      "f 5 0 2 0\n"
                      "a 5 0 2 300 1\n";

TEST_F(Replay, CallsInTheTracesOrderAndFreesTheRest)
{
    engine_found found = engine_time(Trace(kSmall, 11), 0, false, 0);
    EXPECT_EQ(found.why, nullptr);
    checking_account account = checking_account_now();
    EXPECT_EQ(account.allocs, 4u);
    EXPECT_EQ(account.frees, 4u);
    EXPECT_EQ(account.live_at_stop, 0u);
    EXPECT_EQ(found.timed_allocs, 4u);
    EXPECT_EQ(found.timed_frees, 3u);
    EXPECT_GT(found.wall_ns, 0u);
}

TEST_F(Replay, TellsTheStreamThatABlockIsFreedOn)
{
    engine_time(Trace(kSmall, 11), 0, false, 0);
    checking_account account = checking_account_now();
    EXPECT_EQ(account.frees_any, 2u);
    EXPECT_EQ(account.frees_done, 2u);
    EXPECT_EQ(account.streams_seen, 2u);
}

TEST_F(Replay, SeesPeakLiveAndPeakReserved)
{
    engine_found found = engine_footprint(Trace(kSmall, 11), 0, 0);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.peak_live_bytes, 6000u);
    EXPECT_EQ(found.peak_reserved_bytes, 6000u + 2 * CHECKING_EXTRA_BYTES);
    EXPECT_EQ(found.peak_op, 4u);
    EXPECT_EQ(checking_account_now().live_at_stop, 0u);
}

// Caches are of threads: what an allocator takes depends on who calls. A thread
// that is on turn makes its calls until another one's come.
TEST_F(Replay, LooksAtMemoryWithAThreadForEachOfTheTraces)
{
    engine_found found = engine_footprint(Chain(3, 60), 0, 0);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.peak_live_bytes, 159u);
    EXPECT_EQ(checking_account_now().frees, 60u);
    EXPECT_EQ(checking_account_now().foreign_frees, 60u);
    EXPECT_EQ(checking_account_now().threads_seen, 3u);
    EXPECT_EQ(checking_account_now().callers_seen, 3u);
    checking_reset();
    EXPECT_EQ(engine_until(path_.c_str(), 5).map_block_count, 1u);
    // And who cleans up.
    EXPECT_EQ(checking_account_now().callers_seen, 4u);
    checking_reset();
    EXPECT_EQ(engine_until(path_.c_str(), 0).map_block_count, 0u);
    EXPECT_EQ(checking_account_now().allocs, 0u);
}

// More than a subject takes: several are one.
TEST_F(Replay, DealsThreadsThatAreTooManyToFewer)
{
    engine_found found = engine_footprint(Chain(300, 600), 0, 0);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(checking_account_now().frees, 600u);
    EXPECT_EQ(checking_account_now().threads_seen, 256u);
    EXPECT_EQ(checking_account_now().callers_seen, 256u);
}

TEST_F(Replay, TakesSamplesEvenlyOverTheTrace)
{
    engine_found found = engine_footprint(Chain(1, 50), 10, 0);
    ASSERT_EQ(found.sample_count, 10u);
    for (uint64_t i = 1; i < 10; i++)
        EXPECT_EQ(found.sample_ops[i], 10 * i);
    EXPECT_EQ(found.sample_ops[0], 1u);
    EXPECT_EQ(found.sample_live_bytes[0], 100u);
    EXPECT_EQ(found.sample_live_bytes[1], 0u);
}

TEST_F(Replay, CountsWhatDoesNotFitAndGoesOn)
{
    const uint64_t limit = 2000 + CHECKING_EXTRA_BYTES;
    engine_found found = engine_footprint(Trace(kSmall, 11), 0, limit);
    EXPECT_EQ(found.ooms, 2u);
    EXPECT_EQ(found.peak_live_bytes, 1000u);
    checking_account account = checking_account_now();
    EXPECT_EQ(account.allocs, account.frees);
    found = engine_time(path_.c_str(), 0, false, limit);
    EXPECT_EQ(found.ooms, 2u);
}

TEST_F(Replay, PassesAtALimitAndNotBelow)
{
    const uint64_t least = 6000 + 2 * CHECKING_EXTRA_BYTES;
    EXPECT_TRUE(engine_passes(Trace(kSmall, 11), least).does_pass);
    EXPECT_FALSE(engine_passes(path_.c_str(), least - 1).does_pass);
    EXPECT_EQ(checking_account_now().live_at_stop, 0u);
}

constexpr uint64_t kLarge = 64 * ((UINT64_C(64) << 20) + CHECKING_EXTRA_BYTES);

std::string LargeBlocks()
{
    std::ostringstream lines;
    lines << "T 0 main\nS 0 legacy\n";
    for (int i = 0; i < 64; i++)
        lines << "a 1 0 " << i << " " << (64 << 20) << " 0\n";
    return lines.str();
}

TEST_F(Replay, BisectsToWithinItsStep)
{
    engine_found found = engine_bisect(Trace(LargeBlocks(), 64), 2 * kLarge);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_GE(found.smallest_limit_bytes, kLarge);
    EXPECT_LE(found.smallest_limit_bytes, kLarge + (UINT64_C(4) << 20));
}

TEST_F(Replay, FindsNoLimitWhereNonePasses)
{
    engine_found found = engine_bisect(Trace(kSmall, 11), 100);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.smallest_limit_bytes, SUBJECT_UNKNOWN);
}

TEST_F(Replay, FitsWhereItPassesAboveToo)
{
    const replay_fit fit = engine_fit(Trace(LargeBlocks(), 64), kLarge).fit;
    EXPECT_GE(fit.limit_bytes, kLarge);
    EXPECT_LT(fit.limit_bytes, kLarge + fit.step_bytes);
    EXPECT_GE(fit.tried_to_bytes, kLarge + kLarge / 20);
    EXPECT_EQ(fit.limit_bytes + (fit.tried_count - 1) * fit.step_bytes,
              fit.tried_to_bytes);
}

TEST_F(Replay, FitsAboveAGap)
{
    const uint64_t high = kLarge + kLarge / 40;
    checking_set_gap(kLarge + kLarge / 50, high);
    const replay_fit fit = engine_fit(Trace(LargeBlocks(), 64), kLarge).fit;
    EXPECT_GE(fit.limit_bytes, high);
    EXPECT_LT(fit.limit_bytes, high + fit.step_bytes);
}

TEST_F(Replay, FitsAboveAGapThatIsHigher)
{
    const uint64_t high = 2 * kLarge;
    checking_set_gap(kLarge + 1, high);
    const replay_fit fit = engine_fit(Trace(LargeBlocks(), 64), kLarge).fit;
    EXPECT_GE(fit.limit_bytes, high);
    EXPECT_LT(fit.limit_bytes, high + fit.step_bytes);
}

TEST_F(Replay, FitsNowhereWhereNonePassesAbove)
{
    checking_set_gap(kLarge + 1, UINT64_MAX);
    engine_found found = engine_fit(Trace(LargeBlocks(), 64), kLarge);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.fit.limit_bytes, SUBJECT_UNKNOWN);
}

TEST_F(Replay, ShowsWhatIsLiveAfterACall)
{
    engine_found found = engine_until(Trace(kSmall, 11), 4);
    EXPECT_EQ(found.map_block_count, 2u);
    EXPECT_EQ(found.map_block_bytes, 6000u);
}

TEST_F(Replay, WaitsForBlocksOfOtherThreads)
{
    engine_found found = engine_time(Chain(4, 2000), 0, true, 0);
    EXPECT_EQ(found.why, nullptr);
    checking_account account = checking_account_now();
    EXPECT_EQ(found.run_threads, 4u);
    EXPECT_EQ(account.threads_seen, 4u);
    EXPECT_EQ(account.allocs, 2000u);
    EXPECT_EQ(account.frees, 2000u);
    EXPECT_EQ(account.foreign_frees, 2000u);
}

TEST_F(Replay, OneThreadAloneReplaysInSerialMode)
{
    engine_time(Chain(4, 100), 0, false, 0);
    checking_account account = checking_account_now();
    EXPECT_EQ(account.threads_seen, 1u);
    EXPECT_EQ(account.foreign_frees, 0u);
}

TEST_F(Replay, DealsTheBlocksOfAThreadToSeveral)
{
    engine_found found = engine_time(Chain(2, 1000), 7, true, 0);
    EXPECT_EQ(found.run_threads, 6u);
    checking_account account = checking_account_now();
    EXPECT_EQ(account.threads_seen, 6u);
    EXPECT_EQ(account.allocs, 1000u);
    EXPECT_EQ(account.foreign_frees, 1000u);
}

// Blocks live from one window to the next, and ids are used again.
TEST_F(Replay, GoesOnFromWindowToWindow)
{
    const unsigned pairs = 140000;
    std::ostringstream lines;
    lines << "T 0 a\nT 1 b\nS 0 per_thread\n";
    lines << "a 1 0 0 77 0\n";
    for (unsigned i = 1; i < pairs; i++) {
        const unsigned taker = i / 64 % 2;
        const unsigned giver = i % 64 ? taker : 1 - taker;
        lines << "a 1 " << taker << " " << taker + 1 << " 9 0\nf 1 " << giver
              << " " << taker + 1 << " 0\n";
    }
    lines << "f 1 1 0 0\n";
    const char *path = Trace(lines.str(), 2 * pairs);
    engine_found found = engine_time(path, 0, true, 0);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(checking_account_now().frees, pairs);
    EXPECT_EQ(checking_account_now().streams_seen, 3u);
    checking_reset();
    found = engine_footprint(path, 0, 0);
    EXPECT_EQ(found.peak_live_bytes, 86u);
    EXPECT_EQ(checking_account_now().frees, pairs);
    EXPECT_EQ(checking_account_now().live_at_stop, 0u);
}

TEST_F(Replay, RefusesAWrongTrace)
{
    EXPECT_STREQ(engine_time(Trace("T 0 a\n", 1), 0, false, 0).why,
                 "the trace is wrong");
}

TEST_F(Replay, ReplaysATraceOfNothing)
{
    engine_found found = engine_footprint(Trace("", 0), 3, 0);
    EXPECT_EQ(found.why, nullptr);
    EXPECT_EQ(found.peak_live_bytes, 0u);
    EXPECT_EQ(found.sample_count, 0u);
    EXPECT_EQ(engine_time(path_.c_str(), 4, true, 0).why, nullptr);
}

TEST(CheckingSubjectDeathTest, AbortsWhereItIsCalledWrongly)
{
    const subject_setup setup = {1, 1, 0, false, false};
    ASSERT_EQ(checking_subject.start(&setup), nullptr);
    uint64_t address = checking_subject.alloc(0, 8, 0);
    EXPECT_DEATH(checking_subject.free(0, 0, 8, 0), "never was");
    EXPECT_DEATH(checking_subject.free(0, address, 9, 0), "another size");
    EXPECT_DEATH(checking_subject.free(1, address, 8, 0), "beyond the setup");
    checking_subject.free(0, address, 8, 0);
    EXPECT_DEATH(checking_subject.free(0, address, 8, 0), "not live");
    checking_subject.stop();
}

} // namespace
