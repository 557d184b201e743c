// SPDX-License-Identifier: Apache-2.0
//
// What a pool's history has of what was done with it.
#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/history/history_under_test.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace history_test;
using namespace pool_test;

using HistoryTest = StandinTest;

using HistoryKinds = HistoryTest;
using HistoryRings = HistoryTest;
using HistoryCalls = HistoryTest;

void Use(moiety_pool *pool, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        moiety_devptr address = 0;
        ASSERT_OK(moiety_alloc(pool, kKiB, MOIETY_STREAM_LEGACY, &address));
        ASSERT_OK(moiety_free(pool, address, MOIETY_STREAM_LEGACY));
    }
}

TEST_F(HistoryTest, HasEveryAllocationAndFreeInOrder)
{
    Pool pool(Recorded(64));
    Stream stream;
    std::vector<moiety_devptr> addresses;
    // The first is a miss, most others are hits.
    for (unsigned i = 0; i < 8; i++) {
        addresses.push_back(pool.Alloc(4 * kKiB + i, stream));
        pool.Free(addresses.back(), stream);
    }
    History history(pool);
    EXPECT_EQ(17u, history.summary.noted_count);
    EXPECT_EQ(0u, history.summary.lost_count);
    EXPECT_EQ(1u, history.summary.ring_count);
    EXPECT_EQ(1u, history.Of(MOIETY_HISTORY_GROW).size());
    std::vector<moiety_history_entry> allocs = history.Of(MOIETY_HISTORY_ALLOC);
    std::vector<moiety_history_entry> frees = history.Of(MOIETY_HISTORY_FREE);
    ASSERT_EQ(8u, allocs.size());
    ASSERT_EQ(8u, frees.size());
    for (unsigned i = 0; i < 8; i++) {
        EXPECT_EQ(addresses[i], allocs[i].address);
        EXPECT_EQ(addresses[i], frees[i].address);
        EXPECT_EQ(4 * kKiB + i, allocs[i].size_bytes);
        EXPECT_LE(4 * kKiB + i, frees[i].size_bytes);
        EXPECT_EQ(stream, allocs[i].stream);
        EXPECT_EQ(stream, frees[i].stream);
        EXPECT_EQ(static_cast<uint32_t>(syscall(SYS_gettid)),
                  allocs[i].thread_id);
        EXPECT_LT(allocs[i].sequence, frees[i].sequence);
    }
}

TEST_F(HistoryTest, CountsHitsAsWithoutOne)
{
    Pool pool(Recorded(64));
    Use(pool, 8);
    EXPECT_EQ(7u, pool.Stats().cache_hits);
    EXPECT_EQ(8u, pool.Stats().allocation_freed);
}

TEST_F(HistoryTest, KeepsTheLastOnes)
{
    Pool pool(Recorded(5)); // 8
    Use(pool, 10);
    History history(pool);
    EXPECT_EQ(21u, history.summary.noted_count);
    EXPECT_EQ(13u, history.summary.lost_count);
    ASSERT_EQ(8u, history.entries.size());
    for (unsigned i = 0; i < 8; i++)
        EXPECT_EQ(13u + i, history.entries[i].sequence);
}

TEST_F(HistoryTest, GivesTheNewestThatThereIsRoomFor)
{
    Pool pool(Recorded(64));
    Use(pool, 10);
    History history(pool, 3);
    EXPECT_EQ(0u, history.summary.lost_count);
    ASSERT_EQ(3u, history.entries.size());
    EXPECT_EQ(18u, history.entries[0].sequence);
    EXPECT_EQ(20u, history.entries[2].sequence);
}

TEST_F(HistoryTest, CanBeCountedWithoutRoom)
{
    Pool pool(Recorded(64));
    Use(pool, 10);
    moiety_history_summary summary = {};
    summary.struct_size = sizeof(summary);
    ASSERT_OK(moiety_history_read(pool, nullptr, 0, &summary));
    EXPECT_EQ(0u, summary.count);
    EXPECT_EQ(21u, summary.noted_count);
}

TEST_F(HistoryTest, IsSwitchedOnByTheEnvironment)
{
    setenv("MOIETY_CONF", "history:64", 1);
    Pool pool;
    unsetenv("MOIETY_CONF");
    Use(pool, 1);
    EXPECT_EQ(3u, History(pool).entries.size());
}

TEST_F(HistoryKinds, AllocationsOfEveryForm)
{
    Pool pool(Recorded(64));
    moiety_devptr blocks[5] = {};
    const moiety_stream stream = MOIETY_STREAM_LEGACY;
    ASSERT_OK(alloc_aligned(pool, 11, 4096, stream, &blocks[0]));
    ASSERT_OK(alloc_no_wait(pool, 12, stream, &blocks[1]));
    ASSERT_OK(moiety_alloc_batch(pool, 13, stream, 2, &blocks[2]));
    ASSERT_OK(moiety_alloc(pool, 3 * kMiB, stream, &blocks[4]));
    std::vector<moiety_history_entry> allocs =
        History(pool).Of(MOIETY_HISTORY_ALLOC);
    const uint64_t sizes[5] = {11, 12, 13, 13, 3 * kMiB};
    ASSERT_EQ(5u, allocs.size());
    for (unsigned i = 0; i < 5; i++) {
        EXPECT_EQ(blocks[i], allocs[i].address);
        EXPECT_EQ(sizes[i], allocs[i].size_bytes);
    }
    EXPECT_OK(moiety_free_batch(pool, blocks, 5, stream, nullptr));
    EXPECT_EQ(5u, History(pool).Of(MOIETY_HISTORY_FREE).size());
}

TEST_F(HistoryKinds, AllocationsThatFail)
{
    moiety_pool_options options = Recorded(64);
    options.limit_bytes = 4 * kMiB;
    options.first_segment_bytes = 2 * kMiB;
    options.wait_ms = MOIETY_WAIT_NONE;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(3 * kMiB);
    moiety_devptr other = 0;
    EXPECT_EQ(MOIETY_E_NO_DEVICE_MEMORY,
              moiety_alloc(pool, 3 * kMiB, MOIETY_STREAM_LEGACY, &other));
    History history(pool);
    moiety_history_entry failed = history.LastOf(MOIETY_HISTORY_ALLOC);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_E_NO_DEVICE_MEMORY), failed.status);
    EXPECT_EQ(0u, failed.address);
    EXPECT_EQ(3 * kMiB, failed.size_bytes);
    moiety_history_entry grown = history.LastOf(MOIETY_HISTORY_GROW);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_E_NO_DEVICE_MEMORY), grown.status);
    EXPECT_FALSE(history.Of(MOIETY_HISTORY_TRIM).empty());
    pool.Free(block);
}

TEST_F(HistoryKinds, FreesOfEveryForm)
{
    Pool pool(Recorded(64));
    const moiety_stream stream = MOIETY_STREAM_LEGACY;
    moiety_devptr hit = pool.Alloc(1000);
    ASSERT_OK(moiety_free_sized(pool, hit, 1000, stream));
    EXPECT_EQ(1000u,
              History(pool).LastOf(MOIETY_HISTORY_FREE_SIZED).size_bytes);
    moiety_devptr run = pool.Alloc(3 * kMiB);
    ASSERT_OK(moiety_free_sized(pool, run, 3 * kMiB, stream));
    EXPECT_EQ(run, History(pool).LastOf(MOIETY_HISTORY_FREE_SIZED).address);
    moiety_devptr after = pool.Alloc(1000);
    moiety_event event = pool_test::NewEvent();
    ASSERT_OK(moiety_free_on_event(pool, after, event));
    pool_test::DestroyEvent(event);
    moiety_history_entry last = History(pool).LastOf(MOIETY_HISTORY_FREE_AFTER);
    EXPECT_EQ(after, last.address);
    EXPECT_EQ(1024u, last.size_bytes);
}

TEST_F(HistoryKinds, FreesThatFail)
{
    Pool pool(Recorded(64));
    moiety_devptr block = pool.Alloc(1000);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_free(pool, block + 512, MOIETY_STREAM_LEGACY));
    moiety_history_entry last = History(pool).LastOf(MOIETY_HISTORY_FREE);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_E_INVALID), last.status);
    EXPECT_EQ(block + 512, last.address);
    EXPECT_EQ(0u, last.size_bytes);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_free_sized(pool, block, 7000, MOIETY_STREAM_LEGACY));
    last = History(pool).LastOf(MOIETY_HISTORY_FREE_SIZED);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_E_INVALID), last.status);
    moiety_event event = pool_test::NewEvent();
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free_on_event(pool, block + 512, event));
    pool_test::DestroyEvent(event);
    last = History(pool).LastOf(MOIETY_HISTORY_FREE_AFTER);
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_E_INVALID), last.status);
    pool.Free(block);
}

TEST_F(HistoryKinds, UsesAndStreams)
{
    Pool pool(Recorded(64));
    Stream first, second;
    moiety_devptr block = pool.Alloc(1000, first);
    ASSERT_OK(moiety_record_use(pool, block, second));
    moiety_history_entry use = History(pool).LastOf(MOIETY_HISTORY_RECORD_USE);
    EXPECT_EQ(block, use.address);
    EXPECT_EQ(1024u, use.size_bytes);
    EXPECT_EQ(second, use.stream);
    pool.Free(block, first);
    ASSERT_OK(moiety_pool_retire_stream(pool, first));
    EXPECT_EQ(first, History(pool).LastOf(MOIETY_HISTORY_RETIRE).stream);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_pool_retire_stream(pool, nullptr));
    EXPECT_EQ(static_cast<uint32_t>(MOIETY_E_INVALID),
              History(pool).LastOf(MOIETY_HISTORY_RETIRE).status);
}

TEST_F(HistoryKinds, GrowthAndTrim)
{
    moiety_pool_options options = Recorded(64);
    options.first_segment_bytes = 2 * kMiB;
    Pool pool(options);
    pool.Free(pool.Alloc(1000), MOIETY_STREAM_DONE);
    EXPECT_EQ(2 * kMiB, History(pool).LastOf(MOIETY_HISTORY_GROW).size_bytes);
    EXPECT_EQ(2 * kMiB, pool.Trim());
    EXPECT_EQ(2 * kMiB, History(pool).LastOf(MOIETY_HISTORY_TRIM).size_bytes);
}

TEST_F(HistoryKinds, Exports)
{
    moiety_pool_options options = Recorded(64);
    options.flags = MOIETY_POOL_EXPORTABLE;
    Pool pool(options);
    moiety_ipc_handle handle;
    moiety_devptr block = pool.Alloc(1000);
    ASSERT_OK(moiety_ipc_export(pool, block, &handle));
    EXPECT_EQ(block, History(pool).LastOf(MOIETY_HISTORY_EXPORT).address);
    ASSERT_OK(moiety_ipc_release_exports(pool, block));
    EXPECT_EQ(block, History(pool).LastOf(MOIETY_HISTORY_RELEASE).address);
    pool.Free(block);
}

TEST_F(HistoryRings, OfThreadsThatEndedAreKept)
{
    Pool pool(Recorded(64));
    uint32_t thread_id = 0;
    std::thread([&] {
        thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
        Use(pool, 2);
    }).join();
    pool.Trim(); // the thread's caches are gone now
    unsigned found = 0;
    History history(pool);
    for (const moiety_history_entry &entry : history.entries)
        found += entry.thread_id == thread_id;
    EXPECT_EQ(5u, found);
    EXPECT_EQ(0u, history.summary.lost_count);
}

TEST_F(HistoryRings, AreUsedAgain)
{
    Pool pool(Recorded(64));
    Use(pool, 1);
    for (unsigned i = 0; i < 30; i++) {
        std::thread([&] { Use(pool, 1); }).join();
        pool.Trim(kMiB << 10);
    }
    // This thread's, and eight of ended threads; growth and trims besides.
    History history(pool);
    EXPECT_EQ(9u, history.summary.ring_count);
    EXPECT_EQ(31u, history.Of(MOIETY_HISTORY_ALLOC).size());
    EXPECT_EQ(0u, history.summary.lost_count);
}

// A thread whose caches were taken while it slept goes on in another ring.
TEST_F(HistoryRings, OfAThreadThatLostItsCachesAreReadToo)
{
    moiety_pool_options options = Recorded(64);
    options.limit_bytes = 4 * kMiB;
    options.first_segment_bytes = 4 * kMiB;
    Pool pool(options);
    Use(pool, 3);
    std::thread([&] {
        // All that there is: what this thread has cached must be taken.
        moiety_devptr all = 0;
        ASSERT_OK(moiety_alloc(pool, 4 * kMiB, MOIETY_STREAM_LEGACY, &all));
        ASSERT_OK(moiety_free(pool, all, MOIETY_STREAM_DONE));
    }).join();
    Use(pool, 3);
    uint32_t self = static_cast<uint32_t>(syscall(SYS_gettid));
    unsigned found = 0;
    History history(pool);
    for (const moiety_history_entry &entry : history.Of(MOIETY_HISTORY_ALLOC))
        found += entry.thread_id == self;
    EXPECT_EQ(6u, found);
    EXPECT_EQ(3u, history.summary.ring_count);
}

TEST_F(HistoryCalls, AreRefusedWithoutAHistory)
{
    Pool pool;
    moiety_history_summary summary = {};
    summary.struct_size = sizeof(summary);
    EXPECT_EQ(MOIETY_E_UNSUPPORTED,
              moiety_history_read(pool, nullptr, 0, &summary));
}

TEST_F(HistoryCalls, AreCheckedForTheirArguments)
{
    Pool pool(Recorded(64));
    moiety_history_entry entry;
    moiety_history_summary summary = {};
    EXPECT_EQ(MOIETY_E_INVALID, moiety_history_read(pool, &entry, 1, nullptr));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_history_read(pool, &entry, 1, &summary));
    summary.struct_size = sizeof(summary);
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_history_read(pool, nullptr, 1, &summary));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_history_read(nullptr, &entry, 1, &summary));
    moiety_pool *gone = pool;
    pool.End();
    EXPECT_EQ(MOIETY_E_DESTROYED,
              moiety_history_read(gone, &entry, 1, &summary));
    EXPECT_EQ(0u, summary.count);
}

TEST_F(HistoryCalls, NameTheKinds)
{
    const char *const names[] = {
        "unknown", "alloc", "free", "free_sized", "free_after", "record_use",
        "retire",  "grow",  "trim", "export",     "release",    "unknown"};
    for (uint32_t i = 0; i < 12; i++)
        EXPECT_STREQ(names[i], moiety_history_kind_name(i));
}

} // namespace
