// SPDX-License-Identifier: Apache-2.0
//
// A stream that does not go on takes about a thousand operations; the thread
// that queues one more is blocked. Which calls of other threads are blocked
// with it, and which are not.
#include <atomic>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/memory/vmm.h"

namespace conformance
{

using FullQueue = OnDevice;

namespace
{

/* No stream takes so many. */
constexpr int kTooMany = 50000;
/* A launcher that makes no progress for so long is blocked. */
constexpr int kStillMs = 500;

/* A stream that is held and full, and a thread that is blocked on it. */
class FullStream
{
  public:
    FullStream() : hold_(stream)
    {
        MUST(cu.EventRecord(event, stream));
        launcher_.Start([this] { return Launch(); });
        AwaitFull();
    }
    ~FullStream()
    {
        GoOn();
    }

    bool IsFull()
    {
        return !launcher_.ReturnsWithin(0);
    }
    int launch_count() const
    {
        return launch_count_;
    }
    void GoOn()
    {
        is_over_ = true;
        hold_.Release();
    }
    CUresult LauncherResult()
    {
        return launcher_.Result();
    }

    PinnedBlock word{4096};
    Stream stream;
    Event event; /* behind the hold */

  private:
    CUresult Launch()
    {
        CUresult code = CUDA_SUCCESS;
        while (code == CUDA_SUCCESS && !is_over_ && launch_count_ < kTooMany) {
            code = cu.MemsetD32Async(word.address, 7, 1, stream);
            launch_count_++;
        }
        return code;
    }
    void AwaitFull()
    {
        int before = -1;
        while (before != launch_count_ && IsFull()) {
            before = launch_count_;
            Pause(kStillMs);
        }
    }

    std::atomic<bool> is_over_{false};
    std::atomic<int> launch_count_{0};
    Background launcher_;
    StreamHold hold_;
};

/* What the calls work on; made before the stream is full. */
struct Objects {
    Stream idle, other;
    Event complete, event, of_context;
    CUevent made = nullptr;
    CUdeviceptr block = 0, range = 0;
    CUmemGenericAllocationHandle memory = 0;

    Objects()
    {
        MUST(cu.EventRecord(complete, other));
        MUST(cu.StreamSynchronize(other));
    }
    ~Objects()
    {
        if (made != nullptr)
            cu.EventDestroy(made);
        if (block != 0)
            cu.MemFree(block);
        if (range != 0)
            cu.MemAddressFree(range, kGranule);
    }
};

struct Row {
    const char *name;
    CUresult (*call)(Objects &, const FullStream &);
    CUresult want;
};

CUresult CreateMemory(Objects &o, const FullStream &)
{
    CUmemAllocationProp property = PinnedOnDevice();
    return cu.MemCreate(&o.memory, kGranule, &property, 0);
}

CUresult SetAccess(Objects &o, const FullStream &)
{
    CUmemAccessDesc access = ReadWriteByDevice();
    return cu.MemSetAccess(o.range, kGranule, &access, 1);
}

CUresult IsCapturing(Objects &, const FullStream &full)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return cu.StreamIsCapturing(full.stream, &status);
}

/* In this order: some need what another one made. */
const Row kReturning[] = {
    {"event-record-other-stream",
     [](Objects &o, const FullStream &) {
         return cu.EventRecord(o.event, o.other);
     },
     CUDA_SUCCESS},
    {"event-query-of-full-stream",
     [](Objects &, const FullStream &full) {
         return cu.EventQuery(full.event);
     },
     CUDA_ERROR_NOT_READY},
    {"event-query-of-other-stream",
     [](Objects &o, const FullStream &) { return cu.EventQuery(o.complete); },
     CUDA_SUCCESS},
    {"stream-query-other-stream",
     [](Objects &o, const FullStream &) { return cu.StreamQuery(o.idle); },
     CUDA_SUCCESS},
    {"stream-is-capturing", IsCapturing, CUDA_SUCCESS},
    {"ctx-record-event",
     [](Objects &o, const FullStream &) {
         return cu.CtxRecordEvent(PrimaryContext(), o.of_context);
     },
     CUDA_SUCCESS},
    {"stream-wait-event-other-stream",
     [](Objects &o, const FullStream &full) {
         return cu.StreamWaitEvent(o.other, full.event, 0);
     },
     CUDA_SUCCESS},
    {"mem-address-reserve",
     [](Objects &o, const FullStream &) {
         return cu.MemAddressReserve(&o.range, kGranule, 0, 0, 0);
     },
     CUDA_SUCCESS},
    {"mem-create", CreateMemory, CUDA_SUCCESS},
    {"mem-map",
     [](Objects &o, const FullStream &) {
         return cu.MemMap(o.range, kGranule, 0, o.memory, 0);
     },
     CUDA_SUCCESS},
    {"mem-set-access", SetAccess, CUDA_SUCCESS},
    {"mem-unmap",
     [](Objects &o, const FullStream &) {
         return cu.MemUnmap(o.range, kGranule);
     },
     CUDA_SUCCESS},
    {"mem-release",
     [](Objects &o, const FullStream &) { return cu.MemRelease(o.memory); },
     CUDA_SUCCESS},
};

/* Each is tried on a full stream of its own: one that is blocked might block
 * the next. */
const Row kWaiting[] = {
    {"event-record",
     [](Objects &o, const FullStream &full) {
         return cu.EventRecord(o.event, full.stream);
     },
     CUDA_SUCCESS},
    {"stream-query",
     [](Objects &, const FullStream &full) {
         CUresult code = cu.StreamQuery(full.stream);
         return code == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : code;
     },
     CUDA_SUCCESS},
    {"event-create",
     [](Objects &o, const FullStream &) {
         return cu.EventCreate(&o.made, CU_EVENT_DISABLE_TIMING);
     },
     CUDA_SUCCESS},
    {"mem-alloc",
     [](Objects &o, const FullStream &) {
         return cu.MemAlloc(&o.block, 2 * kMiB);
     },
     CUDA_SUCCESS},
};

void DoNothing(void *) {}

/* Operations of other kinds than the memsets and the events. */
const Row kOperations[] = {
    {"copy",
     [](Objects &, const FullStream &full) {
         return cu.MemcpyDtoDAsync(full.word.address, full.word.address + 1024,
                                   512, full.stream);
     },
     CUDA_SUCCESS},
    {"write-value",
     [](Objects &, const FullStream &full) {
         return cu.StreamWriteValue32(full.stream, full.word.address, 1, 0);
     },
     CUDA_SUCCESS},
    {"host-function",
     [](Objects &, const FullStream &full) {
         return cu.LaunchHostFunc(full.stream, DoNothing, nullptr);
     },
     CUDA_SUCCESS},
};

std::string NameOf(const Row &row)
{
    return std::string("full-queue.") + row.name;
}

/* Makes the call on a thread of its own. */
void Start(Background *call, const Row &row, Objects *objects,
           const FullStream *full)
{
    call->Start([=] { return row.call(*objects, *full); });
}

void ExpectWaits(const Row *rows, int count)
{
    Objects objects;
    Background calls[4];
    FullStream full;
    MUST_BE(full.IsFull());
    for (int i = 0; i < count; i++)
        Start(&calls[i], rows[i], &objects, &full);
    for (int i = 0; i < count; i++)
        EXPECT_YES(NameOf(rows[i]) + ".waits",
                   !calls[i].ReturnsWithin(kForbiddenMs));
    full.GoOn();
    for (int i = 0; i < count; i++)
        EXPECT_CU(NameOf(rows[i]) + ".returns", calls[i].Result(),
                  rows[i].want);
    MUST(full.LauncherResult());
    MUST(cu.StreamSynchronize(full.stream));
}

} // namespace

TEST_F(FullQueue, BlocksTheThreadThatLaunches)
{
    FullStream full;
    EXPECT_YES("full-queue.takes-hundreds", full.launch_count() >= 500);
    EXPECT_YES("full-queue.blocks-the-launcher", full.IsFull());
    full.GoOn();
    EXPECT_SUCCESS("full-queue.launcher-returns", full.LauncherResult());
    EXPECT_SUCCESS("full-queue.stream-goes-on", Settled(full.stream.handle));
    EXPECT_SUCCESS("full-queue.its-event-completes",
                   Settled(full.event.handle));
}

TEST_F(FullQueue, RecordsDoNotFillIt)
{
    std::vector<std::unique_ptr<Event>> events(2048);
    for (auto &event : events)
        event.reset(new Event);
    Stream stream;
    Background recorder;
    StreamHold hold(stream);
    recorder.Start([&] {
        CUresult code = CUDA_SUCCESS;
        for (size_t i = 0; i < events.size() && code == CUDA_SUCCESS; i++)
            code = cu.EventRecord(*events[i], stream);
        return code;
    });
    EXPECT_YES("full-queue.event-records-do-not-fill-it",
               recorder.ReturnsWithin(kRequiredMs));
    hold.Release();
    EXPECT_SUCCESS("full-queue.event-records", recorder.Result());
    MUST(cu.StreamSynchronize(stream));
}

TEST_F(FullQueue, WhoDoesNotWait)
{
    Objects objects;
    FullStream full;
    MUST_BE(full.IsFull());
    for (const Row &row : kReturning) {
        Background call;
        Start(&call, row, &objects, &full);
        bool has_returned = call.ReturnsWithin(kRequiredMs);
        EXPECT_YES(NameOf(row) + ".does-not-wait", has_returned);
        if (!has_returned)
            full.GoOn();
        EXPECT_CU(NameOf(row), call.Result(), row.want);
    }
    EXPECT_YES("full-queue.launcher-is-blocked-all-the-time", full.IsFull());
    EXPECT_CU("full-queue.context-event-waits", StillHeld(objects.of_context),
              CUDA_ERROR_NOT_READY);
    full.GoOn();
    MUST(full.LauncherResult());
    EXPECT_SUCCESS("full-queue.context-event-completes",
                   Settled(objects.of_context.handle));
    MUST(cu.StreamSynchronize(objects.other));
}

TEST_F(FullQueue, WhoWaits)
{
    for (const Row &row : kWaiting)
        ExpectWaits(&row, 1);
}

TEST_F(FullQueue, EveryOperationWaits)
{
    ExpectWaits(kOperations, std::size(kOperations));
}

} // namespace conformance
