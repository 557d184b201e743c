/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a checked pool has found: see BINADE_POOL_CHECKED in binade/pool.h, and
 * docs/checked-mode.md for what each check can find and what it cannot.
 */
#ifndef BINADE_CHECKED_H_
#define BINADE_CHECKED_H_

#include <stdint.h>

#include "binade/status.h"
#include "binade/stream.h"
#include "binade/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Findings since the pool was made, and what is looked at. */
typedef struct binade_checked_counts {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** 0. */
    uint32_t reserved;
    /** Blocks that were freed again. */
    uint64_t double_frees;
    /** Frees of an address inside a block, or in front of it. */
    uint64_t interior_frees;
    /** Frees of an address that is not the pool's, or was never given out. */
    uint64_t foreign_frees;
    /** Frees with another size than was asked for. */
    uint64_t wrong_sizes;
    /** Calls that named a stream which had been destroyed without
     *  binade_stream_retire(). */
    uint64_t dead_streams;
    /** Calls that named a stream of a context that the pool does not know. */
    uint64_t foreign_streams;
    /** Blocks that were written after they had been freed. */
    uint64_t writes_after_free;
    /** Blocks that were written before their beginning or past their end. */
    uint64_t writes_out_of_bounds;
    /** Frees with BINADE_STREAM_DONE while the stream that the block was
     *  allocated for had work. That is no mistake if the work is not the
     *  block's, so it is not a finding. */
    uint64_t busy_when_done;
    /** Blocks in use, and the bytes that were asked for. */
    uint64_t live_blocks;
    uint64_t live_bytes;
    /** Freed blocks that are held back, or that capture scopes keep, and the
     *  bytes that were asked for. */
    uint64_t held_blocks;
    uint64_t held_bytes;
    /** Freed blocks that were looked at whole, and those that could be looked
     *  at in part or not at all, since the driver refused. */
    uint64_t verified_blocks;
    uint64_t unverified_blocks;
} binade_checked_counts;

/**
 * Looks at all freed blocks whose work is over, as the pool does by itself when
 * it holds back more than options.quarantine_bytes, and lets them go.
 *
 * @param pool  A pool with BINADE_POOL_CHECKED.
 * @param out   [in,out] NULL, or what was found since the pool was made; its
 *              `struct_size` is set by the caller. Written only when BINADE_OK
 *              is returned.
 *
 * @return BINADE_OK           Whatever was found.
 * @return BINADE_E_INVALID    `pool` is NULL or destroyed, or `struct_size` is
 *         less than that of this version.
 * @return BINADE_E_UNSUPPORTED  The pool is not checked.
 * @return BINADE_E_NO_HOST_MEMORY, BINADE_E_DRIVER
 *
 * Ownership: the caller's struct.
 * Threads:   any. Takes a lock for instants; copies blocks to the host and
 *            waits for that.
 * Streams:   those of the program are not waited for.
 * Context:   any may be current.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_pool_check(binade_pool *pool, binade_checked_counts *out);

#ifdef __cplusplus
}
#endif

#endif
