/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Puts Moiety behind PyTorch: one call, before the process uses CUDA.
 */
#ifndef MOIETY_EMM_TORCH_ENABLE_H_
#define MOIETY_EMM_TORCH_ENABLE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What the pools are made with. */
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
 * Makes Moiety the allocator of PyTorch for CUDA in this process, for good.
 *
 * @param options     What is wanted.
 * @param error       [out] Why not, cut to `error_bytes` with its final 0; empty
 *                    when all is well.
 * @param error_bytes At least 1.
 *
 * @return 0, or -1: nothing has changed.
 *
 * Threads: one, before others use CUDA by way of PyTorch.
 */
__attribute__((visibility("default"))) int
moiety_torch_enable(const moiety_torch_options *options, char *error,
                    size_t error_bytes);

/** The pool of a device, as moiety_pool *; NULL and `error` where there can be
 *  none. The process's: it is never destroyed. */
__attribute__((visibility("default"))) void *
moiety_torch_pool(int device, char *error, size_t error_bytes);

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

/** Gives a MemPool without tensors the memory that is wanted. 0, or -1 and `error`,
 *  and nothing has changed. */
__attribute__((visibility("default"))) int
moiety_torch_mempool_set(const moiety_torch_mempool *wanted, char *error,
                         size_t error_bytes);

/** Gives the memory of a MemPool with a tenant back to the driver, as
 *  moiety_tenant_pause(); `flags` are MOIETY_PAUSE_ bits. */
__attribute__((visibility("default"))) int
moiety_torch_mempool_pause(const moiety_torch_mempool *pool, uint32_t flags,
                           char *error, size_t error_bytes);

/** Takes it again, as moiety_tenant_resume(). */
__attribute__((visibility("default"))) int
moiety_torch_mempool_resume(const moiety_torch_mempool *pool, char *error,
                            size_t error_bytes);

/** The release of PyTorch that this was compiled for, as "2.11". */
__attribute__((visibility("default"))) const char *moiety_torch_release(void);

#ifdef __cplusplus
}
#endif

#endif
