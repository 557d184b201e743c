// SPDX-License-Identifier: Apache-2.0
#include "tests/segment/device_under_test.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/driver_probe.h"
#include "tests/support/segment_probe.h"

namespace segment_test
{
namespace
{

void EndUnless(bool condition, const char *what)
{
    if (condition)
        return;
    std::fprintf(stderr, "cannot use the stand-in: %s: %s\n", what,
                 segment_probe_message());
    std::abort();
}

template <typename T> T *Control(const char *name)
{
    void *found = driver_probe_symbol(name);
    EndUnless(found, name);
    return reinterpret_cast<T *>(found);
}

} // namespace

moiety_source DeviceSource(CUcontext context)
{
    // Tests run in the root of their runfiles.
    char folder[4096];
    EndUnless(getcwd(folder, sizeof(folder)), "getcwd");
    std::string library = std::string(folder) + "/pool/standin/libcuda.so.1";
    setenv("MOIETY_DRIVER", library.c_str(), 1);
    moiety_source table;
    EndUnless(segment_probe_device_source(context, &table) == MOIETY_OK,
              "the source");
    return table;
}

void *Entry(const char *name)
{
    void *found = driver_probe_function(name);
    EndUnless(found, name);
    return found;
}

void SetFaults(const std::string &plan)
{
    EndUnless(Control<int(const char *)>("moiety_standin_set_faults")(
                  plan.c_str()) == 0,
              plan.c_str());
}

int64_t LiveAllocations()
{
    return Control<int64_t(const char *)>("moiety_standin_live")("allocations");
}

uint64_t Calls()
{
    return Control<uint64_t(const char *)>("moiety_standin_calls")("*");
}

CUcontext Current()
{
    CUcontext context = nullptr;
    EndUnless(Get<CUresult(CUcontext *)>("cuCtxGetCurrent")(&context) ==
                  CUDA_SUCCESS,
              "cuCtxGetCurrent");
    return context;
}

void SetCurrent(CUcontext context)
{
    EndUnless(Get<CUresult(CUcontext)>("cuCtxSetCurrent")(context) ==
                  CUDA_SUCCESS,
              "cuCtxSetCurrent");
}

CUcontext NewContext()
{
    CUcontext context = nullptr, popped;
    EndUnless(Get<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate")(
                  &context, 0, 0) == CUDA_SUCCESS,
              "cuCtxCreate");
    EndUnless(Get<CUresult(CUcontext *)>("cuCtxPopCurrent")(&popped) ==
                  CUDA_SUCCESS,
              "cuCtxPopCurrent");
    return context;
}

CUstreamCaptureMode ExchangeMode(CUstreamCaptureMode mode)
{
    EndUnless(Get<CUresult(CUstreamCaptureMode *)>(
                  "cuThreadExchangeStreamCaptureMode")(&mode) == CUDA_SUCCESS,
              "cuThreadExchangeStreamCaptureMode");
    return mode;
}

} // namespace segment_test
