// SPDX-License-Identifier: Apache-2.0
//
// What is served without a call of the driver, and that these calls make none.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

uint64_t NotedCount(moiety_pool *pool)
{
    moiety_history_summary summary = {};
    summary.struct_size = sizeof summary;
    EXPECT_OK(moiety_history_read(pool, nullptr, 0, &summary));
    return summary.noted_count;
}

using Cached = StandinTest;

TEST_F(Cached, AThreadThatHasNothingIsToldSo)
{
    Pool pool;
    moiety_devptr address = 7;
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_call(pool, 4096, kStream, &address));
    EXPECT_EQ(7u, address);
    EXPECT_EQ(0u, pool.Stats().segment_current);
}

TEST_F(Cached, WhatWasFreedIsServedWithoutTheDriver)
{
    Pool pool;
    pool_test::Stream created;
    for (moiety_stream stream :
         {kStream, static_cast<moiety_stream>(created)}) {
        moiety_devptr address = pool.Alloc(4096, stream), again = 0;
        pool.Free(address, stream);
        uint64_t calls_before = Calls();
        ASSERT_OK(alloc_no_call(pool, 4096, stream, &again));
        EXPECT_EQ(address, again);
        EXPECT_OK(moiety_free_no_call(pool, again, stream));
        EXPECT_EQ(calls_before, Calls());
    }
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

// Until nothing is free, and not once more: to grow is another's work.
TEST_F(Cached, EndsWhereNothingIsFree)
{
    Pool pool;
    pool.Free(pool.Alloc(kMiB), kStream);
    uint64_t calls_before = Calls();
    uint64_t count = 0;
    moiety_devptr address = 0;
    while (alloc_no_call(pool, kMiB, kStream, &address) == MOIETY_OK)
        count++;
    EXPECT_GT(count, 0u);
    EXPECT_EQ(calls_before, Calls());
    EXPECT_EQ(count, pool.Stats().allocation_current);
    EXPECT_LT(pool.Stats().free_bytes, kMiB);
    pool.End();
}

// More than a thread's cache holds.
TEST_F(Cached, LargeBlocksComeFromWhatIsFree)
{
    Pool pool;
    moiety_devptr large = pool.Alloc(20 * kMiB, kStream), again = 0;
    uint64_t calls_before = Calls();
    uint64_t misses_before = pool.Stats().cache_misses;
    ASSERT_OK(moiety_free_no_call(pool, large, kStream));
    ASSERT_OK(alloc_no_call(pool, 20 * kMiB, kStream, &again));
    EXPECT_EQ(large, again);
    EXPECT_EQ(misses_before + 1, pool.Stats().cache_misses);
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_call(pool, 40 * kMiB, kStream, &again));
    EXPECT_EQ(misses_before + 1, pool.Stats().cache_misses)
        << "in vain, it is counted by the call that allocates";
    EXPECT_EQ(calls_before, Calls());
    pool.Free(large);
}

// It was freed on a stream that is busy: it is that one's alone.
TEST_F(Cached, WhatABusyStreamFreedIsNotForOthers)
{
    Pool pool;
    pool_test::Stream busy;
    pool.Free(pool.Alloc(kMiB), kStream);
    moiety_devptr large = pool.Alloc(20 * kMiB, busy), again = 0;
    busy.Hold();
    ASSERT_EQ(MOIETY_OK, moiety_free_no_call(pool, large, busy));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_call(pool, 20 * kMiB, kStream, &again));
    EXPECT_EQ(MOIETY_OK, alloc_no_call(pool, 20 * kMiB, busy, &again));
    EXPECT_EQ(large, again);
    busy.Release();
    pool.Free(large, busy);
}

TEST_F(Cached, SizeZeroAndNoBlockAreNotForIt)
{
    Pool pool;
    pool.Free(pool.Alloc(4096), kStream);
    moiety_devptr address = 0;
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK, alloc_no_call(pool, 0, kStream, &address));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_call(pool, SIZE_MAX, kStream, &address));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK, moiety_free_no_call(pool, 0, kStream));
}

TEST_F(Cached, WhatIsNoBlockIsLeftToTheWholeFree)
{
    Pool pool;
    pool.Free(pool.Alloc(4096));
    moiety_devptr block = pool.Alloc(4096);
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              moiety_free_no_call(pool, block + 512, kStream));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK, moiety_free_no_call(pool, 0x1234, kStream));
    ASSERT_EQ(MOIETY_OK, moiety_free_no_call(pool, block, kStream));
    EXPECT_EQ(MOIETY_E_DOUBLE_FREE, moiety_free_no_call(pool, block, kStream))
        << "freed twice in a row";
    EXPECT_EQ(0u, pool.Stats().allocation_current);
}

TEST_F(Cached, AnotherThreadHasACacheOfItsOwn)
{
    Pool pool;
    pool.Free(pool.Alloc(4096), kStream);
    std::thread([&pool] {
        moiety_devptr address = 0;
        EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
                  alloc_no_call(pool, 4096, kStream, &address));
    }).join();
}

TEST_F(Cached, AnyStreamIsServedByWhatIsDone)
{
    Pool pool;
    std::set<moiety_devptr> freed;
    moiety_devptr cached = 0;
    // Refills grow: soon one leaves more than the block that was asked for.
    while (alloc_no_call(pool, 4096, MOIETY_STREAM_ANY, &cached) != MOIETY_OK) {
        moiety_devptr address = pool.Alloc(4096, MOIETY_STREAM_ANY);
        freed.insert(address);
        pool.Free(address, MOIETY_STREAM_ANY);
        ASSERT_LT(freed.size(), 100u);
    }
    EXPECT_EQ(0u, freed.count(cached)) << "work may be pending on it";
    EXPECT_OK(moiety_free_no_call(pool, cached, MOIETY_STREAM_ANY));
}

TEST_F(Cached, TheHistoryHasThemToo)
{
    moiety_pool_options options = Defaults();
    options.history_entries = 16;
    Pool pool(options);
    moiety_devptr address = pool.Alloc(4096);
    pool.Free(address);
    uint64_t noted_before = NotedCount(pool);
    ASSERT_OK(alloc_no_call(pool, 4096, kStream, &address));
    ASSERT_OK(moiety_free_no_call(pool, address, kStream));
    EXPECT_EQ(noted_before + 2, NotedCount(pool));
}

// Where the checks are, the cache has nothing.
TEST_F(Cached, ACheckedPoolLeavesItToTheWholeCalls)
{
    moiety_pool_options options = Defaults();
    set_kind(&options, KIND_CHECKED);
    Pool pool(options);
    moiety_devptr address = pool.Alloc(4096), other = 0;
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              moiety_free_no_call(pool, address, kStream));
    pool.Free(address);
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK, alloc_no_call(pool, 4096, kStream, &other));
}

TEST_F(Cached, ADestroyedPoolIsLeftToTheWholeCalls)
{
    moiety_pool *pool = nullptr;
    moiety_devptr block = 0, again = 0;
    size_t usable = 0;
    ASSERT_OK(moiety_pool_create(nullptr, &pool));
    ASSERT_EQ(MOIETY_OK, moiety_alloc(pool, 20 * kMiB, kStream, &block));
    ASSERT_EQ(MOIETY_OK, moiety_pool_destroy(pool, nullptr));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK, moiety_free_no_call(pool, block, kStream));
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK,
              alloc_no_call(pool, 20 * kMiB, kStream, &again));
    EXPECT_EQ(MOIETY_E_DESTROYED, moiety_usable_size(pool, block, &usable));
}

TEST_F(Cached, ArgumentsThatAreNoneAreInvalid)
{
    Pool pool;
    moiety_devptr address = 0;
    EXPECT_EQ(MOIETY_E_INVALID,
              alloc_no_call(nullptr, 4096, kStream, &address));
    EXPECT_EQ(MOIETY_E_INVALID, alloc_no_call(pool, 4096, kStream, nullptr));
    EXPECT_NE(std::string::npos,
              std::string(moiety_last_error_message()).find("out is NULL"));
    EXPECT_EQ(MOIETY_E_INVALID, moiety_free_no_call(nullptr, 512, kStream));
}

} // namespace
