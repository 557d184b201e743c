// SPDX-License-Identifier: Apache-2.0
//
// Contexts that go while objects live in them: what late calls are told.
#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/roles.h"

namespace conformance
{

namespace
{

/* Objects that are left to the context. */
struct Leftovers {
    CUdeviceptr address = 0;
    void *host = nullptr;
    CUstream stream = nullptr;
    CUevent event = nullptr;
    size_t free_bytes_before = 0;

    Leftovers()
    {
        size_t total_bytes = 0;
        MUST(cu.MemGetInfo(&free_bytes_before, &total_bytes));
        MUST(cu.MemAlloc(&address, 64 * kMiB));
        MUST(cu.MemHostAlloc(&host, 4096, 0));
        MUST(cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
        MUST(cu.EventRecord(event, stream));
        MUST(cu.StreamSynchronize(stream));
    }
};

void ExpectMemoryIsGone(const std::string &name, const Leftovers &left)
{
    unsigned type = 0;
    CUdeviceptr base = 0;
    size_t size_bytes = 0;
    EXPECT_INVALID(name + ".pointer-attribute",
                   cu.PointerGetAttribute(
                       &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, left.address));
    EXPECT_CU(name + ".address-range",
              cu.MemGetAddressRange(&base, &size_bytes, left.address),
              CUDA_ERROR_NOT_FOUND);
    EXPECT_INVALID(name + ".mem-free", cu.MemFree(left.address));
    EXPECT_INVALID(name + ".mem-free-host", cu.MemFreeHost(left.host));
}

} // namespace

ROLE(primary_reset)
{
    unsigned flags = 0;
    int is_active = 1;
    CUcontext current = nullptr;
    CUdevice device = 0;
    CUdeviceptr address = 0;
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    Leftovers left;
    EXPECT_SUCCESS("reset", cu.DevicePrimaryCtxReset(0));
    MUST(cu.DevicePrimaryCtxGetState(0, &flags, &is_active));
    EXPECT_SAME("reset.is-inactive-after", is_active, 0);
    EXPECT_SUCCESS("reset.current-is-still-told", cu.CtxGetCurrent(&current));
    EXPECT_YES("reset.current-is-the-dead-one", current == PrimaryContext());
    EXPECT_SUCCESS("reset.ctx-get-device", cu.CtxGetDevice(&device));
    EXPECT_CU("reset.mem-alloc", cu.MemAlloc(&address, 512),
              CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_CU("reset.mem-free", cu.MemFree(left.address),
              CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_CU("reset.mem-free-host", cu.MemFreeHost(left.host),
              CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_CU("reset.ctx-synchronize", cu.CtxSynchronize(),
              CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

ROLE(primary_retained_again)
{
    CUcontext again = nullptr;
    CUdeviceptr address = 0;
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    Leftovers left;
    MUST(cu.DevicePrimaryCtxReset(0));
    EXPECT_SUCCESS("reset.retain-again", cu.DevicePrimaryCtxRetain(&again, 0));
    EXPECT_YES("reset.retain-again.is-the-same-handle",
               again == PrimaryContext());
    EXPECT_SUCCESS("reset.retain-again.set-current", cu.CtxSetCurrent(again));
    EXPECT_SUCCESS("reset.retain-again.mem-alloc", cu.MemAlloc(&address, 512));
    MUST(cu.MemFree(address));
    ExpectMemoryIsGone("reset.retain-again.late", left);
}

ROLE(primary_released)
{
    CUcontext retained = nullptr;
    CUdeviceptr address = 0;
    unsigned flags = 0;
    int is_active = 1;
    MUST(cu.Init(0));
    MUST(cu.DevicePrimaryCtxRetain(&retained, 0));
    MUST(cu.CtxSetCurrent(retained));
    EXPECT_SUCCESS("release.last", cu.DevicePrimaryCtxRelease(0));
    MUST(cu.DevicePrimaryCtxGetState(0, &flags, &is_active));
    EXPECT_SAME("release.last.is-inactive-after", is_active, 0);
    EXPECT_CU("release.last.mem-alloc", cu.MemAlloc(&address, 512),
              CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_CU("release.once-too-often", cu.DevicePrimaryCtxRelease(0),
              CUDA_ERROR_INVALID_CONTEXT);
}

ROLE(context_destroyed)
{
    CUcontext doomed = nullptr, current = nullptr;
    CUdeviceptr address = 0;
    size_t free_bytes = 0, total_bytes = 0;
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    MUST(cu.CtxCreate_v2(&doomed, 0, 0));
    Leftovers left;
    EXPECT_SUCCESS("destroy.with-live-objects", cu.CtxDestroy(doomed));
    MUST(cu.CtxGetCurrent(&current));
    MUST_BE(current == PrimaryContext());
    MUST(cu.MemGetInfo(&free_bytes, &total_bytes));
    EXPECT_YES("destroy.gives-memory-back",
               free_bytes >= left.free_bytes_before);
    ExpectMemoryIsGone("destroy.late", left);
    EXPECT_SUCCESS("destroy.mem-alloc-after", cu.MemAlloc(&address, 512));
}

/* A context that another thread still has current. */
ROLE(destroyed_under_a_thread)
{
    CUcontext doomed = nullptr;
    CUdeviceptr address = 0;
    MUST(cu.CtxSetCurrent(PrimaryContext()));
    MUST(cu.CtxCreate_v2(&doomed, 0, 0));
    EXPECT_CU("destroy.current-elsewhere.mem-alloc", OnOtherThread([&] {
                  MUST(cu.CtxSetCurrent(doomed));
                  MUST(OnOtherThread([&] { return cu.CtxDestroy(doomed); }));
                  return cu.MemAlloc(&address, 512);
              }),
              CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

class Teardown : public ::testing::TestWithParam<const char *>
{
};

TEST_P(Teardown, InAProcessOfItsOwn)
{
    RunRole(GetParam());
}

INSTANTIATE_TEST_SUITE_P(, Teardown,
                         ::testing::Values("primary_reset",
                                           "primary_retained_again",
                                           "primary_released",
                                           "context_destroyed",
                                           "destroyed_under_a_thread"),
                         [](const auto &role) {
                             std::string name = role.param;
                             return name;
                         });

} // namespace conformance
