// SPDX-License-Identifier: Apache-2.0
//
// Events: record, query, wait, elapsed time.
#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using Events = OnDevice;

TEST_F(Events, CreationFlags)
{
    CUevent event = nullptr;
    const struct {
        const char *name;
        unsigned flags;
        CUresult want;
    } rows[] = {
        {"event.create.default", CU_EVENT_DEFAULT, CUDA_SUCCESS},
        {"event.create.blocking-sync", CU_EVENT_BLOCKING_SYNC, CUDA_SUCCESS},
        {"event.create.no-timing", CU_EVENT_DISABLE_TIMING, CUDA_SUCCESS},
        {"event.create.interprocess",
         CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, CUDA_SUCCESS},
        {"event.create.interprocess-with-timing", CU_EVENT_INTERPROCESS,
         CUDA_ERROR_INVALID_VALUE},
        {"event.create.bad-flags", 0x100, CUDA_ERROR_INVALID_VALUE},
    };
    for (const auto &row : rows) {
        EXPECT_CU(row.name, cu.EventCreate(&event, row.flags), row.want);
        if (row.want == CUDA_SUCCESS)
            MUST(cu.EventDestroy(event));
    }
    EXPECT_INVALID("event.create.null", cu.EventCreate(nullptr, 0));
    EXPECT_CU("event.destroy.null", cu.EventDestroy(nullptr),
              CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Events, NeverRecordedMeansComplete)
{
    Event event;
    Stream stream;
    PinnedBlock word(4096);
    EXPECT_SUCCESS("event.never-recorded.query", cu.EventQuery(event));
    EXPECT_SUCCESS("event.never-recorded.synchronize",
                   cu.EventSynchronize(event));
    EXPECT_SUCCESS("event.never-recorded.stream-wait",
                   cu.StreamWaitEvent(stream, event, 0));
    EXPECT_SUCCESS("event.never-recorded.stream-goes-on",
                   Settled(stream.handle));
}

TEST_F(Events, NullHandles)
{
    Stream stream;
    EXPECT_CU("event.query.null", cu.EventQuery(nullptr),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU("event.synchronize.null", cu.EventSynchronize(nullptr),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU("event.record.null", cu.EventRecord(nullptr, stream),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU("event.stream-wait.null", cu.StreamWaitEvent(stream, nullptr, 0),
              CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Events, CompleteAfterTheWorkBefore)
{
    Event event;
    Stream stream;
    Background waiter;
    StreamHold hold(stream);
    EXPECT_SUCCESS("event.record", cu.EventRecord(event, stream));
    EXPECT_CU("event.query.pending", StillHeld(event), CUDA_ERROR_NOT_READY);
    waiter.Start([&] { return cu.EventSynchronize(event); });
    EXPECT_YES("event.synchronize.waits", !waiter.ReturnsWithin(kForbiddenMs));
    hold.Release();
    EXPECT_SUCCESS("event.synchronize.returns", waiter.Result());
    EXPECT_SUCCESS("event.query.complete", cu.EventQuery(event));
}

TEST_F(Events, AreNotHeldByLaterWork)
{
    Event event;
    Stream stream;
    MUST(cu.EventRecord(event, stream));
    StreamHold hold(stream);
    EXPECT_SUCCESS("event.not-held-by-later-work", Settled(event.handle));
}

TEST_F(Events, StreamWaitOrdersTwoStreams)
{
    Event event, done;
    Stream first, second;
    StreamHold hold(first);
    MUST(cu.EventRecord(event, first));
    EXPECT_SUCCESS("event.stream-wait", cu.StreamWaitEvent(second, event, 0));
    MUST(cu.EventRecord(done, second));
    EXPECT_CU("event.stream-wait.holds", StillHeld(done), CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("event.stream-wait.then-goes-on", Settled(done.handle));
    EXPECT_INVALID("event.stream-wait.bad-flags",
                   cu.StreamWaitEvent(second, event, 0x100));
}

TEST_F(Events, StreamWaitMeansTheRecordOfThatMoment)
{
    Event event, done;
    Stream first, second, waiting;
    MUST(cu.EventRecord(event, first));
    StreamHold hold(second);
    MUST(cu.StreamWaitEvent(waiting, event, 0));
    MUST(cu.EventRecord(event, second));
    MUST(cu.EventRecord(done, waiting));
    EXPECT_SUCCESS("event.stream-wait.ignores-a-later-record",
                   Settled(done.handle));
    EXPECT_CU("event.re-recorded.is-pending", cu.EventQuery(event),
              CUDA_ERROR_NOT_READY);
}

TEST_F(Events, ReRecordForgetsTheFirst)
{
    Event event;
    Stream held, idle;
    StreamHold hold(held);
    MUST(cu.EventRecord(event, held));
    EXPECT_SUCCESS("event.re-record", cu.EventRecord(event, idle));
    EXPECT_SUCCESS("event.re-record.forgets-the-first", Settled(event.handle));
}

TEST_F(Events, DestroyWhilePending)
{
    CUevent event = nullptr;
    Event done;
    Stream first, second;
    Background destroyer;
    MUST(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    StreamHold hold(first);
    MUST(cu.EventRecord(event, first));
    MUST(cu.StreamWaitEvent(second, event, 0));
    destroyer.Start([event] { return cu.EventDestroy(event); });
    EXPECT_YES("event.destroy.pending.does-not-wait",
               destroyer.ReturnsWithin(kRequiredMs));
    MUST(cu.EventRecord(done, second));
    EXPECT_CU("event.destroy.pending.wait-still-holds", StillHeld(done),
              CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("event.destroy.pending", destroyer.Result());
    EXPECT_SUCCESS("event.destroy.pending.wait-ends", Settled(done.handle));
}

TEST_F(Events, RecordWithFlags)
{
    Event event;
    Stream stream;
    EXPECT_SUCCESS(
        "event.record-with-flags.default",
        cu.EventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT));
    EXPECT_CU("event.record-with-flags.external-outside-capture",
              cu.EventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL),
              CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_INVALID("event.record-with-flags.unknown",
                   cu.EventRecordWithFlags(event, stream, 0x100));
}

TEST_F(Events, ElapsedTimeNeedsTwoCompleteTimedEvents)
{
    Event start(CU_EVENT_DEFAULT), end(CU_EVENT_DEFAULT), untimed;
    Stream stream;
    float elapsed_ms = -1.0f;
    EXPECT_CU("event.elapsed.never-recorded",
              cu.EventElapsedTime(&elapsed_ms, start, end),
              CUDA_ERROR_INVALID_HANDLE);
    MUST(cu.EventRecord(start, stream));
    MUST(cu.EventRecord(untimed, stream));
    MUST(cu.StreamSynchronize(stream));
    StreamHold hold(stream);
    MUST(cu.EventRecord(end, stream));
    EXPECT_CU("event.elapsed.pending",
              cu.EventElapsedTime(&elapsed_ms, start, end),
              CUDA_ERROR_NOT_READY);
    EXPECT_CU("event.elapsed.v2.pending",
              cu.EventElapsedTime_v2(&elapsed_ms, start, end),
              CUDA_ERROR_NOT_READY);
    hold.Release();
    MUST(cu.StreamSynchronize(stream));
    EXPECT_SUCCESS("event.elapsed",
                   cu.EventElapsedTime(&elapsed_ms, start, end));
    EXPECT_YES("event.elapsed.is-not-negative", elapsed_ms >= 0.0f);
    elapsed_ms = -1.0f;
    EXPECT_SUCCESS("event.elapsed.v2",
                   cu.EventElapsedTime_v2(&elapsed_ms, start, end));
    EXPECT_YES("event.elapsed.v2.is-not-negative", elapsed_ms >= 0.0f);
    EXPECT_CU("event.elapsed.untimed",
              cu.EventElapsedTime(&elapsed_ms, start, untimed),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU("event.elapsed.null", cu.EventElapsedTime(nullptr, start, end),
              CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Events, NoContextNeedsToBeCurrent)
{
    Event event;
    Stream stream;
    MUST(cu.CtxSetCurrent(nullptr));
    EXPECT_SUCCESS("event.record.without-context",
                   cu.EventRecord(event, stream));
    EXPECT_SUCCESS("event.synchronize.without-context",
                   cu.EventSynchronize(event));
    EXPECT_SUCCESS("event.query.without-context", cu.EventQuery(event));
}

} // namespace conformance
