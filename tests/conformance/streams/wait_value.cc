// SPDX-License-Identifier: Apache-2.0
//
// cuStreamWaitValue32 and cuStreamWriteValue32.
#include <functional>
#include <utility>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using WaitValue = OnDevice;

namespace
{

void Store(PinnedBlock &block, uint32_t value)
{
    __atomic_store_n(reinterpret_cast<volatile uint32_t *>(block.bytes), value,
                     __ATOMIC_RELEASE);
}

uint32_t Load(const PinnedBlock &block)
{
    return __atomic_load_n(
        reinterpret_cast<const volatile uint32_t *>(block.bytes),
        __ATOMIC_ACQUIRE);
}

/* Releases what waits, however the test ends. */
class Finally
{
  public:
    explicit Finally(std::function<void()> last) : last_(std::move(last)) {}
    ~Finally()
    {
        last_();
    }
    Finally(const Finally &) = delete;
    Finally &operator=(const Finally &) = delete;

  private:
    std::function<void()> last_;
};

} // namespace

TEST_F(WaitValue, EachComparison)
{
    /* `blocked` must hold the stream that compares with 4, `passing` not. */
    const struct {
        const char *name;
        unsigned flags;
        uint32_t blocked;
        uint32_t passing;
    } rows[] = {
        {"wait-value.geq", CU_STREAM_WAIT_VALUE_GEQ, 3, 9},
        /* The difference is taken as signed, so that counters may wrap. */
        {"wait-value.geq.wraps", CU_STREAM_WAIT_VALUE_GEQ, 0x80000005u, 4},
        {"wait-value.eq", CU_STREAM_WAIT_VALUE_EQ, 5, 4},
        {"wait-value.and", CU_STREAM_WAIT_VALUE_AND, 3, 12},
        {"wait-value.nor", CU_STREAM_WAIT_VALUE_NOR, 0xffffffffu, 3},
    };
    for (const auto &row : rows) {
        PinnedBlock word(4096);
        Stream stream;
        Finally release([&] { Store(word, row.passing); });
        Store(word, row.blocked);
        EXPECT_SUCCESS(
            row.name, cu.StreamWaitValue32(stream, word.address, 4, row.flags));
        EXPECT_CU(std::string(row.name) + ".holds", StillHeld(stream),
                  CUDA_ERROR_NOT_READY);
        Store(word, row.passing);
        EXPECT_SUCCESS(std::string(row.name) + ".passes",
                       Settled(stream.handle));
    }
}

TEST_F(WaitValue, OneStreamReleasesAnother)
{
    PinnedBlock word(4096);
    Stream waiting, writing;
    Finally release([&] { Store(word, 1); });
    MUST(cu.StreamWaitValue32(waiting, word.address, 1,
                              CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_CU("wait-value.other-stream.holds", StillHeld(waiting),
              CUDA_ERROR_NOT_READY);
    EXPECT_SUCCESS("write-value",
                   cu.StreamWriteValue32(writing, word.address, 1, 0));
    EXPECT_SUCCESS("wait-value.other-stream.passes", Settled(waiting.handle));
    EXPECT_SAME("write-value.is-seen-by-host", Load(word), 1u);
}

TEST_F(WaitValue, DeviceMemoryWorksToo)
{
    DeviceBlock word(4096);
    Stream waiting, writing;
    Finally release([&] { cu.MemsetD32Async(word, 7, 1, writing); });
    EXPECT_SUCCESS(
        "wait-value.device-memory",
        cu.StreamWaitValue32(waiting, word, 7, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT_CU("wait-value.device-memory.holds", StillHeld(waiting),
              CUDA_ERROR_NOT_READY);
    EXPECT_SUCCESS("write-value.device-memory",
                   cu.StreamWriteValue32(writing, word, 7, 0));
    EXPECT_SUCCESS("wait-value.device-memory.passes", Settled(waiting.handle));
}

TEST_F(WaitValue, WriteIsOrdered)
{
    PinnedBlock word(4096);
    Stream stream;
    StreamHold hold(stream);
    MUST(cu.StreamWriteValue32(stream, word.address, 1, 0));
    Pause(50);
    EXPECT_SAME("write-value.waits-for-earlier-work", Load(word), 0u);
    hold.Release();
    MUST(cu.StreamSynchronize(stream));
    EXPECT_SAME("write-value.comes-after-earlier-work", Load(word), 1u);
}

TEST_F(WaitValue, BadArguments)
{
    PinnedBlock word(4096);
    Stream stream;
    EXPECT_INVALID("wait-value.misaligned",
                   cu.StreamWaitValue32(stream, word.address + 2, 0,
                                        CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_INVALID("wait-value.unknown-flags",
                   cu.StreamWaitValue32(stream, word.address, 0, 0x100));
    EXPECT_INVALID(
        "wait-value.null-address",
        cu.StreamWaitValue32(stream, 0, 0, CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_INVALID("write-value.misaligned",
                   cu.StreamWriteValue32(stream, word.address + 2, 0, 0));
    EXPECT_INVALID("write-value.unknown-flags",
                   cu.StreamWriteValue32(stream, word.address, 0, 0x100));
    EXPECT_INVALID(
        "write-value.no-memory-barrier",
        cu.StreamWriteValue32(stream, word.address, 0,
                              CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    EXPECT_INVALID("write-value.null-address",
                   cu.StreamWriteValue32(stream, 0, 0, 0));
}

} // namespace conformance
