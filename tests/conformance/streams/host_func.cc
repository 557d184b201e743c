// SPDX-License-Identifier: Apache-2.0
//
// Host functions and callbacks as stream work.
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using HostFunc = OnDevice;

namespace
{

struct Visit {
    ~Visit()
    {
        may_end = true;
        cu.CtxSynchronize();
    }
    std::atomic<int> count{0};
    std::atomic<bool> may_end{true};
    std::thread::id thread;
    CUstream stream = nullptr;
    CUresult status = CUDA_ERROR_UNKNOWN;
    CUresult call = CUDA_SUCCESS;
};

void Arrive(void *argument)
{
    Visit *visit = static_cast<Visit *>(argument);
    visit->thread = std::this_thread::get_id();
    visit->count++;
    while (!visit->may_end)
        Pause(1);
}

void CallTheDriver(void *argument)
{
    Visit *visit = static_cast<Visit *>(argument);
    CUdeviceptr address = 0;
    visit->call = cu.MemAlloc(&address, 512);
    visit->count++;
}

void ArriveAsCallback(CUstream stream, CUresult status, void *argument)
{
    Visit *visit = static_cast<Visit *>(argument);
    visit->stream = stream;
    visit->status = status;
    visit->count++;
}

} // namespace

TEST_F(HostFunc, RunsInOrderOnAnotherThread)
{
    Visit visit;
    Stream stream;
    StreamHold hold(stream);
    EXPECT_SUCCESS("host-func.launch",
                   cu.LaunchHostFunc(stream, Arrive, &visit));
    Pause(50);
    EXPECT_SAME("host-func.waits-for-earlier-work", visit.count.load(), 0);
    hold.Release();
    MUST(cu.StreamSynchronize(stream));
    EXPECT_SAME("host-func.has-run-once", visit.count.load(), 1);
    EXPECT_YES("host-func.runs-on-another-thread",
               visit.thread != std::this_thread::get_id());
}

TEST_F(HostFunc, HoldsLaterWork)
{
    Visit visit;
    Event done;
    Stream stream;
    visit.may_end = false;
    MUST(cu.LaunchHostFunc(stream, Arrive, &visit));
    MUST(cu.EventRecord(done, stream));
    EXPECT_CU("host-func.holds-later-work", StillHeld(done),
              CUDA_ERROR_NOT_READY);
    visit.may_end = true;
    EXPECT_SUCCESS("host-func.then-later-work-goes-on", Settled(done.handle));
}

TEST_F(HostFunc, MayNotCallTheDriver)
{
    Visit visit;
    Stream stream;
    MUST(cu.LaunchHostFunc(stream, CallTheDriver, &visit));
    MUST(cu.StreamSynchronize(stream));
    EXPECT_SAME("host-func.has-run", visit.count.load(), 1);
    EXPECT_CU("host-func.calls-the-driver", visit.call,
              CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(HostFunc, RunsOnTheLegacyStream)
{
    Visit visit;
    EXPECT_SUCCESS("host-func.legacy-stream",
                   cu.LaunchHostFunc(nullptr, Arrive, &visit));
    MUST(cu.StreamSynchronize(nullptr));
    EXPECT_SAME("host-func.legacy-stream.has-run", visit.count.load(), 1);
}

TEST_F(HostFunc, BadArguments)
{
    Visit visit;
    Stream stream;
    EXPECT_INVALID("host-func.null",
                   cu.LaunchHostFunc(stream, nullptr, &visit));
    EXPECT_INVALID("callback.null",
                   cu.StreamAddCallback(stream, nullptr, &visit, 0));
    EXPECT_INVALID("callback.bad-flags",
                   cu.StreamAddCallback(stream, ArriveAsCallback, &visit, 1));
}

TEST_F(HostFunc, CallbackIsToldItsStream)
{
    Visit visit;
    Stream stream;
    EXPECT_SUCCESS("callback.add",
                   cu.StreamAddCallback(stream, ArriveAsCallback, &visit, 0));
    MUST(cu.StreamSynchronize(stream));
    EXPECT_SAME("callback.has-run-once", visit.count.load(), 1);
    EXPECT_YES("callback.stream", visit.stream == stream.handle);
    EXPECT_SUCCESS("callback.status", visit.status);
}

} // namespace conformance
