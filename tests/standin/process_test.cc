// SPDX-License-Identifier: Apache-2.0
//
// The stand-in and the life of a process: exit, fork, and a CPU that follows a
// device pointer. Each case runs in a process of its own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/standin/standin_under_test.h"

namespace
{

class Process : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    }
};

CUdeviceptr late_address;

// Runs after the driver was torn down: it was registered before cuInit.
void FreeLate()
{
    _exit(standin::MemFree(late_address) == CUDA_ERROR_DEINITIALIZED ? 0 : 1);
}

[[noreturn]] void ExitWithALateFree()
{
    standin::Handle();
    std::atexit(FreeLate);
    standin::StartOnDevice0();
    if (standin::MemAlloc(&late_address, 4096) != CUDA_SUCCESS)
        _exit(2);
    std::exit(3);
}

TEST_F(Process, CallsAfterTearDownAreAnsweredDeinitialized)
{
    EXPECT_EXIT(ExitWithALateFree(), ::testing::ExitedWithCode(0), "");
}

[[noreturn]] void ExitWithWorkQueued()
{
    standin::StartOnDevice0();
    CUstream stream = nullptr;
    CUdeviceptr address = 0;
    standin::Get<CUresult(CUstream *, unsigned)>("cuStreamCreate")(&stream, 0);
    standin::MemAlloc(&address, 1 << 20);
    standin::Get<moiety_standin_hold_fn>("moiety_standin_hold")(stream);
    for (int i = 0; i < 100; i++)
        standin::Get<CUresult(CUdeviceptr, unsigned char, size_t, CUstream)>(
            "cuMemsetD8Async")(address, 1, 1 << 20, stream);
    standin::Get<moiety_standin_release_fn>("moiety_standin_release")(stream);
    std::exit(0);
}

TEST_F(Process, ExitUnderLoadNeitherHangsNorCrashes)
{
    for (int i = 0; i < 10; i++)
        EXPECT_EXIT(ExitWithWorkQueued(), ::testing::ExitedWithCode(0), "");
}

TEST_F(Process, AForkedChildIsRefusedAndTheParentGoesOn)
{
    standin::StartOnDevice0();
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr address = 0;
        bool is_refused =
            standin::MemAlloc(&address, 512) == CUDA_ERROR_NOT_INITIALIZED &&
            standin::Init() == CUDA_ERROR_NOT_INITIALIZED;
        _exit(is_refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    CUdeviceptr address = 0;
    ASSERT_EQ(standin::MemAlloc(&address, 512), CUDA_SUCCESS);
    EXPECT_EQ(standin::MemFree(address), CUDA_SUCCESS);
}

[[noreturn]] void ReadDeviceMemory()
{
    standin::StartOnDevice0();
    CUdeviceptr address = 0;
    standin::MemAlloc(&address, 4096);
    _exit(*reinterpret_cast<volatile char *>(address) ? 1 : 2);
}

TEST_F(Process, ACpuThatFollowsADevicePointerCrashes)
{
    EXPECT_DEATH(ReadDeviceMemory(), "");
}

[[noreturn]] void QueryADestroyedStream()
{
    standin::StartOnDevice0();
    CUstream stream = nullptr;
    standin::Get<CUresult(CUstream *, unsigned)>("cuStreamCreate")(&stream, 0);
    standin::Get<CUresult(CUstream)>("cuStreamDestroy_v2")(stream);
    _exit(standin::Get<CUresult(CUstream)>("cuStreamQuery")(stream));
}

TEST_F(Process, AQueryOfADestroyedStreamEndsItAsWithARealDriver)
{
    EXPECT_DEATH(QueryADestroyedStream(),
                 "cuStreamQuery of a stream that was destroyed");
}

TEST_F(Process, AQueryOfWhatNeverWasAStreamIsRefused)
{
    standin::StartOnDevice0();
    auto *query = standin::Get<CUresult(CUstream)>("cuStreamQuery");
    int no_stream = 0;
    EXPECT_EQ(query(reinterpret_cast<CUstream>(&no_stream)),
              CUDA_ERROR_INVALID_HANDLE);
}

} // namespace
