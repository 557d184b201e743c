// SPDX-License-Identifier: Apache-2.0
//
// Streams: order within one, independence of two.
#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using Streams = OnDevice;

TEST_F(Streams, CreationArguments)
{
    CUstream stream = nullptr;
    EXPECT_SUCCESS("stream.create",
                   cu.StreamCreate(&stream, CU_STREAM_DEFAULT));
    EXPECT_SUCCESS("stream.destroy", cu.StreamDestroy(stream));
    EXPECT_SUCCESS("stream.create.non-blocking",
                   cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cu.StreamDestroy(stream));
    EXPECT_INVALID("stream.create.bad-flags", cu.StreamCreate(&stream, 0x40));
    EXPECT_INVALID("stream.create.null", cu.StreamCreate(nullptr, 0));
    EXPECT_CU("stream.destroy.legacy", cu.StreamDestroy(CU_STREAM_LEGACY),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU("stream.destroy.per-thread",
              cu.StreamDestroy(CU_STREAM_PER_THREAD),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU("stream.destroy.null", cu.StreamDestroy(nullptr),
              CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Streams, SayWhatTheyAre)
{
    Stream stream(CU_STREAM_NON_BLOCKING), other(CU_STREAM_DEFAULT);
    unsigned flags = 99;
    CUcontext context = nullptr;
    CUdevice device = -1;
    unsigned long long id = 0, other_id = 0;
    EXPECT_SUCCESS("stream.flags", cu.StreamGetFlags(stream, &flags));
    EXPECT_SAME("stream.flags.non-blocking", flags,
                unsigned{CU_STREAM_NON_BLOCKING});
    MUST(cu.StreamGetFlags(other, &flags));
    EXPECT_SAME("stream.flags.default", flags, unsigned{CU_STREAM_DEFAULT});
    EXPECT_SUCCESS("stream.context", cu.StreamGetCtx(stream, &context));
    EXPECT_YES("stream.context.value", context == PrimaryContext());
    EXPECT_SUCCESS("stream.device", cu.StreamGetDevice(stream, &device));
    EXPECT_SAME("stream.device.value", device, 0);
    EXPECT_SUCCESS("stream.id", cu.StreamGetId(stream, &id));
    MUST(cu.StreamGetId(other, &other_id));
    EXPECT_YES("stream.id.differs", id != other_id);
    EXPECT_INVALID("stream.id.null", cu.StreamGetId(stream, nullptr));
    EXPECT_INVALID("stream.flags.null", cu.StreamGetFlags(stream, nullptr));
    EXPECT_SUCCESS("stream.legacy.context",
                   cu.StreamGetCtx(CU_STREAM_LEGACY, &context));
    EXPECT_YES("stream.legacy.context.value", context == PrimaryContext());
    EXPECT_SUCCESS("stream.legacy.flags",
                   cu.StreamGetFlags(CU_STREAM_LEGACY, &flags));
    EXPECT_SAME("stream.legacy.flags.value", flags,
                unsigned{CU_STREAM_DEFAULT});
}

TEST_F(Streams, IdIsNeverReused)
{
    unsigned long long first = 0, second = 0;
    {
        Stream stream;
        MUST(cu.StreamGetId(stream, &first));
    }
    Stream stream;
    MUST(cu.StreamGetId(stream, &second));
    EXPECT_YES("stream.id.is-never-reused", first != second);
}

TEST_F(Streams, PriorityIsClamped)
{
    int least = 0, greatest = 0, priority = 99;
    CUstream stream = nullptr;
    MUST(cu.CtxGetStreamPriorityRange(&least, &greatest));
    EXPECT_SUCCESS(
        "stream.create.priority",
        cu.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    EXPECT_SUCCESS("stream.priority", cu.StreamGetPriority(stream, &priority));
    EXPECT_SAME("stream.priority.value", priority, greatest);
    MUST(cu.StreamDestroy(stream));
    MUST(cu.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -1000));
    MUST(cu.StreamGetPriority(stream, &priority));
    EXPECT_SAME("stream.priority.is-clamped", priority, greatest);
    MUST(cu.StreamDestroy(stream));
}

TEST_F(Streams, QueryTellsIdleFromBusy)
{
    Stream stream;
    EXPECT_SUCCESS("stream.query.idle", cu.StreamQuery(stream));
    EXPECT_SUCCESS("stream.synchronize.idle", cu.StreamSynchronize(stream));
    StreamHold hold(stream);
    EXPECT_CU("stream.query.held", StillHeld(stream), CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("stream.query.released", Settled(stream.handle));
}

TEST_F(Streams, SynchronizeWaits)
{
    Stream stream;
    Background waiter;
    StreamHold hold(stream);
    waiter.Start([&] { return cu.StreamSynchronize(stream); });
    EXPECT_YES("stream.synchronize.waits", !waiter.ReturnsWithin(kForbiddenMs));
    hold.Release();
    EXPECT_SUCCESS("stream.synchronize.returns", waiter.Result());
}

TEST_F(Streams, WorkRunsInOrder)
{
    Stream stream;
    PinnedBlock word(4096);
    StreamHold hold(stream);
    MUST(cu.MemsetD8Async(word.address, 1, 4096, stream));
    MUST(cu.MemsetD8Async(word.address, 2, 4096, stream));
    Pause(50);
    EXPECT_SAME("stream.order.held-work-has-not-run", int{word.bytes[0]}, 0);
    hold.Release();
    MUST(cu.StreamSynchronize(stream));
    EXPECT_SAME("stream.order.last-write-wins", int{word.bytes[0]}, 2);
}

TEST_F(Streams, TwoAreIndependent)
{
    Stream held, other;
    PinnedBlock word(4096);
    StreamHold hold(held);
    MUST(cu.MemsetD8Async(word.address, 1, 4096, other));
    EXPECT_SUCCESS("stream.other.finishes", Settled(other.handle));
    EXPECT_CU("stream.held.does-not", cu.StreamQuery(held),
              CUDA_ERROR_NOT_READY);
}

TEST_F(Streams, BlockingOnesAreIndependentOfEachOther)
{
    Stream held(CU_STREAM_DEFAULT), other(CU_STREAM_DEFAULT);
    PinnedBlock word(4096);
    StreamHold hold(held);
    MUST(cu.MemsetD8Async(word.address, 1, 4096, other));
    EXPECT_SUCCESS("stream.blocking.other.finishes", Settled(other.handle));
}

TEST_F(Streams, DestroyDoesNotWaitAndLosesNothing)
{
    CUstream stream = nullptr;
    Event done;
    PinnedBlock word(4096);
    Background destroyer;
    MUST(cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    StreamHold hold(stream);
    MUST(cu.MemsetD8Async(word.address, 3, 4096, stream));
    MUST(cu.EventRecord(done, stream));
    destroyer.Start([stream] { return cu.StreamDestroy(stream); });
    EXPECT_YES("stream.destroy.busy.does-not-wait",
               destroyer.ReturnsWithin(kRequiredMs));
    EXPECT_CU("stream.destroy.busy.its-event-is-pending", StillHeld(done),
              CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("stream.destroy.busy", destroyer.Result());
    EXPECT_SUCCESS("stream.destroy.busy.its-event-completes",
                   Settled(done.handle));
    EXPECT_SAME("stream.destroy.busy.its-work-is-done", int{word.bytes[0]}, 3);
}

TEST_F(Streams, WorkFromTwoThreadsGoesToOneQueue)
{
    Stream stream;
    PinnedBlock word(4096);
    StreamHold hold(stream);
    MUST(cu.MemsetD8Async(word.address, 1, 4096, stream));
    EXPECT_SUCCESS("stream.launch-by-another-thread", OnOtherThread([&] {
                       return cu.MemsetD8Async(word.address, 2, 4096, stream);
                   }));
    hold.Release();
    MUST(cu.StreamSynchronize(stream));
    EXPECT_SAME("stream.launch-by-another-thread.is-later", int{word.bytes[0]},
                2);
}

TEST_F(Streams, WorkOfAnotherContextsStream)
{
    CUcontext other = nullptr;
    Event event;
    Stream stream;
    MUST(cu.CtxCreate_v2(&other, 0, 0));
    EXPECT_SUCCESS("stream.of-another-context.query", cu.StreamQuery(stream));
    CUevent foreign = nullptr;
    MUST(cu.EventCreate(&foreign, CU_EVENT_DISABLE_TIMING));
    EXPECT_CU("stream.records-event-of-another-context",
              cu.EventRecord(foreign, stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_SUCCESS("stream.records-own-event-from-another-context",
                   cu.EventRecord(event, stream));
    EXPECT_SUCCESS("stream.legacy-of-this-waits-for-event-of-another-context",
                   cu.StreamWaitEvent(nullptr, event, 0));
    MUST(cu.EventDestroy(foreign));
    MUST(cu.CtxDestroy(other));
}

} // namespace conformance
