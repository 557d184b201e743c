/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a pool has done and holds, in numbers. Those that mean the same as in
 * PyTorch's torch.cuda.memory_stats() bear its keys; moiety_pool_stats_entry() lists
 * them all by key.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_STATS_H_
#define MOIETY_STATS_H_

#include <stdint.h>

#include "moiety/oom.h"
#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A snapshot. Read while other threads work it is a sum of numbers from
 * slightly different moments; at rest it is exact. At any time frees are at most
 * allocations, what is in use is their difference, requested bytes are at most
 * those of blocks, and a peak is at least the current value. The key in
 * PyTorch's manner stands behind each field. Bytes of blocks are those that the
 * blocks hold, not those that were requested; in a pool that is checked or passes
 * all through they are those that were requested.
 */
typedef struct moiety_pool_stats {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** Segments held.               "segment.all.current" */
    uint32_t segment_current;
    /** Blocks in use.               "allocation.all.current" */
    uint64_t allocation_current;
    /** Blocks ever given out.       "allocation.all.allocated" */
    uint64_t allocation_allocated;
    /** Blocks ever freed.           "allocation.all.freed" */
    uint64_t allocation_freed;
    /** Bytes in use.                "allocated_bytes.all.current" */
    uint64_t allocated_bytes_current;
    /** Bytes ever given out.        "allocated_bytes.all.allocated" */
    uint64_t allocated_bytes_allocated;
    /** Bytes ever freed.            "allocated_bytes.all.freed" */
    uint64_t allocated_bytes_freed;
    /** Bytes ever asked for; what allocated_bytes_allocated is more than that
     *  is internal waste.           "requested_bytes.all.allocated" */
    uint64_t requested_bytes_allocated;
    /** Bytes from the source.       "reserved_bytes.all.current" */
    uint64_t reserved_bytes_current;
    /** Most at any time.            "reserved_bytes.all.peak" */
    uint64_t reserved_bytes_peak;
    /** Segments ever reserved.      "segment.all.allocated" */
    uint64_t segment_allocated;
    /** Segments ever released.      "segment.all.freed" */
    uint64_t segment_freed;
    /** Allocations that had to climb beyond growing.  "num_alloc_retries" */
    uint64_t alloc_retries;
    /** Allocations that failed for want of memory.    "num_ooms" */
    uint64_t ooms;

    /** Free, in caches of threads.                    "cached_bytes" */
    uint64_t cached_bytes;
    /** Freed, but an event is still to come.          "retiring_bytes" */
    uint64_t retiring_bytes;
    /** Free, and done.                                "free_bytes" */
    uint64_t free_bytes;
    /** Longest free run of 2 MiB units.               "longest_run_bytes" */
    uint64_t longest_run_bytes;
    /** The pool's limit.                              "limit_bytes" */
    uint64_t limit_bytes;
    /** Segments' bytes that the source refused to take back, of
     *  reserved_bytes_current.                        "unreleased_bytes" */
    uint64_t unreleased_bytes;

    /** Allocations that the thread's cache served.    "cache_hits" */
    uint64_t cache_hits;
    /** Allocations that it did not.                   "cache_misses" */
    uint64_t cache_misses;
    /** Ages that were closed: what streams had freed until then waits for one event.
     *                                                 "ages_closed" */
    uint64_t ages_closed;
    /** Events recorded on streams.                    "events_recorded" */
    uint64_t events_recorded;
    /** Events recorded in contexts.                   "context_events_recorded"
     */
    uint64_t context_events_recorded;
    /** Times that a stream was made to wait.          "stream_waits" */
    uint64_t stream_waits;
    /** Ages that were not closed, because a capture guard was held.
     *                                                 "ages_guarded" */
    uint64_t ages_guarded;
    /** Times that the driver said that a context event met a capture: a guard
     *  was missing.                                   "captures_disturbed" */
    uint64_t captures_disturbed;
    /** How often allocations that missed took each step, by MOIETY_OOM_ step.
     *  "oom.done", "oom.grow", "oom.own_cache", "oom.orphans",
     *  "oom.idle_threads", "oom.trim", "oom.hand_over", "oom.callbacks",
     *  "oom.wait", "oom.last_look" */
    uint64_t oom_steps[MOIETY_OOM_STEPS];
    /** Threads that have caches in the pool.          "threads" */
    uint64_t threads;
    /** Streams that the pool keeps apart.             "streams" */
    uint64_t streams;
    /** Blocks that were found to be free already when they left a cache: freed
     *  twice, and perhaps handed out twice.           "double_frees_found" */
    uint64_t double_frees_found;
    /** What all threads' caches together may hold now: less than the option says
     *  while the pool is short of memory.             "cache_bound_bytes" */
    uint64_t cache_bound_bytes;
    /** Times that this and each thread's bound were halved for want of memory.
     *                                                 "cache_bound_halvings" */
    uint64_t cache_bound_halvings;
    /** Of memory that is mapped (MOIETY_MEMORY_MAPPED): pieces that moved to
     *  another address, their bytes, and addresses that they left which wait for
     *  the device's work and cannot be used yet.
     *  "mapped.moves", "mapped.moved_bytes", "mapped.left_bytes" */
    uint64_t mapped_moves;
    uint64_t mapped_moved_bytes;
    uint64_t mapped_left_bytes;
    /** Addresses of private arenas that are paused, which have no memory.
     *                                                 "mapped.paused_bytes" */
    uint64_t mapped_paused_bytes;
    /** Pools of the same device that help each other (docs/out-of-memory.md): how
     *  many this one asked when the driver refused it memory, what they gave back
     *  to the driver, and what this one gave back for others.
     *  "others.asked", "others.got_bytes", "others.given_bytes" */
    uint64_t others_asked;
    uint64_t others_got_bytes;
    uint64_t others_given_bytes;
    /** Most bytes in use at any time, or since moiety_pool_reset_peaks().
     *                                          "allocated_bytes.all.peak"
     *  Hits tell nobody of it, so it may be above or below the truth: by what the
     *  magazines of caches can hold, at most `cache_bound_bytes` as it was then,
     *  and for each thread that used the pool by 256 KiB, or a 1024th of what is
     *  reserved if that is more. Never below allocated_bytes_current. Exact in a
     *  pool that is checked or passes all through. */
    uint64_t allocated_bytes_peak;
} moiety_pool_stats;

/**
 * Takes a snapshot.
 *
 * @param pool  The pool.
 * @param out   [in,out] `struct_size` says how much the caller has room for and
 *              gets the bytes filled in. Written only when MOIETY_OK is
 *              returned, and nothing past `struct_size`.
 *
 * @return MOIETY_E_INVALID  `pool` or `out` is NULL, or `struct_size` is less
 *         than that of version 0.1.0.
 *
 * Ownership: the caller's struct.
 * Threads:   any. Takes locks that growing and first calls take.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_get_stats(moiety_pool *pool, moiety_pool_stats *out);

/**
 * Lists a snapshot by key.
 *
 * @param stats      As moiety_pool_get_stats() filled it in.
 * @param index      From 0 on.
 * @param out_value  [out] The value; written only when a key is returned.
 *
 * @return The key, or NULL past the last one, or when an argument is NULL.
 *
 * Ownership: the library's; valid as long as it is loaded.
 * Threads:   any. Wait-free.
 * Context:   none; the driver is not called.
 */
MOIETY_API const char *moiety_pool_stats_entry(const moiety_pool_stats *stats,
                                               uint32_t index,
                                               uint64_t *out_value);

/**
 * Lets the peaks of moiety_pool_get_stats() begin anew at the current values.
 *
 * @return MOIETY_E_INVALID  `pool` is NULL.
 *
 * Threads:   any. Waits for a thread that grows the pool.
 * Context:   none; the driver is not called.
 */
MOIETY_API moiety_status moiety_pool_reset_peaks(moiety_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
