// SPDX-License-Identifier: Apache-2.0
//
// Work whose addresses are unmapped before its turn comes. The stand-in looks
// an address up when it does the work, so it refuses it as a device would; a
// program that unmaps too early is found out by that.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/standin/standin_under_test.h"

namespace
{

constexpr size_t kBytes = size_t{2} << 20;
constexpr uint32_t kGo = 1;

template <typename... Arguments>
CUresult Call(const char *entry, Arguments... arguments)
{
    return standin::Get<CUresult(Arguments...)>(entry)(arguments...);
}

// A test that cannot go on ends the process.
void Must(CUresult code)
{
    if (code == CUDA_SUCCESS)
        return;
    std::fprintf(stderr, "the test cannot go on: %d\n", code);
    std::abort();
}

CUmemGenericAllocationHandle Create()
{
    CUmemAllocationProp property = {};
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp *asked = &property;
    Must(Call("cuMemCreate", &handle, kBytes, asked, 0ULL));
    return handle;
}

// A context of its own, as an error of its work stays; a stream that is held;
// a handle at an address, and a block beside it.
class Mapping : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        void *word = nullptr;
        Must(standin::Init());
        Must(Call("cuCtxCreate_v2", &context_, 0u, CUdevice{0}));
        Must(Call("cuStreamCreate", &stream_, 1u));
        Must(Call("cuMemHostAlloc", &word, sizeof(uint32_t), 0u));
        word_ = static_cast<uint32_t *>(word);
        *word_ = 0;
        Must(standin::MemAlloc(&beside_, kBytes));
        Must(Call("cuMemAddressReserve", &address_, kBytes, size_t{0},
                  CUdeviceptr{0}, 0ULL));
        handle_ = Create();
        Map(handle_);
        Must(Call("cuStreamWaitValue32_v2", stream_,
                  reinterpret_cast<CUdeviceptr>(word_), kGo, 0u));
    }

    void TearDown() override
    {
        GoOn();
        Call("cuCtxSynchronize");
        Must(Call("cuCtxDestroy_v2", context_));
        Must(Call("cuMemUnmap", address_, kBytes));
        Must(Call("cuMemAddressFree", address_, kBytes));
        Must(Call("cuMemRelease", handle_));
    }

    void Map(CUmemGenericAllocationHandle handle)
    {
        CUmemAccessDesc access = {};
        access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        const CUmemAccessDesc *right = &access;
        Must(Call("cuMemMap", address_, kBytes, size_t{0}, handle, 0ULL));
        Must(Call("cuMemSetAccess", address_, kBytes, right, size_t{1}));
    }

    void Unmap()
    {
        Must(Call("cuMemUnmap", address_, kBytes));
    }

    CUresult Memset(unsigned char value)
    {
        return Call("cuMemsetD8Async", address_, value, kBytes, stream_);
    }

    void GoOn()
    {
        __atomic_store_n(word_, kGo, __ATOMIC_RELEASE);
    }

    CUresult Finish()
    {
        GoOn();
        return Call("cuStreamSynchronize", stream_);
    }

    CUcontext context_ = nullptr;
    CUstream stream_ = nullptr;
    uint32_t *word_ = nullptr;
    CUdeviceptr beside_ = 0, address_ = 0;
    CUmemGenericAllocationHandle handle_ = 0;
};

TEST_F(Mapping, RefusesAMemsetAtAnAddressThatWasUnmappedMeanwhile)
{
    Must(Memset(1));
    Unmap();
    EXPECT_EQ(Finish(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(Mapping, RefusesACopyToSuchAnAddress)
{
    Must(Call("cuMemcpyDtoDAsync_v2", address_, beside_, kBytes, stream_));
    Unmap();
    EXPECT_EQ(Finish(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(Mapping, RefusesACopyFromSuchAnAddress)
{
    Must(Call("cuMemcpyDtoDAsync_v2", beside_, address_, kBytes, stream_));
    Unmap();
    EXPECT_EQ(Finish(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(Mapping, RefusesAllThatComesAfterSuchWork)
{
    Must(Memset(1));
    Unmap();
    Finish();
    EXPECT_EQ(Call("cuMemsetD8Async", beside_, static_cast<unsigned char>(1),
                   kBytes, stream_),
              CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(Mapping, DoesWorkThatComesBeforeTheUnmap)
{
    Must(Memset(1));
    EXPECT_EQ(Finish(), CUDA_SUCCESS);
    Unmap();
    EXPECT_EQ(Call("cuCtxSynchronize"), CUDA_SUCCESS);
}

TEST_F(Mapping, DoesTheWorkOnTheHandleThatIsThereByThen)
{
    std::vector<unsigned char> bytes(kBytes);
    void *to = bytes.data();
    Must(Memset(7));
    Unmap();
    CUmemGenericAllocationHandle other = Create();
    Map(other);
    EXPECT_EQ(Finish(), CUDA_SUCCESS);
    Must(Call("cuMemcpyDtoH_v2", to, address_, kBytes));
    EXPECT_EQ(bytes, std::vector<unsigned char>(kBytes, 7));
    Must(Call("cuMemRelease", other));
}

} // namespace
