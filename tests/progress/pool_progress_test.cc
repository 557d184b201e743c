// SPDX-License-Identifier: Apache-2.0
//
// One thread stops at every step that the sources of the caches and the facade
// name, in turn, and three others allocate and free. And one stops with the lock of
// a heap, for which misses of its stream wait, but neither hits nor frees.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "moiety/moiety.h"
#include "tests/progress/pool_subject.h"
#include "tests/progress/progress.h"
#include "tests/progress/step_name.h"
#include "tests/support/tools/pools.h"

extern "C" {
#include "tests/progress/freeze.h"
#include "tests/support/tools/stage.h"
}

namespace
{

const char *const kSteps[] = {
#include "tests/progress/pool_steps.inc"
};

class PoolProgress : public ::testing::TestWithParam<const char *>
{
  protected:
    static bool IsMapped()
    {
        return std::strstr(GetParam(), ".mapped.") != nullptr;
    }

    static void ExpectProgress(uint32_t visit)
    {
        progress_case test = {IsMapped() ? &mapped_pool_subject : &pool_subject,
                              GetParam(), visit, 100};
        char message[PROGRESS_MESSAGE_BYTES];
        EXPECT_TRUE(progress_run(&test, message)) << message;
    }
};

TEST_P(PoolProgress, OthersGoOnWhenAThreadStopsAtItsFirstVisit)
{
    ExpectProgress(1);
}

// A sanitizer sees in the first visits what there is to see in the thirtieth, which
// takes minutes.
#if !defined(__SANITIZE_THREAD__)
#if defined(__SANITIZE_ADDRESS__)
constexpr uint32_t kLater = 2, kLaterMapped = 2;
#else
constexpr uint32_t kLater = 30, kLaterMapped = 3;
#endif

TEST_P(PoolProgress, OthersGoOnWhenAThreadStopsAtALaterVisit)
{
    // What has moved together may stay so: there are few moves in a game.
    ExpectProgress(IsMapped() ? kLaterMapped : kLater);
}
#endif

INSTANTIATE_TEST_SUITE_P(EachStep, PoolProgress, ::testing::ValuesIn(kSteps),
                         progress_test::NameOfStep);

const size_t kPoolBytes = size_t{64} << 20;
const size_t kRunBytes = size_t{2} << 20;
const size_t kSmallBytes = 4096;

class StoppedWithAHeap : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(stage_open());
        ASSERT_TRUE(stage_init(&stage_));
        moiety_pool_options options = driver_options();
        options.first_segment_bytes = kPoolBytes;
        options.limit_bytes = kPoolBytes;
        options.thread_cache_bytes = size_t{1} << 20;
        ASSERT_EQ(MOIETY_OK, moiety_pool_create(&options, &pool_));
        runs_ = Alloc(kRunBytes, Stream(0), 12);
        small_ = Alloc(kSmallBytes, Stream(0), 2000);
        // What the stream frees stays in its heap.
        ASSERT_TRUE(stage_hold(&stage_, 0));
        Free(&runs_, 6);
        ASSERT_GT(Waiting(), 0u);
    }

    void TearDown() override
    {
        moiety_leaks leaks = {};
        leaks.struct_size = sizeof(leaks);
        EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool_, &leaks));
        EXPECT_EQ(0u, leaks.block_count);
        stage_fini(&stage_);
    }

    moiety_stream Stream(unsigned index) const
    {
        return stage_.streams[index].handle;
    }

    std::vector<moiety_devptr> Alloc(size_t bytes, moiety_stream stream,
                                     uint32_t count)
    {
        std::vector<moiety_devptr> blocks(count);
        EXPECT_EQ(MOIETY_OK, moiety_alloc_batch(pool_, bytes, stream, count,
                                                blocks.data()));
        return blocks;
    }

    // Until so many are left.
    void Free(std::vector<moiety_devptr> *blocks, size_t left)
    {
        for (; blocks->size() > left; blocks->pop_back())
            EXPECT_EQ(MOIETY_OK, moiety_free(pool_, blocks->back(), Stream(0)));
    }

    uint64_t Waiting() const
    {
        moiety_pool_stats stats = {};
        stats.struct_size = sizeof(stats);
        EXPECT_EQ(MOIETY_OK, moiety_pool_get_stats(pool_, &stats));
        return stats.retiring_bytes;
    }

    // A thread that stands still in a miss, and with the block that it then has.
    std::thread StopInAMiss(moiety_devptr *out)
    {
        std::thread thread([this, out] {
            (void)stage_enter();
            freeze_wish wish = {"locked.heap", 1};
            freeze_follow(&wish);
            EXPECT_EQ(MOIETY_OK,
                      moiety_alloc(pool_, kRunBytes, Stream(0), out));
            freeze_follow(nullptr);
        });
        while (!freeze_is_on())
            std::this_thread::yield();
        return thread;
    }

    // Of a block that is freed, the same is allocated again.
    void Hit(moiety_devptr block)
    {
        moiety_devptr again = 0;
        EXPECT_EQ(MOIETY_OK, moiety_free(pool_, block, Stream(0)));
        EXPECT_EQ(MOIETY_OK,
                  moiety_alloc(pool_, kSmallBytes, Stream(0), &again));
        EXPECT_EQ(block, again);
    }

    struct stage stage_ = {};
    moiety_pool *pool_ = nullptr;
    std::vector<moiety_devptr> runs_;
    std::vector<moiety_devptr> small_;
};

TEST_F(StoppedWithAHeap, OthersHitAndFreeAndAllIsFoundAgain)
{
    moiety_devptr block = 0;
    std::thread thread = StopInAMiss(&block);
    uint64_t waiting = Waiting();
    for (unsigned i = 0; i < 1000; i++)
        Hit(small_.back());
    Free(&runs_, 0);
    Free(&small_, 0);
    // More than caches have room for.
    EXPECT_GE(Waiting(), waiting + 2 * kRunBytes);
    // Another stream's misses go on.
    std::vector<moiety_devptr> others = Alloc(kSmallBytes, Stream(1), 500);
    freeze_release();
    thread.join();
    ASSERT_TRUE(stage_release(&stage_, 0));
    EXPECT_EQ(MOIETY_OK, moiety_free(pool_, block, Stream(0)));
    for (moiety_devptr other : others)
        EXPECT_EQ(MOIETY_OK, moiety_free(pool_, other, Stream(1)));
    EXPECT_EQ(MOIETY_OK, moiety_alloc(pool_, kPoolBytes, Stream(0), &block));
    EXPECT_EQ(MOIETY_OK, moiety_free(pool_, block, Stream(0)));
}

} // namespace
