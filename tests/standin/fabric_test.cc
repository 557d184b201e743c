// SPDX-License-Identifier: Apache-2.0
//
// Fabric handles. Settings are read once, so each case is a process of its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/standin/standin_under_test.h"

namespace
{

constexpr size_t kBytes = size_t{2} << 20;
constexpr unsigned kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr unsigned kFabric = CU_MEM_HANDLE_TYPE_FABRIC;

template <typename... Arguments>
CUresult Call(const char *entry, Arguments... arguments)
{
    return standin::Get<CUresult(Arguments...)>(entry)(arguments...);
}

CUresult Create(unsigned types, CUmemGenericAllocationHandle *out)
{
    CUmemAllocationProp property = {};
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    property.requestedHandleTypes =
        static_cast<CUmemAllocationHandleType>(types);
    const CUmemAllocationProp *asked = &property;
    return Call("cuMemCreate", out, kBytes, asked, 0ULL);
}

CUresult Export(CUmemGenericAllocationHandle handle, CUmemFabricHandle *out)
{
    return Call("cuMemExportToShareableHandle", static_cast<void *>(out),
                handle, CU_MEM_HANDLE_TYPE_FABRIC, 0ULL);
}

CUresult Import(CUmemFabricHandle *shared, CUmemGenericAllocationHandle *out)
{
    return Call("cuMemImportFromShareableHandle", out,
                static_cast<void *>(shared), CU_MEM_HANDLE_TYPE_FABRIC);
}

bool SaysFabric()
{
    int value = -1;
    Call("cuDeviceGetAttribute", &value,
         CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, CUdevice{0});
    return value == 1;
}

void Start(const char *setting)
{
    if (setting)
        setenv("MOIETY_STANDIN_FABRIC", setting, 1);
    else
        unsetenv("MOIETY_STANDIN_FABRIC");
    standin::StartOnDevice0();
}

#define MUST_BE(condition)                                                     \
    do {                                                                       \
        if (!(condition)) {                                                    \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition);       \
            _exit(1);                                                          \
        }                                                                      \
    } while (false)

[[noreturn]] void WithoutFabric(const char *setting, bool says_fabric)
{
    CUmemFabricHandle shared = {};
    CUmemGenericAllocationHandle memory = 0;
    Start(setting);
    MUST_BE(SaysFabric() == says_fabric);
    MUST_BE(Create(kFabric, &memory) == CUDA_ERROR_NOT_PERMITTED);
    MUST_BE(Create(kFabric | kDescriptor, &memory) == CUDA_ERROR_NOT_PERMITTED);
    MUST_BE(Create(kDescriptor, &memory) == CUDA_SUCCESS);
    MUST_BE(Export(memory, &shared) == CUDA_ERROR_INVALID_VALUE);
    MUST_BE(Import(&shared, &memory) == CUDA_ERROR_NOT_PERMITTED);
    _exit(0);
}

[[noreturn]] void MadeAndOpened()
{
    CUmemFabricHandle one = {}, two = {};
    CUmemGenericAllocationHandle alone = 0, both = 0, imported = 0;
    int descriptor = -1;
    Start("ready");
    MUST_BE(SaysFabric());
    MUST_BE(Create(kFabric, &alone) == CUDA_SUCCESS);
    MUST_BE(Create(kFabric | kDescriptor, &both) == CUDA_SUCCESS);
    MUST_BE(Export(alone, &one) == CUDA_SUCCESS);
    MUST_BE(Export(both, &two) == CUDA_SUCCESS);
    MUST_BE(std::memcmp(&one, &two, sizeof one) != 0);
    MUST_BE(Call("cuMemExportToShareableHandle",
                 static_cast<void *>(&descriptor), alone,
                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                 0ULL) == CUDA_ERROR_INVALID_VALUE);
    MUST_BE(Call("cuMemExportToShareableHandle",
                 static_cast<void *>(&descriptor), both,
                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                 0ULL) == CUDA_SUCCESS);
    MUST_BE(Import(&one, &imported) == CUDA_SUCCESS);
    MUST_BE(Call("cuMemRelease", imported) == CUDA_SUCCESS);
    _exit(0);
}

[[noreturn]] void WrongBytes()
{
    CUmemFabricHandle shared = {}, changed = {};
    CUmemGenericAllocationHandle memory = 0, imported = 0;
    Start("ready");
    MUST_BE(Import(&changed, &imported) == CUDA_ERROR_INVALID_VALUE);
    MUST_BE(Import(nullptr, &imported) == CUDA_ERROR_INVALID_VALUE);
    MUST_BE(Create(kDescriptor, &memory) == CUDA_SUCCESS);
    MUST_BE(Export(memory, &shared) == CUDA_ERROR_INVALID_VALUE);
    MUST_BE(Create(kFabric, &memory) == CUDA_SUCCESS);
    MUST_BE(Export(memory, &shared) == CUDA_SUCCESS);
    for (size_t i = 0; i < sizeof shared; i++) {
        changed = shared;
        changed.data[i] ^= 1;
        MUST_BE(Import(&changed, &imported) == CUDA_ERROR_INVALID_VALUE);
    }
    _exit(0);
}

// What is mapped stays, and nobody else gets it.
[[noreturn]] void AfterTheRelease()
{
    CUmemFabricHandle shared = {};
    CUmemGenericAllocationHandle memory = 0, imported = 0;
    CUdeviceptr address = 0;
    Start("ready");
    MUST_BE(Create(kFabric, &memory) == CUDA_SUCCESS);
    MUST_BE(Export(memory, &shared) == CUDA_SUCCESS);
    MUST_BE(Call("cuMemAddressReserve", &address, kBytes, size_t{0},
                 CUdeviceptr{0}, 0ULL) == CUDA_SUCCESS);
    MUST_BE(Call("cuMemMap", address, kBytes, size_t{0}, memory, 0ULL) ==
            CUDA_SUCCESS);
    MUST_BE(Call("cuMemRelease", memory) == CUDA_SUCCESS);
    MUST_BE(Import(&shared, &imported) == CUDA_ERROR_INVALID_VALUE);
    MUST_BE(Call("cuMemUnmap", address, kBytes) == CUDA_SUCCESS);
    MUST_BE(Import(&shared, &imported) == CUDA_ERROR_INVALID_VALUE);
    _exit(0);
}

class Fabric : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    }
};

#define EXPECT_SOUND(call) EXPECT_EXIT(call, ::testing::ExitedWithCode(0), "")

TEST_F(Fabric, IsRefusedUnlessAskedFor)
{
    EXPECT_SOUND(WithoutFabric(nullptr, false));
    EXPECT_SOUND(WithoutFabric("none", false));
}

TEST_F(Fabric, WithoutAChannelTheDeviceSaysYesAndTheDriverNo)
{
    EXPECT_SOUND(WithoutFabric("no_channel", true));
}

TEST_F(Fabric, HandlesAreMadeAndOpenedAsTheMemoryWasCreated)
{
    EXPECT_SOUND(MadeAndOpened());
}

TEST_F(Fabric, OtherBytesAreRefused)
{
    EXPECT_SOUND(WrongBytes());
}

TEST_F(Fabric, HandlesAreGoodUntilTheRelease)
{
    EXPECT_SOUND(AfterTheRelease());
}

} // namespace
