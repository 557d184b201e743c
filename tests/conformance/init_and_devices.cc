// SPDX-License-Identifier: Apache-2.0
//
// Before cuInit, cuInit itself, and what devices say of themselves.
#include <cstring>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/roles.h"

namespace conformance
{

using InitAndDevices = OnDevice;

TEST(Entries, AreAllThere)
{
    for (const std::string &name : cu.missing)
        EXPECT_YES("entries.has." + name, false);
    EXPECT_SAME("entries.missing", cu.missing.size(), size_t{0});
}

ROLE(before_init)
{
    int number = 0;
    const char *text = nullptr;
    CUdeviceptr address = 0;
    CUcontext context = nullptr;
    CUdevice device = 0;
    EXPECT_SUCCESS("init.before.driver-get-version",
                   cu.DriverGetVersion(&number));
    EXPECT_YES("init.before.version-is-positive", number > 0);
    EXPECT_SUCCESS("init.before.get-error-name",
                   cu.GetErrorName(CUDA_ERROR_NOT_READY, &text));
    EXPECT_CU("init.before.device-get-count", cu.DeviceGetCount(&number),
              CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_CU("init.before.device-get", cu.DeviceGet(&device, 0),
              CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_CU("init.before.ctx-get-current", cu.CtxGetCurrent(&context),
              CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_CU("init.before.primary-retain",
              cu.DevicePrimaryCtxRetain(&context, 0),
              CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_CU("init.before.mem-alloc", cu.MemAlloc(&address, 512),
              CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_CU("init.before.stream-synchronize", cu.StreamSynchronize(nullptr),
              CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_CU("init.before.pointer-get-attribute",
              cu.PointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     kNowhere),
              CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_INVALID("init.flags-must-be-zero", cu.Init(1));
    EXPECT_SUCCESS("init.first", cu.Init(0));
    EXPECT_SUCCESS("init.again", cu.Init(0));
}

ROLE(no_context)
{
    CUcontext context = nullptr;
    CUdevice device = 0;
    CUdeviceptr address = 0;
    CUstream stream = nullptr;
    CUevent event = nullptr;
    size_t free_bytes = 0, total_bytes = 0;
    void *host = nullptr;
    MUST(cu.Init(0));
    EXPECT_SUCCESS("no-context.ctx-get-current", cu.CtxGetCurrent(&context));
    EXPECT_SAME("no-context.current-is-null", context, CUcontext{nullptr});
    EXPECT_CU("no-context.ctx-get-device", cu.CtxGetDevice(&device),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CU("no-context.ctx-pop", cu.CtxPopCurrent(&context),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CU("no-context.ctx-synchronize", cu.CtxSynchronize(),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CU("no-context.mem-alloc", cu.MemAlloc(&address, 512),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CU("no-context.mem-get-info",
              cu.MemGetInfo(&free_bytes, &total_bytes),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CU("no-context.mem-host-alloc", cu.MemHostAlloc(&host, 4096, 0),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CU("no-context.stream-create", cu.StreamCreate(&stream, 0),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CU("no-context.event-create", cu.EventCreate(&event, 0),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CU("no-context.legacy-stream-synchronize",
              cu.StreamSynchronize(nullptr), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(Init, IsNeededFirst)
{
    RunRole("before_init");
}

TEST(Init, MakesNoContextCurrent)
{
    RunRole("no_context");
}

TEST_F(InitAndDevices, OrdinalsAreChecked)
{
    int count = 0;
    CUdevice device = -1;
    EXPECT_SUCCESS("device.count", cu.DeviceGetCount(&count));
    EXPECT_YES("device.count-is-positive", count > 0);
    EXPECT_INVALID("device.count.null", cu.DeviceGetCount(nullptr));
    EXPECT_SUCCESS("device.get.first", cu.DeviceGet(&device, 0));
    EXPECT_INVALID("device.get.null", cu.DeviceGet(nullptr, 0));
    EXPECT_CU("device.get.negative", cu.DeviceGet(&device, -1),
              CUDA_ERROR_INVALID_DEVICE);
    EXPECT_CU("device.get.past-the-last", cu.DeviceGet(&device, count),
              CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(InitAndDevices, AttributesThatTheProductNeeds)
{
    const struct {
        const char *name;
        CUdevice_attribute attribute;
        int value;
    } expected[] = {
        {"unified-addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {"can-map-host", CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {"host-register", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
        {"can-use-host-pointer",
         CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
        {"managed", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
        {"stream-priorities", CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED,
         1},
        {"vmm", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
        {"fd-export",
         CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
        {"warp-size", CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {"integrated", CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
    };
    for (const auto &row : expected) {
        int value = -1;
        std::string name = std::string("device.attribute.") + row.name;
        EXPECT_SUCCESS(name, cu.DeviceGetAttribute(&value, row.attribute, 0));
        EXPECT_SAME(name + ".value", value, row.value);
    }
}

TEST_F(InitAndDevices, BadAttributeQueries)
{
    int value = 0;
    EXPECT_INVALID(
        "device.attribute.number-0",
        cu.DeviceGetAttribute(&value, static_cast<CUdevice_attribute>(0), 0));
    EXPECT_INVALID("device.attribute.unknown-number",
                   cu.DeviceGetAttribute(
                       &value, static_cast<CUdevice_attribute>(1000000), 0));
    EXPECT_INVALID(
        "device.attribute.null",
        cu.DeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    EXPECT_CU("device.attribute.bad-device",
              cu.DeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 999),
              CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(InitAndDevices, NameIsCutToTheBuffer)
{
    char whole[128] = "", cut[4] = "";
    EXPECT_SUCCESS("device.name", cu.DeviceGetName(whole, sizeof whole, 0));
    EXPECT_YES("device.name.is-not-empty", whole[0] != '\0');
    EXPECT_SUCCESS("device.name.short-buffer",
                   cu.DeviceGetName(cut, sizeof cut, 0));
    EXPECT_YES("device.name.is-cut",
               std::strncmp(whole, cut, sizeof cut - 1) == 0 &&
                   cut[sizeof cut - 1] == '\0');
    EXPECT_INVALID("device.name.null", cu.DeviceGetName(nullptr, 16, 0));
    EXPECT_CU("device.name.bad-device",
              cu.DeviceGetName(whole, sizeof whole, 999),
              CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(InitAndDevices, UuidAndSizeAreStable)
{
    CUuuid first = {}, again = {}, zero = {};
    size_t total_bytes = 0, also_total_bytes = 0, free_bytes = 0;
    EXPECT_SUCCESS("device.uuid", cu.DeviceGetUuid(&first, 0));
    MUST(cu.DeviceGetUuid(&again, 0));
    EXPECT_YES("device.uuid.is-stable",
               std::memcmp(&first, &again, sizeof first) == 0);
    EXPECT_YES("device.uuid.is-not-zero",
               std::memcmp(&first, &zero, sizeof first) != 0);
    EXPECT_INVALID("device.uuid.null", cu.DeviceGetUuid(nullptr, 0));
    EXPECT_SUCCESS("device.total-mem", cu.DeviceTotalMem(&total_bytes, 0));
    MUST(cu.MemGetInfo(&free_bytes, &also_total_bytes));
    EXPECT_SAME("device.total-mem.agrees-with-mem-get-info", total_bytes,
                also_total_bytes);
    EXPECT_INVALID("device.total-mem.null", cu.DeviceTotalMem(nullptr, 0));
    EXPECT_CU("device.total-mem.bad-device",
              cu.DeviceTotalMem(&total_bytes, 999), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(InitAndDevices, PciBusIdLeadsBack)
{
    char bus_id[32] = "";
    CUdevice device = -1;
    EXPECT_SUCCESS("device.pci-bus-id",
                   cu.DeviceGetPCIBusId(bus_id, sizeof bus_id, 0));
    EXPECT_SUCCESS("device.by-pci-bus-id",
                   cu.DeviceGetByPCIBusId(&device, bus_id));
    EXPECT_SAME("device.by-pci-bus-id.is-the-device", device, 0);
    EXPECT_CU("device.by-pci-bus-id.unknown",
              cu.DeviceGetByPCIBusId(&device, "ffff:fe:1d.0"),
              CUDA_ERROR_INVALID_DEVICE);
    EXPECT_INVALID("device.by-pci-bus-id.no-bus-id",
                   cu.DeviceGetByPCIBusId(&device, "nonsense"));
    EXPECT_INVALID("device.pci-bus-id.null",
                   cu.DeviceGetPCIBusId(nullptr, 16, 0));
}

TEST_F(InitAndDevices, PeerAccessToItself)
{
    int can = -1;
    EXPECT_SUCCESS("device.peer.itself", cu.DeviceCanAccessPeer(&can, 0, 0));
    EXPECT_SAME("device.peer.itself.answer", can, 0);
    EXPECT_CU("device.peer.bad-device", cu.DeviceCanAccessPeer(&can, 0, 999),
              CUDA_ERROR_INVALID_DEVICE);
    EXPECT_INVALID("device.peer.null", cu.DeviceCanAccessPeer(nullptr, 0, 0));
    EXPECT_CU("device.peer.enable-own-context",
              cu.CtxEnablePeerAccess(PrimaryContext(), 0),
              CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

} // namespace conformance
