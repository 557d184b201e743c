// SPDX-License-Identifier: Apache-2.0
//
// cuMemAlloc, cuMemFree, cuMemAllocPitch, cuMemGetInfo.
#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using DeviceMemory = OnDevice;

TEST_F(DeviceMemory, AddressesAreAligned)
{
    CUdeviceptr small = 0, other = 0, large = 0;
    EXPECT_SUCCESS("device-memory.alloc.1-byte", cu.MemAlloc(&small, 1));
    EXPECT_SAME("device-memory.alloc.1-byte.alignment", small % 512,
                CUdeviceptr{0});
    MUST(cu.MemAlloc(&other, 1));
    EXPECT_YES("device-memory.alloc.1-byte.granule",
               (small > other ? small - other : other - small) >= 512);
    EXPECT_SUCCESS("device-memory.alloc.64-mib",
                   cu.MemAlloc(&large, 64 * kMiB));
    EXPECT_SAME("device-memory.alloc.64-mib.alignment", large % (2 * kMiB),
                CUdeviceptr{0});
    EXPECT_SUCCESS("device-memory.free", cu.MemFree(small));
    MUST(cu.MemFree(other));
    MUST(cu.MemFree(large));
}

TEST_F(DeviceMemory, BadSizesAreRefused)
{
    CUdeviceptr address = 0;
    EXPECT_INVALID("device-memory.alloc.size-0", cu.MemAlloc(&address, 0));
    EXPECT_INVALID("device-memory.alloc.null", cu.MemAlloc(nullptr, 512));
    address = 0x1234;
    EXPECT_CU("device-memory.alloc.too-large",
              cu.MemAlloc(&address, size_t{1} << 46), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_SAME("device-memory.alloc.too-large.out-becomes-0", address,
                CUdeviceptr{0});
    EXPECT_CU("device-memory.alloc.size-max", cu.MemAlloc(&address, SIZE_MAX),
              CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(DeviceMemory, BadFreesAreRefused)
{
    CUdeviceptr address = 0;
    int local = 0;
    MUST(cu.MemAlloc(&address, 4096));
    EXPECT_INVALID("device-memory.free.interior", cu.MemFree(address + 512));
    EXPECT_SUCCESS("device-memory.free.after-a-refused-one",
                   cu.MemFree(address));
    EXPECT_INVALID("device-memory.free.twice", cu.MemFree(address));
    EXPECT_INVALID("device-memory.free.never-allocated", cu.MemFree(kNowhere));
    EXPECT_INVALID("device-memory.free.host-address",
                   cu.MemFree(reinterpret_cast<CUdeviceptr>(&local)));
    EXPECT_SUCCESS("device-memory.free.null", cu.MemFree(0));
}

TEST_F(DeviceMemory, FreeNeedsNoContext)
{
    CUdeviceptr address = 0;
    MUST(cu.MemAlloc(&address, 4096));
    MUST(cu.CtxSetCurrent(nullptr));
    EXPECT_SUCCESS("device-memory.free.without-context", cu.MemFree(address));
    EXPECT_INVALID("device-memory.free.without-context.twice",
                   cu.MemFree(address));
}

TEST_F(DeviceMemory, InfoFollowsAllocations)
{
    size_t before = 0, during = 0, after = 0, total = 0;
    CUdeviceptr address = 0;
    EXPECT_SUCCESS("device-memory.info", cu.MemGetInfo(&before, &total));
    EXPECT_YES("device-memory.info.free-is-below-total", before <= total);
    MUST(cu.MemAlloc(&address, 256 * kMiB));
    MUST(cu.MemGetInfo(&during, &total));
    EXPECT_YES("device-memory.info.falls-by-the-size",
               before >= during && before - during >= 256 * kMiB);
    MUST(cu.MemFree(address));
    MUST(cu.MemGetInfo(&after, &total));
    EXPECT_SAME("device-memory.info.rises-again", after, before);
    EXPECT_SUCCESS("device-memory.info.null", cu.MemGetInfo(nullptr, nullptr));
}

TEST_F(DeviceMemory, PitchIsWideEnough)
{
    CUdeviceptr address = 0;
    size_t pitch = 0;
    EXPECT_SUCCESS("device-memory.pitch",
                   cu.MemAllocPitch(&address, &pitch, 100, 10, 4));
    EXPECT_SAME("device-memory.pitch.value", pitch, size_t{512});
    MUST(cu.MemFree(address));
    EXPECT_INVALID("device-memory.pitch.bad-element-size",
                   cu.MemAllocPitch(&address, &pitch, 100, 10, 3));
    EXPECT_INVALID("device-memory.pitch.width-0",
                   cu.MemAllocPitch(&address, &pitch, 0, 10, 4));
    EXPECT_INVALID("device-memory.pitch.null",
                   cu.MemAllocPitch(&address, nullptr, 100, 10, 4));
}

TEST_F(DeviceMemory, NeighboursDoNotOverlap)
{
    DeviceBlock low(1000), high(1000);
    MUST(cu.MemsetD8(low, 1, 1000));
    MUST(cu.MemsetD8(high, 2, 1000));
    EXPECT_YES("device-memory.neighbour.first", AllBytesAre(low, 1000, 1));
    EXPECT_YES("device-memory.neighbour.second", AllBytesAre(high, 1000, 2));
}

} // namespace conformance
