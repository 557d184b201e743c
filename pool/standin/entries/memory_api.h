/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Prototypes of the entries that the memory side defines. The per-thread
 * flavour of an entry has the same type as the plain one.
 */
#ifndef MOIETY_POOL_STANDIN_ENTRIES_MEMORY_API_H_
#define MOIETY_POOL_STANDIN_ENTRIES_MEMORY_API_H_

#include "pool/driver/cuda_abi.h"
#include "pool/standin/entries/entry.h"

/* memory/device_alloc.c */
STANDIN_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size_bytes);
STANDIN_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *out_pitch,
                                           size_t width_bytes, size_t height,
                                           unsigned element_bytes);
STANDIN_EXPORT CUresult cuMemFree_v2(CUdeviceptr address);
STANDIN_EXPORT CUresult cuMemGetInfo_v2(size_t *out_free, size_t *out_total);
STANDIN_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *out_base,
                                                size_t *out_size_bytes,
                                                CUdeviceptr address);

/* memory/host_memory.c */
STANDIN_EXPORT CUresult cuMemHostAlloc(void **out, size_t size_bytes,
                                       unsigned flags);
STANDIN_EXPORT CUresult cuMemAllocHost_v2(void **out, size_t size_bytes);
STANDIN_EXPORT CUresult cuMemFreeHost(void *pointer);
STANDIN_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out,
                                                     void *pointer,
                                                     unsigned flags);
STANDIN_EXPORT CUresult cuMemHostGetFlags(unsigned *out, void *pointer);
STANDIN_EXPORT CUresult cuMemHostRegister(void *pointer, size_t size_bytes,
                                          unsigned flags);
STANDIN_EXPORT CUresult cuMemHostRegister_v2(void *pointer, size_t size_bytes,
                                             unsigned flags);
STANDIN_EXPORT CUresult cuMemHostUnregister(void *pointer);

/* memory/managed.c */
STANDIN_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size_bytes,
                                          unsigned flags);
STANDIN_EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t size_bytes,
                                    CUmem_advise advice, CUdevice device);
STANDIN_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size_bytes,
                                       CUmem_advise advice,
                                       CUmemLocation location);
typedef CUresult standin_prefetch_fn(CUdeviceptr address, size_t size_bytes,
                                     CUdevice device, CUstream stream);
STANDIN_EXPORT standin_prefetch_fn cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz;
typedef CUresult standin_prefetch_v2_fn(CUdeviceptr address, size_t size_bytes,
                                        CUmemLocation location, unsigned flags,
                                        CUstream stream);
STANDIN_EXPORT standin_prefetch_v2_fn cuMemPrefetchAsync_v2,
    cuMemPrefetchAsync_v2_ptsz;

/* memory/pointer.c */
STANDIN_EXPORT CUresult cuPointerGetAttribute(void *out,
                                              CUpointer_attribute attribute,
                                              CUdeviceptr address);
STANDIN_EXPORT CUresult cuPointerGetAttributes(unsigned count,
                                               CUpointer_attribute *attributes,
                                               void **outs,
                                               CUdeviceptr address);
STANDIN_EXPORT CUresult cuPointerSetAttribute(const void *value,
                                              CUpointer_attribute attribute,
                                              CUdeviceptr address);

/* ipc/ipc.c */
STANDIN_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *out,
                                          CUdeviceptr address);
STANDIN_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *out,
                                           CUipcMemHandle handle,
                                           unsigned flags);
STANDIN_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out,
                                              CUipcMemHandle handle,
                                              unsigned flags);
STANDIN_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address);

/* vmm/vmm.c */
STANDIN_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out,
                                    size_t size_bytes,
                                    const CUmemAllocationProp *properties,
                                    unsigned long long flags);
STANDIN_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
STANDIN_EXPORT CUresult
cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address);
STANDIN_EXPORT CUresult cuMemGetAllocationGranularity(
    size_t *out, const CUmemAllocationProp *properties,
    CUmemAllocationGranularity_flags option);
STANDIN_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp *out, CUmemGenericAllocationHandle handle);

/* vmm/vmm.c */
STANDIN_EXPORT CUresult cuMemExportToShareableHandle(
    void *out, CUmemGenericAllocationHandle handle,
    CUmemAllocationHandleType type, unsigned long long flags);
STANDIN_EXPORT CUresult
cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *shared,
                               CUmemAllocationHandleType type);

/* vmm/map.c */
STANDIN_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size_bytes,
                                            size_t alignment, CUdeviceptr hint,
                                            unsigned long long flags);
STANDIN_EXPORT CUresult cuMemAddressFree(CUdeviceptr address,
                                         size_t size_bytes);
STANDIN_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size_bytes,
                                 size_t offset_bytes,
                                 CUmemGenericAllocationHandle handle,
                                 unsigned long long flags);
STANDIN_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size_bytes);
STANDIN_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size_bytes,
                                       const CUmemAccessDesc *rights,
                                       size_t right_count);
STANDIN_EXPORT CUresult cuMemGetAccess(unsigned long long *out,
                                       const CUmemLocation *location,
                                       CUdeviceptr address);

/* memory/async_memory.c */
typedef CUresult standin_alloc_async_fn(CUdeviceptr *out, size_t size_bytes,
                                        CUstream stream);
STANDIN_EXPORT standin_alloc_async_fn cuMemAllocAsync, cuMemAllocAsync_ptsz;
typedef CUresult standin_alloc_from_pool_fn(CUdeviceptr *out, size_t size_bytes,
                                            CUmemoryPool pool, CUstream stream);
STANDIN_EXPORT standin_alloc_from_pool_fn cuMemAllocFromPoolAsync,
    cuMemAllocFromPoolAsync_ptsz;
typedef CUresult standin_free_async_fn(CUdeviceptr address, CUstream stream);
STANDIN_EXPORT standin_free_async_fn cuMemFreeAsync, cuMemFreeAsync_ptsz;

/* memory/pool.c */
STANDIN_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out,
                                                  CUdevice device);
STANDIN_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device);
STANDIN_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
STANDIN_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *out,
                                        const CUmemPoolProps *properties);
STANDIN_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool);
STANDIN_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes);

/* memory/pool_info.c */
STANDIN_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool,
                                              CUmemPool_attribute attribute,
                                              void *value);
STANDIN_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool,
                                              CUmemPool_attribute attribute,
                                              void *out);
STANDIN_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool,
                                           const CUmemAccessDesc *rights,
                                           size_t count);
STANDIN_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *out,
                                           CUmemoryPool pool,
                                           CUmemLocation *location);

#endif
