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
    EXPECT_CU("async.alloc", cu.MemAllocAsync(&address, kMiB, stream),
              CUDA_SUCCESS);
    EXPECT_CU("async.use", cu.MemsetD8Async(address, 8, kMiB, stream),
              CUDA_SUCCESS);
    MUST(cu.StreamSynchronize(stream));
    EXPECT_YES("async.use.is-seen", AllBytesAre(address, kMiB, 8));
    EXPECT_CU("async.address-range",
              cu.MemGetAddressRange(&base, &size_bytes, address + 100),
              CUDA_SUCCESS);
    EXPECT_SAME("async.address-range.base", base, address);
    EXPECT_CU("async.free", cu.MemFreeAsync(address, stream), CUDA_SUCCESS);
    MUST(cu.StreamSynchronize(stream));
    EXPECT_CU("async.free.twice", cu.MemFreeAsync(address, stream),
              CUDA_ERROR_INVALID_VALUE);
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
    EXPECT_CU("async.held.all-succeed", caller.Result(), CUDA_SUCCESS);
    EXPECT_CU("async.held.stream-finishes", Settled(stream.handle),
              CUDA_SUCCESS);
}

TEST_F(AsyncAlloc, MixesWithThePlainOnes)
{
    Stream stream;
    CUdeviceptr address = 0;
    CUipcMemHandle handle;
    MUST(cu.MemAllocAsync(&address, kMiB, stream));
    MUST(cu.StreamSynchronize(stream));
    EXPECT_CU("async.legacy-ipc", cu.IpcGetMemHandle(&handle, address),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU("async.plain-free", cu.MemFree(address), CUDA_SUCCESS);
    MUST(cu.MemAlloc(&address, kMiB));
    EXPECT_CU("async.free-of-plain", cu.MemFreeAsync(address, stream),
              CUDA_SUCCESS);
    MUST(cu.StreamSynchronize(stream));
    EXPECT_CU("async.free-of-plain.it-is-gone", cu.MemFree(address),
              CUDA_ERROR_INVALID_VALUE);
}

TEST_F(AsyncAlloc, BadArguments)
{
    Stream stream;
    CUdeviceptr address = 0;
    EXPECT_CU("async.alloc.size-0", cu.MemAllocAsync(&address, 0, stream),
              CUDA_SUCCESS);
    EXPECT_CU("async.alloc.null", cu.MemAllocAsync(nullptr, kMiB, stream),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU("async.alloc.too-large",
              cu.MemAllocAsync(&address, size_t{1} << 46, stream),
              CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CU("async.free.never-allocated", cu.MemFreeAsync(kNowhere, stream),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU("async.free.null", cu.MemFreeAsync(0, stream), CUDA_SUCCESS);
}

} // namespace conformance
