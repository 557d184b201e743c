/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The part of the CUDA driver's binary interface that Moiety uses, so that
 * nothing here needs the Toolkit's cuda.h to build. Names, values, layouts and
 * signatures are the driver's own; tests/driver/cuda_abi_test compares every
 * one of them with the real header.
 *
 * Do not include this beside cuda.h: both define the same names. Public
 * headers of Moiety include neither.
 */
#ifndef MOIETY_POOL_DRIVER_CUDA_ABI_H_
#define MOIETY_POOL_DRIVER_CUDA_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUarray_st *CUarray;
typedef struct CUgreenCtx_st *CUgreenCtx;

/* Stream handles that name no object. */
#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

/* Flags that the driver's header has as macros. */
#define CU_MEMHOSTALLOC_PORTABLE 0x01
#define CU_MEMHOSTALLOC_DEVICEMAP 0x02
#define CU_MEMHOSTALLOC_WRITECOMBINED 0x04
#define CU_MEMHOSTREGISTER_PORTABLE 0x01
#define CU_MEMHOSTREGISTER_DEVICEMAP 0x02
#define CU_MEMHOSTREGISTER_IOMEMORY 0x04
#define CU_MEMHOSTREGISTER_READ_ONLY 0x08

/* Device numbers that name no device. */
#define CU_DEVICE_CPU ((CUdevice)-1)
#define CU_DEVICE_INVALID ((CUdevice)-2)

#define ENUM(tag) typedef enum {
#define VALUE(name, value) name = value,
/* The last thread state makes the enum as wide as the driver's (4 bytes,
 * signed). */
#define ENUM_END(tag)                                                          \
    tag##_MOIETY_WIDTH = 0x7fffffff                                            \
    }                                                                          \
    tag;
#include "pool/driver/cuda_constants.inc"

#define CU_IPC_HANDLE_SIZE 64

typedef struct {
    char bytes[16];
} CUuuid;

typedef struct {
    char reserved[CU_IPC_HANDLE_SIZE];
} CUipcMemHandle;

typedef struct {
    char reserved[CU_IPC_HANDLE_SIZE];
} CUipcEventHandle;

typedef struct {
    unsigned char data[CU_IPC_HANDLE_SIZE];
} CUmemFabricHandle;

typedef struct {
    CUmemLocationType type;
    int id;
} CUmemLocation;

typedef struct {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;

typedef struct {
    CUmemLocation location;
    CUmemAccess_flags flags;
} CUmemAccessDesc;

typedef struct {
    CUmemAllocationType allocType;
    CUmemAllocationHandleType handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize; /* bytes */
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

typedef struct {
    unsigned char from_port;
    unsigned char to_port;
    unsigned char type;
    unsigned char reserved[5];
} CUgraphEdgeData;

typedef struct {
    cuuint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    CUgraphInstantiateResult result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

/* Only ever passed as NULL by us; the stand-in rejects anything else. */
typedef struct CUexecAffinityParam_st CUexecAffinityParam;

typedef struct {
    CUexecAffinityParam *execAffinityParams;
    int numExecAffinityParams;
    void *cigParams;
} CUctxCreateParams;

typedef struct {
    size_t srcXInBytes;
    size_t srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes;
    size_t dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes;
    size_t Height;
} CUDA_MEMCPY2D;

typedef void (*CUhostFn)(void *user_data);
typedef void (*CUstreamCallback)(CUstream stream, CUresult status,
                                 void *user_data);

#ifdef __cplusplus
}
#endif

#endif
