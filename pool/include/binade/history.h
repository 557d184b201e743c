/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What was done with a pool last, by whom and when. A pool that is made with
 * the option `history_entries` notes every operation; others note nothing, at
 * no cost. docs/history.md tells what it costs and how to use it.
 */
#ifndef BINADE_HISTORY_H_
#define BINADE_HISTORY_H_

#include <stddef.h>
#include <stdint.h>

#include "binade/status.h"
#include "binade/stream.h"
#include "binade/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Most that binade_pool_options.history_entries may be. */
#define BINADE_HISTORY_ENTRIES_MAX (UINT64_C(1) << 20)

/** What an entry is about: binade_history_entry.kind. Later versions may have
 *  further kinds. */
typedef enum binade_history_kind {
    /** binade_alloc() and its like; each block of a batch for itself. */
    BINADE_HISTORY_ALLOC = 1,
    /** binade_free(); each block of a batch for itself. */
    BINADE_HISTORY_FREE = 2,
    /** binade_free_sized() */
    BINADE_HISTORY_FREE_SIZED = 3,
    /** binade_free_after() */
    BINADE_HISTORY_FREE_AFTER = 4,
    /** binade_record_use() */
    BINADE_HISTORY_RECORD_USE = 5,
    /** binade_stream_retire() */
    BINADE_HISTORY_RETIRE = 6,
    /** The source was asked for memory. */
    BINADE_HISTORY_GROW = 7,
    /** Segments were given back to the source, or none that could be. */
    BINADE_HISTORY_TRIM = 8,
    /** binade_ipc_export() */
    BINADE_HISTORY_EXPORT = 9,
    /** binade_ipc_release_exports() */
    BINADE_HISTORY_RELEASE = 10
} binade_history_kind;

/** One operation. The struct does not change: entries lie in arrays. */
typedef struct binade_history_entry {
    /** When: nanoseconds of CLOCK_MONOTONIC. Of an allocation the moment after
     *  it, of all that gives memory back the moment before. So an address is
     *  never seen allocated while it still is. */
    uint64_t time_ns;
    /** Of the block; 0 where there is none. */
    binade_devptr address;
    /** ALLOC, FREE_SIZED: as asked for. FREE, FREE_AFTER, RECORD_USE: bytes of
     *  the block. GROW: what was added, or was needed if it failed. TRIM: what
     *  the source took back. Otherwise 0, and where the call failed before it
     *  was known. */
    uint64_t size_bytes;
    /** As the caller named it; 0 where there is none. */
    binade_stream stream;
    /** The entry's number among those of its thread's ring, from 0 on. */
    uint64_t sequence;
    /** The kernel's number of the thread, as gettid() tells it. */
    uint32_t thread_id;
    /** A binade_history_kind. */
    uint32_t kind;
    /** The binade_status that the operation returned. */
    uint32_t status;
    /** 0. */
    uint32_t reserved[3];
} binade_history_entry;

/** What a reading of the history comes to. */
typedef struct binade_history_summary {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** Rings: of threads that use the pool, and of some that have ended. */
    uint32_t ring_count;
    /** Entries that were written to the caller's array. */
    uint64_t count;
    /** Operations that were noted since the pool was made. */
    uint64_t noted_count;
    /** Of these: overwritten before they could be read. */
    uint64_t lost_count;
} binade_history_summary;

/**
 * Reads the newest entries of all threads, in the order of their times.
 *
 * @param pool        The pool.
 * @param out_entries [out] Room for `capacity` entries; the newest that there
 *                    are, oldest first. May be NULL if `capacity` is 0.
 * @param capacity    Entries.
 * @param out         [in,out] `struct_size` says how much the caller has room
 *                    for. Both are written only when BINADE_OK is returned.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID      `pool` or `out` is NULL, `out_entries` is NULL
 *         without a capacity of 0, the pool is destroyed, or `struct_size` is
 *         less than that of version 0.1.0.
 * @return BINADE_E_UNSUPPORTED  The pool keeps no history.
 * @return BINADE_E_NO_HOST_MEMORY  for the calling thread's own records
 * @return BINADE_E_FORKED
 *
 * Ownership: the caller's array.
 * Threads:   any, while others go on: what they note during the call is left
 *            out, what they overwrite is counted as lost, and no entry is ever
 *            half of one operation and half of another. Readers wait for each
 *            other; nobody waits for readers.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_history_read(binade_pool *pool, binade_history_entry *out_entries,
                    size_t capacity, binade_history_summary *out);

/**
 * Names a kind: "alloc", "free", "free_sized", "free_after", "record_use",
 * "retire", "grow", "trim", "export", "release".
 *
 * @param kind  As an entry has it.
 *
 * @return The name; "unknown" for a number that is no kind.
 *
 * Ownership: the library's; valid as long as it is loaded.
 * Threads:   any. Wait-free.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
BINADE_API const char *binade_history_kind_name(uint32_t kind);

#ifdef __cplusplus
}
#endif

#endif
