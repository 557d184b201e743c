// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory management: reserve, create, map, access, unmap.
#include "tests/conformance/memory/vmm.h"

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/roles.h"

namespace conformance
{

using Vmm = OnDevice;

CUmemAllocationProp PinnedOnDevice(CUmemAllocationHandleType exported)
{
    CUmemAllocationProp property = {};
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    property.location.id = 0;
    property.requestedHandleTypes = exported;
    return property;
}

CUmemAccessDesc ReadWriteByDevice()
{
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = 0;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return access;
}

MappedRange::MappedRange(size_t size, CUmemAllocationHandleType exported)
    : size_bytes(size)
{
    CUmemAllocationProp property = PinnedOnDevice(exported);
    CUmemAccessDesc access = ReadWriteByDevice();
    MUST(cu.MemCreate(&memory, size, &property, 0));
    MUST(cu.MemAddressReserve(&address, size, 0, 0, 0));
    MUST(cu.MemMap(address, size, 0, memory, 0));
    is_mapped = true;
    MUST(cu.MemSetAccess(address, size, &access, 1));
}

CUresult MappedRange::Unmap()
{
    is_mapped = false;
    return cu.MemUnmap(address, size_bytes);
}

MappedRange::~MappedRange()
{
    if (is_mapped)
        cu.MemUnmap(address, size_bytes);
    cu.MemAddressFree(address, size_bytes);
    cu.MemRelease(memory);
}

TEST_F(Vmm, WholeLife)
{
    CUmemAllocationProp property = PinnedOnDevice();
    CUmemAccessDesc access = ReadWriteByDevice();
    CUmemGenericAllocationHandle memory = 0;
    CUdeviceptr address = 0;
    EXPECT_SUCCESS("vmm.create", cu.MemCreate(&memory, kGranule, &property, 0));
    EXPECT_SUCCESS("vmm.reserve",
                   cu.MemAddressReserve(&address, kGranule, 0, 0, 0));
    EXPECT_SAME("vmm.reserve.alignment", address % kGranule, CUdeviceptr{0});
    EXPECT_SUCCESS("vmm.map", cu.MemMap(address, kGranule, 0, memory, 0));
    EXPECT_SUCCESS("vmm.set-access",
                   cu.MemSetAccess(address, kGranule, &access, 1));
    EXPECT_SUCCESS("vmm.memset", cu.MemsetD8(address, 9, kGranule));
    EXPECT_SUCCESS("vmm.release-while-mapped", cu.MemRelease(memory));
    EXPECT_YES("vmm.released-memory-lives-while-mapped",
               AllBytesAre(address, kGranule, 9));
    EXPECT_SUCCESS("vmm.unmap", cu.MemUnmap(address, kGranule));
    EXPECT_SUCCESS("vmm.address-free", cu.MemAddressFree(address, kGranule));
}

TEST_F(Vmm, GranularityIsTwoMebibytes)
{
    CUmemAllocationProp property = PinnedOnDevice();
    size_t granule = 0;
    EXPECT_SUCCESS("vmm.granularity.minimum",
                   cu.MemGetAllocationGranularity(
                       &granule, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT_SAME("vmm.granularity.minimum.value", granule, kGranule);
    EXPECT_SUCCESS(
        "vmm.granularity.recommended",
        cu.MemGetAllocationGranularity(&granule, &property,
                                       CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    EXPECT_SAME("vmm.granularity.recommended.value", granule, kGranule);
    EXPECT_INVALID("vmm.granularity.null",
                   cu.MemGetAllocationGranularity(
                       nullptr, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

TEST_F(Vmm, BadReservations)
{
    CUdeviceptr address = 0;
    EXPECT_INVALID("vmm.reserve.size-0",
                   cu.MemAddressReserve(&address, 0, 0, 0, 0));
    EXPECT_INVALID("vmm.reserve.odd-size",
                   cu.MemAddressReserve(&address, 1000, 0, 0, 0));
    EXPECT_INVALID("vmm.reserve.bad-alignment",
                   cu.MemAddressReserve(&address, kGranule, 3, 0, 0));
    EXPECT_INVALID("vmm.reserve.bad-flags",
                   cu.MemAddressReserve(&address, kGranule, 0, 0, 1));
    EXPECT_INVALID("vmm.reserve.null",
                   cu.MemAddressReserve(nullptr, kGranule, 0, 0, 0));
    MUST(cu.MemAddressReserve(&address, 4 * kGranule, 0, 0, 0));
    EXPECT_INVALID("vmm.address-free.part",
                   cu.MemAddressFree(address, kGranule));
    EXPECT_SUCCESS("vmm.address-free.whole",
                   cu.MemAddressFree(address, 4 * kGranule));
    EXPECT_INVALID("vmm.address-free.twice",
                   cu.MemAddressFree(address, 4 * kGranule));
}

TEST_F(Vmm, BadCreations)
{
    CUmemAllocationProp property = PinnedOnDevice();
    CUmemGenericAllocationHandle memory = 0;
    EXPECT_INVALID("vmm.create.size-0", cu.MemCreate(&memory, 0, &property, 0));
    EXPECT_INVALID("vmm.create.odd-size",
                   cu.MemCreate(&memory, 1000, &property, 0));
    EXPECT_INVALID("vmm.create.null",
                   cu.MemCreate(nullptr, kGranule, &property, 0));
    EXPECT_INVALID("vmm.create.null-property",
                   cu.MemCreate(&memory, kGranule, nullptr, 0));
    EXPECT_INVALID("vmm.create.bad-flags",
                   cu.MemCreate(&memory, kGranule, &property, 1));
    EXPECT_CU("vmm.create.too-large",
              cu.MemCreate(&memory, size_t{1} << 46, &property, 0),
              CUDA_ERROR_OUT_OF_MEMORY);
    property.location.id = 999;
    EXPECT_CU("vmm.create.bad-device",
              cu.MemCreate(&memory, kGranule, &property, 0),
              CUDA_ERROR_INVALID_DEVICE);
    property = PinnedOnDevice();
    property.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    EXPECT_INVALID("vmm.create.bad-type",
                   cu.MemCreate(&memory, kGranule, &property, 0));
}

/* Handles that never were are not tried: the driver crashes on them. */
TEST_F(Vmm, BadMappings)
{
    MappedRange mapped(kGranule);
    CUdeviceptr free_range = 0;
    MUST(cu.MemAddressReserve(&free_range, 2 * kGranule, 0, 0, 0));
    EXPECT_INVALID("vmm.map.over-a-mapping",
                   cu.MemMap(mapped.address, kGranule, 0, mapped.memory, 0));
    EXPECT_INVALID("vmm.map.not-reserved",
                   cu.MemMap(0x7000000000, kGranule, 0, mapped.memory, 0));
    EXPECT_CU("vmm.map.larger-than-the-memory",
              cu.MemMap(free_range, 2 * kGranule, 0, mapped.memory, 0),
              CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_CU("vmm.map.offset",
              cu.MemMap(free_range, kGranule, kGranule, mapped.memory, 0),
              CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_INVALID("vmm.map.unaligned",
                   cu.MemMap(free_range + 512, kGranule, 0, mapped.memory, 0));
    EXPECT_SUCCESS("vmm.unmap.not-mapped", cu.MemUnmap(free_range, kGranule));
    EXPECT_INVALID("vmm.address-free.while-mapped",
                   cu.MemAddressFree(mapped.address, kGranule));
    MUST(cu.MemAddressFree(free_range, 2 * kGranule));
}

TEST_F(Vmm, UnmapTakesWholeMappings)
{
    MappedRange mapped(2 * kGranule);
    EXPECT_INVALID("vmm.unmap.part-of-a-mapping",
                   cu.MemUnmap(mapped.address, kGranule));
    EXPECT_SUCCESS("vmm.unmap.whole-mapping", mapped.Unmap());
    EXPECT_SUCCESS("vmm.unmap.twice",
                   cu.MemUnmap(mapped.address, 2 * kGranule));
}

TEST_F(Vmm, AccessIsSetAndTold)
{
    MappedRange mapped(kGranule);
    CUmemAccessDesc access = ReadWriteByDevice();
    unsigned long long flags = 0;
    EXPECT_SUCCESS("vmm.get-access",
                   cu.MemGetAccess(&flags, &access.location, mapped.address));
    EXPECT_SAME(
        "vmm.get-access.value", flags,
        static_cast<unsigned long long>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    access.location.id = 999;
    EXPECT_INVALID("vmm.set-access.bad-device",
                   cu.MemSetAccess(mapped.address, kGranule, &access, 1));
    access = ReadWriteByDevice();
    MUST(mapped.Unmap());
    EXPECT_INVALID("vmm.set-access.not-mapped",
                   cu.MemSetAccess(mapped.address, kGranule, &access, 1));
}

TEST_F(Vmm, OneMemoryTwoAddresses)
{
    MappedRange mapped(kGranule);
    CUmemAccessDesc access = ReadWriteByDevice();
    CUdeviceptr alias = 0;
    MUST(cu.MemAddressReserve(&alias, kGranule, 0, 0, 0));
    EXPECT_SUCCESS("vmm.map.alias",
                   cu.MemMap(alias, kGranule, 0, mapped.memory, 0));
    MUST(cu.MemSetAccess(alias, kGranule, &access, 1));
    MUST(cu.MemsetD8(mapped.address, 21, kGranule));
    MUST(cu.CtxSynchronize());
    EXPECT_YES("vmm.alias.shows-the-write", AllBytesAre(alias, kGranule, 21));
    MUST(cu.MemUnmap(alias, kGranule));
    MUST(cu.MemAddressFree(alias, kGranule));
}

TEST_F(Vmm, NeighbouringMappingsAreOneRange)
{
    CUmemAllocationProp property = PinnedOnDevice();
    CUmemAccessDesc access = ReadWriteByDevice();
    CUmemGenericAllocationHandle low = 0, high = 0;
    CUdeviceptr address = 0;
    MUST(cu.MemAddressReserve(&address, 2 * kGranule, 0, 0, 0));
    MUST(cu.MemCreate(&low, kGranule, &property, 0));
    MUST(cu.MemCreate(&high, kGranule, &property, 0));
    MUST(cu.MemMap(address, kGranule, 0, low, 0));
    MUST(cu.MemMap(address + kGranule, kGranule, 0, high, 0));
    EXPECT_SUCCESS("vmm.set-access.over-two-mappings",
                   cu.MemSetAccess(address, 2 * kGranule, &access, 1));
    EXPECT_SUCCESS("vmm.memset.over-two-mappings",
                   cu.MemsetD8(address, 33, 2 * kGranule));
    EXPECT_YES("vmm.memset.over-two-mappings.is-seen",
               AllBytesAre(address, 2 * kGranule, 33));
    EXPECT_SUCCESS("vmm.unmap.over-two-mappings",
                   cu.MemUnmap(address, 2 * kGranule));
    MUST(cu.MemRelease(low));
    MUST(cu.MemRelease(high));
    MUST(cu.MemAddressFree(address, 2 * kGranule));
}

TEST_F(Vmm, HandleIsFoundByAddress)
{
    MappedRange mapped(kGranule);
    CUmemGenericAllocationHandle found = 0;
    CUmemAllocationProp property = {};
    EXPECT_SUCCESS("vmm.retain-by-address",
                   cu.MemRetainAllocationHandle(
                       &found, reinterpret_cast<void *>(mapped.address + 5)));
    EXPECT_SAME("vmm.retain-by-address.handle", found, mapped.memory);
    EXPECT_SUCCESS("vmm.retain-by-address.release", cu.MemRelease(found));
    EXPECT_SUCCESS("vmm.properties", cu.MemGetAllocationPropertiesFromHandle(
                                         &property, mapped.memory));
    EXPECT_SAME("vmm.properties.type", int{property.type},
                int{CU_MEM_ALLOCATION_TYPE_PINNED});
    EXPECT_SAME("vmm.properties.location", int{property.location.type},
                int{CU_MEM_LOCATION_TYPE_DEVICE});
    DeviceBlock plain(4096);
    EXPECT_INVALID("vmm.retain-by-address.of-cumemalloc",
                   cu.MemRetainAllocationHandle(
                       &found, reinterpret_cast<void *>(plain.address)));
}

TEST_F(Vmm, IsNoLegacyMemory)
{
    MappedRange mapped(kGranule);
    CUipcMemHandle handle;
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    uint64_t room[4] = {1, 0, 0, 0};
    EXPECT_INVALID("vmm.free-as-cumemalloc", cu.MemFree(mapped.address));
    EXPECT_INVALID("vmm.legacy-ipc",
                   cu.IpcGetMemHandle(&handle, mapped.address));
    EXPECT_SUCCESS("vmm.is-ipc-capable",
                   cu.PointerGetAttribute(
                       room, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                       mapped.address));
    EXPECT_SAME("vmm.is-ipc-capable.value", room[0] & 0xff, uint64_t{0});
    EXPECT_SUCCESS(
        "vmm.address-range",
        cu.MemGetAddressRange(&base, &size_bytes, mapped.address + 700));
    EXPECT_SAME("vmm.address-range.base", base, mapped.address);
    EXPECT_SAME("vmm.address-range.size", size_bytes, kGranule);
}

/* In a process of its own: a device that touches memory without access may
 * lose its context. */
ROLE(vmm_without_access)
{
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    MappedRange mapped(kGranule);
    CUmemAccessDesc access = ReadWriteByDevice();
    CUdeviceptr bare = 0;
    char local[16];
    MUST(cu.MemAddressReserve(&bare, kGranule, 0, 0, 0));
    MUST(cu.MemMap(bare, kGranule, 0, mapped.memory, 0));
    EXPECT_INVALID("vmm.no-access.memset", cu.MemsetD8(bare, 1, 16));
    EXPECT_INVALID("vmm.no-access.copy",
                   cu.MemcpyDtoH(local, bare, sizeof local));
    EXPECT_SUCCESS("vmm.no-access.context-survives", cu.CtxSynchronize());
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    EXPECT_SUCCESS("vmm.read-only.set-access",
                   cu.MemSetAccess(bare, kGranule, &access, 1));
    EXPECT_SUCCESS("vmm.read-only.copy-out",
                   cu.MemcpyDtoH(local, bare, sizeof local));
}

TEST_F(Vmm, MemoryWithoutAccess)
{
    RunRole("vmm_without_access");
}

} // namespace conformance
