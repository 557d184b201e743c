/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Findings of a checked pool: see MOIETY_MODE_CHECKED in moiety/pool.h, and
 * docs/debugging.md for what each check can find and what it cannot.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_CHECKED_H_
#define MOIETY_CHECKED_H_

#include <stdint.h>

#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Findings since the pool was made, and what is looked at. */
typedef struct moiety_checked_counts {
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
     *  moiety_pool_retire_stream(). */
    uint64_t dead_streams;
    /** Calls that named a stream of a context that the pool does not know. */
    uint64_t foreign_streams;
    /** Blocks that were written after they had been freed. */
    uint64_t writes_after_free;
    /** Blocks that were written before their beginning or past their end. */
    uint64_t writes_out_of_bounds;
    /** Frees with MOIETY_STREAM_DONE while the stream that the block was
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
} moiety_checked_counts;

/**
 * Looks at all freed blocks whose work is over, as the pool does by itself when
 * it holds back more than options.quarantine_bytes, and lets them go.
 *
 * @param pool  A pool in a checked mode.
 * @param out   [in,out] NULL, or what was found since the pool was made; its
 *              `struct_size` is set by the caller. Written only when MOIETY_OK
 *              is returned.
 *
 * @return MOIETY_OK           Whatever was found.
 * @return MOIETY_E_INVALID    `pool` is NULL, or `struct_size` is less than
 *         that of this version.
 * @return MOIETY_E_UNSUPPORTED  The pool is not checked.
 * @return MOIETY_E_NO_HOST_MEMORY, MOIETY_E_DRIVER
 *
 * Ownership: the caller's struct.
 * Threads:   any. Takes a lock for instants; copies blocks to the host and
 *            waits for that.
 * Streams:   those of the program are not waited for.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_check(moiety_pool *pool, moiety_checked_counts *out);

#ifdef __cplusplus
}
#endif

#endif
