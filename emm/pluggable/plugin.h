/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Moiety behind PyTorch's interface for plug-ins, whose functions are C: what
 * serves where the library of emm/torch can be neither found nor made. PyTorch
 * takes a lock of its own before each of these but init and begin.
 *
 * What cannot be said by a return value is thrown, as std::runtime_error of the
 * process's C++ library, through which PyTorch tells Python.
 */
#ifndef MOIETY_EMM_PLUGGABLE_PLUGIN_H_
#define MOIETY_EMM_PLUGGABLE_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOIETY_PLUGGABLE_API __attribute__((visibility("default")))

/** Devices that can be named. */
#define MOIETY_PLUGGABLE_DEVICES_MAX 64

/** PyTorch's MempoolId_t, a std::pair, as it is passed. */
typedef struct moiety_pluggable_pool_id {
    uint64_t first;
    uint64_t second;
} moiety_pluggable_pool_id;

/**
 * Says how pools are made from now on.
 *
 * @param pool_flags   MOIETY_POOL_ bits beside MOIETY_POOL_AUTO_SCOPE.
 * @param memory       A moiety_memory.
 * @param limit_bytes  Most that each device's pool reserves; 0: what there is.
 *
 * Threads: one, before the first allocation.
 */
MOIETY_PLUGGABLE_API void moiety_pluggable_set(uint32_t pool_flags,
                                               uint32_t memory,
                                               uint64_t limit_bytes);

/** Takes a block of the device's pool, which it makes with the first. Throws
 *  "CUDA out of memory", or what else is in the way. */
MOIETY_PLUGGABLE_API void *moiety_pluggable_alloc(size_t size_bytes, int device,
                                                  void *stream);

/** Frees a block on the stream that it was allocated for. Prints what goes wrong,
 *  as it is called by destructors. */
MOIETY_PLUGGABLE_API void moiety_pluggable_free(void *block, size_t size_bytes,
                                                int device, void *stream);

MOIETY_PLUGGABLE_API void moiety_pluggable_init(int device_count);

/** torch.cuda.empty_cache(). */
MOIETY_PLUGGABLE_API void moiety_pluggable_reset(void);

/** Limits a pool to a part of the device's memory; 1: as it was made. */
MOIETY_PLUGGABLE_API void moiety_pluggable_memory_fraction(double fraction,
                                                           int device);

/** The segment that a block is in, and its bytes where somebody wants them. */
MOIETY_PLUGGABLE_API void *moiety_pluggable_base_alloc(void *block,
                                                       size_t *out_bytes);

/** Another stream uses the block. Memory of others is passed over. */
MOIETY_PLUGGABLE_API void moiety_pluggable_record_stream(void *block,
                                                         void *stream);

/**
 * A capture is about to begin, in whatever stream: blocks that captures allocate
 * stay reserved until all graphs of the device are released.
 *
 * @param filter  A std::function, which C cannot call.
 */
MOIETY_PLUGGABLE_API void
moiety_pluggable_begin_allocate_to_pool(int device, moiety_pluggable_pool_id id,
                                        void *filter);
MOIETY_PLUGGABLE_API void
moiety_pluggable_end_allocate_to_pool(int device, moiety_pluggable_pool_id id);
MOIETY_PLUGGABLE_API void
moiety_pluggable_release_pool(int device, moiety_pluggable_pool_id id);

#ifdef __cplusplus
}
#endif

#endif
