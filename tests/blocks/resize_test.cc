// SPDX-License-Identifier: Apache-2.0
//
// Blocks that grow and shrink where they lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using namespace pool_test;

using Resize = StandinTest;

// Nothing rests in caches: what is freed is in the maps.
moiety_pool_options WithoutCaches()
{
    moiety_pool_options options = Defaults();
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    return options;
}

// `count` neighbours of so many bytes, in order.
std::vector<moiety_devptr> Row(Pool &pool, size_t count, size_t size_bytes)
{
    moiety_devptr whole = pool.Alloc(count * size_bytes);
    pool.Free(whole, MOIETY_STREAM_DONE);
    std::vector<moiety_devptr> row;
    for (size_t i = 0; i < count; i++)
        row.push_back(pool.Alloc(size_bytes));
    for (size_t i = 1; i < count; i++)
        EXPECT_EQ(row[i - 1] + size_bytes, row[i]);
    return row;
}

TEST_F(Resize, RefusesWhatIsNoBlockAndNoSize)
{
    Pool pool;
    Pool other;
    moiety_devptr block = pool.Alloc(4 * kMiB);
    EXPECT_EQ(MOIETY_E_INVALID, moiety_resize(nullptr, block, 1, kStream));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_resize(pool, 0, 1, kStream));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_resize(pool, block, 0, kStream));
    EXPECT_EQ(MOIETY_E_INVALID,
              moiety_resize(pool, block + 512, kMiB, kStream));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_resize(pool, block + 1, kMiB, kStream));
    EXPECT_EQ(MOIETY_E_FOREIGN, moiety_resize(other, block, kMiB, kStream));
    EXPECT_EQ(MOIETY_E_TOO_LARGE,
              moiety_resize(pool, block, SIZE_MAX, kStream));
    EXPECT_EQ(4 * kMiB, pool.UsableSize(block));
    pool.Free(block, MOIETY_STREAM_DONE);
    pool.Trim();
    EXPECT_NE(MOIETY_OK, moiety_resize(pool, block, kMiB, kStream));
}

TEST_F(Resize, RefusesAPoolThatWasDestroyed)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(100);
    moiety_pool *handle = pool;
    pool.End();
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_resize(handle, block, 200, kStream));
}

TEST_F(Resize, GrowsIntoDoneMemoryAndKeepsTheContents)
{
    Pool pool(WithoutCaches());
    for (auto [from, to] :
         std::vector<std::pair<size_t, size_t>>{{512, 1024},
                                                {600, 5000},
                                                {8 * kKiB, 40 * kKiB},
                                                {40 * kKiB, 3 * kMiB},
                                                {3 * kMiB, 9 * kMiB + 100},
                                                {100, 20 * kMiB}}) {
        moiety_devptr block = pool.Alloc(from);
        pool_test::Fill(block, from / 4 * 4, 7);
        ASSERT_OK(moiety_resize(pool, block, to, kStream)) << to;
        EXPECT_EQ((to + 511) / 512 * 512, pool.UsableSize(block));
        EXPECT_TRUE(pool_test::Holds(block, from / 4 * 4, 7));
        pool_test::Fill(block, to / 4 * 4, 9);
        ASSERT_OK(moiety_free_sized(pool, block, to, kStream));
        pool_test::Synchronize();
    }
}

TEST_F(Resize, SaysThatThereIsNoRoomAndChangesNothing)
{
    Pool pool(WithoutCaches());
    for (size_t size_bytes : {512ul, 4 * kKiB, 64 * kKiB, 3 * kMiB}) {
        std::vector<moiety_devptr> row = Row(pool, 3, size_bytes);
        moiety_pool_stats before = pool.Stats();
        EXPECT_EQ(MOIETY_E_NO_ROOM,
                  moiety_resize(pool, row[0], size_bytes + 1, kStream));
        EXPECT_NE(std::string::npos,
                  std::string(moiety_last_error_message()).find("no room"));
        EXPECT_EQ(size_bytes, pool.UsableSize(row[0]));
        pool.Free(row[2]);
        EXPECT_EQ(MOIETY_E_NO_ROOM,
                  moiety_resize(pool, row[0], 3 * size_bytes, kStream));
        EXPECT_EQ(before.allocated_bytes_current - size_bytes,
                  pool.Stats().allocated_bytes_current);
        pool.Free(row[0]);
        pool.Free(row[1]);
        pool_test::Synchronize();
        pool.Trim();
    }
}

TEST_F(Resize, StopsAtTheNeighbourAndNoGrainEarlier)
{
    Pool pool(WithoutCaches());
    std::vector<moiety_devptr> row = Row(pool, 3, 40 * kKiB);
    pool.Free(row[1]);
    EXPECT_EQ(MOIETY_E_NO_ROOM,
              moiety_resize(pool, row[0], 80 * kKiB + 1, kStream));
    ASSERT_EQ(MOIETY_OK, moiety_resize(pool, row[0], 80 * kKiB, kStream));
    EXPECT_EQ(80 * kKiB, pool.UsableSize(row[0]));
    pool.Free(row[0]);
    pool.Free(row[2]);
}

TEST_F(Resize, StopsAtTheEndOfTheSegment)
{
    moiety_pool_options options = WithoutCaches();
    options.first_segment_bytes = 8 * kMiB;
    options.limit_bytes = 64 * kMiB;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(4 * kMiB);
    ASSERT_EQ(8 * kMiB, pool.Stats().reserved_bytes_current);
    EXPECT_EQ(MOIETY_E_NO_ROOM,
              moiety_resize(pool, block, 8 * kMiB + 1, kStream));
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, block, 60 * kMiB, kStream));
    EXPECT_EQ(MOIETY_OK, moiety_resize(pool, block, 8 * kMiB, kStream));
    EXPECT_EQ(8 * kMiB, pool.Stats().reserved_bytes_current);
    pool.Free(block);
}

// What the stream freed itself, whether its work is over or not.
TEST_F(Resize, GrowsIntoWhatItsOwnStreamFreed)
{
    Pool pool(WithoutCaches());
    Stream own;
    Stream other;
    std::vector<moiety_devptr> row = Row(pool, 2, 3 * kMiB);
    own.Hold();
    pool.Free(row[1], own);
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, row[0], 4 * kMiB, other));
    EXPECT_EQ(MOIETY_E_NO_ROOM,
              moiety_resize(pool, row[0], 4 * kMiB, MOIETY_STREAM_ANY));
    EXPECT_EQ(MOIETY_E_NO_ROOM,
              moiety_resize(pool, row[0], 4 * kMiB, MOIETY_STREAM_DONE));
    EXPECT_EQ(MOIETY_OK, moiety_resize(pool, row[0], 4 * kMiB, own));
    own.Release();
    pool.Free(row[0], own);
}

// A part that is done and a part of the stream's, cut anywhere.
TEST_F(Resize, PutsTheIntervalTogether)
{
    Pool pool(WithoutCaches());
    Stream own;
    std::vector<moiety_devptr> row = Row(pool, 5, 100 * kKiB);
    own.Hold();
    pool.Free(row[1], own);
    pool.Free(row[2], MOIETY_STREAM_DONE);
    pool.Free(row[3], own);
    ASSERT_OK(moiety_resize(pool, row[0], 333 * kKiB, own));
    moiety_devptr rest = pool.Alloc(67 * kKiB, own);
    EXPECT_EQ(row[0] + 333 * kKiB, rest);
    own.Release();
    for (moiety_devptr block : {row[0], row[4], rest})
        pool.Free(block, own);
}

TEST_F(Resize, GrowsIntoTheThreadsOwnCaches)
{
    Pool pool;
    for (size_t size_bytes : {512ul, 6 * kKiB, 100 * kKiB}) {
        std::vector<moiety_devptr> blocks;
        for (int i = 0; i < 40; i++)
            blocks.push_back(pool.Alloc(size_bytes));
        std::sort(blocks.begin(), blocks.end());
        size_t at = 0;
        while (blocks[at] + size_bytes != blocks[at + 1] ||
               blocks[at + 1] + size_bytes != blocks[at + 2])
            at++;
        pool.Free(blocks[at + 2]);
        pool.Free(blocks[at + 1]);
        ASSERT_OK(moiety_resize(pool, blocks[at], 3 * size_bytes, kStream));
        EXPECT_LE(3 * size_bytes, pool.UsableSize(blocks[at]));
        blocks.erase(blocks.begin() + static_cast<long>(at) + 1,
                     blocks.begin() + static_cast<long>(at) + 3);
        for (moiety_devptr block : blocks)
            pool.Free(block);
    }
}

TEST_F(Resize, LeavesAnotherThreadsCachesAlone)
{
    Pool pool;
    std::vector<moiety_devptr> row = Row(pool, 2, 40 * kKiB);
    std::thread([&] {
        pool.Free(row[1]);
        moiety_status status = moiety_resize(pool, row[0], 80 * kKiB, kStream);
        EXPECT_OK(status);
        EXPECT_OK(moiety_resize(pool, row[0], 40 * kKiB, kStream));
        row[1] = pool.Alloc(40 * kKiB);
        pool.Free(row[1]);
    }).join();
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(40 * kKiB, stats.allocated_bytes_current);
    pool.Free(row[0]);
}

TEST_F(Resize, ShrinksAndGivesTheEndBack)
{
    Pool pool(WithoutCaches());
    Stream own;
    Stream other;
    for (auto [from, to] :
         std::vector<std::pair<size_t, size_t>>{{9 * kMiB, 8 * kMiB},
                                                {9 * kMiB, 600},
                                                {100 * kKiB, 40 * kKiB},
                                                {30 * kKiB, 512},
                                                {5000, 3000}}) {
        moiety_devptr block = pool.Alloc(from, own);
        size_t kept_bytes = (to + 511) / 512 * 512;
        size_t full_bytes = pool.UsableSize(block);
        own.Hold();
        ASSERT_EQ(MOIETY_OK, moiety_resize(pool, block, to, own));
        EXPECT_EQ(kept_bytes, pool.UsableSize(block));
        EXPECT_EQ(MOIETY_E_NO_ROOM,
                  moiety_resize(pool, block, full_bytes, other));
        ASSERT_EQ(MOIETY_OK, moiety_resize(pool, block, full_bytes, own));
        ASSERT_EQ(MOIETY_OK, moiety_resize(pool, block, to, own));
        own.Release();
        ASSERT_OK(moiety_free_sized(pool, block, to, own));
        pool_test::Synchronize();
        pool.TrimAll();
    }
}

TEST_F(Resize, LeavesASmallBlockThatIsLongEnough)
{
    Pool pool;
    moiety_devptr block = pool.Alloc(64 * kKiB);
    EXPECT_OK(moiety_resize(pool, block, 63 * kKiB, kStream));
    EXPECT_EQ(64 * kKiB, pool.UsableSize(block));
    EXPECT_OK(moiety_free_sized(pool, block, 63 * kKiB, kStream));
}

TEST_F(Resize, CountsWhatIsAddedAndGivenBack)
{
    Pool pool(WithoutCaches());
    moiety_devptr block = pool.Alloc(3 * kMiB);
    moiety_pool_stats before = pool.Stats();
    ASSERT_OK(moiety_resize(pool, block, 5 * kMiB - 100, kStream));
    moiety_pool_stats grown = pool.Stats();
    EXPECT_EQ(5 * kMiB, grown.allocated_bytes_current);
    EXPECT_EQ(before.allocated_bytes_allocated + 2 * kMiB,
              grown.allocated_bytes_allocated);
    EXPECT_EQ(before.requested_bytes_allocated + 2 * kMiB - 100,
              grown.requested_bytes_allocated);
    EXPECT_EQ(5 * kMiB, grown.allocated_bytes_peak);
    ASSERT_OK(moiety_resize(pool, block, kMiB, kStream));
    moiety_pool_stats shrunk = pool.Stats();
    EXPECT_EQ(1u, shrunk.allocation_current);
    EXPECT_EQ(kMiB, shrunk.allocated_bytes_current);
    EXPECT_EQ(4 * kMiB, shrunk.allocated_bytes_freed);
    EXPECT_EQ(5 * kMiB, shrunk.allocated_bytes_peak);
    EXPECT_EQ(shrunk.reserved_bytes_current,
              shrunk.allocated_bytes_current + shrunk.cached_bytes +
                  shrunk.retiring_bytes + shrunk.free_bytes);
    pool.Free(block);
    EXPECT_EQ(0u, pool.Stats().allocated_bytes_current);
}

TEST_F(Resize, IsAFreeAndAnAllocationInTheHistory)
{
    moiety_pool_options options = WithoutCaches();
    options.history_entries = 64;
    Pool pool(options);
    moiety_devptr block = pool.Alloc(3 * kMiB);
    ASSERT_EQ(MOIETY_OK, moiety_resize(pool, block, 5 * kMiB, kStream));
    ASSERT_EQ(MOIETY_OK, moiety_resize(pool, block, 2 * kMiB, kStream));
    EXPECT_EQ(MOIETY_E_NO_ROOM,
              moiety_resize(pool, block, 900 * kMiB, kStream));
    EXPECT_EQ(MOIETY_OK, moiety_resize(pool, block, 2 * kMiB, kStream));
    std::vector<moiety_history_entry> entries(64);
    moiety_history_summary summary = {};
    summary.struct_size = sizeof(summary);
    ASSERT_OK(
        moiety_history_read(pool, entries.data(), entries.size(), &summary));
    std::vector<std::pair<uint32_t, uint64_t>> seen;
    for (size_t i = 0; i < summary.count; i++)
        if (entries[i].kind != MOIETY_HISTORY_GROW) {
            EXPECT_EQ(block, entries[i].address);
            EXPECT_EQ(static_cast<uint32_t>(MOIETY_OK), entries[i].status);
            seen.emplace_back(entries[i].kind, entries[i].size_bytes);
        }
    const std::vector<std::pair<uint32_t, uint64_t>> expected = {
        {MOIETY_HISTORY_ALLOC, 3 * kMiB},
        {MOIETY_HISTORY_FREE, 3 * kMiB},
        {MOIETY_HISTORY_ALLOC, 5 * kMiB},
        {MOIETY_HISTORY_FREE, 5 * kMiB},
        {MOIETY_HISTORY_ALLOC, 2 * kMiB}};
    EXPECT_EQ(expected, seen);
    pool.Free(block);
}

TEST_F(Resize, MakesABlockThatGrewItsStreams)
{
    moiety_pool_options options = WithoutCaches();
    options.flags = MOIETY_POOL_NOTE_STREAMS;
    options.first_segment_bytes = 16 * kMiB;
    Pool pool(options);
    Stream first;
    Stream second;
    moiety_devptr block = pool.Alloc(12 * kMiB, first);
    ASSERT_OK(moiety_resize(pool, block, 16 * kMiB, second));
    second.Hold();
    ASSERT_OK(moiety_free_on_alloc_stream(pool, block));
    EXPECT_NE(block, pool.Alloc(16 * kMiB, first));
    EXPECT_EQ(block, pool.Alloc(16 * kMiB, second));
    second.Release();
    pool.End();
}

TEST_F(Resize, CallsNoDriver)
{
    Pool pool(WithoutCaches());
    Stream own;
    moiety_devptr block = pool.Alloc(3 * kMiB, own);
    uint64_t calls = pool_test::Calls();
    EXPECT_EQ(MOIETY_OK, moiety_resize(pool, block, 5 * kMiB, own));
    EXPECT_EQ(MOIETY_E_NO_ROOM, moiety_resize(pool, block, 500 * kMiB, own));
    EXPECT_EQ(MOIETY_OK, moiety_resize(pool, block, kMiB, own));
    EXPECT_EQ(calls, pool_test::Calls());
    pool.Free(block, own);
}

} // namespace
