/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Live blocks: resized where they lie, and all of a pool's freed at once.
 * docs/adr/0032-live-blocks.md tells why they are as they are.
 */
#ifndef BINADE_BLOCKS_H_
#define BINADE_BLOCKS_H_

#include <stddef.h>
#include <stdint.h>

#include "binade/pool.h"
#include "binade/status.h"
#include "binade/stream.h"
#include "binade/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Makes a block longer or shorter where it lies. It never moves, and keeps its
 * contents up to the lesser of both sizes. It grows if the bytes behind it are
 * free for work on `stream` without waiting: done, freed on that stream, or in
 * the calling thread's caches for it. The pool does not grow for it; memory that
 * binade_pool_reserve() reserved ahead is there to grow into.
 *
 * @param pool        The pool that it is from.
 * @param address     As it was allocated.
 * @param size_bytes  Bytes wanted, 1 or more; binade_free_sized() takes this size
 *                    afterwards. Rounded as by binade_alloc(), or for a tenant's
 *                    block by binade_tenant_alloc(); up to 1 MiB a block that is
 *                    longer by less than 12.5 % stays as it is.
 * @param stream      Stream that uses the added bytes first, or used the ones
 *                    that are given back last; BINADE_STREAM_ANY if the caller
 *                    cannot tell.
 *
 * @return BINADE_OK
 * @return BINADE_E_BUSY         There is no room behind the block, which for one of
 *         a private arena is the arena's; or it is exported, or a capture has it,
 *         or its arena is paused; or the pool is checked, where no block changes
 *         its size. It is as it was: take another one instead.
 * @return BINADE_E_BUDGET       The block's tenant may not have more.
 * @return BINADE_E_INVALID      `address` or `size_bytes` is 0, `pool` is NULL or
 *         destroyed, or `address` is inside a block or free.
 * @return BINADE_E_FOREIGN      `address` is not the pool's.
 * @return BINADE_E_TOO_LARGE    More than the pool may ever reserve.
 * @return BINADE_E_UNSUPPORTED  The pool passes all through, and the size is
 *         another.
 * @return BINADE_E_CAPTURING    `stream` captures a graph. Noticed only while a
 *         capture guard is held.
 * @return BINADE_E_NO_HOST_MEMORY  for the thread's or the stream's first call
 * @return BINADE_E_DRIVER       for what the driver said about `stream`
 *
 * Ownership: the block stays the caller's, also after a failure.
 * Threads:   any, but not at the same time as another call with this block.
 *            Lock-free, but for the thread's first call with a stream and blocks
 *            of which uses, exports, a scope or an arena are noted; may wait while another
 *            thread searches memory for the last time (binade/oom.h).
 * Streams:   the added bytes are as from binade_alloc() on `stream`; those that
 *            are given back as after binade_free() on it, and behind all streams
 *            of binade_record_use(). Of a pool with BINADE_POOL_NOTE_STREAMS a
 *            block that grew is `stream`'s from then on.
 * Context:   any may be current; the pool's need not be.
 */
BINADE_API BINADE_MUST_USE binade_status binade_resize(binade_pool *pool,
                                                       binade_devptr address,
                                                       size_t size_bytes,
                                                       binade_stream stream);

/**
 * Frees every live block of a pool, each as by binade_free() on `stream`: at the
 * end of a request, a batch or an epoch of training. Blocks of tenants and
 * private arenas are among them; those that capture scopes keep, or that are
 * exported, are kept until their release. What is free in caches and maps stays
 * where it is.
 *
 * @param pool       The pool.
 * @param stream     Whose work used them last, or BINADE_STREAM_ANY.
 * @param out_freed  [out] NULL, or how many blocks were freed, after any failure
 *                   too.
 *
 * @return BINADE_OK         No block is live that was when the call began.
 * @return BINADE_E_INVALID  `pool` is NULL or destroyed.
 * @return BINADE_E_BUSY     Other threads' calls did not come to an end within a
 *         second: nothing was freed. Or `stream` captures a graph.
 * @return BINADE_E_NO_HOST_MEMORY  for the list of blocks: nothing was freed
 * @return as binade_free(), of the first block that was refused: it and those that
 *         were to follow stay
 *
 * Ownership: of all blocks, the pool's after BINADE_OK.
 * Threads:   any, but no other thread may free or resize a block of the pool
 *            meanwhile, nor use one afterwards; what is allocated meanwhile may be
 *            freed too. Stops the pool for a moment, as a heap snapshot
 *            (binade/heap.h), and costs a free for each block.
 * Streams, Context: as binade_free()
 */
BINADE_API BINADE_MUST_USE binade_status binade_free_all(binade_pool *pool,
                                                         binade_stream stream,
                                                         uint64_t *out_freed);

/* Callers compiled so mean their own default stream by a null stream. */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define binade_resize(pool, address, size, stream)                             \
    binade_resize(pool, address, size, binade_stream_of_caller(stream))
#define binade_free_all(pool, stream, out)                                     \
    binade_free_all(pool, binade_stream_of_caller(stream), out)
#endif

#ifdef __cplusplus
}
#endif

#endif
