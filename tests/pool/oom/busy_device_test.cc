// SPDX-License-Identifier: Apache-2.0
//
// A stream works and does not end: no call whose wait is bounded asks the driver
// for what waits for it. The stand-in fails such a call instead, and counts it.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/pool/oom/oom_under_test.h"

namespace
{

using pool_test::Defaults;
using pool_test::kKiB;
using pool_test::kMiB;
using pool_test::Pool;
using pool_test::Stream;
using pool_test::Waits;

class BusyDevice : public ::testing::TestWithParam<uint32_t>
{
  protected:
    static void SetUpTestSuite()
    {
        pool_test::UseStandin();
    }

    void SetUp() override
    {
        pool_test::SetFaults("wait:code=999");
        waits_ = Waits();
    }

    void TearDown() override
    {
        EXPECT_EQ(Waits(), waits_);
        pool_test::SetFaults("");
    }

    // Segments are as large as the blocks.
    static moiety_pool_options Of(uint64_t limit_bytes, uint32_t wait_ms)
    {
        moiety_pool_options options = Defaults();
        options.first_segment_bytes = 2 * kMiB;
        options.limit_bytes = limit_bytes;
        options.wait_ms = wait_ms;
        options.flags |= GetParam();
        return options;
    }

    static bool IsMapped()
    {
        return (GetParam() & MOIETY_POOL_MAPPED) != 0;
    }

    // After this, calls that wait are no failure any more.
    void Release(Stream *stream)
    {
        EXPECT_EQ(Waits(), waits_);
        stream->Release();
        pool_test::SetFaults("");
        pool_test::Synchronize();
        waits_ = Waits();
    }

    uint64_t waits_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Kinds, BusyDevice,
                         ::testing::Values(0, MOIETY_POOL_MAPPED));

// It is live, and a third segment has no room: giving the first back is no help.
TEST_P(BusyDevice, IsNotAskedForWhatDoesNotHelp)
{
    Stream busy;
    Pool pool(Of(64 * kMiB, 50));
    const moiety_devptr idle = pool.Alloc(20 * kMiB);
    const moiety_devptr used = pool.Alloc(40 * kMiB, busy);
    pool.Free(idle, MOIETY_STREAM_DONE);
    busy.Hold();
    moiety_devptr block = 77;
    EXPECT_EQ(moiety_alloc(pool, 30 * kMiB, MOIETY_STREAM_LEGACY, &block),
              MOIETY_E_NO_DEVICE_MEMORY);
    Release(&busy);
    pool.Free(used, busy);
}

// Two that lie apart would do: of cuMemAlloc's memory once the device rests, and of
// mapped memory at once.
TEST_P(BusyDevice, KeepsSegmentsUntilItRests)
{
    Stream busy;
    Pool pool(Of(64 * kMiB, 0));
    std::vector<moiety_devptr> blocks;
    while (blocks.size() < 4)
        blocks.push_back(pool.Alloc(16 * kMiB));
    for (size_t i : {0u, 2u})
        pool.Free(blocks[i], MOIETY_STREAM_DONE);
    busy.Hold();
    moiety_devptr block = 0;
    EXPECT_EQ(moiety_alloc(pool, 32 * kMiB, MOIETY_STREAM_LEGACY, &block),
              IsMapped() ? MOIETY_OK : MOIETY_E_NO_DEVICE_MEMORY);
    if (!IsMapped()) {
        EXPECT_EQ(oom_test::LastOom(pool).held_up_bytes, 32 * kMiB);
        EXPECT_NE(std::string(moiety_last_error_message())
                      .find("while the device works"),
                  std::string::npos);
    }
    Release(&busy);
    if (!block)
        block = pool.Alloc(32 * kMiB);
    for (moiety_devptr live : {blocks[1], blocks[3], block})
        pool.Free(live);
}

// A guard forbids the event that would say that the device rests.
TEST_P(BusyDevice, ThatRestsGivesMemoryBackUnderAGuard)
{
    Pool pool(Of(64 * kMiB, 1000));
    std::vector<moiety_devptr> blocks;
    while (blocks.size() < 4)
        blocks.push_back(pool.Alloc(16 * kMiB));
    for (size_t i : {0u, 2u})
        pool.Free(blocks[i], MOIETY_STREAM_DONE);
    ASSERT_EQ(MOIETY_OK, moiety_capture_guard_begin());
    moiety_devptr block = 0;
    EXPECT_EQ(MOIETY_OK,
              moiety_alloc(pool, 32 * kMiB, MOIETY_STREAM_DONE, &block));
    EXPECT_EQ(MOIETY_OK, moiety_capture_guard_end());
    for (moiety_devptr live : {blocks[1], blocks[3], block})
        pool.Free(live);
}

// The wait is for the device, though no block waits for it.
TEST_P(BusyDevice, IsWaitedForWhereThatHelps)
{
    Stream busy;
    moiety_pool_options options = Of(64 * kMiB, 600000);
    Pool pool(options);
    std::vector<moiety_devptr> blocks;
    while (blocks.size() < 4)
        blocks.push_back(pool.Alloc(16 * kMiB));
    for (size_t i : {0u, 2u})
        pool.Free(blocks[i], MOIETY_STREAM_DONE);
    busy.Hold();
    std::thread other([&] {
        // The allocation is at its wait, or not there yet.
        while (!IsMapped() && !pool.Stats().ladder_wait)
            std::this_thread::yield();
        busy.Release();
    });
    blocks.push_back(pool.Alloc(32 * kMiB));
    other.join();
    for (size_t i : {1u, 3u, 4u})
        pool.Free(blocks[i]);
}

TEST_P(BusyDevice, KeepsWhatIsAboveTheWatermark)
{
    Stream busy;
    moiety_pool_options options = Of(0, 0);
    options.watermark_bytes = 8 * kMiB;
    Pool pool(options);
    const moiety_devptr first = pool.Alloc(20 * kMiB);
    const moiety_devptr second = pool.Alloc(20 * kMiB);
    const moiety_devptr used = pool.Alloc(30 * kMiB, busy);
    busy.Hold();
    // Small blocks take of one of them.
    pool.Free(first, MOIETY_STREAM_DONE);
    pool.Free(second, MOIETY_STREAM_DONE);
    std::vector<moiety_devptr> blocks;
    while (blocks.size() < 100)
        blocks.push_back(pool.Alloc(100 * kKiB + 512 * blocks.size()));
    Release(&busy);
    // Later misses give it back.
    while (blocks.size() < 200)
        blocks.push_back(pool.Alloc(100 * kKiB + 512 * blocks.size()));
    EXPECT_LT(pool.Stats().reserved_bytes_current, 70 * kMiB);
    for (moiety_devptr block : blocks)
        pool.Free(block, MOIETY_STREAM_DONE);
    pool.Free(used, busy);
}

// Another pool's memory; the asker is told that there is none, and may ask again.
TEST_P(BusyDevice, KeepsWhatOtherPoolsDoNotUse)
{
    Stream busy;
    Pool rich(Of(0, 0));
    moiety_pool_options options = Of(0, 0);
    options.flags &= ~MOIETY_POOL_MAPPED;
    Pool poor(options);
    const size_t all = rich.Stats().limit_bytes;
    rich.Free(rich.Alloc(all - 64 * kMiB), MOIETY_STREAM_DONE);
    busy.Hold();
    moiety_devptr block = 0;
    EXPECT_EQ(moiety_alloc(poor, 200 * kMiB, MOIETY_STREAM_LEGACY, &block),
              IsMapped() ? MOIETY_OK : MOIETY_E_NO_DEVICE_MEMORY);
    EXPECT_EQ(moiety_pool_reserve(poor, 300 * kMiB),
              IsMapped() ? MOIETY_OK : MOIETY_E_NO_DEVICE_MEMORY);
    Release(&busy);
    if (!block)
        block = poor.Alloc(200 * kMiB);
    poor.Free(block);
}

// It waits, and the other pools are asked once more when the device rests.
TEST_P(BusyDevice, IsWaitedForWhereOtherPoolsHaveSomething)
{
    Stream busy;
    Pool rich(Of(0, 0));
    moiety_pool_options options = Of(0, 600000);
    options.flags &= ~MOIETY_POOL_MAPPED;
    Pool poor(options);
    const size_t all = rich.Stats().limit_bytes;
    rich.Free(rich.Alloc(all - 64 * kMiB), MOIETY_STREAM_DONE);
    busy.Hold();
    std::thread other([&] {
        while (!IsMapped() && !poor.Stats().ladder_wait)
            std::this_thread::yield();
        busy.Release();
    });
    poor.Free(poor.Alloc(200 * kMiB));
    other.join();
}

TEST_P(BusyDevice, IsWaitedForInATrim)
{
    Stream busy;
    Pool pool(Of(64 * kMiB, 0));
    pool.Free(pool.Alloc(20 * kMiB), MOIETY_STREAM_DONE);
    busy.Hold();
    uint64_t bytes = 0;
    EXPECT_EQ(moiety_pool_trim(pool, 0, &bytes),
              IsMapped() ? MOIETY_OK : MOIETY_E_DRIVER);
    EXPECT_EQ(Waits() - waits_, IsMapped() ? 0u : 1u);
    waits_ = Waits();
    Release(&busy);
    EXPECT_EQ(pool.Trim(), IsMapped() ? 0u : 20 * kMiB);
}

} // namespace
