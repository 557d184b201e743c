// SPDX-License-Identifier: Apache-2.0
//
// Memsets of each width, synchronous and in stream order.
#include <cstring>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/roles.h"

namespace conformance
{

using Memsets = OnDevice;

namespace
{

uint32_t WordAt(CUdeviceptr address)
{
    uint32_t word = 0;
    std::memcpy(&word, BytesAt(address, sizeof word).data(), sizeof word);
    return word;
}

} // namespace

TEST_F(Memsets, EachWidth)
{
    DeviceBlock block(4096);
    EXPECT_SUCCESS("memset.d8", cu.MemsetD8(block, 0xab, 4096));
    EXPECT_SAME("memset.d8.value", WordAt(block + 4092), 0xababababu);
    EXPECT_SUCCESS("memset.d16", cu.MemsetD16(block, 0x1234, 2048));
    EXPECT_SAME("memset.d16.value", WordAt(block + 4092), 0x12341234u);
    EXPECT_SUCCESS("memset.d32", cu.MemsetD32(block, 0x89abcdef, 1024));
    EXPECT_SAME("memset.d32.value", WordAt(block + 4092), 0x89abcdefu);
}

TEST_F(Memsets, EachWidthInStreamOrder)
{
    DeviceBlock block(4096);
    Stream stream;
    EXPECT_SUCCESS("memset.async.d8", cu.MemsetD8Async(block, 1, 4096, stream));
    EXPECT_SUCCESS("memset.async.d16",
                   cu.MemsetD16Async(block, 0x0202, 1024, stream));
    EXPECT_SUCCESS("memset.async.d32",
                   cu.MemsetD32Async(block, 0x03030303, 256, stream));
    MUST(cu.StreamSynchronize(stream));
    EXPECT_YES("memset.async.first-kibibyte", AllBytesAre(block, 1024, 3));
    EXPECT_YES("memset.async.second-kibibyte",
               AllBytesAre(block + 1024, 1024, 2));
    EXPECT_YES("memset.async.the-rest", AllBytesAre(block + 2048, 2048, 1));
}

TEST_F(Memsets, Rectangles)
{
    DeviceBlock block(4096);
    EXPECT_SUCCESS("memset.2d.d8", cu.MemsetD2D8(block, 512, 7, 100, 8));
    EXPECT_YES("memset.2d.d8.inside", AllBytesAre(block + 7 * 512, 100, 7));
    EXPECT_YES("memset.2d.d8.padding", AllBytesAre(block + 100, 412, 0));
    EXPECT_SUCCESS("memset.2d.d32",
                   cu.MemsetD2D32(block, 512, 0x01010101, 10, 8));
    EXPECT_YES("memset.2d.d32.inside", AllBytesAre(block + 512, 40, 1));
    EXPECT_YES("memset.2d.d32.beside", AllBytesAre(block + 512 + 40, 60, 7));
}

TEST_F(Memsets, BadArguments)
{
    DeviceBlock block(4 * kMiB);
    EXPECT_INVALID("memset.d16.misaligned", cu.MemsetD16(block + 1, 0, 8));
    EXPECT_INVALID("memset.d32.misaligned", cu.MemsetD32(block + 2, 0, 8));
    EXPECT_INVALID("memset.d8.null", cu.MemsetD8(0, 0, 8));
    EXPECT_INVALID("memset.d8.past-the-end",
                   cu.MemsetD8(block, 0, 4 * kMiB + 512));
    EXPECT_SUCCESS("memset.d8.count-0", cu.MemsetD8(block, 0, 0));
    EXPECT_INVALID("memset.2d.pitch-below-width",
                   cu.MemsetD2D8(block, 64, 0, 100, 8));
}

/* In a process of its own: should the driver let one of these through, the
 * fault would take the context along. */
ROLE(memset_unknown_addresses)
{
    int local = 0;
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    EXPECT_INVALID("memset.d8.never-allocated", cu.MemsetD8(kNowhere, 0, 8));
    EXPECT_INVALID("memset.async.d8.never-allocated",
                   cu.MemsetD8Async(kNowhere, 0, 8, nullptr));
    EXPECT_SUCCESS("memset.unknown-addresses.context-survives",
                   cu.CtxSynchronize());
    EXPECT_INVALID("memset.d8.plain-host",
                   cu.MemsetD8(reinterpret_cast<CUdeviceptr>(&local), 0, 4));
}

TEST_F(Memsets, UnknownAddresses)
{
    RunRole("memset_unknown_addresses");
}

/* Nothing waits for a memset of device memory but its stream. */
TEST_F(Memsets, SynchronousOneOrdersTheLegacyStreamOnly)
{
    DeviceBlock block(4096);
    Background setter;
    Stream stream;
    StreamHold hold(stream);
    setter.Start([&] { return cu.MemsetD8(block, 1, 4096); });
    EXPECT_YES("memset.d8.ignores-non-blocking-stream",
               setter.ReturnsWithin(kRequiredMs));
    hold.Release();
    MUST(setter.Result());
}

} // namespace conformance
