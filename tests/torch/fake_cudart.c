/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The part of a CUDA runtime that libc10_cuda needs to load and the allocator to
 * run, over the stand-in driver. What else libc10_cuda names says that it is not
 * supported.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { kSuccess = 0, kNotSupported = 801, kNoDevice = 101 };
enum { kMemoryBytes = 1 << 30 };

extern int cuCtxSetCurrent(void *context);
extern int cuDeviceGetCount(int *out);
extern int cuDevicePrimaryCtxRetain(void **out, int device);
extern int cuEventCreate(void **out, unsigned flags);
extern int cuEventQuery(void *event);
extern int cuEventRecord(void *event, void *stream);
extern int cuStreamCreateWithPriority(void **out, unsigned flags, int priority);
extern int cuStreamIsCapturing(void *stream, int *out);
extern int cuThreadExchangeStreamCaptureMode(int *mode);

static _Thread_local int current_device;

int cudaGetDevice(int *out)
{
    *out = current_device;
    return kSuccess;
}

int cudaGetDeviceCount(int *out)
{
    return cuDeviceGetCount(out);
}

int cudaSetDevice(int device)
{
    int count;
    if (cudaGetDeviceCount(&count) || device < 0 || device >= count)
        return kNoDevice;
    current_device = device;
    void *context;
    int error = cuDevicePrimaryCtxRetain(&context, device);
    return error ? error : cuCtxSetCurrent(context);
}

int cudaGetLastError(void)
{
    return kSuccess;
}

const char *cudaGetErrorString(int error)
{
    return error ? "a fake error" : "no error";
}

const char *cudaGetErrorName(int error)
{
    return cudaGetErrorString(error);
}

int cudaMemGetInfo(size_t *out_free, size_t *out_total)
{
    *out_free = kMemoryBytes / 2;
    *out_total = kMemoryBytes;
    return kSuccess;
}

int cudaMalloc(void **out, size_t bytes)
{
    *out = malloc(bytes);
    return kSuccess;
}

int cudaFree(void *block)
{
    free(block);
    return kSuccess;
}

int cudaDeviceGetStreamPriorityRange(int *out_least, int *out_greatest)
{
    *out_least = 0;
    *out_greatest = 0;
    return kSuccess;
}

int cudaStreamCreateWithPriority(void **out, unsigned flags, int priority)
{
    return cuStreamCreateWithPriority(out, flags, priority);
}

int cudaStreamIsCapturing(void *stream, int *out)
{
    return cuStreamIsCapturing(stream, out);
}

int cudaEventCreateWithFlags(void **out, unsigned flags)
{
    return cuEventCreate(out, flags);
}

int cudaEventQuery(void *event)
{
    return cuEventQuery(event);
}

int cudaEventRecord(void *event, void *stream)
{
    return cuEventRecord(event, stream);
}

int cudaThreadExchangeStreamCaptureMode(int *mode)
{
    return cuThreadExchangeStreamCaptureMode(mode);
}

#define REFUSE(name)                                                           \
    int name(void)                                                             \
    {                                                                          \
        return kNotSupported;                                                  \
    }

REFUSE(cudaDeviceCanAccessPeer)
REFUSE(cudaDeviceEnablePeerAccess)
REFUSE(cudaDeviceGetDefaultMemPool)
REFUSE(cudaDeviceSynchronize)
REFUSE(cudaDriverGetVersion)
REFUSE(cudaEventDestroy)
REFUSE(cudaEventElapsedTime)
REFUSE(cudaEventSynchronize)
REFUSE(cudaFreeAsync)
REFUSE(cudaGetDeviceProperties)
REFUSE(cudaGetDriverEntryPointByVersion)
REFUSE(cudaGraphNodeGetDependencies)
REFUSE(cudaIpcCloseMemHandle)
REFUSE(cudaIpcGetMemHandle)
REFUSE(cudaIpcOpenMemHandle)
REFUSE(cudaMallocAsync)
REFUSE(cudaMemPoolGetAttribute)
REFUSE(cudaMemPoolSetAccess)
REFUSE(cudaMemPoolSetAttribute)
REFUSE(cudaMemPoolTrimTo)
REFUSE(cudaMemcpy)
REFUSE(cudaMemcpyAsync)
REFUSE(cudaMemcpyPeerAsync)
REFUSE(cudaStreamGetCaptureInfo)
REFUSE(cudaStreamQuery)
REFUSE(cudaStreamSynchronize)
REFUSE(cudaStreamWaitEvent)
