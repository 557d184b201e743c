// SPDX-License-Identifier: Apache-2.0
//
// Maps of free memory: what a stream freed serves it again in other pieces at
// once, and others when it is done.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

class StreamMaps : public StandinTest
{
  protected:
    // One segment of 8 MiB, and no wait.
    static moiety_pool_options Small()
    {
        moiety_pool_options options = Defaults();
        options.limit_bytes = 8 * kMiB;
        options.first_segment_bytes = 8 * kMiB;
        options.wait_ms = MOIETY_WAIT_NONE;
        return options;
    }

    // Queues work: a stream with none has nothing pending, held or not.
    static void Work(moiety_stream stream, moiety_devptr address)
    {
        using Memset = int(moiety_devptr, unsigned char, size_t, moiety_stream);
        static Memset *const memset_async = Get<Memset>("cuMemsetD8Async");
        ASSERT_EQ(0, memset_async(address, 1, 16, stream));
    }

    // A block that work on the stream, which is held, still uses, freed there.
    static moiety_devptr FreePending(Pool &pool, Stream &stream,
                                     size_t size_bytes)
    {
        moiety_devptr block = pool.Alloc(size_bytes, stream);
        Work(stream, block);
        pool.Free(block, stream);
        return block;
    }

    moiety_devptr address = 77;
};

TEST_F(StreamMaps, SplitWhatWasFreedOnABusyStream)
{
    Pool pool(Small());
    Stream stream;
    stream.Hold();
    FreePending(pool, stream, 8 * kMiB);
    std::vector<moiety_devptr> blocks;
    for (size_t size_bytes : {3 * kMiB, 2 * kMiB + 512, kMiB, 700 * kKiB})
        blocks.push_back(pool.Alloc(size_bytes, stream));
    for (moiety_devptr block : blocks)
        pool.Free(block, stream);
    EXPECT_EQ(8 * kMiB, pool.Stats().reserved_bytes_peak);
    stream.Release();
}

TEST_F(StreamMaps, MergeWhatWasFreedOnABusyStream)
{
    Pool pool(Small());
    Stream stream;
    stream.Hold();
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 4; i++)
        blocks.push_back(pool.Alloc(2 * kMiB, stream));
    Work(stream, blocks[0]);
    for (moiety_devptr block : blocks)
        pool.Free(block, stream);
    moiety_devptr whole = pool.Alloc(8 * kMiB, stream);
    pool.Free(whole, stream);
    stream.Release();
}

TEST_F(StreamMaps, ServeNoOtherStreamBeforeTheWorkIsDone)
{
    Pool pool(Small());
    Stream stream, other;
    stream.Hold();
    FreePending(pool, stream, 8 * kMiB);
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 512, other, &address));
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 512, MOIETY_STREAM_ANY, &address));
    EXPECT_EQ(8 * kMiB, pool.Stats().retiring_bytes);
    stream.Release();
    pool_test::Synchronize();
    pool.Free(pool.Alloc(8 * kMiB, other), other);
}

// An event that is recorded on another stream can block, and races with the
// captures of that stream.
TEST_F(StreamMaps, RecordNothingOnAStreamThatOthersAskFor)
{
    Pool pool(Small());
    Stream stream, other;
    FreePending(pool, stream, 8 * kMiB);
    pool_test::Synchronize();
    uint64_t on_streams = Calls("cuEventRecord");
    uint64_t on_contexts = Calls("cuCtxRecordEvent");
    pool.Free(pool.Alloc(3 * kMiB, other), other);
    EXPECT_EQ(on_streams, Calls("cuEventRecord"));
    EXPECT_LT(on_contexts, Calls("cuCtxRecordEvent"));
}

// An event there is a barrier for all blocking streams: two of them that wait for
// each other by other means would wait for good.
TEST_F(StreamMaps, RecordNothingOnTheLegacyStream)
{
    Pool pool(Small());
    Stream other;
    moiety_devptr block = pool.Alloc(8 * kMiB, MOIETY_STREAM_LEGACY);
    Work(MOIETY_STREAM_LEGACY, block);
    pool.Free(block, MOIETY_STREAM_LEGACY);
    pool_test::Synchronize();
    uint64_t on_streams = Calls("cuEventRecord");
    uint64_t on_contexts = Calls("cuCtxRecordEvent");
    pool.Free(pool.Alloc(3 * kMiB, other), other);
    EXPECT_EQ(on_streams, Calls("cuEventRecord"));
    EXPECT_LT(on_contexts, Calls("cuCtxRecordEvent"));
}

// What a stream warmed up with serves the capture on it: the pool may not grow
// for it, and need not where it may.
TEST_F(StreamMaps, ServeACaptureWhatItsStreamWarmedUpWith)
{
    using Begin = int(moiety_stream, int);
    using End = int(moiety_stream, void **);
    for (uint64_t limit_bytes : {8 * kMiB, 64 * kMiB}) {
        moiety_pool_options options = Small();
        options.limit_bytes = limit_bytes;
        Pool pool(options);
        Stream stream;
        std::vector<moiety_devptr> blocks(8);
        for (moiety_devptr &block : blocks)
            block = pool.Alloc(kMiB, stream);
        for (moiety_devptr block : blocks)
            pool.Free(block, stream);
        pool_test::Synchronize();
        moiety_scope scope = {};
        void *graph = nullptr;
        ASSERT_EQ(MOIETY_OK, moiety_scope_begin(pool, stream, &scope));
        ASSERT_EQ(0, Get<Begin>("cuStreamBeginCapture_v2")(stream, 2));
        for (moiety_devptr &block : blocks)
            block = pool.Alloc(kMiB, stream);
        for (moiety_devptr block : blocks)
            pool.Free(block, stream);
        EXPECT_EQ(0, Get<End>("cuStreamEndCapture")(stream, &graph));
        EXPECT_OK(moiety_scope_end(scope));
        EXPECT_OK(moiety_scope_release(scope));
        EXPECT_EQ(0, Get<int(void *)>("cuGraphDestroy")(graph));
        EXPECT_EQ(8 * kMiB, pool.Stats().reserved_bytes_peak);
    }
}

TEST_F(StreamMaps, AreDoneByTheEventThatTheFirstGuardRecords)
{
    Pool pool(Small());
    Stream stream, other;
    stream.Hold();
    FreePending(pool, stream, 8 * kMiB);
    ASSERT_OK(moiety_capture_guard_begin());
    stream.Release();
    pool_test::Synchronize();
    moiety_devptr block = pool.Alloc(3 * kMiB, other);
    pool.Free(block, other);
    EXPECT_OK(moiety_capture_guard_end());
}

TEST_F(StreamMaps, HandOverWhatARetiredStreamFreed)
{
    moiety_pool_options options = Small();
    options.flags |= MOIETY_POOL_REUSE_DEPENDENCIES;
    Pool pool(options);
    Stream stream, other;
    stream.Hold();
    FreePending(pool, stream, 8 * kMiB);
    ASSERT_OK(moiety_pool_retire_stream(pool, stream));
    pool.Free(pool.Alloc(5 * kMiB, other), other);
    EXPECT_GE(pool.Stats().oom_steps[MOIETY_OOM_HAND_OVER], 1u);
    EXPECT_GE(pool.Stats().stream_waits, 1u);
    stream.Release();
}

TEST_F(StreamMaps, LetRunsBeginAnywhere)
{
    Pool pool(Small());
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < 3; i++)
        blocks.push_back(pool.Alloc(2 * kMiB + 1));
    // The rest, to the byte.
    size_t rest = 8 * kMiB - 3 * (2 * kMiB + 512);
    blocks.push_back(pool.Alloc(rest));
    EXPECT_EQ(rest, pool.UsableSize(blocks.back()));
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 512, MOIETY_STREAM_LEGACY, &address));
    for (moiety_devptr block : blocks)
        pool.Free(block);
}

TEST_F(StreamMaps, AlignRunsWhereThatIsAskedFor)
{
    Pool pool(Small());
    moiety_devptr small = pool.Alloc(512);
    moiety_devptr block = 0;
    ASSERT_OK(
        alloc_aligned(pool, 3 * kMiB, 2 * kMiB, MOIETY_STREAM_LEGACY, &block));
    EXPECT_EQ(0u, block % (2 * kMiB));
    pool.Free(block);
    pool.Free(small);
}

// What becomes whole while an allocation waits goes back to the driver, and is
// asked for again in one piece.
TEST_F(StreamMaps, RegrowAfterAWait)
{
    moiety_pool_options options = Defaults();
    options.limit_bytes = 64 * kMiB;
    options.wait_ms = UINT32_MAX - 1;
    Pool pool(options);
    Stream stream, other;
    stream.Hold();
    FreePending(pool, stream, 30 * kMiB);
    FreePending(pool, stream, 32 * kMiB);
    std::thread releasing([&] {
        while (pool.Stats().oom_steps[MOIETY_OOM_WAIT] == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        stream.Release();
    });
    moiety_devptr block = pool.Alloc(60 * kMiB, other);
    releasing.join();
    EXPECT_GE(pool.Stats().oom_steps[MOIETY_OOM_TRIM], 1u);
    pool.Free(block, other);
}

// One block is alive at a time, so no failure would be true.
TEST_F(StreamMaps, NeverFailBesideAnIdleDevice)
{
    for (unsigned seed = 1; seed <= 40; seed++) {
        Pool pool(Defaults());
        Stream stream;
        std::mt19937_64 random(seed);
        for (int i = 0; i < 50; i++) {
            size_t size_bytes = 300 * kMiB + random() % (3200 * kMiB);
            moiety_devptr block = pool.Alloc(size_bytes, stream);
            ASSERT_NE(0u, block) << "seed " << seed << ", block " << i;
            Work(stream, block);
            pool.Free(block, stream);
        }
        EXPECT_LE(pool.Stats().reserved_bytes_peak, 8 * kGiB);
    }
}

// A large hole before one that a block of 96 KiB fills.
TEST_F(StreamMaps, FitWell)
{
    moiety_pool_options options = Small();
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    Pool pool(options);
    Stream stream;
    moiety_devptr large = pool.Alloc(3 * kMiB, stream);
    moiety_devptr first = pool.Alloc(512 * kKiB, stream);
    moiety_devptr fitting = pool.Alloc(96 * kKiB, stream);
    moiety_devptr second = pool.Alloc(512 * kKiB, stream);
    ASSERT_LT(large, fitting);
    pool.Free(large, stream);
    pool.Free(fitting, stream);
    EXPECT_EQ(fitting, pool.Alloc(96 * kKiB, stream));
    for (moiety_devptr one : {first, second, fitting})
        pool.Free(one, stream);
}

// However late, and by whichever thread: the map knows.
TEST_F(StreamMaps, RefuseASecondFreeOfWhatIsFree)
{
    Pool pool(Small());
    Stream stream, other;
    for (size_t size_bytes : {size_t{512}, 40 * kKiB, 3 * kMiB}) {
        moiety_devptr block = pool.Alloc(size_bytes, stream);
        pool.Free(block, stream);
        pool.Trim(8 * kMiB);
        EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block, stream));
        EXPECT_EQ(MOIETY_E_INVALID, moiety_free(pool, block, other));
        std::thread([&] {
            EXPECT_EQ(MOIETY_E_INVALID,
                      moiety_free(pool, block, MOIETY_STREAM_DONE));
        }).join();
    }
    EXPECT_EQ(3u, pool.Stats().allocation_freed);
}

// Streams are served in turn, and the one that is served works. Returns what is
// reserved in percent of what is live.
uint64_t ReservedByTurns()
{
    constexpr size_t kStreams = 8, kTurns = 32, kBlocks = 64;
    std::mt19937 random(5);
    Stream streams[kStreams];
    Pool pool;
    uint64_t most_live = 0;
    for (size_t turn = 0; turn < kTurns; turn++) {
        Stream &stream = streams[turn % kStreams];
        std::vector<moiety_devptr> blocks;
        stream.Hold();
        while (blocks.size() < kBlocks)
            blocks.push_back(pool.Alloc((1 + random() % 4096) * kKiB, stream));
        most_live = std::max(most_live, pool.Stats().allocated_bytes_current);
        stream.Release();
        pool_test::Synchronize();
        for (moiety_devptr block : blocks)
            pool.Free(block, stream);
    }
    return 100 * pool.Stats().reserved_bytes_peak / most_live;
}

// Not so yet: the core leaves to each stream what it freed, and grows first. When
// this fails, say EXPECT_LE alone.
TEST_F(StreamMaps, ReserveLittleMoreThanIsLiveForStreamsInTurn)
{
    EXPECT_NONFATAL_FAILURE(EXPECT_LE(ReservedByTurns(), 160u), "");
}

} // namespace
