// SPDX-License-Identifier: Apache-2.0
//
// A call by another thread while a capture is under way: which break it.
#include <algorithm>
#include <functional>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "tests/conformance/checks.h"
#include "tests/conformance/device.h"
#include "tests/conformance/driver_under_test.h"
#include "tests/conformance/memory/vmm.h"

namespace conformance
{

namespace
{

/* When the capture under way is broken by the call. */
enum class Breaks {
    kNever,
    kAlways,         /* in every capture mode, whatever the caller's */
    kBlockingStream, /* if a blocking stream captures */
    kGlobalUnlessRelaxed,
};

/* What the calls work on; made before the capture begins. */
struct Objects {
    Event complete, event;
    Stream other;
    CUdeviceptr address = 0; /* made or to be freed by the call */
    CUmemGenericAllocationHandle memory = 0;
    void *host = nullptr;

    Objects()
    {
        MUST(cu.EventRecord(complete, other));
        MUST(cu.StreamSynchronize(other));
    }
    ~Objects()
    {
        if (address != 0)
            cu.MemFree(address);
        if (memory != 0)
            cu.MemRelease(memory);
        if (host != nullptr)
            cu.MemFreeHost(host);
    }
};

struct Row {
    const char *name;
    CUresult (*call)(Objects &);
    Breaks breaks;
    CUresult refusal; /* returned when it breaks the capture */
};

[[maybe_unused]] void PrintTo(const Row &row, std::ostream *out)
{
    *out << row.name;
}

CUresult FreeBlock(Objects &objects)
{
    CUresult code = cu.MemFree(objects.address);
    if (code == CUDA_SUCCESS)
        objects.address = 0;
    return code;
}

CUresult CreateMemory(Objects &objects)
{
    CUmemAllocationProp property = PinnedOnDevice();
    return cu.MemCreate(&objects.memory, kGranule, &property, 0);
}

CUresult GetInfo(Objects &)
{
    size_t free_bytes = 0, total_bytes = 0;
    return cu.MemGetInfo(&free_bytes, &total_bytes);
}

const Row kRows[] = {
    {"ctx-record-event",
     [](Objects &o) { return cu.CtxRecordEvent(PrimaryContext(), o.event); },
     Breaks::kAlways, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    {"ctx-synchronize", [](Objects &) { return cu.CtxSynchronize(); },
     Breaks::kAlways, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    {"event-record-legacy",
     [](Objects &o) { return cu.EventRecord(o.event, nullptr); },
     Breaks::kBlockingStream, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT},
    {"event-record-other-stream",
     [](Objects &o) { return cu.EventRecord(o.event, o.other); },
     Breaks::kNever, CUDA_SUCCESS},
    {"stream-wait-event-other-stream",
     [](Objects &o) { return cu.StreamWaitEvent(o.other, o.complete, 0); },
     Breaks::kNever, CUDA_SUCCESS},
    {"mem-get-info", GetInfo, Breaks::kNever, CUDA_SUCCESS},
    {"mem-create", CreateMemory, Breaks::kNever, CUDA_SUCCESS},
    {"event-query", [](Objects &o) { return cu.EventQuery(o.complete); },
     Breaks::kGlobalUnlessRelaxed, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    {"event-synchronize",
     [](Objects &o) { return cu.EventSynchronize(o.complete); },
     Breaks::kGlobalUnlessRelaxed, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    {"stream-query-other-stream",
     [](Objects &o) { return cu.StreamQuery(o.other); },
     Breaks::kGlobalUnlessRelaxed, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    {"mem-alloc", [](Objects &o) { return cu.MemAlloc(&o.address, 4096); },
     Breaks::kGlobalUnlessRelaxed, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    {"mem-free", FreeBlock, Breaks::kGlobalUnlessRelaxed,
     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    {"mem-host-alloc",
     [](Objects &o) { return cu.MemHostAlloc(&o.host, 4096, 0); },
     Breaks::kGlobalUnlessRelaxed, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
};

struct Column {
    CUstreamCaptureMode capture_mode;
    CUstreamCaptureMode caller_mode;
    unsigned stream_flags;
};

bool IsBroken(Breaks breaks, const Column &column)
{
    switch (breaks) {
    case Breaks::kNever:
        return false;
    case Breaks::kAlways:
        return true;
    case Breaks::kBlockingStream:
        return column.stream_flags == CU_STREAM_DEFAULT;
    case Breaks::kGlobalUnlessRelaxed:
        return column.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
               column.caller_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    }
    return false;
}

const char *NameOfMode(CUstreamCaptureMode mode)
{
    switch (mode) {
    case CU_STREAM_CAPTURE_MODE_GLOBAL:
        return "global";
    case CU_STREAM_CAPTURE_MODE_THREAD_LOCAL:
        return "thread-local";
    default:
        return "relaxed";
    }
}

std::string NameOfCell(const std::string &row, const Column &column)
{
    bool is_relaxed = column.caller_mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    return "capture-table." + row + ".capture-" +
           NameOfMode(column.capture_mode) +
           (column.stream_flags == CU_STREAM_DEFAULT ? "-blocking"
                                                     : "-non-blocking") +
           (is_relaxed ? ".caller-relaxed" : ".caller-default");
}

/* The call, on another thread, in the caller's mode. */
CUresult CallInMode(CUstreamCaptureMode mode,
                    const std::function<CUresult()> &call)
{
    return OnOtherThread([mode, &call] {
        CUstreamCaptureMode exchanged = mode;
        if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
            MUST(cu.ThreadExchangeStreamCaptureMode(&exchanged));
        return call();
    });
}

/* Ends the capture however it stands, so that the next cell begins clean. */
CUresult EndCapture(CUstream stream)
{
    CUgraph graph = nullptr;
    CUresult code = cu.StreamEndCapture(stream, &graph);
    if (graph != nullptr)
        cu.GraphDestroy(graph);
    return code;
}

void ExpectCell(const Row &row, const Column &column)
{
    std::string name = NameOfCell(row.name, column);
    bool is_broken = IsBroken(row.breaks, column);
    Objects objects;
    PinnedBlock word(4096);
    Stream stream(column.stream_flags);
    if (row.call == FreeBlock)
        MUST(cu.MemAlloc(&objects.address, 4096));
    MUST(cu.StreamBeginCapture(stream, column.capture_mode));
    MUST(cu.MemsetD8Async(word.address, 1, 4096, stream));
    CUresult got =
        CallInMode(column.caller_mode, [&] { return row.call(objects); });
    CUresult end = EndCapture(stream);
    EXPECT_CU(name, got, is_broken ? row.refusal : CUDA_SUCCESS);
    EXPECT_CU(name + ".capture", end,
              is_broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
}

} // namespace

class CaptureTable : public OnDevice, public ::testing::WithParamInterface<Row>
{
};

TEST_P(CaptureTable, CallByAnotherThread)
{
    for (CUstreamCaptureMode capture :
         {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
          CU_STREAM_CAPTURE_MODE_RELAXED}) {
        for (CUstreamCaptureMode caller :
             {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
            ExpectCell(GetParam(), {capture, caller, CU_STREAM_NON_BLOCKING});
            ExpectCell(GetParam(), {capture, caller, CU_STREAM_DEFAULT});
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    , CaptureTable, ::testing::ValuesIn(kRows), [](const auto &row) {
        std::string name = row.param.name;
        name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
        return name;
    });

} // namespace conformance
