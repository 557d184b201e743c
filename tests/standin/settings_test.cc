// SPDX-License-Identifier: Apache-2.0
//
// The MOIETY_STANDIN_* environment. It is read once per process, so every case
// runs in a process of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/standin/standin_under_test.h"

namespace
{

class Settings : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    }
};

// Exits 0 when cuInit refuses the value.
[[noreturn]] void ExitByRefusal(const char *name, const char *value)
{
    setenv(name, value, 1);
    _exit(standin::Init() == CUDA_ERROR_INVALID_VALUE ? 0 : 1);
}

#define EXPECT_REFUSED(name, value)                                            \
    EXPECT_EXIT(ExitByRefusal(name, value), ::testing::ExitedWithCode(0),      \
                name "=.*takes")

TEST_F(Settings, BadValuesAreNamedAndStopInit)
{
    EXPECT_REFUSED("MOIETY_STANDIN_MEMORY", "lots");
    EXPECT_REFUSED("MOIETY_STANDIN_MEMORY", "-8GiB");
    EXPECT_REFUSED("MOIETY_STANDIN_MEMORY", "1");
    EXPECT_REFUSED("MOIETY_STANDIN_MEMORY", "99999999TiB");
    EXPECT_REFUSED("MOIETY_STANDIN_DEVICES", "0");
    EXPECT_REFUSED("MOIETY_STANDIN_DEVICES", "9");
    EXPECT_REFUSED("MOIETY_STANDIN_DEVICES", "two");
    EXPECT_REFUSED("MOIETY_STANDIN_PEERS", "no");
    EXPECT_REFUSED("MOIETY_STANDIN_PCI", "21:00");
    EXPECT_REFUSED("MOIETY_STANDIN_FABRIC", "1");
    EXPECT_REFUSED("MOIETY_STANDIN_FABRIC", "");
    EXPECT_REFUSED("MOIETY_STANDIN_COST", "a100");
    EXPECT_REFUSED("MOIETY_STANDIN_MEMORY_POOLS", "yes");
    EXPECT_REFUSED("MOIETY_STANDIN_DRIVER_VERSION", "new");
    EXPECT_REFUSED("MOIETY_STANDIN_QUEUE", "0");
    EXPECT_REFUSED("MOIETY_STANDIN_QUEUE", "-1");
    EXPECT_REFUSED("MOIETY_STANDIN_QUEUE", "1000001");
    EXPECT_REFUSED("MOIETY_STANDIN_QUEUE", "8GiB");
    EXPECT_REFUSED("MOIETY_STANDIN_QUEUE", "");
    EXPECT_REFUSED("MOIETY_STANDIN_FAULTS", "cuMemAlloc:sometimes");
}

// Exits with the number of devices, each of which has `memory_bytes`.
[[noreturn]] void ExitWithDevicesOf(size_t memory_bytes)
{
    setenv("MOIETY_STANDIN_DEVICES", "3", 1);
    setenv("MOIETY_STANDIN_MEMORY", "256MiB", 1);
    int count = 0;
    if (standin::Init() != CUDA_SUCCESS)
        _exit(100);
    standin::Get<CUresult(int *)>("cuDeviceGetCount")(&count);
    for (int i = 0; i < count; i++) {
        size_t bytes = 0;
        standin::Get<CUresult(size_t *, CUdevice)>("cuDeviceTotalMem_v2")(
            &bytes, i);
        if (bytes != memory_bytes)
            _exit(101);
    }
    _exit(count);
}

TEST_F(Settings, DevicesAndMemoryAreAsAsked)
{
    EXPECT_EXIT(ExitWithDevicesOf(256u << 20), ::testing::ExitedWithCode(3),
                "");
}

[[noreturn]] void ExitByBusId()
{
    setenv("MOIETY_STANDIN_DEVICES", "2", 1);
    setenv("MOIETY_STANDIN_PCI", "0000:21:00.0,0001:41:03.0", 1);
    CUdevice device = -1;
    char text[32] = "";
    standin::Init();
    standin::Get<CUresult(CUdevice *, const char *)>("cuDeviceGetByPCIBusId")(
        &device, "0001:41:03.0");
    standin::Get<CUresult(char *, int, CUdevice)>("cuDeviceGetPCIBusId")(
        text, sizeof(text), 0);
    _exit(device == 1 && std::string(text) == "0000:21:00.0" ? 0 : 1);
}

TEST_F(Settings, PciAddressesAreAsAsked)
{
    EXPECT_EXIT(ExitByBusId(), ::testing::ExitedWithCode(0), "");
}

[[noreturn]] void ExitByOldDriver()
{
    setenv("MOIETY_STANDIN_DRIVER_VERSION", "12040", 1);
    void *found = nullptr;
    int version = 0;
    CUdriverProcAddressQueryResult status;
    standin::Get<CUresult(int *)>("cuDriverGetVersion")(&version);
    standin::Get<CUresult(const char *, void **, int, cuuint64_t,
                          CUdriverProcAddressQueryResult *)>(
        "cuGetProcAddress_v2")("cuCtxRecordEvent", &found, 13000, 0, &status);
    _exit(version == 12040 && !found ? 0 : 1);
}

TEST_F(Settings, AnOlderDriverLacksNewerEntries)
{
    EXPECT_EXIT(ExitByOldDriver(), ::testing::ExitedWithCode(0), "");
}

[[noreturn]] void ExitByEnvironmentPlan()
{
    setenv("MOIETY_STANDIN_FAULTS", "cuMemAlloc:nth=1:code=2", 1);
    standin::StartOnDevice0();
    CUdeviceptr address = 0;
    bool is_failed =
        standin::MemAlloc(&address, 512) == CUDA_ERROR_OUT_OF_MEMORY;
    bool is_recovered = standin::MemAlloc(&address, 512) == CUDA_SUCCESS;
    _exit(is_failed && is_recovered ? 0 : 1);
}

TEST_F(Settings, AFaultPlanFromTheEnvironmentApplies)
{
    EXPECT_EXIT(ExitByEnvironmentPlan(), ::testing::ExitedWithCode(0), "");
}

} // namespace
