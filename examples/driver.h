/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the examples share: checks of statuses, and the driver functions
 * that they call, under the names of cuda.h. A program of yours includes cuda.h
 * and links libcuda; the examples build where no CUDA Toolkit is installed.
 */
#ifndef MOIETY_EXAMPLES_DRIVER_H_
#define MOIETY_EXAMPLES_DRIVER_H_

#include <moiety/status.h>
#include <moiety/types.h>

#include <stdbool.h>
#include <stddef.h>

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

/* CUDA_SUCCESS, CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL,
 * CU_EVENT_DISABLE_TIMING */
enum { CUDA_SUCCESS = 0, NON_BLOCKING = 1, CAPTURE_GLOBAL = 0, NO_TIMING = 2 };

/* ENTRY(name, symbol, (parameters)): cuda.h maps a name to the symbol of its
 * latest version in the same way. */
#define DRIVER_ENTRIES(ENTRY)                                                  \
    ENTRY(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain,                  \
          (moiety_context * out, int device))                                  \
    ENTRY(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2,             \
          (int device))                                                        \
    ENTRY(cuCtxSetCurrent, cuCtxSetCurrent, (moiety_context context))          \
    ENTRY(cuStreamCreate, cuStreamCreate,                                      \
          (moiety_stream * out, unsigned flags))                               \
    ENTRY(cuStreamSynchronize, cuStreamSynchronize, (moiety_stream stream))    \
    ENTRY(cuStreamDestroy, cuStreamDestroy_v2, (moiety_stream stream))         \
    ENTRY(cuStreamWaitEvent, cuStreamWaitEvent,                                \
          (moiety_stream stream, moiety_event event, unsigned flags))          \
    ENTRY(cuEventCreate, cuEventCreate, (moiety_event * out, unsigned flags))  \
    ENTRY(cuEventRecord, cuEventRecord,                                        \
          (moiety_event event, moiety_stream stream))                          \
    ENTRY(cuEventDestroy, cuEventDestroy_v2, (moiety_event event))             \
    ENTRY(cuMemsetD8Async, cuMemsetD8Async,                                    \
          (moiety_devptr to, unsigned char value, size_t bytes,                \
           moiety_stream stream))                                              \
    ENTRY(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                             \
          (moiety_devptr to, const void *from, size_t bytes,                   \
           moiety_stream stream))                                              \
    ENTRY(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                             \
          (void *to, moiety_devptr from, size_t bytes, moiety_stream stream))  \
    ENTRY(cuStreamBeginCapture, cuStreamBeginCapture_v2,                       \
          (moiety_stream stream, unsigned mode))                               \
    ENTRY(cuStreamEndCapture, cuStreamEndCapture,                              \
          (moiety_stream stream, CUgraph * out))                               \
    ENTRY(cuGraphInstantiate, cuGraphInstantiateWithFlags,                     \
          (CUgraphExec * out, CUgraph graph, unsigned long long flags))        \
    ENTRY(cuGraphLaunch, cuGraphLaunch,                                        \
          (CUgraphExec exec, moiety_stream stream))                            \
    ENTRY(cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec exec))          \
    ENTRY(cuGraphDestroy, cuGraphDestroy, (CUgraph graph))

#define DRIVER_DECLARE(name, symbol, parameters) extern int(*name) parameters;
DRIVER_ENTRIES(DRIVER_DECLARE)
#undef DRIVER_DECLARE

/* Finds the entries in the driver that Moiety has opened, and makes the primary
 * context of device 0 the calling thread's. Says on stderr what failed. */
bool driver_open(void);

/* Gives the context back. */
void driver_close(void);

/* Whether a call succeeded, of Moiety's and of the driver's; says on stderr
 * which one did not. */
bool did(moiety_status status, const char *what);
bool driver_did(int code, const char *what);

#endif
