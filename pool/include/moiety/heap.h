/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A map of a pool's memory: every byte of every segment, at one moment.
 * docs/debugging.md tells how the moment is made and what it costs.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_HEAP_H_
#define MOIETY_HEAP_H_

#include <stddef.h>
#include <stdint.h>

#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The kind of an interval of a segment: moiety_heap_interval.kind. Later versions
 *  may have further kinds. */
typedef enum moiety_heap_kind {
    /** Free, in one piece with free neighbours. */
    MOIETY_HEAP_FREE = 0,
    /** A block that was allocated and not freed. */
    MOIETY_HEAP_USED = 1,
    /** A freed block in the cache of a thread; thread 0: of one that ended. */
    MOIETY_HEAP_CACHED = 2,
    /** A freed block that waits until work is over. */
    MOIETY_HEAP_RETIRING = 3,
    /** A freed block that is kept: exported, for other processes, or a capture
     *  scope's, for its graph. Or what is free in a private arena. */
    MOIETY_HEAP_KEPT = 4,
    /** Neither free nor in any block: a mistake of the program has lost it, such
     *  as a second free of a block. */
    MOIETY_HEAP_LOST = 5
} moiety_heap_kind;

/** Kinds that there are, numbered from 0. */
#define MOIETY_HEAP_KINDS 6U

/* Bits of moiety_heap_interval.flags. */

/** A block that handles were made of for other processes. */
#define MOIETY_HEAP_EXPORTED (UINT32_C(1) << 0)
/** A block that more is noted of: recorded uses, or exports. */
#define MOIETY_HEAP_SPECIAL (UINT32_C(1) << 1)

/** A piece of memory that the source gave. The struct does not change: they lie
 *  in arrays. */
typedef struct moiety_heap_segment {
    /** Never used again in this pool. */
    uint64_t id;
    /** Bytes in which blocks can lie; multiples of 2 MiB. */
    moiety_devptr address;
    uint64_t size_bytes;
    /** As the source gave it. */
    moiety_devptr memory;
    uint64_t memory_bytes;
    /** Its intervals, in the array of all. */
    uint64_t first_interval;
    uint64_t interval_count;
    /** 0. */
    uint64_t reserved;
} moiety_heap_segment;

/** A free interval or a block. The struct does not change. */
typedef struct moiety_heap_interval {
    /** The address of its first byte. */
    moiety_devptr address;
    /** Bytes that a block holds, perhaps more than were requested. */
    uint64_t size_bytes;
    /** CACHED, RETIRING: the stream that it was freed on, MOIETY_STREAM_ANY or
     *  MOIETY_STREAM_DONE. Otherwise 0. */
    moiety_stream stream;
    /** RETIRING: nanoseconds since its event was asked for; 0: not yet.
     *  Otherwise 0. */
    uint64_t age_ns;
    /** CACHED: whose cache, as gettid() tells it. Otherwise 0. */
    uint32_t thread_id;
    /** A moiety_heap_kind. */
    uint32_t kind;
    /** Index of the segment. */
    uint32_t segment;
    /** MOIETY_HEAP_ bits. */
    uint32_t flags;
    /** 0. */
    uint64_t reserved[2];
} moiety_heap_interval;

/** The sums of a snapshot. */
typedef struct moiety_heap_summary {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** Entries of the two arrays. */
    uint32_t segment_count;
    uint64_t interval_count;
    /** When: nanoseconds of CLOCK_MONOTONIC, and for how long other threads'
     *  calls were held up. */
    uint64_t time_ns;
    uint64_t stopped_ns;
    /** Of all segments, by moiety_heap_kind. */
    uint64_t bytes[MOIETY_HEAP_KINDS];
    uint64_t counts[MOIETY_HEAP_KINDS];
    /** The source's name; the snapshot's. */
    const char *source_name;
} moiety_heap_summary;

/** A snapshot. */
typedef struct moiety_heap_snapshot moiety_heap_snapshot;

/**
 * Takes a snapshot of a pool. The pool stops for the moment of the copying, in
 * which no other thread gets or gives back memory; no cache is emptied.
 *
 * The intervals of a segment tile it: they are in order, each begins where the
 * one before ends, and the last ends with the segment. At rest they add up to
 * what moiety_pool_get_stats() says: USED and KEPT to what is in use, CACHED to what is
 * cached, RETIRING to what is retiring. Not so in a
 * checked pool: there USED has blocks with their bounds, rounded up, and those
 * that are held back, while the statistics count the bytes that were requested.
 * A pool that passes all through has no segments.
 *
 * @param pool  The pool.
 * @param out   [out] The snapshot. Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_E_INVALID  `pool` or `out` is NULL.
 * @return MOIETY_E_TIMEOUT  Other threads' calls did not come to an end within
 *         a second: nothing is known.
 * @return MOIETY_E_NO_HOST_MEMORY
 *
 * Ownership: the caller's, to be destroyed by moiety_heap_snapshot_destroy();
 *            it may outlive the pool.
 * Threads:   any; one at a time takes a snapshot, others wait for it. All other
 *            calls on the pool wait while it is stopped, with
 *            MOIETY_ALLOC_NO_WAIT too: up to 50 ms for calls that were under way, and then for
 *            copying some 64 bytes for each interval. They wait for the thread
 *            that copies even where it does not run.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_heap_snapshot_create(moiety_pool *pool, moiety_heap_snapshot **out);

/**
 * Ends a snapshot.
 *
 * @param snapshot  NULL does nothing.
 *
 * Ownership: ends, and what its arrays have with it.
 * Threads:   one.
 * Context:   none; the driver is not called.
 */
MOIETY_API void moiety_heap_snapshot_destroy(moiety_heap_snapshot *snapshot);

/**
 * Tells what a snapshot comes to.
 *
 * @param snapshot  The snapshot.
 * @param out       [in,out] `struct_size` says how much the caller has room
 *                  for. Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_E_INVALID  `snapshot` or `out` is NULL, or `struct_size` is
 *         less than that of version 0.1.0.
 *
 * Ownership: the name is the snapshot's.
 * Threads:   any. Wait-free.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_heap_snapshot_summary(
    const moiety_heap_snapshot *snapshot, moiety_heap_summary *out);

/**
 * The segments, by their places in the pool.
 *
 * @param snapshot   The snapshot.
 * @param out_count  [out] NULL, or how many there are.
 *
 * @return The first, or NULL where there is none or `snapshot` is NULL.
 *
 * Ownership: the snapshot's.
 * Threads:   any. Wait-free.
 * Context:   none; the driver is not called.
 */
MOIETY_API const moiety_heap_segment *
moiety_heap_snapshot_segments(const moiety_heap_snapshot *snapshot,
                              size_t *out_count);

/**
 * The intervals of all segments, segment by segment, by address.
 *
 * As moiety_heap_snapshot_segments().
 */
MOIETY_API const moiety_heap_interval *
moiety_heap_snapshot_intervals(const moiety_heap_snapshot *snapshot,
                               size_t *out_count);

/**
 * Names a kind: "free", "used", "cached", "retiring",
 * "kept", "lost".
 *
 * @param kind  As an interval has it.
 *
 * @return The name; "unknown" for a number that is no kind.
 *
 * Ownership: the library's; valid as long as it is loaded.
 * Threads:   any. Wait-free.
 * Context:   none; the driver is not called.
 */
MOIETY_API const char *moiety_heap_kind_name(uint32_t kind);

#ifdef __cplusplus
}
#endif

#endif
