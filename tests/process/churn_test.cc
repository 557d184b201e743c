// SPDX-License-Identifier: Apache-2.0
//
// Threads that live for one allocation, and whose block another frees: nothing
// is lost, and what they leave behind does not pile up.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/pool_probe.h"

namespace
{

using namespace pool_test;

constexpr unsigned kThreads = 2000;
constexpr unsigned kAtATime = 8;

const moiety_stream kStreams[] = {MOIETY_STREAM_LEGACY, MOIETY_STREAM_ANY,
                                  MOIETY_STREAM_PER_THREAD, MOIETY_STREAM_DONE};
const size_t kSizes[] = {512, 20 * kKiB, 900 * kKiB, 3 * kMiB};

class Churn : public StandinTest
{
  protected:
    // Each frees the block of the one before it in its place, and leaves one.
    void LiveBriefly(unsigned first)
    {
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < kAtATime; i++)
            threads.emplace_back([&, i] {
                unsigned turn = (first + i) / kAtATime + i;
                moiety_devptr mine = pool_.Alloc(kSizes[turn % 4]);
                pool_test::SetCurrent(pool_test::PrimaryContext());
                if (left_[i])
                    pool_.Free(left_[i], kStreams[turn / 4 % 4]);
                left_[i] = mine;
            });
        for (std::thread &thread : threads)
            thread.join();
    }

    Pool pool_;
    moiety_devptr left_[kAtATime] = {};
};

TEST_F(Churn, LosesNothingAndLeavesNobody)
{
    for (unsigned i = 0; i < kThreads && !HasFailure(); i += kAtATime) {
        LiveBriefly(i);
        // A slow path of a thread that stays: it takes what they left.
        pool_.Trim(UINT64_MAX);
        ASSERT_EQ(1u, pool_probe_thread_state_count(pool_)) << "after " << i;
        moiety_pool_stats stats = pool_.Stats();
        ASSERT_EQ(kAtATime, stats.allocation_current);
        ASSERT_LE(stats.threads, 1u);
    }
    for (moiety_devptr address : left_)
        pool_.Free(address, MOIETY_STREAM_ANY);
    pool_.TrimAll();
    moiety_pool_stats stats = pool_.Stats();
    EXPECT_EQ(0u, stats.reserved_bytes_current);
    EXPECT_EQ(0u, stats.allocation_current);
    EXPECT_EQ(kThreads, stats.allocation_allocated);
    EXPECT_EQ(0u, stats.double_frees_found);
}

} // namespace
