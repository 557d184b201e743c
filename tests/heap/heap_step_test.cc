// SPDX-License-Identifier: Apache-2.0
//
// Threads that stand still at the worst moments: one that has memory in its
// hands, one that is in a hit, and one that has stopped the pool.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "moiety/heap.h"
#include "moiety/moiety.h"
#include "tests/support/tools/pools.h"

extern "C" {
#include "tests/progress/freeze.h"
#include "tests/support/tools/stage.h"
}

namespace
{

class Frozen : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(stage_open());
        moiety_pool_options options = driver_options();
        options.history_entries = 16;
        options.thread_cache_bytes = UINT64_C(1) << 20;
        ASSERT_EQ(MOIETY_OK, moiety_pool_create(&options, &pool_));
        Use(1);
    }

    void TearDown() override
    {
        EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool_, nullptr));
    }

    void Use(unsigned count)
    {
        std::vector<moiety_devptr> blocks(count);
        ASSERT_EQ(MOIETY_OK, moiety_alloc_batch(pool_, 4096, nullptr, count,
                                                blocks.data()));
        ASSERT_EQ(MOIETY_OK, moiety_free_batch(pool_, blocks.data(), count,
                                               nullptr, nullptr));
    }

    // A thread that works until it stands still.
    std::thread StopAt(const char *step, unsigned count)
    {
        std::thread thread([this, step, count] {
            (void)stage_enter();
            Use(1);
            freeze_wish wish = {step, 1};
            freeze_follow(&wish);
            Use(count);
            freeze_follow(nullptr);
        });
        while (!freeze_is_on())
            std::this_thread::yield();
        return thread;
    }

    // Writes how many bytes are used, unless that is NULL.
    moiety_status Look(uint64_t *out_used = nullptr)
    {
        moiety_heap_snapshot *snapshot = nullptr;
        moiety_status status = moiety_heap_snapshot_create(pool_, &snapshot);
        if (status != MOIETY_OK)
            return status;
        moiety_heap_summary summary = {};
        summary.struct_size = sizeof(summary);
        EXPECT_EQ(MOIETY_OK, moiety_heap_snapshot_summary(snapshot, &summary));
        EXPECT_EQ(0u, summary.bytes[MOIETY_HEAP_LOST]);
        moiety_heap_snapshot_destroy(snapshot);
        if (out_used)
            *out_used = summary.bytes[MOIETY_HEAP_USED];
        return MOIETY_OK;
    }

    // Nothing is said while a thread stands there, and all is well afterwards.
    void ExpectBusyWhileOneIsAt(const char *step, unsigned count)
    {
        std::thread thread = StopAt(step, count);
        EXPECT_EQ(MOIETY_E_TIMEOUT, Look());
        freeze_release();
        thread.join();
        EXPECT_EQ(MOIETY_OK, Look());
    }

    moiety_pool *pool_ = nullptr;
};

// Free already, and still in a magazine.
TEST_F(Frozen, WithBlocksOnTheirWayOut)
{
    ExpectBusyWhileOneIsAt("range.given", 2000);
}

TEST_F(Frozen, InAHit)
{
    ExpectBusyWhileOneIsAt("history.half", 1);
}

// A thread that waits for another holds a lock that the other may want.
TEST(Stopping, RefusesWhoMustNotWait)
{
    const size_t kBytes = size_t{8} << 20;
    ASSERT_TRUE(stage_open());
    moiety_pool *pool = nullptr;
    moiety_devptr block = 0;
    ASSERT_EQ(MOIETY_OK, moiety_pool_create(nullptr, &pool));
    ASSERT_EQ(MOIETY_OK, moiety_alloc(pool, kBytes, nullptr, &block));
    std::thread stands([pool] {
        (void)stage_enter();
        freeze_wish wish = {"range.given", 1};
        freeze_follow(&wish);
        moiety_devptr other = 0;
        EXPECT_EQ(MOIETY_OK, moiety_alloc(pool, kBytes, nullptr, &other));
        EXPECT_EQ(MOIETY_OK, moiety_free(pool, other, nullptr));
        freeze_follow(nullptr);
    });
    while (!freeze_is_on())
        std::this_thread::yield();
    std::atomic<bool> has_looked{false};
    std::thread looks([pool, &has_looked] {
        moiety_heap_snapshot *snapshot = nullptr;
        EXPECT_EQ(MOIETY_E_TIMEOUT,
                  moiety_heap_snapshot_create(pool, &snapshot));
        has_looked = true;
    });
    moiety_status status = MOIETY_OK;
    while (status == MOIETY_OK && !has_looked) {
        status = moiety_free_no_call(pool, block, nullptr);
        if (status == MOIETY_OK)
            status = alloc_no_call(pool, kBytes, nullptr, &block);
    }
    EXPECT_EQ(MOIETY_E_WOULD_BLOCK, status);
    EXPECT_FALSE(has_looked);
    looks.join();
    freeze_release();
    stands.join();
    EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool, nullptr));
}

} // namespace
