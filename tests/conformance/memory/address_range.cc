// SPDX-License-Identifier: Apache-2.0
//
// cuMemGetAddressRange.
#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using AddressRange = OnDevice;

TEST_F(AddressRange, OfAnInteriorAddress)
{
    DeviceBlock block(4 * kMiB);
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    EXPECT_SUCCESS("address-range.interior",
                   cu.MemGetAddressRange(&base, &size_bytes, block + kMiB + 3));
    EXPECT_SAME("address-range.interior.base", base, block.address);
    EXPECT_SAME("address-range.interior.size", size_bytes, 4 * kMiB);
    EXPECT_SUCCESS(
        "address-range.last-byte",
        cu.MemGetAddressRange(&base, &size_bytes, block + 4 * kMiB - 1));
}

TEST_F(AddressRange, SizeIsTheRequestedOne)
{
    DeviceBlock block(1000);
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    MUST(cu.MemGetAddressRange(&base, &size_bytes, block));
    EXPECT_SAME("address-range.odd-size", size_bytes, size_t{1000});
}

TEST_F(AddressRange, OutParametersAreOptional)
{
    DeviceBlock block(4096);
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    EXPECT_SUCCESS("address-range.no-base",
                   cu.MemGetAddressRange(nullptr, &size_bytes, block));
    EXPECT_SUCCESS("address-range.no-size",
                   cu.MemGetAddressRange(&base, nullptr, block));
}

TEST_F(AddressRange, OfNoAllocation)
{
    CUdeviceptr base = 0, freed = 0;
    size_t size_bytes = 0;
    int local = 0;
    MUST(cu.MemAlloc(&freed, 64 * kMiB));
    MUST(cu.MemFree(freed));
    EXPECT_CU("address-range.freed",
              cu.MemGetAddressRange(&base, &size_bytes, freed),
              CUDA_ERROR_NOT_FOUND);
    EXPECT_CU("address-range.never-allocated",
              cu.MemGetAddressRange(&base, &size_bytes, kNowhere),
              CUDA_ERROR_NOT_FOUND);
    EXPECT_CU("address-range.plain-host",
              cu.MemGetAddressRange(&base, &size_bytes,
                                    reinterpret_cast<CUdeviceptr>(&local)),
              CUDA_ERROR_NOT_FOUND);
    EXPECT_CU("address-range.null",
              cu.MemGetAddressRange(&base, &size_bytes, 0),
              CUDA_ERROR_NOT_FOUND);
}

TEST_F(AddressRange, OfPinnedMemory)
{
    PinnedBlock block(64 * kKiB);
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    EXPECT_SUCCESS(
        "address-range.pinned",
        cu.MemGetAddressRange(&base, &size_bytes, block.address + 100));
    EXPECT_SAME("address-range.pinned.base", base, block.address);
    EXPECT_SAME("address-range.pinned.size", size_bytes, 64 * kKiB);
}

} // namespace conformance
