/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Moiety behind PyTorch, for programs that embed libtorch: one call, before the process
 * uses CUDA. These functions are not of libmoiety but of libmoiety_torch, which is
 * compiled for one release of PyTorch: examples/torch shows how.
 *
 * A status that is not MOIETY_OK says that nothing has changed, and
 * moiety_last_error_message() of the thread says why. Where PyTorch refuses something
 * itself, the status is MOIETY_E_INVALID.
 */
#ifndef MOIETY_STACKS_TORCH_H_
#define MOIETY_STACKS_TORCH_H_

#include <stdint.h>

#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Options of PyTorch's pools. */
typedef struct moiety_torch_options {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** MOIETY_POOL_ bits, as EXPORTABLE. */
    uint32_t pool_flags;
    /** Most that each device's pool reserves; 0: what the device has. */
    uint64_t limit_bytes;
    /** Not 0: peaks of torch.cuda.max_memory_allocated() are exact with several
     *  threads too, which share a line of memory then. */
    uint32_t has_exact_peaks;
    /** A moiety_memory; 0: mapped where the device has it. */
    uint32_t memory;
} moiety_torch_options;

/**
 * Makes Moiety the allocator of PyTorch for CUDA in this process, for good. PyTorch's
 * pool of a device is moiety_default_pool().
 *
 * @param options  What is wanted.
 *
 * @return MOIETY_E_INVALID  `options` is NULL, or of another version; CUDA has started
 *         in this process, or Moiety is the allocator already.
 *
 * Threads: one, before others use CUDA by way of PyTorch.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_torch_enable(const moiety_torch_options *options);

/** Where a torch.cuda.MemPool has its memory. */
typedef struct moiety_torch_mempool {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** The device that was current when it was made. */
    int32_t device;
    /** Its id. */
    uint64_t id[2];
    /** Most that it has; 0: no limit of its own. */
    uint64_t limit_bytes;
    /** A tenant of that name, which can be paused; NULL: fixed memory. */
    const char *tenant_name;
} moiety_torch_mempool;

/**
 * Gives a MemPool without tensors the memory that is wanted.
 *
 * @return MOIETY_E_INVALID  `wanted` is NULL, or of another version; Moiety has no such
 *         MemPool, it is in use, or has tensors.
 * @return as moiety_private_create(), or moiety_tenant_create()
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_torch_mempool_set(const moiety_torch_mempool *wanted);

/**
 * Gives the memory of a MemPool with a tenant back to the driver.
 *
 * @param pool   As it was set.
 * @param flags  MOIETY_PAUSE_ bits.
 *
 * @return as moiety_tenant_pause()
 * @return MOIETY_E_INVALID  also when `pool` is NULL, or has no tenant.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_torch_mempool_pause(const moiety_torch_mempool *pool, uint32_t flags);

/** Takes it again: as moiety_tenant_resume(), and as moiety_torch_mempool_pause(). */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_torch_mempool_resume(const moiety_torch_mempool *pool);

/** The release of PyTorch that this was compiled for, as "2.11". */
MOIETY_API const char *moiety_torch_release(void);

#ifdef __cplusplus
}
#endif

#endif
