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
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

constexpr uint64_t kLimitBytes = 256 * kMiB;
constexpr uint64_t kBoundBytes = 128 * kMiB;
constexpr int kCalmMisses = 1024;

using Bounds = StandinTest;

moiety_pool_options Limited()
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = kLimitBytes;
    options.first_segment_bytes = 64 * kMiB;
    options.largest_segment_bytes = 64 * kMiB;
    options.thread_cache_bytes = 64 * kMiB;
    options.cache_bytes = kBoundBytes;
    options.wait_ms = MOIETY_WAIT_NONE;
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
    ASSERT_OK(alloc_no_wait(pool, 600 * kKiB, MOIETY_STREAM_LEGACY, &block));
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
    // alloc_no_wait() looks for no hit, so that it is a miss each time.
    auto stay_calm = [&](int misses) {
        for (int i = 0; i < misses; i++) {
            moiety_devptr one = 0;
            ASSERT_OK(alloc_no_wait(pool, 4096, MOIETY_STREAM_LEGACY, &one));
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

// Blocks of one length are freed, many more than a magazine has room for.
uint64_t CachedAfterUse(Pool &pool, size_t size_bytes)
{
    std::vector<moiety_devptr> blocks(512);
    for (moiety_devptr &block : blocks)
        block = pool.Alloc(size_bytes);
    uint64_t before_bytes = pool.Stats().cached_bytes;
    for (moiety_devptr block : blocks)
        pool.Free(block);
    return pool.Stats().cached_bytes - before_bytes;
}

// Not only the number: what is freed beyond it leaves the caches.
TEST_F(Bounds, HoldForWhatIsFreed)
{
    for (int climbs : {0, 4}) {
        Pool pool(Limited());
        std::vector<moiety_devptr> blocks;
        while (blocks.size() < 512)
            blocks.push_back(pool.Alloc(4 * kKiB));
        for (int i = 0; i < climbs; i++)
            Climb(pool);
        for (moiety_devptr block : blocks)
            pool.Free(block);
        // A class has a 64th of what a thread may have: a quarter of 64 MiB, or a
        // sixteenth.
        if (climbs)
            EXPECT_LE(pool.Stats().cached_bytes, 4 * kMiB / 64);
        else
            EXPECT_GT(pool.Stats().cached_bytes, 4 * kMiB / 64);
    }
}

TEST_F(Bounds, KeepLessInASmallerPool)
{
    std::vector<uint64_t> cached;
    for (uint64_t reserved_bytes : {8 * kMiB, 128 * kMiB}) {
        moiety_pool_options options = Defaults();
        options.first_segment_bytes = reserved_bytes;
        Pool pool(options);
        cached.push_back(CachedAfterUse(pool, 8 * kKiB));
        ASSERT_EQ(reserved_bytes, pool.Stats().reserved_bytes_current);
    }
    EXPECT_LE(cached[0], 8 * kMiB / 4 / 64);
    EXPECT_GT(cached[1], cached[0]);
    EXPECT_LE(cached[1], 128 * kMiB / 4 / 64);
}

// Each that has a cache in the pool gets as much as the others.
TEST_F(Bounds, KeepLessBesideOtherThreads)
{
    constexpr int kThreads = 7;
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 128 * kMiB;
    Pool pool(options);
    std::atomic<int> ready{0};
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++)
        threads.emplace_back([&] {
            pool.Free(pool.Alloc(512));
            ready++;
            while (!is_over)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
    while (ready < kThreads)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    uint64_t cached_bytes = CachedAfterUse(pool, 8 * kKiB);
    is_over = true;
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_GT(cached_bytes, 0u);
    EXPECT_LE(cached_bytes, 128 * kMiB / 4 / 8 / 64);
}

// Whatever classes it uses. A 16th of it is left to a magazine.
TEST_F(Bounds, KeepAThreadToItsShare)
{
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 128 * kMiB;
    options.thread_cache_bytes = 1 * kMiB;
    options.cache_bytes = 64 * kMiB;
    Pool pool(options);
    std::vector<pool_test::Stream> streams(8);
    for (const pool_test::Stream &stream : streams)
        for (size_t size_bytes = 512; size_bytes <= 16 * kKiB;
             size_bytes += 512) {
            std::vector<moiety_devptr> blocks(32);
            for (moiety_devptr &block : blocks)
                block = pool.Alloc(size_bytes, stream);
            for (moiety_devptr block : blocks)
                pool.Free(block, stream);
        }
    EXPECT_LE(pool.Stats().cached_bytes, 1 * kMiB);
    EXPECT_GT(pool.Stats().cached_bytes, kMiB / 4);
}

// However many threads there are, and wherever they are in their first blocks.
TEST_F(Bounds, HoldForManyThreads)
{
    constexpr int kThreads = 512;
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 512 * kMiB;
    options.thread_cache_bytes = 4 * kMiB;
    options.cache_bytes = 4 * kMiB;
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
    EXPECT_LE(cached_bytes, 4 * kMiB);
    // Those that rest may have lost theirs to those that came later.
    EXPECT_GT(cached_bytes, 256 * kKiB);
}

// A 64th of a quarter of what is reserved is 48 KiB, and an eighth is more than 64 KiB.
TEST_F(Bounds, KeepOneLargeBlockInASmallPoolOnceItComesBack)
{
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 12 * kMiB;
    Pool pool(options);
    pool.Free(pool.Alloc(64 * kKiB));
    EXPECT_EQ(0u, pool.Stats().cached_bytes);
    pool.Free(pool.Alloc(32 * kKiB));
    EXPECT_EQ(32 * kKiB, pool.Stats().cached_bytes);
    for (size_t bytes : {64 * kKiB, 80 * kKiB, 80 * kKiB})
        pool.Free(pool.Alloc(bytes));
    EXPECT_EQ(96 * kKiB, pool.Stats().cached_bytes);
    uint64_t misses = pool.Stats().cache_misses;
    pool.Free(pool.Alloc(64 * kKiB));
    EXPECT_EQ(misses, pool.Stats().cache_misses);
    moiety_devptr both[] = {pool.Alloc(64 * kKiB), pool.Alloc(64 * kKiB)};
    pool.Free(both[0]);
    pool.Free(both[1]);
    EXPECT_EQ(96 * kKiB, pool.Stats().cached_bytes);
}

} // namespace
