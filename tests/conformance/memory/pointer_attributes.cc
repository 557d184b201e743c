// SPDX-License-Identifier: Apache-2.0
//
// cuPointerGetAttribute(s) over every kind of memory.
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using PointerAttributes = OnDevice;

namespace
{

template <typename Value>
CUresult Get(CUpointer_attribute attribute, CUdeviceptr address, Value *out)
{
    return cu.PointerGetAttribute(out, attribute, address);
}

/* Through a roomy buffer: how many bytes a truth value takes is the driver's
 * own affair. */
template <typename Value>
void Expect(const std::string &name, CUpointer_attribute attribute,
            CUdeviceptr address, Value want)
{
    uint64_t room[4] = {};
    Value got = Value();
    EXPECT_SUCCESS(name, Get(attribute, address, room));
    std::memcpy(&got, room, sizeof got);
    EXPECT_SAME(name + ".value", got, want);
}

CUdeviceptr AddressOf(const void *host)
{
    return reinterpret_cast<CUdeviceptr>(host);
}

} // namespace

TEST_F(PointerAttributes, OfDeviceMemory)
{
    DeviceBlock block(4 * kMiB);
    CUdeviceptr inside = block + 100;
    CUcontext context = nullptr;
    Expect("pointer.device.memory-type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
           inside, unsigned{CU_MEMORYTYPE_DEVICE});
    Expect("pointer.device.device-pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
           inside, inside);
    Expect("pointer.device.is-managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, inside,
           0u);
    Expect("pointer.device.ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
           inside, 0);
    Expect("pointer.device.range-start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
           inside, block.address);
    Expect("pointer.device.range-size", CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside,
           4 * kMiB);
    Expect("pointer.device.is-ipc-capable",
           CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, inside, true);
    Expect("pointer.device.mapped", CU_POINTER_ATTRIBUTE_MAPPED, inside, true);
    Expect("pointer.device.handle-types",
           CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, inside, uint64_t{0});
    EXPECT_SUCCESS("pointer.device.context",
                   Get(CU_POINTER_ATTRIBUTE_CONTEXT, inside, &context));
    EXPECT_YES("pointer.device.context.value", context == PrimaryContext());
}

TEST_F(PointerAttributes, DeviceMemoryHasNoHostPointer)
{
    DeviceBlock block(4096);
    void *host = nullptr;
    EXPECT_INVALID("pointer.device.host-pointer",
                   Get(CU_POINTER_ATTRIBUTE_HOST_POINTER, block, &host));
}

TEST_F(PointerAttributes, OfPinnedMemory)
{
    PinnedBlock block(64 * kKiB);
    CUdeviceptr inside = block.address + 100;
    void *host = nullptr;
    Expect("pointer.pinned.memory-type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
           inside, unsigned{CU_MEMORYTYPE_HOST});
    Expect("pointer.pinned.device-pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
           inside, inside);
    EXPECT_SUCCESS("pointer.pinned.host-pointer",
                   Get(CU_POINTER_ATTRIBUTE_HOST_POINTER, inside, &host));
    EXPECT_YES("pointer.pinned.host-pointer.value", host == block.bytes + 100);
    Expect("pointer.pinned.is-managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, inside,
           0u);
    Expect("pointer.pinned.is-ipc-capable",
           CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, inside, false);
}

TEST_F(PointerAttributes, OfRegisteredMemory)
{
    void *host = std::aligned_alloc(4096, 64 * kKiB);
    CUdeviceptr inside = AddressOf(host) + 100;
    MUST(cu.MemHostRegister(host, 64 * kKiB, CU_MEMHOSTREGISTER_DEVICEMAP));
    Expect("pointer.registered.memory-type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
           inside, unsigned{CU_MEMORYTYPE_HOST});
    Expect("pointer.registered.device-pointer",
           CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside, inside);
    MUST(cu.MemHostUnregister(host));
    std::free(host);
}

TEST_F(PointerAttributes, OfManagedMemory)
{
    CUdeviceptr address = 0;
    MUST(cu.MemAllocManaged(&address, kMiB, CU_MEM_ATTACH_GLOBAL));
    Expect("pointer.managed.is-managed", CU_POINTER_ATTRIBUTE_IS_MANAGED,
           address, 1u);
    Expect("pointer.managed.device-pointer",
           CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address, address);
    Expect("pointer.managed.host-pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER,
           address, address);
    Expect("pointer.managed.range-start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
           address, address);
    MUST(cu.MemFree(address));
}

TEST_F(PointerAttributes, OfNoAllocation)
{
    CUdeviceptr freed = 0;
    unsigned type = 0;
    int local = 0;
    MUST(cu.MemAlloc(&freed, 64 * kMiB));
    MUST(cu.MemFree(freed));
    EXPECT_INVALID("pointer.freed.memory-type",
                   Get(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, freed, &type));
    EXPECT_INVALID(
        "pointer.plain-host.memory-type",
        Get(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, AddressOf(&local), &type));
    EXPECT_INVALID(
        "pointer.null.memory-type",
        Get(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr{0}, &type));
}

TEST_F(PointerAttributes, BadQueries)
{
    DeviceBlock block(4096);
    unsigned type = 0;
    EXPECT_INVALID("pointer.attribute.null",
                   cu.PointerGetAttribute(
                       nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
    EXPECT_INVALID("pointer.attribute.unknown",
                   Get(static_cast<CUpointer_attribute>(9999), block, &type));
}

TEST_F(PointerAttributes, ManyAtOnceSayZeroForPlainHost)
{
    DeviceBlock block(4096);
    int local = 0;
    unsigned type = 99;
    CUdeviceptr device = 99;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    void *outs[] = {&type, &device};
    EXPECT_SUCCESS("pointer.many.device",
                   cu.PointerGetAttributes(2, attributes, outs, block));
    EXPECT_SAME("pointer.many.device.type", type,
                unsigned{CU_MEMORYTYPE_DEVICE});
    EXPECT_SAME("pointer.many.device.pointer", device, block.address);
    EXPECT_SUCCESS(
        "pointer.many.plain-host",
        cu.PointerGetAttributes(2, attributes, outs, AddressOf(&local)));
    EXPECT_SAME("pointer.many.plain-host.type", type, 0u);
    EXPECT_SAME("pointer.many.plain-host.pointer", device, CUdeviceptr{0});
    EXPECT_INVALID("pointer.many.none",
                   cu.PointerGetAttributes(0, attributes, outs, block));
}

TEST_F(PointerAttributes, BufferIdTellsLives)
{
    CUdeviceptr address = 0;
    uint64_t first = 0, second = 0;
    MUST(cu.MemAlloc(&address, 4096));
    EXPECT_SUCCESS("pointer.buffer-id",
                   Get(CU_POINTER_ATTRIBUTE_BUFFER_ID, address, &first));
    MUST(cu.MemFree(address));
    MUST(cu.MemAlloc(&address, 4096));
    MUST(Get(CU_POINTER_ATTRIBUTE_BUFFER_ID, address, &second));
    MUST(cu.MemFree(address));
    EXPECT_YES("pointer.buffer-id.is-never-reused",
               first != 0 && second != 0 && first != second);
}

TEST_F(PointerAttributes, SyncMemopsCanBeSet)
{
    DeviceBlock block(4096);
    int wanted = 1;
    Expect("pointer.sync-memops.default", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
           block, 0);
    EXPECT_SUCCESS("pointer.sync-memops.set",
                   cu.PointerSetAttribute(
                       &wanted, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
    Expect("pointer.sync-memops.after", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block,
           1);
    EXPECT_INVALID("pointer.set.read-only-attribute",
                   cu.PointerSetAttribute(
                       &wanted, CU_POINTER_ATTRIBUTE_IS_MANAGED, block));
}

} // namespace conformance
