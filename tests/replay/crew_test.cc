// SPDX-License-Identifier: Apache-2.0
//
// Threads that allocate and free at once, on a subject that aborts where it is
// called wrongly.
#include <gtest/gtest.h>

#include <atomic>

#include "bench/studies/crew.h"
#include "tests/replay/checking_subject.h"

namespace
{

std::atomic<unsigned> followed_allocs;
std::atomic<unsigned> followed_frees;

class Crew : public testing::Test
{
  protected:
    void SetUp() override
    {
        checking_reset();
        followed_allocs = 0;
        followed_frees = 0;
    }

    crew_found Run(const crew_job &job, uint64_t limit_bytes = 0,
                   const struct subject *subject = &checking_subject)
    {
        const subject_setup setup = {job.thread_count, job.thread_count,
                                     limit_bytes, false, false};
        crew_found found = {};
        EXPECT_EQ(subject->start(&setup), nullptr);
        EXPECT_EQ(crew_run(subject, &job, &found), nullptr);
        subject->stop();
        account_ = checking_account_now();
        EXPECT_EQ(account_.live_at_stop, 0u);
        EXPECT_EQ(account_.allocs, account_.frees);
        return found;
    }

    checking_account account_ = {};
};

TEST_F(Crew, DoesSoManyPairsOnEachThread)
{
    const crew_found found = Run({4, 16, 0, 100, 500, 1, false});
    EXPECT_EQ(account_.allocs, 4 * 600u);
    EXPECT_EQ(account_.threads_seen, 4u);
    EXPECT_EQ(account_.streams_seen, 4u);
    EXPECT_EQ(account_.foreign_frees, 0u);
    EXPECT_EQ(found.failed, 0u);
    EXPECT_GT(found.mean_ns, 0);
    EXPECT_GE(found.slowest_ns, found.mean_ns);
}

TEST_F(Crew, CountsWhatIsLive)
{
    const crew_found one = Run({1, 1, 1000, 10, 100, 1, true});
    EXPECT_EQ(one.peak_live_bytes, 1000u);
    EXPECT_EQ(one.mean_live_bytes, 1000u);
    // All places are full behind 1000 warm pairs, and stay so.
    const crew_found many = Run({2, 8, 1000, 1000, 1000, 1, true});
    EXPECT_EQ(many.peak_live_bytes, 16000u);
    EXPECT_GT(many.mean_live_bytes, 14000u);
    EXPECT_LE(many.mean_live_bytes, 16000u);
}

TEST_F(Crew, CountsNothingThatItWasNotAskedFor)
{
    const crew_found found = Run({1, 1, 1000, 10, 100, 1, false});
    EXPECT_EQ(found.peak_live_bytes, 0u);
    EXPECT_EQ(found.mean_live_bytes, 0u);
}

TEST_F(Crew, DrawsSizesOfEachDoublingUpTo2MiB)
{
    const crew_found found = Run({1, 1, 0, 0, 20000, 1, true});
    EXPECT_LE(found.peak_live_bytes, 2097152u);
    EXPECT_GT(found.peak_live_bytes, 1900000u);
    // Three quarters of 512 B to 2 MiB, each as likely: 242 000 on average.
    EXPECT_NEAR(static_cast<double>(found.mean_live_bytes), 242000, 12000);
}

TEST_F(Crew, CountsWhatFailsAndGoesOn)
{
    // Room for three of four.
    const crew_found found =
        Run({1, 4, 1000, 100, 300, 1, true}, 3 * (1000 + CHECKING_EXTRA_BYTES));
    EXPECT_GT(found.failed, 0u);
    EXPECT_EQ(found.failed, account_.refused);
    EXPECT_EQ(found.failed + account_.allocs, 400u);
    EXPECT_EQ(found.peak_live_bytes, 3000u);
}

TEST_F(Crew, CallsWhatFollowsEachCall)
{
    struct subject following = checking_subject;
    following.follow = [](uint32_t thread, uint32_t stream, uint64_t address,
                          size_t size_bytes) {
        EXPECT_EQ(thread, stream);
        EXPECT_EQ(size_bytes, 1000u);
        followed_allocs += address != 0;
        followed_frees += address == 0;
    };
    Run({2, 4, 1000, 10, 100, 1, false}, 0, &following);
    EXPECT_EQ(followed_allocs, 220u);
    EXPECT_EQ(followed_frees, 220u);
}

TEST_F(Crew, SaysThatAThreadIsRefused)
{
    struct subject refusing = checking_subject;
    refusing.attach = [](uint32_t thread) { return thread != 1; };
    const subject_setup setup = {2, 2, 0, false, false};
    const crew_job job = {2, 4, 1000, 10, 100, 1, false};
    crew_found found;
    ASSERT_EQ(refusing.start(&setup), nullptr);
    EXPECT_STREQ(crew_run(&refusing, &job, &found), "a thread cannot use it");
    refusing.stop();
}

} // namespace
