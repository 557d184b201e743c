// SPDX-License-Identifier: Apache-2.0
//
// The host rule: no stream orders the CPU, so what a stream may still be
// reading is not given to it to write.
#include <algorithm>
#include <vector>

#include "tests/host/arena_under_test.h"
#include "tests/streams/device.h"
#include "tests/streams/pool_under_test.h"

namespace host_test
{
namespace
{

using namespace streams_test;

constexpr uint32_t kOld = 0x01dd1e57u;
constexpr uint32_t kNew = 0x5eed5eedu;
constexpr size_t kBytes = streams_test::kPoolBytes;

// All of an arena of 2 MiB, in blocks that a test owns, full of old bytes; and
// as much device memory.
class HostRule : public ::testing::TestWithParam<Load>
{
  protected:
    HostRule() : arena_(Tight())
    {
        EXPECT_EQ(MOIETY_OK, moiety_pool_create(nullptr, &device_));
        EXPECT_EQ(MOIETY_OK, moiety_alloc(device_, kBytes, stream_, &copy_));
        for (size_t i = 0; i < kBytes / size_bytes(); i++)
            Fill(blocks_.emplace_back(arena_.Alloc(size_bytes())), kOld);
    }
    ~HostRule() override
    {
        EXPECT_EQ(MOIETY_OK, moiety_free(device_, copy_, stream_));
        EXPECT_EQ(MOIETY_OK, moiety_pool_destroy(device_, nullptr));
        for (void *block : blocks_)
            arena_.Free(block);
    }

    size_t size_bytes() const
    {
        return GetParam().size_bytes;
    }
    void Fill(void *block, uint32_t word) const
    {
        std::fill_n(static_cast<uint32_t *>(block), size_bytes() / 4, word);
    }

    // Copies all to the device and lets go of it, as the copy is queued. It is
    // one copy: who puts some thousand on a stream that is held waits for it.
    void StageAndFree(moiety_stream freed_on)
    {
        void *lowest = *std::min_element(blocks_.begin(), blocks_.end());
        void *highest = *std::max_element(blocks_.begin(), blocks_.end());
        moiety_devptr from = 0;
        ASSERT_EQ(kBytes - size_bytes(),
                  static_cast<size_t>(static_cast<char *>(highest) -
                                      static_cast<char *>(lowest)));
        EXPECT_EQ(MOIETY_OK, moiety_host_device_address(arena_, lowest, &from));
        MUST(streams_test::cu.MemcpyDtoDAsync(copy_, from, kBytes, stream_));
        for (void *block : blocks_)
            arena_.Free(block, freed_on);
        blocks_.clear();
    }
    // What a program does next: it asks, and writes what it gets.
    moiety_status TakeAndWrite(moiety_stream stream = MOIETY_HOST_CPU)
    {
        void *block = nullptr;
        moiety_status status =
            moiety_host_alloc(arena_, size_bytes(), stream, &block);
        if (status == MOIETY_OK && stream == MOIETY_HOST_CPU)
            Fill(block, kNew);
        if (status == MOIETY_OK)
            blocks_.push_back(block);
        return status;
    }
    bool CopyIsOld()
    {
        return streams_test::Holds(stream_, copy_, kBytes, kOld);
    }

    Stream stream_;
    Arena arena_;
    moiety_pool *device_ = nullptr;
    moiety_devptr copy_ = 0;
    std::vector<void *> blocks_;
};

INSTANTIATE_TEST_SUITE_P(Blocks, HostRule,
                         ::testing::Values(streams_test::kFew,
                                           streams_test::kSome,
                                           streams_test::kMany,
                                           streams_test::kRun),
                         streams_test::NameOf);

TEST_P(HostRule, ACopyDeliversWhatWasStagedForIt)
{
    Hold hold(stream_);
    StageAndFree(stream_);
    // All may serve the copy stream, and nothing the CPU: at once, and also
    // when the first attempt has retired the thread's caches.
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY, TakeAndWrite()) << i;
    hold.Release();
    EXPECT_TRUE(CopyIsOld());
}

TEST_P(HostRule, TheCpuIsServedWhenTheCopyIsOver)
{
    Hold hold(stream_);
    StageAndFree(stream_);
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY, TakeAndWrite());
    hold.Release();
    EXPECT_TRUE(CopyIsOld());
    EXPECT_EQ(MOIETY_OK, TakeAndWrite());
}

TEST_P(HostRule, DeviceOrderedIsServedAtOnceOnItsStream)
{
    Stream other;
    Hold hold(stream_);
    StageAndFree(stream_);
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY, TakeAndWrite(other));
    hold.Release();
    EXPECT_TRUE(CopyIsOld());
}

TEST_P(HostRule, DeviceOrderedCostsNoWait)
{
    Hold hold(stream_);
    StageAndFree(stream_);
    EXPECT_EQ(MOIETY_OK, TakeAndWrite(stream_));
    hold.Release();
    EXPECT_TRUE(CopyIsOld());
}

TEST_P(HostRule, FreedWithoutAStreamItWaitsForAll)
{
    Hold hold(stream_);
    StageAndFree(MOIETY_STREAM_ANY);
    EXPECT_EQ(MOIETY_E_NO_PINNED_MEMORY, TakeAndWrite());
    hold.Release();
    EXPECT_TRUE(CopyIsOld());
    EXPECT_EQ(MOIETY_OK, TakeAndWrite());
}

// The caller said so: another stream's work is none of the arena's business.
TEST_P(HostRule, FreedDoneItServesTheCpuAtOnce)
{
    Hold hold(stream_);
    for (void *block : blocks_)
        arena_.Free(block, MOIETY_STREAM_DONE);
    blocks_.clear();
    EXPECT_EQ(MOIETY_OK, TakeAndWrite());
    hold.Release();
}

} // namespace
} // namespace host_test
