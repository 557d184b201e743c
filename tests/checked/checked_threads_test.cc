// SPDX-License-Identifier: Apache-2.0
//
// Many threads without a mistake: nothing is reported, served twice or lost.
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/checked/checked_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace checked_test;

constexpr int kThreads = 4;
constexpr int kRounds = 400;

struct Block {
    moiety_devptr address;
    size_t size_bytes;
};

// Blocks that a thread left for others.
struct Exchange {
    std::mutex lock;
    std::vector<Block> blocks;
};

class Churn
{
  public:
    Churn(moiety_pool *pool, Exchange *exchange, unsigned seed)
        : pool_(pool), exchange_(exchange), random_(seed)
    {
    }

    void Run()
    {
        pool_test::SetCurrent(pool_test::PrimaryContext());
        Stream stream;
        for (int i = 0; i < kRounds; i++) {
            Allocate(stream);
            Swap();
            if (own_.size() > 8)
                FreeOne(stream);
        }
        while (!own_.empty())
            FreeOne(stream);
        EXPECT_OK(moiety_pool_retire_stream(pool_, stream));
    }

  private:
    void Allocate(moiety_stream stream)
    {
        size_t size_bytes = 1 + random_() % (random_() % 16 ? 5000 : 300000);
        Block block = {0, size_bytes};
        moiety_stream name = random_() % 4 ? stream : MOIETY_STREAM_PER_THREAD;
        ASSERT_OK(moiety_alloc(pool_, size_bytes, name, &block.address));
        own_.push_back(block);
    }

    // What comes from another thread has no work pending: none writes.
    void Swap()
    {
        std::lock_guard<std::mutex> locked(exchange_->lock);
        exchange_->blocks.push_back(own_.back());
        own_.pop_back();
        size_t index = random_() % exchange_->blocks.size();
        own_.push_back(exchange_->blocks[index]);
        exchange_->blocks.erase(exchange_->blocks.begin() +
                                static_cast<long>(index));
    }

    void FreeOne(moiety_stream stream)
    {
        const moiety_stream names[] = {stream, MOIETY_STREAM_ANY,
                                       MOIETY_STREAM_DONE,
                                       MOIETY_STREAM_PER_THREAD};
        Block block = own_.back();
        own_.pop_back();
        if (random_() % 4 == 0) {
            EXPECT_OK(moiety_record_use(pool_, block.address, stream));
        }
        EXPECT_OK(moiety_free_sized(pool_, block.address, block.size_bytes,
                                    names[random_() % 4]));
    }

    moiety_pool *pool_;
    Exchange *exchange_;
    std::mt19937 random_;
    std::vector<Block> own_;
};

void RunAll(const moiety_pool_options &options)
{
    Pool pool(options);
    Exchange exchange;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++)
        threads.emplace_back([&pool, &exchange, i] {
            Churn(pool, &exchange, static_cast<unsigned>(i)).Run();
        });
    for (std::thread &thread : threads)
        thread.join();
    pool_test::Synchronize();
    EXPECT_EQ(0u, pool.Stats().allocation_current);
    EXPECT_EQ(static_cast<uint64_t>(kThreads) * kRounds,
              pool.Stats().allocation_freed);
    if (is_checked_mode(&options)) {
        moiety_checked_counts counts = Check(pool);
        EXPECT_EQ(0u, Findings(counts));
        EXPECT_EQ(0u, counts.live_blocks);
        EXPECT_EQ(0u, counts.held_blocks);
        EXPECT_EQ(static_cast<uint64_t>(kThreads) * kRounds,
                  counts.verified_blocks);
    }
    (void)pool.Trim();
    EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
}

using CheckedThreads = Checked;

TEST_F(CheckedThreads, AreNotBlamed)
{
    RunAll(Quiet());
}

TEST_F(CheckedThreads, AreNotBlamedWhereNothingIsHeldBack)
{
    moiety_pool_options options = Quiet();
    options.quarantine_bytes = MOIETY_BYTES_NONE;
    RunAll(options);
}

TEST_F(CheckedThreads, AreNotBlamedWhereMemoryIsShort)
{
    moiety_pool_options options = Quiet();
    options.limit_bytes = 24 * kMiB;
    options.wait_ms = 60000;
    RunAll(options);
}

TEST_F(CheckedThreads, MayPassAllThrough)
{
    moiety_pool_options options = pool_test::Defaults();
    set_kind(&options, KIND_PASS_THROUGH);
    RunAll(options);
}

TEST_F(CheckedThreads, MayPassAllThroughChecked)
{
    moiety_pool_options options = Quiet();
    set_kind(&options, KIND_PASS_THROUGH);
    RunAll(options);
}

// Of two threads that free one block, one is told.
TEST_F(CheckedThreads, ThatFreeOneBlockAreTold)
{
    Pool pool(Quiet());
    for (int i = 0; i < 50; i++) {
        moiety_devptr block = pool.Alloc(100);
        std::atomic<int> freed{0}, refused{0};
        std::vector<std::thread> threads;
        for (int j = 0; j < 3; j++)
            threads.emplace_back([&] {
                moiety_status status = moiety_free(pool, block, kStream);
                freed += status == MOIETY_OK;
                refused += status == MOIETY_E_DOUBLE_FREE;
            });
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(1, freed);
        EXPECT_EQ(2, refused);
    }
    EXPECT_EQ(100u, Check(pool).double_frees);
}

} // namespace
