// SPDX-License-Identifier: Apache-2.0
#include "tests/standin/standin_under_test.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace standin
{
namespace
{

// Tests run in the root of their runfiles.
constexpr char kLibrary[] = "pool/standin/libcuda.so.1";

void EndUnless(bool condition, const char *what)
{
    if (condition)
        return;
    std::fprintf(stderr, "cannot use the stand-in: %s\n", what);
    std::abort();
}

} // namespace

void *Handle()
{
    static void *handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    EndUnless(handle, "it does not open");
    return handle;
}

void *Find(const char *name)
{
    void *found = dlsym(Handle(), name);
    EndUnless(found, name);
    return found;
}

CUresult Init()
{
    return Get<CUresult(unsigned)>("cuInit")(0);
}

CUresult MemAlloc(CUdeviceptr *out, size_t size_bytes)
{
    return Get<CUresult(CUdeviceptr *, size_t)>("cuMemAlloc_v2")(out,
                                                                 size_bytes);
}

CUresult MemFree(CUdeviceptr address)
{
    return Get<CUresult(CUdeviceptr)>("cuMemFree_v2")(address);
}

void StartOnDevice0()
{
    CUcontext context = nullptr;
    EndUnless(Init() == CUDA_SUCCESS, "cuInit");
    EndUnless(Get<CUresult(CUcontext *, CUdevice)>("cuDevicePrimaryCtxRetain")(
                  &context, 0) == CUDA_SUCCESS,
              "cuDevicePrimaryCtxRetain");
    EndUnless(Get<CUresult(CUcontext)>("cuCtxSetCurrent")(context) ==
                  CUDA_SUCCESS,
              "cuCtxSetCurrent");
}

} // namespace standin
