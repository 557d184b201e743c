// SPDX-License-Identifier: Apache-2.0
//
// Primary contexts, contexts of one's own, the stack of current ones.
#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using Contexts = OnDevice;

TEST_F(Contexts, PrimaryIsOnePerDevice)
{
    CUcontext first = nullptr, second = nullptr;
    unsigned flags = 0;
    int is_active = 0;
    EXPECT_SUCCESS("context.primary.retain",
                   cu.DevicePrimaryCtxRetain(&first, 0));
    MUST(cu.DevicePrimaryCtxRetain(&second, 0));
    EXPECT_YES("context.primary.is-one", first == second);
    EXPECT_SUCCESS("context.primary.state",
                   cu.DevicePrimaryCtxGetState(0, &flags, &is_active));
    EXPECT_SAME("context.primary.is-active", is_active, 1);
    EXPECT_SUCCESS("context.primary.release", cu.DevicePrimaryCtxRelease(0));
    MUST(cu.DevicePrimaryCtxRelease(0));
    MUST(cu.DevicePrimaryCtxGetState(0, &flags, &is_active));
    EXPECT_SAME("context.primary.lives-while-retained", is_active, 1);
    EXPECT_CU("context.primary.retain.bad-device",
              cu.DevicePrimaryCtxRetain(&first, 999),
              CUDA_ERROR_INVALID_DEVICE);
    EXPECT_INVALID("context.primary.retain.null",
                   cu.DevicePrimaryCtxRetain(nullptr, 0));
    EXPECT_CU("context.primary.destroy-is-refused",
              cu.CtxDestroy(PrimaryContext()), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Contexts, CurrentIsPerThread)
{
    CUcontext here = nullptr, there = nullptr;
    CUresult code = OnOtherThread([&there] {
        cu.CtxSetCurrent(nullptr);
        return cu.CtxGetCurrent(&there);
    });
    EXPECT_SUCCESS("context.current.on-a-thread-without", code);
    EXPECT_SAME("context.current.on-a-thread-without.is-null", there,
                CUcontext{nullptr});
    EXPECT_SUCCESS("context.current", cu.CtxGetCurrent(&here));
    EXPECT_YES("context.current.is-the-primary", here == PrimaryContext());
    EXPECT_INVALID("context.current.null", cu.CtxGetCurrent(nullptr));
}

TEST_F(Contexts, StackPushesAndPops)
{
    CUcontext popped = nullptr, current = nullptr, other = nullptr;
    MUST(cu.CtxCreate_v2(&other, 0, 0));
    MUST(cu.CtxGetCurrent(&current));
    EXPECT_YES("context.create.makes-current", current == other);
    EXPECT_SUCCESS("context.push", cu.CtxPushCurrent(PrimaryContext()));
    MUST(cu.CtxGetCurrent(&current));
    EXPECT_YES("context.push.makes-current", current == PrimaryContext());
    EXPECT_SUCCESS("context.pop", cu.CtxPopCurrent(&popped));
    EXPECT_YES("context.pop.gives-the-top", popped == PrimaryContext());
    MUST(cu.CtxGetCurrent(&current));
    EXPECT_YES("context.pop.uncovers", current == other);
    EXPECT_SUCCESS("context.destroy", cu.CtxDestroy(other));
    MUST(cu.CtxGetCurrent(&current));
    EXPECT_YES("context.destroy.pops-itself", current == PrimaryContext());
    EXPECT_INVALID("context.push.null", cu.CtxPushCurrent(nullptr));
}

TEST_F(Contexts, SetCurrentReplacesTheTop)
{
    CUcontext current = PrimaryContext();
    EXPECT_SUCCESS("context.set-current.null", cu.CtxSetCurrent(nullptr));
    MUST(cu.CtxGetCurrent(&current));
    EXPECT_SAME("context.set-current.null.unbinds", current,
                CUcontext{nullptr});
}

TEST_F(Contexts, CreatedByEachVersion)
{
    CUcontext context = nullptr;
    EXPECT_SUCCESS("context.create.v2", cu.CtxCreate_v2(&context, 0, 0));
    MUST(cu.CtxDestroy(context));
    EXPECT_SUCCESS("context.create.v3",
                   cu.CtxCreate_v3(&context, nullptr, 0, 0, 0));
    MUST(cu.CtxDestroy(context));
    EXPECT_SUCCESS("context.create.v4",
                   cu.CtxCreate_v4(&context, nullptr, 0, 0));
    MUST(cu.CtxDestroy(context));
    EXPECT_CU("context.create.bad-device", cu.CtxCreate_v2(&context, 0, 999),
              CUDA_ERROR_INVALID_DEVICE);
    EXPECT_INVALID("context.create.bad-flags",
                   cu.CtxCreate_v2(&context, 0x40000000, 0));
    EXPECT_INVALID("context.create.null", cu.CtxCreate_v2(nullptr, 0, 0));
    EXPECT_INVALID("context.destroy.null", cu.CtxDestroy(nullptr));
}

TEST_F(Contexts, SayWhatTheyAre)
{
    CUdevice device = -1;
    unsigned version = 0, flags = 0;
    unsigned long long id = 0, other_id = 0;
    int least = -1, greatest = 1;
    CUcontext other = nullptr;
    EXPECT_SUCCESS("context.device", cu.CtxGetDevice(&device));
    EXPECT_SAME("context.device.value", device, 0);
    EXPECT_SUCCESS("context.api-version",
                   cu.CtxGetApiVersion(PrimaryContext(), &version));
    EXPECT_YES("context.api-version.is-positive", version > 0);
    EXPECT_SUCCESS("context.flags", cu.CtxGetFlags(&flags));
    EXPECT_SUCCESS("context.priority-range",
                   cu.CtxGetStreamPriorityRange(&least, &greatest));
    EXPECT_SAME("context.priority-range.least", least, 0);
    EXPECT_YES("context.priority-range.greatest-is-negative", greatest < 0);
    EXPECT_SUCCESS("context.id", cu.CtxGetId(PrimaryContext(), &id));
    MUST(cu.CtxCreate_v2(&other, 0, 0));
    MUST(cu.CtxGetId(nullptr, &other_id));
    EXPECT_YES("context.id.null-means-current", other_id != 0);
    EXPECT_YES("context.id.differs", id != other_id);
    MUST(cu.CtxDestroy(other));
    EXPECT_INVALID("context.id.null-out",
                   cu.CtxGetId(PrimaryContext(), nullptr));
}

TEST_F(Contexts, MemoryIsSharedByContextsOfOneDevice)
{
    DeviceBlock block(4096);
    CUcontext other = nullptr;
    MUST(cu.CtxCreate_v2(&other, 0, 0));
    EXPECT_SUCCESS("context.other.writes-memory-of-primary",
                   cu.MemsetD8(block, 7, 4096));
    MUST(cu.CtxSynchronize());
    EXPECT_SUCCESS("context.other.frees-memory-of-primary", [] {
        CUdeviceptr mine = 0;
        CUcontext popped = nullptr;
        cu.CtxPopCurrent(&popped);
        MUST(cu.MemAlloc(&mine, 4096));
        MUST(cu.CtxPushCurrent(popped));
        return cu.MemFree(mine);
    }());
    MUST(cu.CtxDestroy(other));
    EXPECT_YES("context.other.write-is-seen", AllBytesAre(block, 4096, 7));
}

} // namespace conformance
