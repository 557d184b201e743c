// SPDX-License-Identifier: Apache-2.0
//
// Copies between all kinds of memory, synchronous and in stream order.
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/roles.h"

namespace conformance
{

using Copies = OnDevice;

namespace
{

std::vector<unsigned char> Pattern(size_t size_bytes)
{
    std::vector<unsigned char> bytes(size_bytes);
    for (size_t i = 0; i < size_bytes; i++)
        bytes[i] = static_cast<unsigned char>(i * 7 + i / 251);
    return bytes;
}

CUdeviceptr AddressOf(const void *host)
{
    return reinterpret_cast<CUdeviceptr>(host);
}

} // namespace

TEST_F(Copies, ThereAndBack)
{
    constexpr size_t size_bytes = 3 * kMiB + 5;
    DeviceBlock first(size_bytes), second(size_bytes);
    std::vector<unsigned char> sent = Pattern(size_bytes), back(size_bytes);
    EXPECT_SUCCESS("copy.h-to-d",
                   cu.MemcpyHtoD(first, sent.data(), size_bytes));
    EXPECT_SUCCESS("copy.d-to-d", cu.MemcpyDtoD(second, first, size_bytes));
    EXPECT_SUCCESS("copy.d-to-h",
                   cu.MemcpyDtoH(back.data(), second, size_bytes));
    EXPECT_YES("copy.there-and-back.is-the-same", sent == back);
}

TEST_F(Copies, AnyToAny)
{
    constexpr size_t size_bytes = 64 * kKiB;
    DeviceBlock device(size_bytes);
    std::vector<unsigned char> sent = Pattern(size_bytes), back(size_bytes);
    EXPECT_SUCCESS("copy.any.host-to-device",
                   cu.Memcpy(device, AddressOf(sent.data()), size_bytes));
    EXPECT_SUCCESS("copy.any.device-to-host",
                   cu.Memcpy(AddressOf(back.data()), device, size_bytes));
    EXPECT_YES("copy.any.is-the-same", sent == back);
    std::vector<unsigned char> third(size_bytes);
    EXPECT_SUCCESS(
        "copy.any.host-to-host",
        cu.Memcpy(AddressOf(third.data()), AddressOf(sent.data()), size_bytes));
    EXPECT_YES("copy.any.host-to-host.is-the-same", sent == third);
}

TEST_F(Copies, AsynchronousFromPinned)
{
    constexpr size_t size_bytes = kMiB;
    DeviceBlock device(size_bytes);
    PinnedBlock source(size_bytes), target(size_bytes);
    Stream stream;
    std::memset(source.bytes, 1, size_bytes);
    StreamHold hold(stream);
    EXPECT_SUCCESS("copy.async.h-to-d", cu.MemcpyHtoDAsync(device, source.bytes,
                                                           size_bytes, stream));
    EXPECT_SUCCESS("copy.async.d-to-h", cu.MemcpyDtoHAsync(target.bytes, device,
                                                           size_bytes, stream));
    /* Pinned sources are read when the copy runs, not when it is queued. */
    std::memset(source.bytes, 2, size_bytes);
    EXPECT_SAME("copy.async.has-not-run", int{target.bytes[0]}, 0);
    hold.Release();
    MUST(cu.StreamSynchronize(stream));
    EXPECT_SAME("copy.async.pinned-source-is-read-late",
                int{target.bytes[size_bytes - 1]}, 2);
}

TEST_F(Copies, AsynchronousBetweenDeviceBlocks)
{
    DeviceBlock source(64 * kKiB), target(64 * kKiB);
    Stream stream;
    MUST(cu.MemsetD8Async(source, 4, 64 * kKiB, stream));
    EXPECT_SUCCESS("copy.async.d-to-d",
                   cu.MemcpyDtoDAsync(target, source, 64 * kKiB, stream));
    EXPECT_SUCCESS("copy.async.any",
                   cu.MemcpyAsync(source, target, 64 * kKiB, stream));
    MUST(cu.StreamSynchronize(stream));
    EXPECT_YES("copy.async.d-to-d.is-the-same",
               AllBytesAre(target, 64 * kKiB, 4));
}

/* Small pageable sources are copied aside before the call returns. */
TEST_F(Copies, PageableSourceIsReadEarly)
{
    DeviceBlock device(4096);
    std::vector<unsigned char> source(4096, 1);
    Background copier;
    Stream stream;
    StreamHold hold(stream);
    copier.Start([&] {
        return cu.MemcpyHtoDAsync(device, source.data(), 4096, stream);
    });
    EXPECT_YES("copy.async.pageable-source.does-not-wait",
               copier.ReturnsWithin(kRequiredMs));
    source.assign(4096, 2);
    hold.Release();
    EXPECT_SUCCESS("copy.async.pageable-source", copier.Result());
    MUST(cu.StreamSynchronize(stream));
    EXPECT_YES("copy.async.pageable-source.is-read-early",
               AllBytesAre(device, 4096, 1));
}

TEST_F(Copies, PageableTargetMakesTheCallWait)
{
    DeviceBlock device(4096);
    std::vector<unsigned char> target(4096, 1);
    Background copier;
    Stream stream;
    StreamHold hold(stream);
    copier.Start([&] {
        return cu.MemcpyDtoHAsync(target.data(), device, 4096, stream);
    });
    EXPECT_YES("copy.async.pageable-target.waits",
               !copier.ReturnsWithin(kForbiddenMs));
    hold.Release();
    EXPECT_SUCCESS("copy.async.pageable-target", copier.Result());
    EXPECT_SAME("copy.async.pageable-target.is-done-on-return",
                int{target[4095]}, 0);
}

TEST_F(Copies, NothingIsCopiedForSizeZero)
{
    DeviceBlock device(4096);
    char local = 0;
    EXPECT_SUCCESS("copy.size-0.h-to-d", cu.MemcpyHtoD(device, &local, 0));
    EXPECT_SUCCESS("copy.size-0.d-to-d", cu.MemcpyDtoD(device, device, 0));
}

TEST_F(Copies, BadAddresses)
{
    DeviceBlock device(4 * kMiB);
    std::vector<unsigned char> local(4 * kMiB + 512);
    EXPECT_INVALID("copy.h-to-d.null-source",
                   cu.MemcpyHtoD(device, nullptr, 16));
    EXPECT_INVALID("copy.h-to-d.null-target",
                   cu.MemcpyHtoD(0, local.data(), 16));
    EXPECT_INVALID("copy.d-to-h.null-target",
                   cu.MemcpyDtoH(nullptr, device, 16));
    EXPECT_INVALID("copy.h-to-d.past-the-end",
                   cu.MemcpyHtoD(device, local.data(), 4 * kMiB + 512));
    EXPECT_INVALID("copy.d-to-h.past-the-end",
                   cu.MemcpyDtoH(local.data(), device + 512, 4 * kMiB));
}

/* In a process of its own: should the driver let one of these through, the
 * fault would take the process along. */
ROLE(copy_unknown_addresses)
{
    char local[16] = "", other[16] = "";
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    EXPECT_INVALID("copy.h-to-d.never-allocated",
                   cu.MemcpyHtoD(kNowhere, local, 16));
    EXPECT_INVALID("copy.d-to-h.never-allocated",
                   cu.MemcpyDtoH(local, kNowhere, 16));
    EXPECT_SUCCESS("copy.unknown-addresses.context-survives",
                   cu.CtxSynchronize());
    EXPECT_INVALID("copy.h-to-d.host-target",
                   cu.MemcpyHtoD(AddressOf(other), local, 16));
}

TEST_F(Copies, UnknownAddresses)
{
    RunRole("copy_unknown_addresses");
}

TEST_F(Copies, Rectangles)
{
    constexpr size_t pitch = 512, width = 100, height = 8;
    DeviceBlock device(pitch * height);
    std::vector<unsigned char> sent = Pattern(width * height);
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = sent.data();
    copy.srcPitch = width;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = device;
    copy.dstPitch = pitch;
    copy.WidthInBytes = width;
    copy.Height = height;
    EXPECT_SUCCESS("copy.2d.h-to-d", cu.Memcpy2D(&copy));
    std::vector<unsigned char> row = BytesAt(device + 3 * pitch, pitch);
    EXPECT_YES("copy.2d.row-is-where-it-belongs",
               std::memcmp(row.data(), sent.data() + 3 * width, width) == 0);
    EXPECT_SAME("copy.2d.padding-is-untouched", int{row[width]}, 0);
    copy.dstPitch = width - 1;
    EXPECT_INVALID("copy.2d.pitch-below-width", cu.Memcpy2D(&copy));
}

} // namespace conformance
