// SPDX-License-Identifier: Apache-2.0
//
// A pool at its limit: each step of the way out of memory where that step alone
// can help, the failure, and the trim.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/pool/oom/oom_under_test.h"
#include "tests/pool/pool_under_test.h"

namespace
{

using namespace oom_test;
using namespace pool_test;

class Limit : public oom_test::OomTest
{
  protected:
    // As small as what they are for.
    static moiety_pool_options SmallSegments()
    {
        moiety_pool_options options = Defaults();
        options.first_segment_bytes = 2 * kMiB;
        return options;
    }

    // Each in a segment of its own.
    static std::vector<moiety_devptr> AllocFour(Pool &pool)
    {
        std::vector<moiety_devptr> blocks;
        while (blocks.size() < 4)
            blocks.push_back(pool.Alloc(12 * kMiB));
        EXPECT_EQ(4u, pool.Stats().segment_current);
        return blocks;
    }

    moiety_devptr address = 77;
};

TEST_F(Limit, EndsInAFailureThatAFreeMakesGood)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks = Fill(pool, kMiB);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, kMiB, kStream, &address));
    EXPECT_EQ(77u, address);
    pool.Free(blocks.back());
    blocks.back() = pool.Alloc(kMiB);
    FreeAll(pool, blocks, kStream);
}

TEST_F(Limit, IsNamedInTheFailure)
{
    Pool pool(Small());
    moiety_devptr block = pool.Alloc(8 * kMiB);
    ASSERT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 3 * kMiB, kStream, &address));
    std::string message = moiety_last_error_message();
    EXPECT_NE(std::string::npos, message.find("3145728")) << message;
    EXPECT_NE(std::string::npos, message.find("a limit of 8 MiB")) << message;
    pool.Free(block);
}

TEST_F(Limit, CountsAFailure)
{
    Pool pool(Small());
    moiety_devptr block = pool.Alloc(8 * kMiB);
    EXPECT_EQ(0u, pool.Stats().ooms);
    ASSERT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 512, kStream, &address));
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(1u, stats.ooms);
    EXPECT_EQ(1u, stats.allocation_current);
    pool.Free(block);
}

TEST_F(Limit, IsUsedUpToTheLastByte)
{
    Pool pool(Small());
    for (size_t size_bytes : {size_t{512}, 64 * kKiB, kMiB, 2 * kMiB}) {
        FreeAll(pool, Fill(pool, size_bytes), MOIETY_STREAM_DONE);
        pool.Free(pool.Alloc(8 * kMiB), MOIETY_STREAM_DONE);
    }
    EXPECT_EQ(0u, pool.Stats().ooms);
}

TEST_F(Limit, IsNeverExceeded)
{
    moiety_pool_options options = Small();
    options.limit_bytes = 21 * kMiB;
    options.first_segment_bytes = 2 * kMiB;
    Pool pool(options);
    std::mt19937_64 random(pool_test::Seed(3));
    std::vector<moiety_devptr> live(40, 0);
    for (int i = 0; i < 5000; i++) {
        moiety_devptr &block = live[random() % live.size()];
        if (block)
            pool.Free(block, random() % 2 ? kStream : MOIETY_STREAM_ANY);
        block = 0;
        moiety_status status =
            moiety_alloc(pool, 1 + random() % (3 * kMiB), kStream, &block);
        ASSERT_TRUE(status == MOIETY_OK || status == MOIETY_E_NO_DEVICE_MEMORY)
            << moiety_last_error_message();
        ASSERT_LE(pool.Stats().reserved_bytes_current, 21 * kMiB);
    }
    EXPECT_LE(pool.Stats().reserved_bytes_peak, 21 * kMiB);
    FreeAll(pool, live, kStream);
}

// Blocks of odd sizes, and a limit that leaves room for many more of them.
TEST_F(Limit, IsNotReservedInAdvance)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 4096 * kMiB;
    Pool pool(options);
    std::vector<moiety_devptr> blocks;
    size_t live_bytes = 0;
    for (size_t tenths : {51, 93, 137, 179}) {
        blocks.push_back(pool.Alloc(tenths * kMiB / 10));
        live_bytes += tenths * kMiB / 10;
    }
    EXPECT_LE(pool.Stats().reserved_bytes_peak, 2 * live_bytes);
    FreeAll(pool, blocks, kStream);
}

class Ladder : public Limit
{
};

TEST_F(Ladder, TakesNoStepForWhatIsThere)
{
    Pool pool(Small());
    pool.Free(pool.Alloc(512));
    moiety_pool_stats before = pool.Stats();
    pool.Free(pool.Alloc(512));
    moiety_pool_stats after = pool.Stats();
    EXPECT_EQ(before.oom_steps[MOIETY_OOM_GROW],
              after.oom_steps[MOIETY_OOM_GROW]);
    EXPECT_EQ(0u, after.alloc_retries);
    EXPECT_EQ(0u, after.ooms);
}

TEST_F(Ladder, Grows)
{
    moiety_pool_options options = Small();
    options.limit_bytes = 64 * kMiB;
    options.first_segment_bytes = 2 * kMiB;
    Pool pool(options);
    moiety_devptr first = pool.Alloc(12 * kMiB);
    EXPECT_EQ(1u, pool.Stats().oom_steps[MOIETY_OOM_GROW]);
    EXPECT_EQ(1u, pool.Stats().segment_allocated);
    moiety_devptr second = pool.Alloc(12 * kMiB);
    EXPECT_EQ(2u, pool.Stats().oom_steps[MOIETY_OOM_GROW]);
    EXPECT_EQ(0u, pool.Stats().alloc_retries);
    pool.Free(first);
    pool.Free(second);
}

TEST_F(Ladder, TakesFinishedBatchesBeforeItGrows)
{
    moiety_pool_options options = Small();
    options.limit_bytes = 64 * kMiB;
    Pool pool(options);
    moiety_event event = pool_test::NewEvent();
    moiety_devptr block = pool.Alloc(8 * kMiB);
    ASSERT_OK(moiety_free_on_event(pool, block, event));
    pool_test::Synchronize();
    EXPECT_EQ(block, pool.Alloc(8 * kMiB));
    EXPECT_EQ(1u, pool.Stats().oom_steps[MOIETY_OOM_GROW]);
    pool.Free(block);
    pool_test::DestroyEvent(event);
}

TEST_F(Ladder, TakesWhatIsOnItsWayOutBeforeItGrows)
{
    moiety_pool_options options = Small();
    options.limit_bytes = 64 * kMiB;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(12 * kMiB);
    pool.Free(block, MOIETY_STREAM_ANY);
    EXPECT_NE(0u, pool.Stats().retiring_bytes) << "still cached";
    EXPECT_EQ(block, pool.Alloc(12 * kMiB));
    EXPECT_EQ(1u, pool.Stats().oom_steps[MOIETY_OOM_GROW]);
    pool.Free(block);
}

TEST_F(Ladder, EmptiesTheThreadsOwnCachesBeforeItGrows)
{
    moiety_pool_options options = Small();
    options.limit_bytes = 64 * kMiB;
    Pool pool(options);
    FreeAll(pool, Fill(pool, kBlock), MOIETY_STREAM_DONE);
    moiety_devptr block = pool.Alloc(8 * kMiB);
    EXPECT_EQ(8 * kMiB, pool.Stats().reserved_bytes_current);
    pool.Free(block);
}

// Before growing, and when that is refused; little is less than 1/32 of 8 MiB. A
// class has 32 KiB at the most.
TEST_F(Ladder, AsksAThreadAgainOnlyIfItsCachesGaveMuch)
{
    for (size_t class_count : {1, 16}) {
        Pool pool(Small());
        std::vector<moiety_devptr> some;
        uint64_t bytes = 0;
        for (size_t i = 0; i < class_count; i++)
            for (size_t j = 0; j < 8; j++, bytes += (i + 1) * 512)
                some.push_back(pool.Alloc((i + 1) * 512));
        std::vector<moiety_devptr> blocks =
            Fill(pool, 64 * kKiB, 8 * kMiB - bytes - 64 * kKiB);
        FreeAll(pool, some, MOIETY_STREAM_DONE);
        std::vector<uint64_t> asked;
        for (int i = 0; i < 3; i++) {
            uint64_t before = pool.Stats().oom_steps[MOIETY_OOM_OWN_CACHE];
            EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
                      moiety_alloc(pool, 1 * kMiB, kStream, &address));
            asked.push_back(pool.Stats().oom_steps[MOIETY_OOM_OWN_CACHE] -
                            before);
        }
        EXPECT_EQ((class_count == 1 ? std::vector<uint64_t>{2, 1, 1}
                                    : std::vector<uint64_t>{2, 2, 1}),
                  asked);
        FreeAll(pool, blocks, MOIETY_STREAM_DONE);
    }
}

TEST_F(Ladder, EmptiesTheThreadsOwnCaches)
{
    Pool pool(Small());
    FreeAll(pool, Fill(pool, kBlock), MOIETY_STREAM_DONE);
    moiety_devptr block = pool.Alloc(8 * kMiB);
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(1u, stats.oom_steps[MOIETY_OOM_OWN_CACHE]);
    EXPECT_EQ(1u, stats.oom_steps[MOIETY_OOM_GROW]) << "the first";
    EXPECT_EQ(0u, stats.alloc_retries);
    EXPECT_EQ(0u, stats.cached_bytes);
    pool.Free(block);
}

TEST_F(Ladder, EmptiesAlsoCachesOfOtherStreams)
{
    moiety_pool_options options = Small();
    options.wait_ms = UINT32_MAX - 1;
    Pool pool(options);
    Stream stream, other;
    FreeAll(pool, Fill(pool, kBlock, 8 * kMiB, stream), stream);
    pool.Free(pool.Alloc(8 * kMiB, other), other);
    FreeAll(pool, Fill(pool, kBlock), MOIETY_STREAM_ANY);
    pool.Free(pool.Alloc(8 * kMiB, other), other);
    EXPECT_EQ(0u, pool.Stats().ooms);
}

TEST_F(Ladder, TakesWhatEndedThreadsLeft)
{
    Pool pool(Small());
    std::thread([&] {
        FreeAll(pool, Fill(pool, kBlock), MOIETY_STREAM_DONE);
    }).join();
    moiety_devptr block = pool.Alloc(8 * kMiB);
    EXPECT_EQ(0u, pool.Stats().ooms);
    pool.Free(block);
}

TEST_F(Ladder, TrimsSegmentsThatAreFreeToGrowAnother)
{
    moiety_pool_options options = Small();
    options.limit_bytes = 48 * kMiB;
    options.first_segment_bytes = 2 * kMiB;
    Pool pool(options);
    FreeAll(pool, AllocFour(pool), MOIETY_STREAM_DONE);
    moiety_devptr block = pool.Alloc(48 * kMiB);
    EXPECT_GE(pool.Stats().oom_steps[MOIETY_OOM_TRIM], 1u);
    EXPECT_EQ(1u, pool.Stats().segment_current);
    EXPECT_EQ(48 * kMiB, pool.Stats().reserved_bytes_current);
    pool.Free(block);
}

TEST_F(Ladder, DoesNotHandOverUnlessItIsAllowedTo)
{
    Pool pool(Small());
    Stream held, other;
    moiety_devptr block = pool.Alloc(8 * kMiB, held);
    held.Hold();
    pool.Free(block, held);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 8 * kMiB, other, &address));
    EXPECT_EQ(0u, pool.Stats().oom_steps[MOIETY_OOM_HAND_OVER]);
    EXPECT_EQ(0u, pool.Stats().stream_waits);
    held.Release();
}

TEST_F(Ladder, HandsOverWhereItIsAllowedTo)
{
    moiety_pool_options options = Small();
    options.flags = MOIETY_POOL_REUSE_DEPENDENCIES;
    Pool pool(options);
    Stream held, other;
    moiety_devptr block = pool.Alloc(8 * kMiB, held);
    held.Hold();
    pool.Free(block, held);
    moiety_devptr same = pool.Alloc(8 * kMiB, other);
    EXPECT_EQ(block, same);
    EXPECT_GE(pool.Stats().oom_steps[MOIETY_OOM_HAND_OVER], 1u);
    EXPECT_GE(pool.Stats().stream_waits, 1u);
    held.Release();
    pool.Free(same, other);
}

TEST_F(Ladder, WaitsAsLongAsItMay)
{
    moiety_pool_options options = Small();
    options.wait_ms = 1;
    Pool pool(options);
    Stream held, other;
    moiety_devptr block = pool.Alloc(8 * kMiB, held);
    held.Hold();
    pool.Free(block, held);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 8 * kMiB, other, &address));
    EXPECT_EQ(1u, pool.Stats().oom_steps[MOIETY_OOM_WAIT]);
    EXPECT_EQ(1u, pool.Stats().ooms);
    held.Release();
}

// The stream is released by a thread, so it is open how long the wait is.
TEST_F(Ladder, WaitsUntilTheMemoryIsDone)
{
    moiety_pool_options options = Small();
    options.wait_ms = UINT32_MAX - 1;
    Pool pool(options);
    Stream held, other;
    moiety_devptr block = pool.Alloc(8 * kMiB, held);
    held.Hold();
    pool.Free(block, held);
    std::thread releasing([&held] { held.Release(); });
    pool.Free(pool.Alloc(8 * kMiB, other), other);
    releasing.join();
    EXPECT_EQ(0u, pool.Stats().ooms);
}

class Trim : public Limit
{
};

TEST_F(Trim, WithoutAPoolIsInvalid)
{
    uint64_t bytes = 77;
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_trim(nullptr, 0, &bytes));
}

TEST_F(Trim, OfAFreshPoolGivesNothing)
{
    Pool pool;
    EXPECT_EQ(0u, pool.Trim());
}

TEST_F(Trim, GivesBackWhatTheThreadHasInItsCaches)
{
    Pool pool;
    Stream stream;
    int64_t before = pool_test::Live("allocations");
    for (moiety_stream freed :
         {MOIETY_STREAM_DONE, MOIETY_STREAM_ANY, MOIETY_STREAM_LEGACY,
          MOIETY_STREAM_PER_THREAD, static_cast<moiety_stream>(stream)}) {
        FreeAll(pool, Fill(pool, kBlock), freed);
        uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
        EXPECT_EQ(reserved_bytes, pool.TrimAll()) << freed;
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
        EXPECT_EQ(0u, pool.Stats().cached_bytes);
    }
    EXPECT_EQ(before, pool_test::Live("allocations"));
}

TEST_F(Trim, MayBeAskedForNoNumber)
{
    Pool pool;
    pool.Free(pool.Alloc(512), MOIETY_STREAM_DONE);
    EXPECT_OK(moiety_pool_trim(pool, 0, nullptr));
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

TEST_F(Trim, LeavesSegmentsThatAreInUse)
{
    Pool pool(SmallSegments());
    std::vector<moiety_devptr> blocks = AllocFour(pool);
    pool.Free(blocks[1], MOIETY_STREAM_DONE);
    pool.Free(blocks[2], MOIETY_STREAM_DONE);
    EXPECT_EQ(24 * kMiB, pool.Trim());
    EXPECT_EQ(24 * kMiB, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(12 * kMiB, pool.UsableSize(blocks[0]));
    pool.Free(blocks[0]);
    pool.Free(blocks[3]);
}

TEST_F(Trim, KeepsAsManyBytesAsItIsTold)
{
    Pool pool(SmallSegments());
    FreeAll(pool, AllocFour(pool), MOIETY_STREAM_DONE);
    EXPECT_EQ(24 * kMiB, pool.Trim(18 * kMiB));
    EXPECT_EQ(24 * kMiB, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(0u, pool.Trim(UINT64_MAX));
    EXPECT_EQ(24 * kMiB, pool.Trim());
}

TEST_F(Trim, LeavesWhatIsNotDoneAndDoesNotWait)
{
    Pool pool;
    Stream held;
    moiety_devptr block = pool.Alloc(4096, held);
    held.Hold();
    pool.Free(block, held);
    EXPECT_EQ(0u, pool.Trim());
    EXPECT_GT(pool.Stats().retiring_bytes, 0u);
    held.Release();
    EXPECT_EQ(32 * kMiB, pool.TrimAll());
}

TEST_F(Trim, TellsWhatTheDriverRefused)
{
    Pool pool;
    pool.Free(pool.Alloc(512), MOIETY_STREAM_DONE);
    uint64_t bytes = 77;
    pool_test::SetFaults("cuMemFree:nth=1:code=CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(MOIETY_E_DRIVER, moiety_pool_trim(pool, 0, &bytes));
    pool_test::SetFaults("");
    EXPECT_EQ(0u, bytes);
    EXPECT_EQ(32 * kMiB, pool.Stats().unreleased_bytes);
    EXPECT_EQ(32 * kMiB, pool.Trim());
    EXPECT_EQ(0u, pool.Stats().unreleased_bytes);
}

} // namespace
