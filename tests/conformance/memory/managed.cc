// SPDX-License-Identifier: Apache-2.0
//
// Managed memory: one address for both sides.
#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using Managed = OnDevice;

TEST_F(Managed, BothSidesWrite)
{
    CUdeviceptr address = 0;
    EXPECT_SUCCESS("managed.alloc",
                   cu.MemAllocManaged(&address, kMiB, CU_MEM_ATTACH_GLOBAL));
    MUST_BE(address != 0);
    volatile unsigned char *bytes =
        reinterpret_cast<volatile unsigned char *>(address);
    bytes[0] = 3;
    MUST(cu.MemsetD8(address + 1, 4, kMiB - 1));
    MUST(cu.CtxSynchronize());
    EXPECT_SAME("managed.host-write-is-kept", int{bytes[0]}, 3);
    EXPECT_SAME("managed.device-write-is-seen", int{bytes[kMiB - 1]}, 4);
    EXPECT_SUCCESS("managed.free", cu.MemFree(address));
    EXPECT_INVALID("managed.free.twice", cu.MemFree(address));
}

TEST_F(Managed, ArgumentsAreChecked)
{
    CUdeviceptr address = 0;
    EXPECT_INVALID("managed.alloc.size-0",
                   cu.MemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL));
    EXPECT_INVALID("managed.alloc.flags-0",
                   cu.MemAllocManaged(&address, kMiB, 0));
    EXPECT_INVALID("managed.alloc.attach-single",
                   cu.MemAllocManaged(&address, kMiB, CU_MEM_ATTACH_SINGLE));
    EXPECT_INVALID("managed.alloc.null",
                   cu.MemAllocManaged(nullptr, kMiB, CU_MEM_ATTACH_GLOBAL));
    EXPECT_SUCCESS("managed.alloc.attach-host",
                   cu.MemAllocManaged(&address, kMiB, CU_MEM_ATTACH_HOST));
    MUST(cu.MemFree(address));
}

} // namespace conformance
