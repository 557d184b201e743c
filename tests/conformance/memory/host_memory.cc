// SPDX-License-Identifier: Apache-2.0
//
// Pinned memory and registrations of host memory.
#include <sys/mman.h>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using HostMemory = OnDevice;

namespace
{

constexpr size_t kPage = 4096;

/* Host memory that the driver knows nothing of. */
struct Pages {
    explicit Pages(size_t size)
        : size_bytes(size),
          bytes(static_cast<char *>(
              mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)))
    {
        MUST_BE(bytes != MAP_FAILED);
    }
    ~Pages()
    {
        munmap(bytes, size_bytes);
    }
    size_t size_bytes;
    char *bytes;
};

} // namespace

TEST_F(HostMemory, AllocatedIsMapped)
{
    void *host = nullptr;
    CUdeviceptr device = 0;
    unsigned flags = 0;
    EXPECT_SUCCESS("host-memory.alloc", cu.MemHostAlloc(&host, 64 * kKiB, 0));
    EXPECT_SAME("host-memory.alloc.is-page-aligned",
                reinterpret_cast<uintptr_t>(host) % kPage, uintptr_t{0});
    EXPECT_SUCCESS("host-memory.device-pointer",
                   cu.MemHostGetDevicePointer(&device, host, 0));
    EXPECT_SAME("host-memory.device-pointer.is-the-address", device,
                reinterpret_cast<CUdeviceptr>(host));
    EXPECT_SUCCESS("host-memory.device-pointer.interior",
                   cu.MemHostGetDevicePointer(
                       &device, static_cast<char *>(host) + 100, 0));
    EXPECT_SAME("host-memory.device-pointer.interior.is-the-address", device,
                reinterpret_cast<CUdeviceptr>(host) + 100);
    EXPECT_SUCCESS("host-memory.flags", cu.MemHostGetFlags(&flags, host));
    /* Small ones may come out of a chunk that is portable as well. */
    EXPECT_YES("host-memory.flags.of-a-plain-one.mapped",
               (flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0);
    EXPECT_INVALID("host-memory.device-pointer.bad-flags",
                   cu.MemHostGetDevicePointer(&device, host, 1));
    EXPECT_SUCCESS("host-memory.free", cu.MemFreeHost(host));
}

TEST_F(HostMemory, FlagsAreRemembered)
{
    PinnedBlock block(kPage);
    unsigned flags = 0;
    MUST(cu.MemHostGetFlags(&flags, block.bytes));
    EXPECT_SAME("host-memory.flags.portable-mapped", flags,
                unsigned{CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP});
    EXPECT_INVALID("host-memory.flags.null",
                   cu.MemHostGetFlags(nullptr, block.bytes));
}

TEST_F(HostMemory, BadAllocations)
{
    void *host = nullptr;
    EXPECT_SUCCESS("host-memory.alloc.size-0", cu.MemHostAlloc(&host, 0, 0));
    EXPECT_SAME("host-memory.alloc.size-0.gives-null", host,
                static_cast<void *>(nullptr));
    EXPECT_INVALID("host-memory.alloc.null",
                   cu.MemHostAlloc(nullptr, kPage, 0));
    EXPECT_INVALID("host-memory.alloc.unknown-flags",
                   cu.MemHostAlloc(&host, kPage, 0x4000));
    EXPECT_CU("host-memory.alloc.too-large",
              cu.MemHostAlloc(&host, size_t{1} << 46, 0),
              CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_SUCCESS("host-memory.alloc-host", cu.MemAllocHost(&host, kPage));
    EXPECT_SUCCESS("host-memory.alloc-host.free", cu.MemFreeHost(host));
    EXPECT_SUCCESS("host-memory.alloc-host.size-0", cu.MemAllocHost(&host, 0));
}

TEST_F(HostMemory, BadFrees)
{
    Pages plain(kPage);
    void *host = nullptr;
    MUST(cu.MemHostAlloc(&host, 64 * kKiB, 0));
    EXPECT_INVALID("host-memory.free.interior",
                   cu.MemFreeHost(static_cast<char *>(host) + kPage));
    MUST(cu.MemFreeHost(host));
    EXPECT_INVALID("host-memory.free.twice", cu.MemFreeHost(host));
    EXPECT_SUCCESS("host-memory.free.null", cu.MemFreeHost(nullptr));
    EXPECT_INVALID("host-memory.free.plain", cu.MemFreeHost(plain.bytes));
}

TEST_F(HostMemory, FreesOfTheWrongKind)
{
    PinnedBlock pinned(kPage);
    DeviceBlock device(kPage);
    Pages pages(kPage);
    MUST(cu.MemHostRegister(pages.bytes, kPage, 0));
    EXPECT_INVALID("host-memory.free-host-of-device",
                   cu.MemFreeHost(reinterpret_cast<void *>(device.address)));
    EXPECT_INVALID("host-memory.free-of-pinned", cu.MemFree(pinned.address));
    EXPECT_INVALID("host-memory.free-host-of-registered",
                   cu.MemFreeHost(pages.bytes));
    EXPECT_INVALID("host-memory.unregister-of-pinned",
                   cu.MemHostUnregister(pinned.bytes));
    EXPECT_INVALID("host-memory.register-of-pinned",
                   cu.MemHostRegister(pinned.bytes, kPage, 0));
    MUST(cu.MemHostUnregister(pages.bytes));
}

TEST_F(HostMemory, RegistrationIsExclusive)
{
    Pages pages(16 * kPage);
    EXPECT_SUCCESS("host-memory.register",
                   cu.MemHostRegister(pages.bytes, 8 * kPage,
                                      CU_MEMHOSTREGISTER_PORTABLE |
                                          CU_MEMHOSTREGISTER_DEVICEMAP));
    EXPECT_CU("host-memory.register.twice",
              cu.MemHostRegister(pages.bytes, 8 * kPage, 0),
              CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_CU("host-memory.register.overlapping",
              cu.MemHostRegister(pages.bytes + 4 * kPage, 8 * kPage, 0),
              CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_SUCCESS("host-memory.register.neighbour",
                   cu.MemHostRegister(pages.bytes + 8 * kPage, kPage, 0));
    EXPECT_INVALID("host-memory.unregister.interior",
                   cu.MemHostUnregister(pages.bytes + kPage));
    EXPECT_SUCCESS("host-memory.unregister", cu.MemHostUnregister(pages.bytes));
    EXPECT_CU("host-memory.unregister.twice", cu.MemHostUnregister(pages.bytes),
              CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_SUCCESS("host-memory.register.again",
                   cu.MemHostRegister(pages.bytes, 8 * kPage, 0));
    MUST(cu.MemHostUnregister(pages.bytes));
    MUST(cu.MemHostUnregister(pages.bytes + 8 * kPage));
}

// To the byte, and a copy belongs to the range where it begins.
TEST_F(HostMemory, RegistrationsShareAPage)
{
    Pages pages(4 * kPage);
    DeviceBlock device(4 * kPage);
    MUST(cu.MemHostRegister(pages.bytes + 100, 2000, 0));
    unsigned flags = 0;
    EXPECT_INVALID("host-memory.register.byte-before",
                   cu.MemHostGetFlags(&flags, pages.bytes + 99));
    EXPECT_SUCCESS("host-memory.register.last-byte",
                   cu.MemHostGetFlags(&flags, pages.bytes + 2099));
    EXPECT_INVALID("host-memory.register.byte-behind",
                   cu.MemHostGetFlags(&flags, pages.bytes + 2100));
    EXPECT_SUCCESS("host-memory.register.same-page",
                   cu.MemHostRegister(pages.bytes + 3000, kPage, 0));
    EXPECT_SUCCESS("copy.h-to-d.begins-beside-a-registration",
                   cu.MemcpyHtoD(device.address, pages.bytes + 2100, 800));
    EXPECT_SUCCESS("copy.h-to-d.begins-before-a-registration",
                   cu.MemcpyHtoD(device.address, pages.bytes, 2 * kPage));
    EXPECT_INVALID("copy.h-to-d.begins-in-a-registration",
                   cu.MemcpyHtoD(device.address, pages.bytes + 1000, 1200));
    MUST(cu.MemHostUnregister(pages.bytes + 100));
    MUST(cu.MemHostUnregister(pages.bytes + 3000));
}

TEST_F(HostMemory, BadRegistrations)
{
    Pages pages(kPage);
    EXPECT_INVALID("host-memory.register.null",
                   cu.MemHostRegister(nullptr, kPage, 0));
    EXPECT_INVALID("host-memory.register.size-0",
                   cu.MemHostRegister(pages.bytes, 0, 0));
    EXPECT_INVALID("host-memory.register.unknown-flags",
                   cu.MemHostRegister(pages.bytes, kPage, 0x4000));
    EXPECT_CU("host-memory.unregister.never-registered",
              cu.MemHostUnregister(pages.bytes),
              CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_INVALID("host-memory.unregister.null",
                   cu.MemHostUnregister(nullptr));
}

TEST_F(HostMemory, UnalignedRangesRegister)
{
    Pages pages(2 * kPage);
    CUdeviceptr device = 0;
    EXPECT_SUCCESS("host-memory.register.unaligned",
                   cu.MemHostRegister(pages.bytes + 100, 1000, 0));
    EXPECT_SUCCESS("host-memory.register.unaligned.device-pointer",
                   cu.MemHostGetDevicePointer(&device, pages.bytes + 100, 0));
    EXPECT_SAME("host-memory.register.unaligned.is-the-address", device,
                reinterpret_cast<CUdeviceptr>(pages.bytes + 100));
    EXPECT_SUCCESS("host-memory.unregister.unaligned",
                   cu.MemHostUnregister(pages.bytes + 100));
}

TEST_F(HostMemory, PlainMemoryHasNoDevicePointer)
{
    Pages pages(kPage);
    CUdeviceptr device = 0;
    unsigned flags = 0;
    EXPECT_INVALID("host-memory.plain.device-pointer",
                   cu.MemHostGetDevicePointer(&device, pages.bytes, 0));
    EXPECT_INVALID("host-memory.plain.flags",
                   cu.MemHostGetFlags(&flags, pages.bytes));
}

TEST_F(HostMemory, DeviceWritesReachTheHost)
{
    PinnedBlock pinned(kPage);
    Pages pages(kPage);
    MUST(cu.MemsetD8(pinned.address, 5, kPage));
    MUST(cu.CtxSynchronize());
    EXPECT_SAME("host-memory.pinned.memset-is-seen",
                int{pinned.bytes[kPage - 1]}, 5);
    MUST(cu.MemHostRegister(pages.bytes, kPage, CU_MEMHOSTREGISTER_DEVICEMAP));
    MUST(cu.MemsetD8(reinterpret_cast<CUdeviceptr>(pages.bytes), 6, kPage));
    MUST(cu.CtxSynchronize());
    EXPECT_SAME("host-memory.registered.memset-is-seen",
                int{pages.bytes[kPage - 1]}, 6);
    MUST(cu.MemHostUnregister(pages.bytes));
}

} // namespace conformance
