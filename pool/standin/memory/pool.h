/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pools of stream-ordered memory. A pool takes device memory in segments, and
 * hands out parts of them.
 *
 * All functions: lock held.
 */
#ifndef MOIETY_POOL_STANDIN_MEMORY_POOL_H_
#define MOIETY_POOL_STANDIN_MEMORY_POOL_H_

#include "pool/standin/memory/device_memory.h"

struct CUmemPoolHandle_st {
    struct CUmemPoolHandle_st *next;
    struct device *device;
    bool is_default;   /* of its device: cannot be destroyed */
    bool is_destroyed; /* by the user; goes with its last allocation */
    int reuse[3];      /* the three reuse switches: kept, without effect */
    CUmemAccess_flags access[STANDIN_DEVICE_MAX];
    uint64_t threshold_bytes; /* kept when memory is freed */
    size_t max_bytes;         /* 0: as much as the device has */
    size_t reserved_bytes, reserved_high_bytes;
    size_t used_bytes, used_high_bytes;
    struct span_set free; /* parts of its segments that nobody has */
};

/* The pool that `handle` names; NULL for what is no pool, or destroyed. */
struct CUmemPoolHandle_st *pool_find(CUmemoryPool handle);

/* The pool that cuMemAllocAsync takes from; NULL without host memory. */
struct CUmemPoolHandle_st *pool_current(struct device *device);

CUresult pool_take(struct CUmemPoolHandle_st *pool, size_t size_bytes,
                   uint64_t *out_address);

/* The end of a range of a pool. */
void pool_give(struct address_range *range);

/* Gives free memory back to the device until the pool has no more than
 * `keep_bytes`, or none is free. */
void pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep_bytes);

/* Parts have sizes in these steps. */
static inline size_t pool_part_bytes(size_t size_bytes)
{
    return round_up(size_bytes, SMALL_ALIGNMENT_BYTES);
}

/* Whether the devices say that they have pools; without, every call about them
 * is NOT_SUPPORTED. */
bool pools_are_supported(void);

#endif
