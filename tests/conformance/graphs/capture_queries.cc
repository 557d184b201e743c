// SPDX-License-Identifier: Apache-2.0
//
// What it costs a capture that a stream or an event is asked whether its work
// is over. That another thread asks another stream is in the capture table.
#include <string>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"

namespace conformance
{

using CaptureQueries = OnDevice;

namespace
{

struct Mode {
    const char *name;
    CUstreamCaptureMode value;
};

const Mode kModes[] = {{"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
                       {"thread-local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
                       {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED}};

/* Threads begin in GLOBAL mode. */
const Mode kCallers[] = {{"caller-default", CU_STREAM_CAPTURE_MODE_GLOBAL},
                         {"caller-relaxed", CU_STREAM_CAPTURE_MODE_RELAXED}};

/* Ends the capture however it stands; the graph goes. */
CUresult End(CUstream stream)
{
    CUgraph graph = nullptr;
    CUresult code = cu.StreamEndCapture(stream, &graph);
    if (graph != nullptr)
        cu.GraphDestroy(graph);
    return code;
}

/* The query by the calling thread, in the given mode. */
CUresult QueryIn(CUstreamCaptureMode mode, CUstream stream)
{
    CUstreamCaptureMode exchanged = mode;
    MUST(cu.ThreadExchangeStreamCaptureMode(&exchanged));
    CUresult code = cu.StreamQuery(stream);
    MUST(cu.ThreadExchangeStreamCaptureMode(&exchanged));
    return code;
}

/* A call that breaks the capture of `stream`, and says so. */
void ExpectLost(const std::string &name, CUresult got, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    MUST(cu.StreamIsCapturing(stream, &status));
    CUresult end = End(stream);
    EXPECT_CU(name, got, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_SAME(name + ".status", int{status},
                int{CU_STREAM_CAPTURE_STATUS_INVALIDATED});
    EXPECT_CU(name + ".capture", end, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

} // namespace

TEST_F(CaptureQueries, OfTheStreamThatCaptures)
{
    for (const Mode &mode : kModes) {
        for (const Mode &caller : kCallers) {
            std::string name = std::string("capture.query-itself.") +
                               mode.name + "." + caller.name;
            Stream stream;
            MUST(cu.StreamBeginCapture(stream, mode.value));
            CUresult own = QueryIn(caller.value, stream);
            ExpectLost(name + ".own-thread", own, stream);
            MUST(cu.StreamBeginCapture(stream, mode.value));
            CUresult others =
                OnOtherThread([&] { return QueryIn(caller.value, stream); });
            ExpectLost(name + ".other-thread", others, stream);
        }
    }
}

TEST_F(CaptureQueries, OfAnotherStreamByTheThreadThatCaptures)
{
    for (const Mode &mode : kModes) {
        for (const Mode &caller : kCallers) {
            std::string name = std::string("capture.query-other-stream.") +
                               mode.name + "." + caller.name;
            Stream stream, other;
            MUST(cu.StreamBeginCapture(stream, mode.value));
            CUresult got = QueryIn(caller.value, other);
            if (mode.value != CU_STREAM_CAPTURE_MODE_RELAXED &&
                caller.value != CU_STREAM_CAPTURE_MODE_RELAXED) {
                ExpectLost(name, got, stream);
                continue;
            }
            CUresult end = End(stream);
            EXPECT_SUCCESS(name, got);
            EXPECT_SUCCESS(name + ".capture", end);
        }
    }
}

/* The thread that recorded it need not know that the stream captured. */
TEST_F(CaptureQueries, OfAnEventThatWasCaptured)
{
    Event event;
    Stream stream;
    PinnedBlock word(4096);
    MUST(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.MemsetD8Async(word.address, 1, 4096, stream));
    CUresult record =
        OnOtherThread([&] { return cu.EventRecord(event, stream); });
    CUresult query = OnOtherThread([&] { return cu.EventQuery(event); });
    CUresult end = End(stream);
    EXPECT_SUCCESS("capture.event.record-by-another-thread", record);
    EXPECT_CU("capture.event.query-by-another-thread", query,
              CUDA_ERROR_CAPTURED_EVENT);
    EXPECT_CU("capture.event.query-by-another-thread.capture", end,
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_INVALID("capture.event.query-after-the-end", cu.EventQuery(event));
    EXPECT_SUCCESS("capture.event.record-again", cu.EventRecord(event, stream));
    EXPECT_SUCCESS("capture.event.recorded-again.completes",
                   Settled(event.handle));
}

} // namespace conformance
