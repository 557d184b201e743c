/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Attributes and access rights of memory pools.
 */
#include "pool/standin/entries/entry.h"
#include "pool/standin/entries/memory_api.h"
#include "pool/standin/memory/pool.h"

static bool is_reuse(CUmemPool_attribute attribute)
{
    return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
           attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

static int *reuse_of(struct CUmemPoolHandle_st *pool,
                     CUmemPool_attribute attribute)
{
    return &pool->reuse[attribute -
                        CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
}

static CUresult set_wide(struct CUmemPoolHandle_st *pool,
                         CUmemPool_attribute attribute, uint64_t value)
{
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold_bytes = value;
    else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && value == 0)
        pool->reserved_high_bytes = pool->reserved_bytes;
    else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && value == 0)
        pool->used_high_bytes = pool->used_bytes;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle,
                               CUmemPool_attribute attribute, void *value)
{
    ENTER(cuMemPoolSetAttribute, NEEDS_INIT);
    standin_lock();
    struct CUmemPoolHandle_st *pool = pool_find(handle);
    if (!pool || !value)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    if (is_reuse(attribute)) {
        *reuse_of(pool, attribute) = *(const int *)value;
        return standin_leave(CUDA_SUCCESS);
    }
    return standin_leave(set_wide(pool, attribute, *(const cuuint64_t *)value));
}

static CUresult get_wide(const struct CUmemPoolHandle_st *pool,
                         CUmemPool_attribute attribute, cuuint64_t *out)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *out = pool->threshold_bytes;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *out = pool->reserved_bytes;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *out = pool->reserved_high_bytes;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *out = pool->used_bytes;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *out = pool->used_high_bytes;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle,
                               CUmemPool_attribute attribute, void *out)
{
    ENTER(cuMemPoolGetAttribute, NEEDS_INIT);
    standin_lock();
    struct CUmemPoolHandle_st *pool = pool_find(handle);
    if (!pool || !out)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    if (is_reuse(attribute)) {
        *(int *)out = *reuse_of(pool, attribute);
        return standin_leave(CUDA_SUCCESS);
    }
    return standin_leave(get_wide(pool, attribute, out));
}

/* A pool's own device always has access. */
static CUresult pool_info_check_right(const struct CUmemPoolHandle_st *pool,
                                      const CUmemAccessDesc *right)
{
    if (right->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (right->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (right->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
        right->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    bool is_own = right->location.id == pool->device->ordinal;
    if (!device_at(right->location.id) ||
        (is_own && right->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE))
        return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *rights,
                            size_t count)
{
    ENTER(cuMemPoolSetAccess, NEEDS_INIT);
    standin_lock();
    struct CUmemPoolHandle_st *pool = pool_find(handle);
    if (!pool || (count && !rights))
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        CUresult code = pool_info_check_right(pool, &rights[i]);
        if (code != CUDA_SUCCESS)
            return standin_leave(code);
    }
    for (size_t i = 0; i < count; i++)
        pool->access[rights[i].location.id] = rights[i].flags;
    return standin_leave(CUDA_SUCCESS);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *out, CUmemoryPool handle,
                            CUmemLocation *location)
{
    ENTER(cuMemPoolGetAccess, NEEDS_INIT);
    standin_lock();
    const struct CUmemPoolHandle_st *pool = pool_find(handle);
    if (!pool || !out || !location ||
        location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    if (!device_at(location->id))
        return standin_leave(CUDA_ERROR_INVALID_DEVICE);
    *out = pool->access[location->id];
    return standin_leave(CUDA_SUCCESS);
}
