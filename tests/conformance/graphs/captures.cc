// SPDX-License-Identifier: Apache-2.0
//
// Stream capture: beginning, ending, forking, and what may not be done.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using Captures = OnDevice;

namespace
{

CUstreamCaptureStatus StatusOf(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    MUST(cu.StreamIsCapturing(stream, &status));
    return status;
}

/* Ends whatever capture `stream` has; the graph goes. */
CUresult End(CUstream stream)
{
    CUgraph graph = nullptr;
    CUresult code = cu.StreamEndCapture(stream, &graph);
    if (graph != nullptr)
        cu.GraphDestroy(graph);
    return code;
}

/* A capture that ends with its scope. */
struct Capture {
    explicit Capture(CUstream captured,
                     CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED)
        : stream(captured)
    {
        MUST(cu.StreamBeginCapture(stream, mode));
    }
    ~Capture()
    {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        cu.StreamIsCapturing(stream, &status);
        if (status != CU_STREAM_CAPTURE_STATUS_NONE)
            End(stream);
    }
    CUstream stream;
};

} // namespace

TEST_F(Captures, BeginAndEnd)
{
    PinnedBlock word(4096);
    Stream stream;
    CUgraph graph = nullptr;
    EXPECT_SAME("capture.status.before", int{StatusOf(stream)},
                int{CU_STREAM_CAPTURE_STATUS_NONE});
    EXPECT_SUCCESS("capture.begin", cu.StreamBeginCapture(
                                        stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_SAME("capture.status.during", int{StatusOf(stream)},
                int{CU_STREAM_CAPTURE_STATUS_ACTIVE});
    EXPECT_SUCCESS("capture.work",
                   cu.MemsetD8Async(word.address, 1, 4096, stream));
    EXPECT_SUCCESS("capture.end", cu.StreamEndCapture(stream, &graph));
    EXPECT_YES("capture.end.gives-a-graph", graph != nullptr);
    EXPECT_SAME("capture.status.after", int{StatusOf(stream)},
                int{CU_STREAM_CAPTURE_STATUS_NONE});
    MUST(cu.StreamSynchronize(stream));
    EXPECT_SAME("capture.work.does-not-run", int{word.bytes[0]}, 0);
    MUST(cu.GraphDestroy(graph));
}

TEST_F(Captures, BadBeginsAndEnds)
{
    Stream stream;
    CUgraph graph = nullptr;
    EXPECT_CU("capture.end.without-begin", cu.StreamEndCapture(stream, &graph),
              CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_CU("capture.begin.legacy-stream",
              cu.StreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_INVALID(
        "capture.begin.bad-mode",
        cu.StreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(9)));
    Capture capture(stream);
    EXPECT_CU("capture.begin.twice",
              cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
              CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_INVALID("capture.is-capturing.null-out",
                   cu.StreamIsCapturing(stream, nullptr));
}

TEST_F(Captures, EndBelongsToTheThreadUnlessRelaxed)
{
    const struct {
        const char *name;
        CUstreamCaptureMode mode;
        CUresult want;
    } rows[] = {
        {"capture.end-by-another-thread.global", CU_STREAM_CAPTURE_MODE_GLOBAL,
         CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {"capture.end-by-another-thread.thread-local",
         CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
         CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {"capture.end-by-another-thread.relaxed",
         CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS},
    };
    for (const auto &row : rows) {
        Stream stream;
        Capture capture(stream, row.mode);
        EXPECT_CU(row.name, OnOtherThread([&] { return End(stream); }),
                  row.want);
    }
}

TEST_F(Captures, CallsByTheCapturingThreadItself)
{
    const struct {
        const char *name;
        CUstreamCaptureMode mode;
        CUresult want;
    } rows[] = {
        {"capture.own-thread.mem-alloc.global", CU_STREAM_CAPTURE_MODE_GLOBAL,
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {"capture.own-thread.mem-alloc.thread-local",
         CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {"capture.own-thread.mem-alloc.relaxed", CU_STREAM_CAPTURE_MODE_RELAXED,
         CUDA_SUCCESS},
    };
    for (const auto &row : rows) {
        Stream stream;
        CUdeviceptr address = 0;
        MUST(cu.StreamBeginCapture(stream, row.mode));
        CUresult got = cu.MemAlloc(&address, 4096);
        CUresult end = End(stream);
        EXPECT_CU(row.name, got, row.want);
        EXPECT_CU(std::string(row.name) + ".capture", end,
                  row.want == CUDA_SUCCESS
                      ? CUDA_SUCCESS
                      : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        if (got == CUDA_SUCCESS)
            MUST(cu.MemFree(address));
    }
}

/* What a thread may do between the beginning and the end of its own capture,
 * with RELAXED mode, to other streams and to find out about this one. */
TEST_F(Captures, RelaxedCallsByTheCapturingThread)
{
    struct Objects {
        PinnedBlock word{4096};
        Stream other;
        std::vector<char> pageable = std::vector<char>(4096);
    };
    const struct {
        const char *name;
        CUresult (*call)(Objects &, CUstream captured);
        bool breaks;
    } rows[] = {
        {"get-id",
         [](Objects &, CUstream captured) {
             unsigned long long id = 0;
             return cu.StreamGetId(captured, &id);
         },
         true},
        {"get-ctx",
         [](Objects &, CUstream captured) {
             CUcontext context = nullptr;
             return cu.StreamGetCtx(captured, &context);
         },
         false},
        {"get-flags",
         [](Objects &, CUstream captured) {
             unsigned flags = 0;
             return cu.StreamGetFlags(captured, &flags);
         },
         true},
        {"get-priority",
         [](Objects &, CUstream captured) {
             int priority = 0;
             return cu.StreamGetPriority(captured, &priority);
         },
         false},
        {"memset-other-stream",
         [](Objects &o, CUstream) {
             return cu.MemsetD8Async(o.word.address, 1, 4096, o.other);
         },
         false},
        {"synchronize-other-stream",
         [](Objects &o, CUstream) { return cu.StreamSynchronize(o.other); },
         false},
        {"copy-to-pageable-on-other-stream",
         [](Objects &o, CUstream) {
             return cu.MemcpyDtoHAsync(o.pageable.data(), o.word.address, 4096,
                                       o.other);
         },
         false},
    };
    for (const auto &row : rows) {
        Objects objects;
        Stream stream;
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        MUST(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        MUST(cu.ThreadExchangeStreamCaptureMode(&mode));
        CUresult got = row.call(objects, stream);
        MUST(cu.ThreadExchangeStreamCaptureMode(&mode));
        CUresult end = End(stream);
        std::string name = std::string("capture.own-thread.") + row.name;
        EXPECT_CU(name, got,
                  row.breaks ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                             : CUDA_SUCCESS);
        EXPECT_CU(name + ".capture", end,
                  row.breaks ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                             : CUDA_SUCCESS);
        MUST(cu.StreamSynchronize(objects.other));
    }
}

TEST_F(Captures, WaitingForTheCapturingStream)
{
    const struct {
        const char *name;
        CUresult (*call)(CUstream);
    } rows[] = {
        {"capture.synchronize-itself",
         [](CUstream stream) { return cu.StreamSynchronize(stream); }},
        {"capture.query-itself",
         [](CUstream stream) { return cu.StreamQuery(stream); }},
    };
    for (const auto &row : rows) {
        Stream stream;
        MUST(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        CUresult got = row.call(stream);
        CUstreamCaptureStatus status = StatusOf(stream);
        CUresult end = End(stream);
        EXPECT_CU(row.name, got, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EXPECT_SAME(std::string(row.name) + ".status", int{status},
                    int{CU_STREAM_CAPTURE_STATUS_INVALIDATED});
        EXPECT_CU(std::string(row.name) + ".capture", end,
                  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
}

TEST_F(Captures, InvalidatedOnesRefuseWork)
{
    PinnedBlock word(4096);
    Stream stream;
    CUgraph graph = reinterpret_cast<CUgraph>(&word);
    MUST(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    cu.StreamSynchronize(stream);
    EXPECT_CU("capture.invalidated.work",
              cu.MemsetD8Async(word.address, 1, 4096, stream),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_CU("capture.invalidated.end", cu.StreamEndCapture(stream, &graph),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_YES("capture.invalidated.end.gives-no-graph", graph == nullptr);
    EXPECT_SUCCESS("capture.invalidated.stream-is-usable-after-end",
                   cu.MemsetD8Async(word.address, 1, 4096, stream));
    MUST(cu.StreamSynchronize(stream));
}

TEST_F(Captures, CapturedEventsCannotBeAsked)
{
    Event event;
    Stream stream;
    Capture capture(stream);
    EXPECT_SUCCESS("capture.event.record", cu.EventRecord(event, stream));
    EXPECT_CU("capture.event.query", cu.EventQuery(event),
              CUDA_ERROR_CAPTURED_EVENT);
    EXPECT_INVALID("capture.event.synchronize", cu.EventSynchronize(event));
}

TEST_F(Captures, ForkAndJoinThroughEvents)
{
    Event fork, join;
    PinnedBlock word(4096);
    Stream origin, forked;
    Capture capture(origin);
    MUST(cu.EventRecord(fork, origin));
    EXPECT_SUCCESS("capture.fork", cu.StreamWaitEvent(forked, fork, 0));
    EXPECT_SAME("capture.fork.status", int{StatusOf(forked)},
                int{CU_STREAM_CAPTURE_STATUS_ACTIVE});
    MUST(cu.MemsetD8Async(word.address, 1, 4096, forked));
    MUST(cu.EventRecord(join, forked));
    EXPECT_SUCCESS("capture.join", cu.StreamWaitEvent(origin, join, 0));
    EXPECT_SUCCESS("capture.join.end", End(origin));
    EXPECT_SAME("capture.join.forked-status-after", int{StatusOf(forked)},
                int{CU_STREAM_CAPTURE_STATUS_NONE});
}

TEST_F(Captures, ForkWithoutJoin)
{
    Event fork;
    PinnedBlock word(4096);
    Stream origin, forked;
    MUST(cu.StreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.EventRecord(fork, origin));
    MUST(cu.StreamWaitEvent(forked, fork, 0));
    MUST(cu.MemsetD8Async(word.address, 1, 4096, forked));
    EXPECT_CU("capture.end.unjoined", End(origin),
              CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT_SAME("capture.end.unjoined.status-after", int{StatusOf(origin)},
                int{CU_STREAM_CAPTURE_STATUS_NONE});
}

TEST_F(Captures, EndOnTheForkedStream)
{
    Event fork;
    Stream origin, forked;
    Capture capture(origin);
    MUST(cu.EventRecord(fork, origin));
    MUST(cu.StreamWaitEvent(forked, fork, 0));
    EXPECT_CU("capture.end.on-the-forked-stream", End(forked),
              CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
}

TEST_F(Captures, TwoCapturesDoNotMix)
{
    Event event;
    Stream first, second;
    Capture capture(first), other(second);
    MUST(cu.EventRecord(event, first));
    EXPECT_CU("capture.merge", cu.StreamWaitEvent(second, event, 0),
              CUDA_ERROR_STREAM_CAPTURE_MERGE);
}

TEST_F(Captures, EventsFromOutsideAreForeign)
{
    Event event;
    Stream stream, outside;
    MUST(cu.EventRecord(event, outside));
    Capture capture(stream);
    EXPECT_CU("capture.wait-for-outside-event",
              cu.StreamWaitEvent(stream, event, 0),
              CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
}

TEST_F(Captures, LegacyStreamMeetsBlockingCapture)
{
    PinnedBlock word(4096);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    Stream stream(CU_STREAM_DEFAULT);
    MUST(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_CU("capture.blocking.legacy-is-capturing",
              cu.StreamIsCapturing(nullptr, &status),
              CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_SAME("capture.blocking.legacy-is-capturing.harms-nothing",
                int{StatusOf(stream)}, int{CU_STREAM_CAPTURE_STATUS_ACTIVE});
    EXPECT_CU("capture.blocking.work-on-legacy",
              cu.MemsetD8Async(word.address, 1, 4096, nullptr),
              CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_CU("capture.blocking.work-on-legacy.capture", End(stream),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Captures, LegacyStreamCannotSeeNonBlockingCapture)
{
    PinnedBlock word(4096);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    Stream stream;
    MUST(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_SUCCESS("capture.non-blocking.legacy-is-capturing",
                   cu.StreamIsCapturing(nullptr, &status));
    EXPECT_SAME("capture.non-blocking.legacy-is-capturing.status", int{status},
                int{CU_STREAM_CAPTURE_STATUS_NONE});
    EXPECT_SUCCESS("capture.non-blocking.work-on-legacy",
                   cu.MemsetD8Async(word.address, 1, 4096, nullptr));
    EXPECT_SUCCESS("capture.non-blocking.work-on-legacy.capture", End(stream));
}

/* The driver believes what it is given here: it takes any number for a mode
 * and crashes on NULL. */
TEST_F(Captures, ThreadModeIsExchanged)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_SUCCESS("capture.exchange-mode",
                   cu.ThreadExchangeStreamCaptureMode(&mode));
    EXPECT_SAME("capture.exchange-mode.was-global", int{mode},
                int{CU_STREAM_CAPTURE_MODE_GLOBAL});
    MUST(cu.ThreadExchangeStreamCaptureMode(&mode));
    EXPECT_SAME("capture.exchange-mode.was-relaxed", int{mode},
                int{CU_STREAM_CAPTURE_MODE_RELAXED});
}

TEST_F(Captures, InfoNamesTheSequence)
{
    Stream stream;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    cuuint64_t first = 0, second = 0;
    CUgraph graph = nullptr;
    const CUgraphNode *nodes = nullptr;
    size_t node_count = 99;
    EXPECT_SUCCESS("capture.info.idle",
                   cu.StreamGetCaptureInfo(stream, &status, &first, nullptr,
                                           nullptr, nullptr));
    EXPECT_SAME("capture.info.idle.status", int{status},
                int{CU_STREAM_CAPTURE_STATUS_NONE});
    MUST(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_SUCCESS("capture.info.active",
                   cu.StreamGetCaptureInfo(stream, &status, &first, &graph,
                                           &nodes, &node_count));
    EXPECT_SAME("capture.info.active.node-count", node_count, size_t{0});
    EXPECT_YES("capture.info.active.graph", graph != nullptr);
    MUST(End(stream));
    MUST(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.StreamGetCaptureInfo(stream, &status, &second, nullptr, nullptr,
                                 nullptr));
    MUST(End(stream));
    EXPECT_YES("capture.info.id-is-new-each-time", first != second);
}

/* A synchronous copy of pageable memory goes on beside the capture. */
TEST_F(Captures, SynchronousCopiesAreNotCaptured)
{
    DeviceBlock device(4096);
    Stream stream;
    char local[16] = "";
    MUST(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUresult got = cu.MemcpyHtoD(device, local, sizeof local);
    CUresult end = End(stream);
    EXPECT_SUCCESS("capture.synchronous-copy", got);
    EXPECT_SUCCESS("capture.synchronous-copy.capture", end);
}

} // namespace conformance
