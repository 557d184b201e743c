// SPDX-License-Identifier: Apache-2.0
//
// The peak of live bytes: within its bound of the truth, and reset.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

// moiety/stats.h says so, beside what caches can hold.
constexpr uint64_t kStepBytes = 256 * kKiB;

using Peak = StandinTest;

// Caches may hold `cache_bytes`, all of them together.
moiety_pool_options WithCaches(uint64_t cache_bytes)
{
    moiety_pool_options options = Defaults();
    options.thread_cache_bytes = cache_bytes;
    options.cache_bytes = cache_bytes;
    return options;
}

void ExpectWithin(uint64_t bound_bytes, uint64_t truth_bytes,
                  uint64_t peak_bytes)
{
    EXPECT_LE(truth_bytes, peak_bytes + bound_bytes);
    EXPECT_GE(truth_bytes + bound_bytes, peak_bytes);
}

struct Block {
    moiety_devptr address;
    uint64_t bytes;
};

// Takes and frees at random, and adds up what is live.
class Walker
{
  public:
    Walker(moiety_pool *pool, uint32_t seed, std::atomic<uint64_t> *live)
        : pool_(pool), random_(seed), live_(live)
    {
    }
    void Step(size_t most_blocks)
    {
        if (blocks_.size() < most_blocks && random_() % 4)
            Take();
        else if (!blocks_.empty())
            FreeOne();
    }
    void End()
    {
        while (!blocks_.empty())
            FreeOne();
    }

  private:
    void Take()
    {
        size_t size_bytes = 1 + random_() % (random_() % 16 ? 8 * kKiB : kMiB);
        size_t usable_bytes = 0;
        Block block = {};
        ASSERT_OK(moiety_alloc(pool_, size_bytes, kStream, &block.address));
        ASSERT_OK(moiety_usable_size(pool_, block.address, &usable_bytes));
        block.bytes = usable_bytes;
        *live_ += block.bytes;
        blocks_.push_back(block);
    }
    void FreeOne()
    {
        size_t at = random_() % blocks_.size();
        *live_ -= blocks_[at].bytes;
        ASSERT_OK(moiety_free(pool_, blocks_[at].address, kStream));
        blocks_[at] = blocks_.back();
        blocks_.pop_back();
    }

    moiety_pool *pool_;
    std::mt19937 random_;
    std::atomic<uint64_t> *live_;
    std::vector<Block> blocks_;
};

TEST_F(Peak, IsThatOfOneThread)
{
    constexpr uint64_t kCacheBytes = 2 * kMiB;
    Pool pool(WithCaches(kCacheBytes));
    std::atomic<uint64_t> live{0};
    uint64_t truth_bytes = 0;
    Walker walker(pool, 1, &live);
    for (size_t most : {500, 50, 2000, 10})
        for (int i = 0; i < 10000; i++) {
            walker.Step(most);
            truth_bytes = std::max(truth_bytes, live.load());
        }
    walker.End();
    ASSERT_GT(truth_bytes, 8 * kCacheBytes);
    ExpectWithin(kCacheBytes + kStepBytes, truth_bytes,
                 pool.Stats().allocated_bytes_peak);
}

// Rounds with a wait between them, so that the truth is what all have at most.
TEST_F(Peak, IsThatOfSeveralThreads)
{
    constexpr uint64_t kCacheBytes = 4 * kMiB;
    constexpr uint64_t kThreads = 4;
    Pool pool(WithCaches(kCacheBytes));
    std::atomic<uint64_t> live{0};
    std::atomic<uint64_t> most_bytes{0};
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; t++)
        threads.emplace_back([&, t] {
            Walker walker(pool, t + 1, &live);
            for (int i = 0; i < 20000; i++) {
                walker.Step(i < 12000 ? 1000 : 20);
                uint64_t now = live;
                uint64_t most = most_bytes;
                while (most < now &&
                       !most_bytes.compare_exchange_weak(most, now))
                    continue;
            }
            walker.End();
        });
    for (std::thread &thread : threads)
        thread.join();
    // What is about to be counted in or out here: a block in each thread.
    ExpectWithin(kCacheBytes + kThreads * (kStepBytes + kMiB), most_bytes,
                 pool.Stats().allocated_bytes_peak);
}

// Caches come and go, which must leave nothing uncounted behind.
TEST_F(Peak, DoesNotDriftWithThreadsAndStreams)
{
    constexpr uint64_t kCacheBytes = 2 * kMiB;
    constexpr uint64_t kBytes = 4 * kMiB;
    Pool pool(WithCaches(kCacheBytes));
    for (int i = 0; i < 200; i++) {
        std::thread([&] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            pool_test::Stream stream;
            std::vector<moiety_devptr> blocks(kBytes / (64 * kKiB));
            for (moiety_devptr &block : blocks)
                block = pool.Alloc(64 * kKiB, stream);
            for (moiety_devptr block : blocks)
                pool.Free(block, stream);
            EXPECT_OK(moiety_pool_retire_stream(pool, stream));
        }).join();
        if (i % 8 == 0)
            pool.Trim();
    }
    ExpectWithin(kCacheBytes + 2 * kStepBytes, kBytes,
                 pool.Stats().allocated_bytes_peak);
}

TEST_F(Peak, IsNeverBelowWhatIsLive)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(100);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_GT(stats.allocated_bytes_current, 0u);
    EXPECT_GE(stats.allocated_bytes_peak, stats.allocated_bytes_current);
    pool.Free(block);
    EXPECT_GE(pool.Stats().allocated_bytes_peak, stats.allocated_bytes_current);
}

class PeakOfKind : public StandinTestWith<uint32_t>
{
  protected:
};

INSTANTIATE_TEST_SUITE_P(Kinds, PeakOfKind,
                         ::testing::Values(0, KIND_MAPPED,
                                           KIND_CHECKED |
                                               MOIETY_POOL_CHECKED_QUIET,
                                           KIND_PASS_THROUGH));

TEST_P(PeakOfKind, BeginsAnewAtWhatIsLive)
{
    moiety_pool_options options = Defaults();
    set_kind(&options, GetParam());
    Pool pool(options);
    moiety_devptr large = pool.Alloc(20 * kMiB);
    moiety_devptr small = pool.Alloc(3 * kMiB);
    pool.Free(large);
    EXPECT_EQ(23 * kMiB, pool.Stats().allocated_bytes_peak);
    ASSERT_OK(moiety_pool_reset_peaks(pool));
    EXPECT_EQ(3 * kMiB, pool.Stats().allocated_bytes_peak);
    large = pool.Alloc(8 * kMiB);
    pool.Free(large);
    EXPECT_EQ(11 * kMiB, pool.Stats().allocated_bytes_peak);
    pool.Free(small);
    ASSERT_OK(moiety_pool_reset_peaks(pool));
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_peak);
}

} // namespace
