// SPDX-License-Identifier: Apache-2.0
//
// A pool whose mapped memory moves, while another thread of the same stream uses
// it: a call that grows stands still before it looks for what can move.
#include <gtest/gtest.h>

#include <thread>

#include "moiety/pool.h"
#include "moiety/stats.h"
#include "moiety/stream.h"
#include "pool/driver/cuda_abi.h"
#include "tests/support/tools/pools.h"

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
        moiety_pool_options options = driver_options();
        set_kind(&options, KIND_MAPPED);
        options.limit_bytes = 64 * kMiB;
        options.wait_ms = MOIETY_WAIT_NONE;
        options.thread_cache_bytes = MOIETY_BYTES_NONE;
        ASSERT_EQ(MOIETY_OK, moiety_pool_create(&options, &pool_));
    }

    void TearDown() override
    {
        EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(pool_, nullptr));
        stage_fini(&stage_);
    }

    moiety_stream Handle(unsigned index) const
    {
        return stage_.streams[index].handle;
    }

    moiety_devptr Take(size_t mebibytes, unsigned index)
    {
        moiety_devptr block = 0;
        EXPECT_EQ(MOIETY_OK,
                  moiety_alloc(pool_, mebibytes * kMiB, Handle(index), &block));
        return block;
    }

    void Give(moiety_devptr block, unsigned index)
    {
        EXPECT_EQ(MOIETY_OK, moiety_free(pool_, block, Handle(index)));
    }

    // Frees a block, and has an event of the context recorded behind it.
    void GiveAndRecord(moiety_devptr block, unsigned index)
    {
        Give(block, index);
        EXPECT_EQ(MOIETY_OK, moiety_capture_guard_begin());
        EXPECT_EQ(MOIETY_OK, moiety_capture_guard_end());
    }

    moiety_pool_stats Stats()
    {
        moiety_pool_stats stats = {};
        stats.struct_size = sizeof stats;
        EXPECT_EQ(MOIETY_OK, moiety_pool_get_stats(pool_, &stats));
        return stats;
    }

    struct stage stage_ = {};
    moiety_pool *pool_ = nullptr;
};

// The next two events are recorded, and then work is queued at the place that
// the grower is about to take: it waits for an event behind that work.
TEST_F(MoveStep, WorkThatIsQueuedBeforeTheClaimKeepsItsAddress)
{
    moiety_devptr moving = Take(8, kStream);
    moiety_devptr border = Take(2, kStream);
    moiety_devptr first = Take(2, kOther), second = Take(2, kThird);
    moiety_devptr grown = 0;
    // The grower has a look at the stream's heap, as it is not empty.
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
    EXPECT_EQ(2u, Stats().mapped_moves); // of 4 MiB
    // Unmaps what is over.
    EXPECT_EQ(MOIETY_OK, moiety_pool_trim(pool_, 64 * kMiB, nullptr));
    EXPECT_EQ(8 * kMiB, Stats().mapped_left_bytes);
    ASSERT_TRUE(stage_release(&stage_, kStream));
    EXPECT_EQ(CUDA_SUCCESS, Call("cuCtxSynchronize"));
    EXPECT_EQ(MOIETY_OK, moiety_pool_trim(pool_, 64 * kMiB, nullptr));
    EXPECT_EQ(0u, Stats().mapped_left_bytes);
    Give(grown, kStream);
    Give(border, kStream);
}

// The event lies before work that is queued now, so what that work needs waits for
// the next one.
TEST_F(MoveStep, WorkBehindAnEventThatIsBeingRecordedKeepsItsAddress)
{
    moiety_devptr moving = Take(8, kStream);
    moiety_devptr border = Take(2, kStream);
    Give(Take(2, kOther), kOther);
    std::thread recorder([&] {
        (void)stage_enter();
        freeze_wish wish = {"epoch.recorded", 1};
        freeze_follow(&wish);
        EXPECT_EQ(MOIETY_E_TIMEOUT, moiety_pool_synchronize(pool_, 0));
        freeze_follow(nullptr);
    });
    while (!freeze_is_on())
        std::this_thread::yield();
    ASSERT_TRUE(stage_hold(&stage_, kStream));
    ASSERT_EQ(CUDA_SUCCESS,
              Call("cuMemsetD32Async", static_cast<CUdeviceptr>(moving), 1u,
                   8 * kMiB / 4, static_cast<CUstream>(Handle(kStream))));
    Give(moving, kStream);
    moiety_devptr grown = Take(16, kStream);
    EXPECT_EQ(2u, Stats().mapped_moves); // of 4 MiB
    freeze_release();
    recorder.join();
    EXPECT_EQ(MOIETY_OK, moiety_pool_trim(pool_, 64 * kMiB, nullptr));
    EXPECT_EQ(8 * kMiB, Stats().mapped_left_bytes);
    ASSERT_TRUE(stage_release(&stage_, kStream));
    EXPECT_EQ(CUDA_SUCCESS, Call("cuCtxSynchronize"));
    EXPECT_EQ(MOIETY_OK, moiety_pool_trim(pool_, 64 * kMiB, nullptr));
    EXPECT_EQ(0u, Stats().mapped_left_bytes);
    Give(grown, kStream);
    Give(border, kStream);
}

} // namespace
