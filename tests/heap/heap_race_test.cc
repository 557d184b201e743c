// SPDX-License-Identifier: Apache-2.0
//
// Snapshots while other threads allocate and free.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/heap/heap_under_test.h"
#include "tests/pool/pool_under_test.h"
#include "tests/support/tools/random.h"

namespace
{

using heap_test::Heap;
using namespace pool_test;

constexpr unsigned kSnapshots = 200;
constexpr unsigned kThreads = 3;

// Allocates and frees until it is told to stop.
class Churner
{
  public:
    Churner(moiety_pool *pool, moiety_stream stream, uint64_t seed)
        : pool_(pool), stream_(stream), random_(random_start(seed, 0))
    {
    }

    void Run(const std::atomic<bool> &is_over)
    {
        while (!is_over.load())
            Step();
        while (!blocks_.empty())
            FreeOne();
    }

  private:
    uint32_t Random(size_t below)
    {
        return random_below(&random_, static_cast<uint32_t>(below));
    }

    void Step()
    {
        if (blocks_.size() < 200 && Random(2)) {
            size_t size =
                Random(20) ? 1 + Random(40 * kKiB) : kMiB + Random(2 * kMiB);
            moiety_devptr address = 0;
            ASSERT_OK(moiety_alloc(pool_, size, stream_, &address));
            blocks_.push_back(address);
        } else if (!blocks_.empty()) {
            FreeOne();
        }
    }

    void FreeOne()
    {
        size_t at = Random(blocks_.size());
        moiety_devptr address = blocks_[at];
        blocks_[at] = blocks_.back();
        blocks_.pop_back();
        ASSERT_OK(moiety_free(pool_, address,
                              Random(10) ? stream_ : MOIETY_STREAM_DONE));
    }

    moiety_pool *pool_;
    moiety_stream stream_;
    uint64_t random_;
    std::vector<moiety_devptr> blocks_;
};

TEST(SnapshotVsCalls, EachTilesTheSegments)
{
    pool_test::UseStandin();
    Pool pool;
    Stream streams[2];
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; i++)
        threads.emplace_back([&, i] {
            Churner churner(pool, streams[i % 2], i + 1);
            churner.Run(is_over);
        });
    for (unsigned i = 0; i < kSnapshots; i++)
        Heap heap(pool);
    is_over = true;
    for (std::thread &thread : threads)
        thread.join();
    Heap heap(pool);
    EXPECT_EQ(0u, heap.Count(MOIETY_HEAP_USED));
    heap.ExpectStatsOf(pool);
}

} // namespace
