// SPDX-License-Identifier: Apache-2.0
//
// The bounds of caches under pressure: they shrink with each climb, to a floor,
// and come back when the pool is calm or grows.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using pool_test::Defaults;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Pool;

constexpr uint64_t kLimitBytes = 256 * kMiB;
constexpr uint64_t kBoundBytes = 128 * kMiB;
constexpr int kCalmMisses = 1024;

class Bounds : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }
};

moiety_pool_options Limited()
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = kLimitBytes;
    options.first_segment_bytes = 64 * kMiB;
    options.largest_segment_bytes = 64 * kMiB;
    options.thread_cache_bytes = 64 * kMiB;
    options.cache_bytes = kBoundBytes;
    options.wait_ms = 0;
    return options;
}

// An allocation that fails climbs once.
void Climb(Pool &pool)
{
    moiety_devptr block = 0;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, kLimitBytes, MOIETY_STREAM_LEGACY, &block));
}

// An allocation that no cache serves, and nobody climbs for.
void Miss(Pool &pool)
{
    pool.Free(pool.Alloc(600 * kKiB), MOIETY_STREAM_DONE);
    moiety_devptr block = 0;
    ASSERT_EQ(MOIETY_OK,
              moiety_try_alloc(pool, 600 * kKiB, MOIETY_STREAM_LEGACY, &block));
    pool.Free(block, MOIETY_STREAM_DONE);
}

TEST_F(Bounds, AreAsSetWithoutPressure)
{
    Pool pool(Limited());
    for (int i = 0; i < 2 * kCalmMisses; i++)
        Miss(pool);
    EXPECT_EQ(kBoundBytes, pool.Stats().cache_bound_bytes);
    EXPECT_EQ(0u, pool.Stats().cache_bound_halvings);
}

TEST_F(Bounds, HalveWithEachClimbDownToASixteenth)
{
    Pool pool(Limited());
    moiety_devptr block = pool.Alloc(4096);
    uint64_t bytes = kBoundBytes;
    for (uint64_t i = 1; i <= 4; i++) {
        Climb(pool);
        bytes /= 2;
        EXPECT_EQ(bytes, pool.Stats().cache_bound_bytes);
        EXPECT_EQ(i, pool.Stats().cache_bound_halvings);
    }
    Climb(pool);
    EXPECT_EQ(kBoundBytes / 16, pool.Stats().cache_bound_bytes);
    EXPECT_EQ(4u, pool.Stats().cache_bound_halvings);
    pool.Free(block);
}

TEST_F(Bounds, DoubleAfterSoManyCalmMisses)
{
    Pool pool(Limited());
    moiety_devptr block = pool.Alloc(4096);
    // So that no miss grows the pool.
    pool.Free(pool.Alloc(4 * kMiB), MOIETY_STREAM_DONE);
    Climb(pool);
    Climb(pool);
    EXPECT_EQ(kBoundBytes / 4, pool.Stats().cache_bound_bytes);
    // moiety_try_alloc() looks for no hit, so that it is a miss each time.
    auto stay_calm = [&](int misses) {
        for (int i = 0; i < misses; i++) {
            moiety_devptr one = 0;
            ASSERT_EQ(MOIETY_OK,
                      moiety_try_alloc(pool, 4096, MOIETY_STREAM_LEGACY, &one));
            pool.Free(one);
        }
    };
    stay_calm(kCalmMisses - 1);
    EXPECT_EQ(kBoundBytes / 4, pool.Stats().cache_bound_bytes);
    stay_calm(1);
    EXPECT_EQ(kBoundBytes / 2, pool.Stats().cache_bound_bytes);
    // A climb in between begins the count anew.
    stay_calm(kCalmMisses - 1);
    Climb(pool);
    EXPECT_EQ(kBoundBytes / 4, pool.Stats().cache_bound_bytes);
    stay_calm(kCalmMisses - 1);
    EXPECT_EQ(kBoundBytes / 4, pool.Stats().cache_bound_bytes);
    stay_calm(1 + kCalmMisses);
    EXPECT_EQ(kBoundBytes, pool.Stats().cache_bound_bytes);
    stay_calm(2 * kCalmMisses);
    EXPECT_EQ(kBoundBytes, pool.Stats().cache_bound_bytes);
    pool.Free(block);
}

TEST_F(Bounds, DoubleWhenThePoolGrowsWithoutPressure)
{
    Pool pool(Limited());
    moiety_devptr block = pool.Alloc(4096);
    Climb(pool);
    Climb(pool);
    ASSERT_EQ(kBoundBytes / 4, pool.Stats().cache_bound_bytes);
    moiety_devptr more = pool.Alloc(64 * kMiB);
    moiety_devptr most = pool.Alloc(64 * kMiB);
    EXPECT_EQ(kBoundBytes, pool.Stats().cache_bound_bytes);
    pool.Free(block);
    pool.Free(more);
    pool.Free(most);
}

// Not only the number: what is freed beyond it leaves the caches.
TEST_F(Bounds, HoldForWhatIsFreed)
{
    for (int climbs : {0, 4}) {
        Pool pool(Limited());
        std::vector<moiety_devptr> blocks;
        while (blocks.size() < 40)
            blocks.push_back(pool.Alloc(1 * kMiB));
        for (int i = 0; i < climbs; i++)
            Climb(pool);
        // Often enough that the magazine would grow.
        for (int i = 0; i < 20; i++) {
            for (moiety_devptr block : blocks)
                pool.Free(block);
            for (moiety_devptr &block : blocks)
                block = pool.Alloc(1 * kMiB);
        }
        for (moiety_devptr block : blocks)
            pool.Free(block);
        uint64_t cached_bytes = pool.Stats().cached_bytes;
        if (climbs) {
            // A sixteenth of a thread's, and the depot's share.
            EXPECT_LE(cached_bytes, 4 * kMiB + 1 * kMiB);
        } else {
            EXPECT_GT(cached_bytes, 5 * kMiB);
        }
    }
}

// Blocks of 1 MiB come and go until no more of them stay in caches.
uint64_t CachedAfterUse(Pool &pool, size_t count)
{
    std::vector<moiety_devptr> blocks(count);
    for (int i = 0; i < 20; i++) {
        for (moiety_devptr &block : blocks)
            block = pool.Alloc(1 * kMiB);
        for (moiety_devptr block : blocks)
            pool.Free(block);
    }
    return pool.Stats().cached_bytes;
}

// What a thread's caches have, and the depot.
TEST_F(Bounds, KeepAThreadToAQuarterOfWhatIsReserved)
{
    for (uint64_t reserved_bytes : {8 * kMiB, 32 * kMiB}) {
        moiety_pool_options options = Defaults();
        options.first_segment_bytes = reserved_bytes;
        options.thread_cache_bytes = 16 * kMiB;
        options.cache_bytes = 16 * kMiB;
        Pool pool(options);
        uint64_t cached_bytes = CachedAfterUse(pool, 6);
        ASSERT_EQ(reserved_bytes, pool.Stats().reserved_bytes_current);
        if (reserved_bytes == 8 * kMiB)
            EXPECT_LE(cached_bytes, 2 * kMiB + 2 * kMiB);
        else
            EXPECT_GT(cached_bytes, 4 * kMiB);
    }
}

TEST_F(Bounds, KeepAThreadToA32ndOnceThePoolHasGrown)
{
    constexpr uint64_t kShareBytes = kLimitBytes / 32;
    Pool pool(Limited());
    std::vector<moiety_devptr> kept;
    while (pool.Stats().reserved_bytes_current < kLimitBytes)
        kept.push_back(pool.Alloc(1 * kMiB));
    for (moiety_devptr block : kept)
        pool.Free(block, MOIETY_STREAM_DONE);
    EXPECT_LE(CachedAfterUse(pool, 100), 2 * kShareBytes);
    // Each two periods of calm double it.
    for (int i = 0; i < 2 * kCalmMisses; i++)
        Miss(pool);
    EXPECT_GT(CachedAfterUse(pool, 100), 2 * kShareBytes);
}

// However many threads there are, and wherever they are in their first blocks.
TEST_F(Bounds, HoldForManyThreads)
{
    constexpr int kThreads = 512;
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 512 * kMiB;
    options.cache_bytes = 64 * kMiB;
    Pool pool(options);
    std::atomic<int> ready{0};
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++)
        threads.emplace_back([&] {
            std::vector<moiety_devptr> blocks(16);
            for (size_t size_bytes : {4, 8, 16, 24, 32, 40, 48, 64}) {
                for (moiety_devptr &block : blocks)
                    block = pool.Alloc(size_bytes * kKiB);
                for (moiety_devptr block : blocks)
                    pool.Free(block);
            }
            ready++;
            while (!is_over)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
    while (ready < kThreads)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    uint64_t cached_bytes = pool.Stats().cached_bytes;
    is_over = true;
    for (std::thread &thread : threads)
        thread.join();
    // What threads have not told, and the depot's part.
    EXPECT_LE(cached_bytes, (64 + 64 / 16 + 64 / 8) * kMiB);
    // Those that rest may have lost theirs to those that came later.
    EXPECT_GT(cached_bytes, 4 * kMiB);
}

// Of runs longer than a quarter of the share, none.
TEST_F(Bounds, KeepNoLongRunsInASmallPool)
{
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 32 * kMiB;
    Pool pool(options);
    pool.Free(pool.Alloc(2 * kMiB));
    EXPECT_EQ(2 * kMiB, pool.Stats().cached_bytes);
    pool.Free(pool.Alloc(3 * kMiB));
    EXPECT_EQ(2 * kMiB, pool.Stats().cached_bytes);
}

// Of small blocks larger than half of the share, none: that is 576 KiB here.
TEST_F(Bounds, KeepNoLargeBlocksInASmallPoolThatHasGrown)
{
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 12 * kMiB;
    Pool pool(options);
    moiety_devptr first = pool.Alloc(12 * kMiB);
    moiety_devptr second = pool.Alloc(12 * kMiB);
    pool.Free(pool.Alloc(768 * kKiB));
    EXPECT_EQ(0u, pool.Stats().cached_bytes);
    EXPECT_EQ(36 * kMiB, pool.Stats().reserved_bytes_current);
    pool.Free(pool.Alloc(192 * kKiB));
    EXPECT_EQ(192 * kKiB, pool.Stats().cached_bytes);
    pool.Free(first);
    pool.Free(second);
}

} // namespace
