// SPDX-License-Identifier: Apache-2.0
//
// Allocation and freeing in stream order.
#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using AsyncAlloc = OnDevice;

TEST_F(AsyncAlloc, AllocUseFree)
{
    Stream stream;
    CUdeviceptr address = 0;
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    EXPECT_SUCCESS("async.alloc", cu.MemAllocAsync(&address, kMiB, stream));
    EXPECT_SUCCESS("async.use", cu.MemsetD8Async(address, 8, kMiB, stream));
    MUST(cu.StreamSynchronize(stream));
    EXPECT_YES("async.use.is-seen", AllBytesAre(address, kMiB, 8));
    EXPECT_SUCCESS("async.address-range",
                   cu.MemGetAddressRange(&base, &size_bytes, address + 100));
    EXPECT_SAME("async.address-range.base", base, address);
    EXPECT_SUCCESS("async.free", cu.MemFreeAsync(address, stream));
    MUST(cu.StreamSynchronize(stream));
    EXPECT_INVALID("async.free.twice", cu.MemFreeAsync(address, stream));
}

TEST_F(AsyncAlloc, ReturnsWhileTheStreamIsHeld)
{
    CUdeviceptr address = 0;
    Background caller;
    Stream stream;
    StreamHold hold(stream);
    caller.Start([&] {
        CUresult code = cu.MemAllocAsync(&address, kMiB, stream);
        if (code == CUDA_SUCCESS)
            code = cu.MemsetD8Async(address, 9, kMiB, stream);
        return code == CUDA_SUCCESS ? cu.MemFreeAsync(address, stream) : code;
    });
    EXPECT_YES("async.held.returns", caller.ReturnsWithin(kRequiredMs));
    hold.Release();
    EXPECT_SUCCESS("async.held.all-succeed", caller.Result());
    EXPECT_SUCCESS("async.held.stream-finishes", Settled(stream.handle));
}

TEST_F(AsyncAlloc, MixesWithThePlainOnes)
{
    Stream stream;
    CUdeviceptr address = 0;
    CUipcMemHandle handle;
    MUST(cu.MemAllocAsync(&address, kMiB, stream));
    MUST(cu.StreamSynchronize(stream));
    EXPECT_INVALID("async.legacy-ipc", cu.IpcGetMemHandle(&handle, address));
    EXPECT_SUCCESS("async.plain-free", cu.MemFree(address));
    MUST(cu.MemAlloc(&address, kMiB));
    EXPECT_SUCCESS("async.free-of-plain", cu.MemFreeAsync(address, stream));
    MUST(cu.StreamSynchronize(stream));
    EXPECT_INVALID("async.free-of-plain.it-is-gone", cu.MemFree(address));
}

TEST_F(AsyncAlloc, BadArguments)
{
    Stream stream;
    CUdeviceptr address = 0;
    EXPECT_SUCCESS("async.alloc.size-0", cu.MemAllocAsync(&address, 0, stream));
    EXPECT_INVALID("async.alloc.null", cu.MemAllocAsync(nullptr, kMiB, stream));
    EXPECT_CU("async.alloc.too-large",
              cu.MemAllocAsync(&address, size_t{1} << 46, stream),
              CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_INVALID("async.free.never-allocated",
                   cu.MemFreeAsync(kNowhere, stream));
    EXPECT_SUCCESS("async.free.null", cu.MemFreeAsync(0, stream));
}

} // namespace conformance
