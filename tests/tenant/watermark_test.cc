// SPDX-License-Identifier: Apache-2.0
//
// The watermark: caches come before growth that passes it, what is above it goes
// back to the source, and below it nothing is different.
#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

using Watermark = StandinTest;

moiety_pool_options Marked(uint64_t watermark_bytes)
{
    moiety_pool_options options = Defaults();
    options.first_segment_bytes = 16 * kMiB;
    options.largest_segment_bytes = 16 * kMiB;
    options.watermark_bytes = watermark_bytes;
    return options;
}

std::vector<moiety_devptr> Take(Pool &pool, size_t size_bytes, size_t count)
{
    std::vector<moiety_devptr> blocks;
    while (blocks.size() < count)
        blocks.push_back(pool.Alloc(size_bytes));
    return blocks;
}

void FreeAll(Pool &pool, const std::vector<moiety_devptr> &blocks,
             moiety_stream stream = MOIETY_STREAM_LEGACY)
{
    for (moiety_devptr block : blocks)
        pool.Free(block, stream);
}

// A thread that has `count` free blocks in its cache, and sleeps.
class Sleeper
{
  public:
    Sleeper(Pool &pool, size_t size_bytes, size_t count)
    {
        std::promise<void> filled;
        std::future<void> is_filled = filled.get_future();
        thread_ = std::thread([&] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            // So that no event has to be over before others have them.
            FreeAll(pool, Take(pool, size_bytes, count), MOIETY_STREAM_DONE);
            filled.set_value();
            wake_.get_future().wait();
        });
        is_filled.wait();
    }
    ~Sleeper()
    {
        wake_.set_value();
        thread_.join();
    }

  private:
    std::promise<void> wake_;
    std::thread thread_;
};

TEST_F(Watermark, LetsThePoolGrowFreelyBelow)
{
    Pool pool(Marked(64 * kMiB));
    Sleeper sleeper(pool, 64 * kKiB, 128);
    std::vector<moiety_devptr> blocks = Take(pool, 4 * kMiB, 13);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(64 * kMiB, stats.reserved_bytes_current);
    EXPECT_EQ(0u, stats.oom_steps[MOIETY_OOM_ORPHANS]);
    EXPECT_EQ(0u, stats.oom_steps[MOIETY_OOM_IDLE_THREADS]);
    EXPECT_NE(0u, stats.cached_bytes);
    FreeAll(pool, blocks);
}

TEST_F(Watermark, LetsCachesServeBeforeThePoolGrowsPastIt)
{
    for (uint64_t watermark_bytes : {uint64_t{0}, 32 * kMiB}) {
        Pool pool(Marked(watermark_bytes));
        Sleeper sleeper(pool, 64 * kKiB, 128); // 8 MiB
        std::vector<moiety_devptr> blocks = Take(pool, 64 * kKiB, 512);
        bool is_marked = watermark_bytes != 0;
        EXPECT_EQ(is_marked ? 32 * kMiB : 48 * kMiB,
                  pool.Stats().reserved_bytes_current);
        EXPECT_EQ(is_marked,
                  pool.Stats().oom_steps[MOIETY_OOM_IDLE_THREADS] != 0);
        EXPECT_EQ(0u, pool.Stats().ooms);
        EXPECT_EQ(0u, pool.Stats().alloc_retries);
        // It is soft.
        std::vector<moiety_devptr> more = Take(pool, 64 * kKiB, 1);
        EXPECT_EQ(48 * kMiB, pool.Stats().reserved_bytes_current);
        FreeAll(pool, more);
        FreeAll(pool, blocks);
    }
}

// Growth that could end at the watermark does not jump over it.
TEST_F(Watermark, CutsTheSegmentThatWouldPassIt)
{
    Pool pool(Marked(20 * kMiB));
    std::vector<moiety_devptr> blocks = Take(pool, 2 * kMiB, 10);
    EXPECT_EQ(20 * kMiB, pool.Stats().reserved_bytes_current);
    blocks.push_back(pool.Alloc(2 * kMiB));
    // Past it a segment has the first one's size.
    EXPECT_EQ(36 * kMiB, pool.Stats().reserved_bytes_current);
    // What needs more than is left below it is not cut.
    Pool other(Marked(20 * kMiB));
    moiety_devptr small = other.Alloc(kMiB);
    moiety_devptr large = other.Alloc(16 * kMiB);
    EXPECT_EQ(32 * kMiB, other.Stats().reserved_bytes_current);
    other.Free(small);
    other.Free(large);
    FreeAll(pool, blocks);
}

// Segments above it, and no more than these.
TEST_F(Watermark, IsReturnedToWhenSegmentsAreFree)
{
    Pool pool(Marked(48 * kMiB));
    std::vector<moiety_devptr> blocks = Take(pool, 16 * kMiB, 6);
    EXPECT_EQ(96 * kMiB, pool.Stats().reserved_bytes_current);
    FreeAll(pool, blocks, MOIETY_STREAM_DONE);
    // Frees never call the source.
    EXPECT_EQ(0u, pool.Stats().segment_freed);
    moiety_devptr next = pool.Alloc(600 * kKiB);
    EXPECT_EQ(48 * kMiB, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(3u, pool.Stats().segment_freed);
    pool.Free(next);
}

// What was freed on a stream, or on any, is done when somebody records an event:
// later misses do, whatever stream they are for.
TEST_F(Watermark, IsReturnedToWhenStreamsHaveFreed)
{
    for (bool is_any : {false, true}) {
        Stream stream;
        Pool pool(Marked(16 * kMiB));
        std::vector<moiety_devptr> blocks;
        while (blocks.size() < 6)
            blocks.push_back(pool.Alloc(16 * kMiB, stream));
        FreeAll(pool, blocks, is_any ? MOIETY_STREAM_ANY : stream);
        pool_test::Synchronize();
        for (size_t i = 1; i < 512; i++)
            pool.Free(pool.Alloc(i * 512, stream), stream);
        EXPECT_EQ(16 * kMiB, pool.Stats().reserved_bytes_current);
    }
}

TEST_F(Watermark, IsNoConcernOfTryAlloc)
{
    Pool pool(Marked(16 * kMiB));
    FreeAll(pool, Take(pool, 16 * kMiB, 2), MOIETY_STREAM_DONE);
    moiety_devptr block = 0;
    ASSERT_OK(alloc_no_wait(pool, 600 * kKiB, MOIETY_STREAM_LEGACY, &block));
    EXPECT_EQ(32 * kMiB, pool.Stats().reserved_bytes_current);
    pool.Free(block);
}

// What work is queued on stays, however much is above the watermark.
TEST_F(Watermark, LeavesWhatIsPending)
{
    Pool pool(Marked(16 * kMiB));
    Stream stream;
    std::vector<moiety_devptr> blocks = Take(pool, 16 * kMiB, 4);
    stream.Hold();
    FreeAll(pool, blocks, stream);
    moiety_devptr next = pool.Alloc(600 * kKiB);
    EXPECT_EQ(0u, pool.Stats().segment_freed);
    stream.Release();
    pool_test::Synchronize();
    pool.Free(next);
    pool.TrimAll();
}

// A thread that gave nothing to the space since has nothing to look for: no
// allocation after the first calls the source.
TEST_F(Watermark, IsNotLookedAtAgainForNothing)
{
    Pool pool(Marked(16 * kMiB));
    std::vector<moiety_devptr> pins = Take(pool, 2 * kMiB, 16);
    uint64_t calls = pool_test::Calls("cuMemFree");
    std::vector<moiety_devptr> blocks = Take(pool, 1 * kMiB, 64);
    EXPECT_EQ(calls, pool_test::Calls("cuMemFree"));
    FreeAll(pool, blocks);
    FreeAll(pool, pins);
}

// The source refuses to take a segment back: the allocation is none the worse.
TEST_F(Watermark, SurvivesASourceThatRefuses)
{
    Pool pool(Marked(16 * kMiB));
    FreeAll(pool, Take(pool, 16 * kMiB, 2), MOIETY_STREAM_DONE);
    pool_test::SetFaults("cuMemFree:nth=1:code=CUDA_ERROR_UNKNOWN");
    moiety_devptr block = pool.Alloc(600 * kKiB);
    pool_test::SetFaults("");
    EXPECT_NE(0u, block);
    EXPECT_EQ(16 * kMiB, pool.Stats().unreleased_bytes);
    pool.Free(block);
    pool.TrimAll();
    EXPECT_EQ(0u, pool.Stats().unreleased_bytes);
}

TEST_F(Watermark, TrimReachesThreadsThatSleep)
{
    Pool pool(Marked(0));
    Sleeper sleeper(pool, 64 * kKiB, 256);
    // Not if there is nothing to give back anyhow.
    EXPECT_EQ(0u, pool.Trim(16 * kMiB));
    EXPECT_NE(0u, pool.Stats().cached_bytes);
    EXPECT_EQ(16 * kMiB, pool.TrimAll());
    EXPECT_EQ(0u, pool.Stats().cached_bytes);
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

} // namespace
