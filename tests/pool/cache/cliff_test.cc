// SPDX-License-Identifier: Apache-2.0
//
// What a pool keeps, and what one call looks through, has a bound however many
// blocks, threads and streams there were: docs/dev/races.md.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/pool_probe.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

// Of all that is looked at in turn.
constexpr unsigned kFew = 16;

using Cliff = StandinTest;

TEST_F(Cliff, LooksForARecordedUseAmongFew)
{
    constexpr int kBlocks = 20000;
    Pool pool;
    Stream stream, user;
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < kBlocks; i++) {
        blocks.push_back(pool.Alloc(512, stream));
        ASSERT_OK(moiety_record_use(pool, blocks.back(), user));
    }
    EXPECT_GE(pool_probe_longest_use_chain(pool), 1u);
    EXPECT_LE(pool_probe_longest_use_chain(pool), kFew);
    for (moiety_devptr block : blocks)
        pool.Free(block, stream);
    EXPECT_EQ(0u, pool_probe_longest_use_chain(pool));
    EXPECT_EQ(0u, pool.Stats().double_frees_found);
}

// Calls of threads that come for one and end; none of them is a miss.
TEST_F(Cliff, KeepsLittleOfThreadsThatEnded)
{
    constexpr int kThreads = 300;
    Pool pool;
    Stream stream;
    moiety_devptr block = pool.Alloc(4096, stream);
    const std::vector<std::function<moiety_status()>> calls = {
        [&] {
            size_t bytes = 0;
            return moiety_usable_size(pool, block, &bytes);
        },
        [&] { return moiety_record_use(pool, block, stream); },
        [&] { return moiety_free(pool, 0, stream); },
        [&] {
            moiety_pool_stats stats = {};
            stats.struct_size = sizeof(stats);
            return moiety_pool_get_stats(pool, &stats);
        },
    };
    for (const auto &call : calls) {
        for (int i = 0; i < kThreads; i++)
            std::thread([&] { EXPECT_OK(call()); }).join();
        EXPECT_LE(pool_probe_thread_state_count(pool), 4u);
    }
    pool.Free(block, stream);
}

// What many threads leave that lived at the same time is taken over by and by.
TEST_F(Cliff, LetsOneMissTakeOverFewThreads)
{
    constexpr unsigned kThreads = 100;
    Pool pool;
    Stream stream;
    pool.Free(pool.Alloc(512, stream), stream);
    std::atomic<unsigned> begun{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; i++)
        threads.emplace_back([&] {
            EXPECT_OK(moiety_free(pool, 0, stream));
            for (begun++; begun < kThreads;)
                std::this_thread::yield();
        });
    for (std::thread &thread : threads)
        thread.join();
    unsigned before = pool_probe_thread_state_count(pool);
    ASSERT_GT(before, kThreads - kFew);
    std::vector<moiety_devptr> blocks;
    while (pool_probe_thread_state_count(pool) > 1 &&
           blocks.size() <= kThreads) {
        blocks.push_back(pool.Alloc(3 * kMiB, stream));
        EXPECT_LE(before - pool_probe_thread_state_count(pool), kFew);
        before = pool_probe_thread_state_count(pool);
    }
    EXPECT_EQ(1u, before);
    for (moiety_devptr one : blocks)
        pool.Free(one, stream);
}

// Under a guard their memory is not done, and stays in heaps without them.
TEST_F(Cliff, KeepsNothingOfThreadsThatEndedUnderAGuard)
{
    Pool pool;
    Stream stream;
    ASSERT_OK(moiety_capture_guard_begin());
    for (int i = 0; i < 50; i++)
        std::thread([&] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            moiety_devptr block = pool.Alloc(4096, MOIETY_STREAM_PER_THREAD);
            pool.Free(block, MOIETY_STREAM_PER_THREAD);
        }).join();
    moiety_devptr miss = pool.Alloc(3 * kMiB, stream);
    EXPECT_LE(pool_probe_thread_state_count(pool), 4u);
    pool.Free(miss, stream);
    EXPECT_OK(moiety_capture_guard_end());
}

TEST_F(Cliff, LooksForAStreamAmongFew)
{
    constexpr int kStreams = 3000;
    Pool pool;
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < kStreams; i++) {
        streams.push_back(std::make_unique<Stream>());
        pool.Free(pool.Alloc(512, *streams.back()), *streams.back());
    }
    EXPECT_LE(pool_probe_longest_cache_chain(pool), kFew);
    EXPECT_LE(pool_probe_longest_stream_state_chain(pool), kFew);
}

// Each is retired and destroyed before the next comes, with its work done.
TEST_F(Cliff, UsesTheRecordsOfRetiredStreamsAgain)
{
    constexpr int kStreams = 500;
    Pool pool;
    for (int i = 0; i < kStreams; i++) {
        Stream stream;
        pool.Free(pool.Alloc(4096, stream), stream);
        ASSERT_OK(moiety_pool_retire_stream(pool, stream));
        pool_test::Synchronize();
    }
    EXPECT_LE(pool_probe_stream_state_count(pool), kFew + 2);
}

// Producers whose blocks others free: what passes between them needs no more
// events and records, however long it goes on.
TEST_F(Cliff, MakesNoEventsForWhatThreadsPassOn)
{
    constexpr int kRounds = 200, kBlocks = 200;
    Pool pool;
    Stream stream;
    std::vector<moiety_devptr> blocks(kBlocks);
    uint64_t events = Calls("cuEventCreate");
    for (int i = 0; i < kRounds; i++) {
        std::thread([&] {
            for (moiety_devptr &block : blocks)
                block = pool.Alloc(65536, stream);
        }).join();
        for (moiety_devptr block : blocks)
            pool.Free(block, stream);
    }
    EXPECT_EQ(events, Calls("cuEventCreate"));
    EXPECT_LE(pool.Stats().reserved_bytes_peak, 128 * kMiB);
}

// What waits for an event that is not over does not hold up what comes after it.
TEST_F(Cliff, ServesWhatIsOverBesideWhatIsNot)
{
    constexpr int kBlocks = 16, kHeld = 4;
    moiety_pool_options options = Defaults();
    options.limit_bytes = options.first_segment_bytes =
        options.largest_segment_bytes = 2 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    Stream held, idle, owner;
    moiety_event late = pool_test::NewEvent(), over = pool_test::NewEvent();
    auto *record =
        pool_test::Get<int(moiety_event, moiety_stream)>("cuEventRecord");
    std::vector<moiety_devptr> blocks;
    for (int i = 0; i < kBlocks; i++)
        blocks.push_back(pool.Alloc(128 * 1024, owner));
    held.Hold();
    ASSERT_EQ(0, record(late, held));
    ASSERT_EQ(0, record(over, idle));
    auto *wait = pool_test::Get<int(moiety_event)>("cuEventSynchronize");
    ASSERT_EQ(0, wait(over));
    for (int i = 0; i < kBlocks; i++)
        ASSERT_OK(
            moiety_free_on_event(pool, blocks[i], i < kHeld ? late : over));
    int served = 0;
    moiety_devptr block = 0;
    for (; moiety_alloc(pool, 128 * 1024, idle, &block) == MOIETY_OK; served++)
        blocks[served] = block;
    EXPECT_EQ(kBlocks - kHeld, served);
    for (int i = 0; i < served; i++)
        pool.Free(blocks[i], idle);
    held.Release();
    pool_test::DestroyEvent(late);
    pool_test::DestroyEvent(over);
}

// However many streams have memory that waits, one event of all of them is asked
// for, and before a failure each stream once.
TEST_F(Cliff, AsksForFewEventsOfManyStreams)
{
    constexpr unsigned kStreams = 200;
    moiety_pool_options options = Defaults();
    options.limit_bytes = options.first_segment_bytes = kStreams * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<moiety_devptr> blocks;
    for (unsigned i = 0; i < kStreams; i++) {
        streams.push_back(std::make_unique<Stream>());
        blocks.push_back(pool.Alloc(kMiB, *streams.back()));
    }
    for (unsigned i = 0; i < kStreams; i++) {
        streams[i]->Hold();
        pool.Free(blocks[i], *streams[i]);
    }
    Stream other;
    moiety_devptr none = 0;
    uint64_t of_events = Calls("cuEventQuery");
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 4 * kMiB, other, &none));
    of_events = Calls("cuEventQuery") - of_events;
    EXPECT_GE(of_events, 1u);
    // Each of the steps looks five times for an event that may be over soon.
    EXPECT_LE(of_events, 4 * kFew);
    // A call that may not wait looks at each step once.
    uint64_t of_a_try = Calls("cuEventQuery");
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_wait(pool, 4 * kMiB, other, &none));
    of_a_try = Calls("cuEventQuery") - of_a_try;
    EXPECT_LE(of_a_try, kFew / 2);
    for (auto &stream : streams)
        stream->Release();
}

} // namespace
