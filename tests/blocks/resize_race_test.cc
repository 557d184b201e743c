// SPDX-License-Identifier: Apache-2.0
//
// Several threads take, resize and free blocks at random. Each writes its whole
// block, and finds it as it was: so no two blocks overlap, and contents stay.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

constexpr unsigned kThreads = 4;
constexpr size_t kBlocks = 40;

struct Block {
    moiety_devptr address;
    size_t size_bytes;
    uint32_t mark;
};

// What the CPU reaches itself, or what copies of the driver do.
struct Memory {
    bool is_host;

    void Mark(const Block &block) const
    {
        if (is_host)
            std::memset(Bytes(block), static_cast<int>(block.mark & 0xff),
                        block.size_bytes);
        else
            pool_test::Fill(block.address, block.size_bytes, block.mark);
    }
    bool IsMarked(const Block &block, size_t size_bytes) const
    {
        if (!is_host)
            return pool_test::Holds(block.address, size_bytes, block.mark);
        const unsigned char *bytes = Bytes(block);
        return bytes[0] == (block.mark & 0xff) &&
               !std::memcmp(bytes, bytes + 1, size_bytes - 1);
    }
    static unsigned char *Bytes(const Block &block)
    {
        return reinterpret_cast<unsigned char *>(block.address);
    }
};

class Worker
{
  public:
    Worker(moiety_pool *pool, Memory memory, moiety_stream stream,
           uint64_t seed)
        : pool_(pool), memory_(memory), stream_(stream), random_(seed)
    {
    }
    void Run(int steps)
    {
        for (int i = 0; i < steps && !::testing::Test::HasFailure(); i++)
            Step();
        while (!blocks_.empty())
            Free(0);
    }
    uint64_t grown() const
    {
        return grown_;
    }
    uint64_t shrunk() const
    {
        return shrunk_;
    }

  private:
    size_t Size()
    {
        size_t most = size_t{512} << random_() % 12;
        return 4 + random_() % most / 4 * 4;
    }
    void Step()
    {
        uint64_t what = random_() % 8;
        if (blocks_.size() < kBlocks && what < 3)
            Take();
        else if (!blocks_.empty() && what < 5)
            Free(random_() % blocks_.size());
        else if (!blocks_.empty())
            Resize(blocks_[random_() % blocks_.size()]);
    }
    void Take()
    {
        Block block = {};
        block.size_bytes = Size();
        block.mark = static_cast<uint32_t>(random_());
        ASSERT_OK(
            moiety_alloc(pool_, block.size_bytes, stream_, &block.address));
        memory_.Mark(block);
        blocks_.push_back(block);
    }
    void Free(size_t at)
    {
        const Block &block = blocks_[at];
        ASSERT_TRUE(memory_.IsMarked(block, block.size_bytes));
        ASSERT_OK(random_() % 2 ? moiety_free(pool_, block.address, stream_)
                                : moiety_free_sized(pool_, block.address,
                                                    block.size_bytes, stream_));
        blocks_[at] = blocks_.back();
        blocks_.pop_back();
    }
    void Resize(Block &block)
    {
        size_t size_bytes =
            random_() % 2 ? Size() : block.size_bytes * 3 / 8 * 4;
        moiety_status status =
            moiety_resize(pool_, block.address, size_bytes, stream_);
        if (status != MOIETY_OK) {
            ASSERT_EQ(MOIETY_E_NO_ROOM, status);
            ASSERT_GT(size_bytes, block.size_bytes);
            return;
        }
        ASSERT_TRUE(
            memory_.IsMarked(block, std::min(size_bytes, block.size_bytes)));
        (size_bytes > block.size_bytes ? grown_ : shrunk_)++;
        block.size_bytes = size_bytes;
        memory_.Mark(block);
    }

    moiety_pool *pool_;
    Memory memory_;
    moiety_stream stream_;
    std::mt19937_64 random_;
    std::vector<Block> blocks_;
    uint64_t grown_ = 0;
    uint64_t shrunk_ = 0;
};

// Threads with a stream each, or all with one.
void RunOn(moiety_pool *pool, Memory memory, bool has_one_stream)
{
    uint64_t seed = pool_test::Seed(20260);
    pool_test::Stream streams[kThreads];
    std::vector<std::thread> threads;
    std::atomic<uint64_t> grown{0};
    std::atomic<uint64_t> shrunk{0};
    for (unsigned i = 0; i < kThreads; i++)
        threads.emplace_back([&, i] {
            pool_test::SetCurrent(pool_test::PrimaryContext());
            Worker worker(pool, memory, streams[has_one_stream ? 0 : i],
                          seed + i);
            worker.Run(memory.is_host ? 3000 : 300);
            grown += worker.grown();
            shrunk += worker.shrunk();
        });
    for (std::thread &thread : threads)
        thread.join();
    for (const pool_test::Stream &stream : streams)
        EXPECT_OK(moiety_pool_retire_stream(pool, stream));
    EXPECT_GT(grown.load(), 30u);
    EXPECT_GT(shrunk.load(), 30u);
}

void ExpectAllFree(moiety_pool *pool)
{
    moiety_pool_stats stats = {};
    stats.struct_size = sizeof(stats);
    ASSERT_OK(moiety_pool_get_stats(pool, &stats));
    EXPECT_EQ(0u, stats.allocated_bytes_current);
    EXPECT_EQ(0u, stats.double_frees_found);
    EXPECT_EQ(stats.reserved_bytes_current,
              stats.cached_bytes + stats.retiring_bytes + stats.free_bytes);
}

class ResizeRace : public StandinTestWith<uint32_t>
{
  protected:
    void Run(const moiety_pool_options &options, bool has_one_stream)
    {
        Pool pool(options);
        RunOn(pool, Memory{false}, has_one_stream);
        ExpectAllFree(pool);
        pool.TrimAll();
        EXPECT_EQ(0u, pool.Stats().reserved_bytes_current);
    }
    moiety_pool_options Options()
    {
        moiety_pool_options options = Defaults();
        set_kind(&options, GetParam());
        return options;
    }
};

INSTANTIATE_TEST_SUITE_P(Kinds, ResizeRace,
                         ::testing::Values(0, MOIETY_POOL_NOTE_STREAMS,
                                           KIND_MAPPED));

TEST_P(ResizeRace, StreamsOfTheirOwn)
{
    Run(Options(), false);
}

TEST(ResizeRaceInHostArenas, BytesStay)
{
    pool_test::UseStandin();
    for (bool has_one_stream : {false, true}) {
        moiety_host *host = nullptr;
        ASSERT_OK(moiety_host_create(nullptr, &host));
        RunOn(moiety_host_pool(host), Memory{true}, has_one_stream);
        ExpectAllFree(moiety_host_pool(host));
        EXPECT_OK(moiety_host_destroy(host, nullptr));
    }
}

TEST_P(ResizeRace, OneStream)
{
    Run(Options(), true);
}

TEST_P(ResizeRace, WithoutCaches)
{
    moiety_pool_options options = Options();
    options.thread_cache_bytes = MOIETY_BYTES_NONE;
    Run(options, false);
}

TEST_P(ResizeRace, WithinATightLimit)
{
    moiety_pool_options options = Options();
    options.first_segment_bytes = 2 * kMiB;
    options.limit_bytes = 64 * kMiB;
    Run(options, true);
}

} // namespace
