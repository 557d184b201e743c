// SPDX-License-Identifier: Apache-2.0
//
// A stream works and does not end: no call whose wait is bounded asks the driver
// for what waits for it. The stand-in fails such a call instead, and counts it.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/pool/oom/oom_under_test.h"
#include "tests/support/tools/pools.h"

namespace
{

using namespace pool_test;

// A wait that does not end by itself.
constexpr uint32_t kLong = 600000;
constexpr uint64_t kMost = UINT64_MAX;

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
        options.wait_ms = wait_of(wait_ms);
        set_kind(&options, GetParam());
        return options;
    }

    // That waits for what another pool has.
    static moiety_pool_options Fixed(uint32_t wait_ms)
    {
        moiety_pool_options options = Of(0, wait_ms);
        options.memory = MOIETY_MEMORY_DRIVER;
        return options;
    }

    static bool IsMapped()
    {
        return (GetParam() & KIND_MAPPED) != 0;
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

// What this thread does when it waits, and is asked for the first time whether it
// is to go on; it returns 0, or ends the wait.
class InWait
{
  public:
    explicit InWait(std::function<int()> act) : act_(std::move(act))
    {
        moiety_set_interrupt(Ask, this);
    }

    ~InWait()
    {
        moiety_set_interrupt(nullptr, nullptr);
    }

    InWait(const InWait &) = delete;
    InWait &operator=(const InWait &) = delete;

    bool WasAsked() const
    {
        return was_asked_;
    }

  private:
    static int Ask(void *user)
    {
        auto *self = static_cast<InWait *>(user);
        return std::exchange(self->was_asked_, true) ? 0 : self->act_();
    }

    std::function<int()> act_;
    bool was_asked_ = false;
};

// A pool of 64 MiB with four segments, of which two that lie apart are idle: they
// would do for a block of 32 MiB.
class Apart
{
  public:
    explicit Apart(const moiety_pool_options &options) : pool_(options)
    {
        while (blocks_.size() < 4)
            blocks_.push_back(pool_.Alloc(16 * kMiB));
        for (size_t i : {0u, 2u})
            pool_.Free(blocks_[i], MOIETY_STREAM_DONE);
        blocks_ = {blocks_[1], blocks_[3]};
    }

    ~Apart()
    {
        for (moiety_devptr block : blocks_)
            pool_.Free(block);
    }

    Apart(const Apart &) = delete;
    Apart &operator=(const Apart &) = delete;
    operator moiety_pool *() const
    {
        return pool_;
    }

    moiety_status Alloc()
    {
        moiety_devptr block = 0;
        moiety_status status =
            moiety_alloc(pool_, 32 * kMiB, MOIETY_STREAM_LEGACY, &block);
        if (block)
            blocks_.push_back(block);
        return status;
    }

  private:
    Pool pool_;
    std::vector<moiety_devptr> blocks_;
};

// A pool with all of the device's memory but 64 MiB, of which `idle_bytes`
// are idle, or all of it.
class Rich
{
  public:
    Rich(const moiety_pool_options &options, uint64_t idle_bytes)
        : pool_(options)
    {
        const uint64_t all = pool_.Stats().limit_bytes - 64 * kMiB;
        const uint64_t idle = idle_bytes < all ? idle_bytes : all;
        if (all > idle)
            live_ = pool_.Alloc(all - idle);
        pool_.Free(pool_.Alloc(idle), MOIETY_STREAM_DONE);
    }

    ~Rich()
    {
        pool_.Free(live_);
    }

    Rich(const Rich &) = delete;
    Rich &operator=(const Rich &) = delete;

  private:
    Pool pool_;
    moiety_devptr live_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Kinds, BusyDevice, ::testing::Values(0, KIND_MAPPED));

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

// Of cuMemAlloc's memory; mapped memory moves at once.
TEST_P(BusyDevice, KeepsSegmentsUntilItRests)
{
    Stream busy;
    Apart pool(Of(64 * kMiB, 0));
    busy.Hold();
    EXPECT_EQ(pool.Alloc(), IsMapped() ? MOIETY_OK : MOIETY_E_NO_DEVICE_MEMORY);
    if (!IsMapped()) {
        EXPECT_EQ(oom_test::LastOom(pool).held_up_bytes, 32 * kMiB);
        EXPECT_NE(std::string(moiety_last_error_message())
                      .find("while the device works"),
                  std::string::npos);
    }
    Release(&busy);
    if (!IsMapped()) {
        EXPECT_OK(pool.Alloc());
    }
}

// A guard forbids the event that would say that the device rests.
TEST_P(BusyDevice, ThatRestsGivesMemoryBackUnderAGuard)
{
    Apart pool(Of(64 * kMiB, 1000));
    ASSERT_OK(moiety_capture_guard_begin());
    EXPECT_OK(pool.Alloc());
    EXPECT_OK(moiety_capture_guard_end());
}

// The wait is for the device, though no block waits for it.
TEST_P(BusyDevice, IsWaitedForWhereThatHelps)
{
    Apart pool(Of(64 * kMiB, kLong));
    Stream busy;
    busy.Hold();
    InWait wait([&] { return busy.Release(), 0; });
    EXPECT_OK(pool.Alloc());
    EXPECT_EQ(!IsMapped(), wait.WasAsked());
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
    Rich rich(Of(0, 0), kMost);
    Pool poor(Fixed(0));
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
    for (bool is_reserve : {false, true}) {
        Rich rich(Of(0, 0), kMost);
        Pool poor(Fixed(kLong));
        Stream busy;
        busy.Hold();
        InWait wait([&] { return busy.Release(), 0; });
        if (is_reserve) {
            EXPECT_OK(moiety_pool_reserve(poor, 200 * kMiB));
        } else {
            poor.Free(poor.Alloc(200 * kMiB), MOIETY_STREAM_DONE);
        }
        EXPECT_EQ(!IsMapped(), wait.WasAsked());
    }
}

TEST_P(BusyDevice, IsWaitedForInAReserveThatMayBeEnded)
{
    Rich rich(Of(0, 0), kMost);
    Pool poor(Fixed(kLong));
    Stream busy;
    busy.Hold();
    InWait wait([] { return 1; });
    EXPECT_EQ(moiety_pool_reserve(poor, 200 * kMiB),
              IsMapped() ? MOIETY_OK : MOIETY_E_NO_DEVICE_MEMORY);
    EXPECT_EQ(!IsMapped(), wait.WasAsked());
}

// With what the device has free, 64 MiB, what is idle is 104 MiB.
TEST_P(BusyDevice, IsNotWaitedForWhereOtherPoolsHaveTooLittle)
{
    for (uint64_t mib : {100, 110}) {
        Rich rich(Of(0, 0), 40 * kMiB);
        Pool poor(Fixed(kLong));
        Stream busy;
        busy.Hold();
        InWait wait([] { return 1; });
        moiety_devptr block = 0;
        const bool is_there = IsMapped() && mib == 100;
        const moiety_status status =
            is_there ? MOIETY_OK : MOIETY_E_NO_DEVICE_MEMORY;
        const bool is_waited_for = !IsMapped() && mib == 100;
        EXPECT_EQ(status,
                  moiety_alloc(poor, mib * kMiB, MOIETY_STREAM_LEGACY, &block));
        EXPECT_EQ(is_waited_for, wait.WasAsked());
        poor.Free(block, MOIETY_STREAM_DONE);
        InWait again([] { return 1; });
        EXPECT_EQ(status, moiety_pool_reserve(poor, mib * kMiB));
        EXPECT_EQ(is_waited_for, again.WasAsked());
    }
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
