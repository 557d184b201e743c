// SPDX-License-Identifier: Apache-2.0
//
// A pool whose mapped memory moves, while another thread of the same stream uses
// it: a call that grows stands still before it looks for what can move.
#include <gtest/gtest.h>

#include <thread>

#include "binade/pool.h"
#include "binade/stats.h"
#include "binade/stream.h"
#include "pool/driver/cuda_abi.h"

extern "C" {
#include "tests/progress/freeze.h"
#include "tests/support/driver_probe.h"
#include "tests/support/tools/stage.h"
}

namespace
{

constexpr size_t kMiB = size_t{1} << 20;
constexpr unsigned kStream = 0, kOther = 1, kThird = 2;

template <typename... Arguments>
CUresult Call(const char *entry, Arguments... arguments)
{
    auto *call = reinterpret_cast<CUresult (*)(Arguments...)>(
        driver_probe_function(entry));
    return call ? call(arguments...) : CUDA_ERROR_NOT_FOUND;
}

class MoveStep : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(stage_open());
        ASSERT_TRUE(stage_init(&stage_));
        binade_pool_options options = BINADE_POOL_OPTIONS_INIT;
        options.flags |= BINADE_POOL_MAPPED;
        options.limit_bytes = 64 * kMiB;
        options.wait_ms = 0;
        options.thread_cache_bytes = 0;
        ASSERT_EQ(BINADE_OK, binade_pool_create(&options, &pool_));
    }

    void TearDown() override
    {
        EXPECT_EQ(BINADE_OK, binade_pool_destroy(pool_, nullptr));
        stage_fini(&stage_);
    }

    binade_stream Handle(unsigned index) const
    {
        return stage_.streams[index].handle;
    }

    binade_devptr Take(size_t mebibytes, unsigned index)
    {
        binade_devptr block = 0;
        EXPECT_EQ(BINADE_OK,
                  binade_alloc(pool_, mebibytes * kMiB, Handle(index), &block));
        return block;
    }

    void Give(binade_devptr block, unsigned index)
    {
        EXPECT_EQ(BINADE_OK, binade_free(pool_, block, Handle(index)));
    }

    // Frees a block, and has an event of the context recorded behind it.
    void GiveAndRecord(binade_devptr block, unsigned index)
    {
        Give(block, index);
        EXPECT_EQ(BINADE_OK, binade_capture_guard_begin());
        EXPECT_EQ(BINADE_OK, binade_capture_guard_end());
    }

    binade_stats Stats()
    {
        binade_stats stats = {};
        stats.struct_size = sizeof stats;
        EXPECT_EQ(BINADE_OK, binade_pool_stats(pool_, &stats));
        return stats;
    }

    struct stage stage_ = {};
    binade_pool *pool_ = nullptr;
};

// The next two events are recorded, and then work is queued at the place that
// the grower is about to take: it waits for an event behind that work.
TEST_F(MoveStep, WorkThatIsQueuedBeforeTheClaimKeepsItsAddress)
{
    binade_devptr moving = Take(8, kStream);
    binade_devptr border = Take(2, kStream);
    binade_devptr first = Take(2, kOther), second = Take(2, kThird);
    binade_devptr grown = 0;
    // The grower has a look at the stream's maps, as they are not empty.
    Give(Take(1, kStream), kStream);
    std::thread grower([&] {
        (void)stage_enter();
        freeze_wish wish = {"locked.mapped.begun", 1};
        freeze_follow(&wish);
        grown = Take(16, kStream);
        freeze_follow(nullptr);
    });
    while (!freeze_is_on())
        std::this_thread::yield();
    GiveAndRecord(first, kOther);
    GiveAndRecord(second, kThird);
    ASSERT_TRUE(stage_settle());
    ASSERT_TRUE(stage_hold(&stage_, kStream));
    ASSERT_EQ(CUDA_SUCCESS,
              Call("cuMemsetD32Async", static_cast<CUdeviceptr>(moving), 1u,
                   8 * kMiB / 4, static_cast<CUstream>(Handle(kStream))));
    Give(moving, kStream);
    freeze_release();
    grower.join();
    EXPECT_EQ(1u, Stats().mapped_moves);
    // Unmaps what is over.
    EXPECT_EQ(BINADE_OK, binade_pool_trim(pool_, 64 * kMiB, nullptr));
    EXPECT_EQ(8 * kMiB, Stats().mapped_left_bytes);
    ASSERT_TRUE(stage_release(&stage_, kStream));
    EXPECT_EQ(CUDA_SUCCESS, Call("cuCtxSynchronize"));
    EXPECT_EQ(BINADE_OK, binade_pool_trim(pool_, 64 * kMiB, nullptr));
    EXPECT_EQ(0u, Stats().mapped_left_bytes);
    Give(grown, kStream);
    Give(border, kStream);
}

} // namespace
