// SPDX-License-Identifier: Apache-2.0
//
// cuCtxRecordEvent and cuCtxWaitEvent: all streams of a context at once.
#include <future>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using ContextEvent = OnDevice;

TEST_F(ContextEvent, WaitsForEveryKindOfStream)
{
    const struct {
        const char *name;
        unsigned flags;
    } rows[] = {{"non-blocking", CU_STREAM_NON_BLOCKING},
                {"blocking", CU_STREAM_DEFAULT}};
    for (const auto &row : rows) {
        std::string name = std::string("context-event.") + row.name;
        Event event;
        Stream stream(row.flags);
        StreamHold hold(stream);
        EXPECT_SUCCESS(name + ".record",
                       cu.CtxRecordEvent(PrimaryContext(), event));
        EXPECT_CU(name + ".waits-for-held-stream", StillHeld(event),
                  CUDA_ERROR_NOT_READY);
        hold.Release();
        EXPECT_SUCCESS(name + ".completes", Settled(event.handle));
    }
}

TEST_F(ContextEvent, WaitsForTheDefaultStreams)
{
    for (CUstream stream : {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
        std::string name = stream == CU_STREAM_LEGACY
                               ? "context-event.legacy"
                               : "context-event.per-thread";
        Event event;
        StreamHold hold(stream);
        MUST(cu.CtxRecordEvent(PrimaryContext(), event));
        EXPECT_CU(name + ".waits-for-held-stream", StillHeld(event),
                  CUDA_ERROR_NOT_READY);
        hold.Release();
        EXPECT_SUCCESS(name + ".completes", Settled(event.handle));
    }
}

TEST_F(ContextEvent, WaitsForStreamsThatWereDestroyed)
{
    const struct {
        const char *name;
        unsigned flags;
    } rows[] = {{"non-blocking", CU_STREAM_NON_BLOCKING},
                {"blocking", CU_STREAM_DEFAULT}};
    for (const auto &row : rows) {
        std::string name =
            std::string("context-event.destroyed-") + row.name + "-stream";
        Event event;
        PinnedBlock word(4096);
        CUstream stream = nullptr;
        MUST(cu.StreamCreate(&stream, row.flags));
        StreamHold hold(stream);
        MUST(cu.MemsetD8Async(word.address, 1, 4096, stream));
        MUST(cu.StreamDestroy(stream));
        EXPECT_SUCCESS(name + ".record",
                       cu.CtxRecordEvent(PrimaryContext(), event));
        EXPECT_CU(name + ".waits", StillHeld(event), CUDA_ERROR_NOT_READY);
        EXPECT_SAME(name + ".its-work-has-not-run", int{word.bytes[0]}, 0);
        hold.Release();
        EXPECT_SUCCESS(name + ".completes", Settled(event.handle));
        EXPECT_SAME(name + ".its-work-is-done", int{word.bytes[0]}, 1);
    }
}

namespace
{

/* Puts a hold and, behind it, work on the calling thread's own stream. */
CUresult QueueOnOwnStream(std::unique_ptr<StreamHold> *out_hold,
                          const PinnedBlock &word)
{
    out_hold->reset(new StreamHold(CU_STREAM_PER_THREAD));
    return cu.MemsetD8Async(word.address, 1, 4096, CU_STREAM_PER_THREAD);
}

void ExpectContextEventWaits(const std::string &name, StreamHold *hold,
                             const PinnedBlock &word)
{
    Event event;
    EXPECT_SUCCESS(name + ".record",
                   cu.CtxRecordEvent(PrimaryContext(), event));
    EXPECT_CU(name + ".waits", StillHeld(event), CUDA_ERROR_NOT_READY);
    EXPECT_SAME(name + ".its-work-has-not-run", int{word.bytes[0]}, 0);
    hold->Release();
    EXPECT_SUCCESS(name + ".completes", Settled(event.handle));
    EXPECT_SAME(name + ".its-work-is-done", int{word.bytes[0]}, 1);
}

} // namespace

TEST_F(ContextEvent, WaitsForTheStreamOfAnotherThread)
{
    PinnedBlock word(4096);
    std::promise<CUresult> queued;
    std::promise<void> over;
    std::future<CUresult> is_queued = queued.get_future();
    std::future<void> is_over = over.get_future();
    Background other;
    std::unique_ptr<StreamHold> hold;
    other.Start([&] {
        queued.set_value(QueueOnOwnStream(&hold, word));
        is_over.wait();
        return CUDA_SUCCESS;
    });
    EXPECT_SUCCESS("context-event.live-thread.launch", is_queued.get());
    ExpectContextEventWaits("context-event.live-thread", hold.get(), word);
    over.set_value();
    MUST(other.Result());
}

TEST_F(ContextEvent, WaitsForTheStreamOfAThreadThatHasEnded)
{
    PinnedBlock word(4096);
    Background other, joiner;
    std::unique_ptr<StreamHold> hold;
    other.Start([&] { return QueueOnOwnStream(&hold, word); });
    joiner.Start([&] { return other.Result(); }); /* joins */
    EXPECT_YES("context-event.ended-thread.join-does-not-wait",
               joiner.ReturnsWithin(kRequiredMs));
    EXPECT_SUCCESS("context-event.ended-thread.launch", joiner.Result());
    ExpectContextEventWaits("context-event.ended-thread", hold.get(), word);
}

TEST_F(ContextEvent, HoldsNobodyUp)
{
    Event event, later, blocking_later;
    Stream held, other, blocking(CU_STREAM_DEFAULT);
    PinnedBlock word(4096);
    StreamHold hold(held);
    MUST(cu.CtxRecordEvent(PrimaryContext(), event));
    MUST(cu.MemsetD8Async(word.address, 1, 4096, other));
    MUST(cu.EventRecord(later, other));
    EXPECT_SUCCESS("context-event.later-work-goes-on", Settled(later.handle));
    MUST(cu.MemsetD8Async(word.address, 1, 4096, blocking));
    MUST(cu.EventRecord(blocking_later, blocking));
    EXPECT_SUCCESS("context-event.later-blocking-work-goes-on",
                   Settled(blocking_later.handle));
    EXPECT_CU("context-event.is-still-pending", cu.EventQuery(event),
              CUDA_ERROR_NOT_READY);
}

TEST_F(ContextEvent, DoesNotWaitForLaterWork)
{
    Event event;
    Stream stream;
    MUST(cu.CtxRecordEvent(PrimaryContext(), event));
    StreamHold hold(stream);
    EXPECT_SUCCESS("context-event.ignores-later-work", Settled(event.handle));
}

TEST_F(ContextEvent, NeedsNoCurrentContext)
{
    Event event;
    MUST(cu.CtxSetCurrent(nullptr));
    EXPECT_SUCCESS("context-event.record.without-current-context",
                   cu.CtxRecordEvent(PrimaryContext(), event));
    EXPECT_SUCCESS("context-event.completes.without-current-context",
                   Settled(event.handle));
}

TEST_F(ContextEvent, BadArguments)
{
    Event event;
    CUcontext other = nullptr;
    CUevent foreign = nullptr;
    EXPECT_CU("context-event.record.null-event",
              cu.CtxRecordEvent(PrimaryContext(), nullptr),
              CUDA_ERROR_INVALID_HANDLE);
    MUST(cu.CtxCreate_v2(&other, 0, 0));
    MUST(cu.EventCreate(&foreign, CU_EVENT_DISABLE_TIMING));
    EXPECT_CU("context-event.record.event-of-another-context",
              cu.CtxRecordEvent(PrimaryContext(), foreign),
              CUDA_ERROR_INVALID_HANDLE);
    MUST(cu.EventDestroy(foreign));
    MUST(cu.CtxDestroy(other));
}

TEST_F(ContextEvent, IsPerContext)
{
    CUcontext other = nullptr;
    CUevent foreign = nullptr;
    Stream held;
    MUST(cu.CtxCreate_v2(&other, 0, 0));
    MUST(cu.EventCreate(&foreign, CU_EVENT_DISABLE_TIMING));
    {
        StreamHold hold(held);
        EXPECT_SUCCESS("context-event.other-context.record",
                       cu.CtxRecordEvent(other, foreign));
        EXPECT_SUCCESS("context-event.other-context.does-not-wait-for-this-one",
                       Settled(foreign));
    }
    MUST(cu.EventDestroy(foreign));
    MUST(cu.CtxDestroy(other));
}

TEST_F(ContextEvent, WaitHoldsAllLaterWork)
{
    Event event, later;
    Stream held, other;
    StreamHold hold(held);
    MUST(cu.EventRecord(event, held));
    EXPECT_SUCCESS("context-event.wait",
                   cu.CtxWaitEvent(PrimaryContext(), event));
    MUST(cu.EventRecord(later, other));
    EXPECT_CU("context-event.wait.holds-other-streams", StillHeld(later),
              CUDA_ERROR_NOT_READY);
    hold.Release();
    EXPECT_SUCCESS("context-event.wait.then-goes-on", Settled(later.handle));
}

} // namespace conformance
