// SPDX-License-Identifier: Apache-2.0
//
// Threads that come and go: what they had in their caches is not lost, and
// nothing piles up behind them.
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"

namespace
{

using namespace pool_test;

using Threads = StandinTest;

// Leaves blocks of many sizes in the calling thread's caches of every kind.
void FillCaches(Pool &pool)
{
    pool_test::SetCurrent(pool_test::PrimaryContext());
    for (moiety_stream stream :
         {MOIETY_STREAM_DONE, MOIETY_STREAM_ANY, MOIETY_STREAM_LEGACY,
          MOIETY_STREAM_PER_THREAD}) {
        std::vector<moiety_devptr> blocks;
        for (size_t size_bytes = 512; size_bytes <= 3 * kMiB; size_bytes *= 3)
            for (int i = 0; i < 4; i++)
                blocks.push_back(pool.Alloc(size_bytes, stream));
        for (moiety_devptr block : blocks)
            pool.Free(block, stream);
    }
}

TEST_F(Threads, ThatEndGiveTheirMemoryBack)
{
    Pool pool;
    for (int i = 0; i < 3; i++) {
        std::thread([&] { FillCaches(pool); }).join();
        uint64_t reserved_bytes = pool.Stats().reserved_bytes_current;
        EXPECT_GT(reserved_bytes, 0u);
        EXPECT_EQ(reserved_bytes, pool.TrimAll());
        EXPECT_EQ(0u, pool.Stats().cached_bytes);
        EXPECT_EQ(0u, pool.Stats().retiring_bytes);
    }
}

TEST_F(Threads, ThatEndMakeNoDriverCall)
{
    Pool pool;
    uint64_t before = 0;
    std::thread([&] {
        FillCaches(pool);
        before = pool_test::Calls();
    }).join();
    EXPECT_EQ(before, pool_test::Calls());
}

TEST_F(Threads, InAnyNumberOneAfterAnotherNeedNoMoreThanOne)
{
    Pool pool;
    uint64_t reserved_bytes = 0;
    for (int i = 0; i < 1000; i++) {
        std::thread([&] {
            for (moiety_stream stream :
                 {MOIETY_STREAM_DONE, MOIETY_STREAM_ANY, MOIETY_STREAM_LEGACY,
                  MOIETY_STREAM_PER_THREAD})
                pool.Free(pool.Alloc(kMiB, stream), stream);
        }).join();
        if (i == 20)
            reserved_bytes = pool.Stats().reserved_bytes_current;
    }
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(reserved_bytes, stats.reserved_bytes_current);
    EXPECT_LE(stats.threads, 2u);
    EXPECT_LT(stats.streams, 20u) << "per-thread streams of ended threads";
    EXPECT_EQ(4000u, stats.allocation_allocated);
    EXPECT_EQ(4000u, stats.allocation_freed);
    EXPECT_EQ(reserved_bytes, pool.TrimAll());
}

TEST_F(Threads, MayOutliveAPoolThatTheyUsed)
{
    auto pool = std::make_unique<Pool>();
    std::promise<void> has_used, is_gone;
    std::thread thread([&] {
        FillCaches(*pool);
        has_used.set_value();
        is_gone.get_future().wait();
        Pool another;
        FillCaches(another);
    });
    has_used.get_future().wait();
    pool.reset();
    is_gone.set_value();
    thread.join();
}

TEST_F(Threads, MayUseManyPools)
{
    for (int round = 0; round < 2; round++) {
        std::vector<std::unique_ptr<Pool>> pools;
        for (int i = 0; i < 40; i++)
            pools.push_back(std::make_unique<Pool>());
        std::vector<moiety_devptr> blocks;
        for (auto &pool : pools)
            blocks.push_back(pool->Alloc(4096));
        for (size_t i = 0; i < pools.size(); i++) {
            pools[i]->Free(blocks[i]);
            EXPECT_EQ(blocks[i], pools[i]->Alloc(4096));
            pools[i]->Free(blocks[i]);
        }
    }
}

TEST_F(Threads, FreeWhatOthersAllocated)
{
    constexpr int kBlocks = 20000;
    Pool pool;
    std::mutex lock;
    std::condition_variable is_more;
    std::deque<moiety_devptr> queue;
    std::thread consumer([&] {
        for (int i = 0; i < kBlocks; i++) {
            std::unique_lock<std::mutex> guard(lock);
            is_more.wait(guard, [&] { return !queue.empty(); });
            moiety_devptr block = queue.front();
            queue.pop_front();
            guard.unlock();
            pool.Free(block);
        }
    });
    for (int i = 0; i < kBlocks; i++) {
        moiety_devptr block = pool.Alloc(4096);
        std::lock_guard<std::mutex> guard(lock);
        queue.push_back(block);
        is_more.notify_one();
    }
    consumer.join();
    moiety_pool_stats stats = pool.Stats();
    EXPECT_EQ(0u, stats.allocation_current);
    EXPECT_EQ(0u, stats.double_frees_found);
}

// Each has blocks of its own all the time: whoever takes another's is seen by
// what is in them.
TEST_F(Threads, NeverShareABlock)
{
    Pool pool;
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < 4; thread++) {
        threads.emplace_back([&pool, thread] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            std::vector<moiety_devptr> mine(16, 0);
            for (uint32_t i = 0; i < 1500; i++) {
                moiety_devptr &block = mine[i % mine.size()];
                if (block) {
                    EXPECT_TRUE(pool_test::Holds(block, 512, thread));
                    pool.Free(block);
                }
                block = pool.Alloc(size_t{512} << (i % 7));
                pool_test::Fill(block, 512, thread);
            }
            for (moiety_devptr block : mine)
                pool.Free(block);
        });
    }
    for (std::thread &thread : threads)
        thread.join();
}

} // namespace
