/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What was done with a pool last, by whom and when. A pool that is made with
 * the option `history_entries` notes every operation; others note nothing, at
 * no cost. docs/debugging.md tells what it costs and how to use it.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_HISTORY_H_
#define MOIETY_HISTORY_H_

#include <stddef.h>
#include <stdint.h>

#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Most that moiety_pool_options.history_entries may be. */
#define MOIETY_HISTORY_ENTRIES_MAX (UINT64_C(1) << 20)

/** The kind of an entry: moiety_history_entry.kind. Later versions may have
 *  further kinds. */
typedef enum moiety_history_kind {
    /** moiety_alloc() and its like; each block of a batch for itself. */
    MOIETY_HISTORY_ALLOC = 1,
    /** moiety_free(); each block of a batch for itself. */
    MOIETY_HISTORY_FREE = 2,
    /** moiety_free_sized() */
    MOIETY_HISTORY_FREE_SIZED = 3,
    /** moiety_free_on_event() */
    MOIETY_HISTORY_FREE_AFTER = 4,
    /** moiety_record_use() */
    MOIETY_HISTORY_RECORD_USE = 5,
    /** moiety_pool_retire_stream() */
    MOIETY_HISTORY_RETIRE = 6,
    /** The source was asked for memory. */
    MOIETY_HISTORY_GROW = 7,
    /** Segments were given back to the source, or none that could be. */
    MOIETY_HISTORY_TRIM = 8,
    /** moiety_ipc_export() */
    MOIETY_HISTORY_EXPORT = 9,
    /** moiety_ipc_release_exports() */
    MOIETY_HISTORY_RELEASE = 10
} moiety_history_kind;

/** One operation. The struct does not change: entries lie in arrays. */
typedef struct moiety_history_entry {
    /** When: nanoseconds of CLOCK_MONOTONIC. Of an allocation the moment after
     *  it, of all that gives memory back the moment before. So an address is
     *  never seen allocated while it still is. */
    uint64_t time_ns;
    /** Of the block; 0 where there is none. */
    moiety_devptr address;
    /** ALLOC, FREE_SIZED: as asked for. FREE, FREE_AFTER, RECORD_USE: bytes of
     *  the block. GROW: what was added, or was needed if it failed. TRIM: what
     *  the source took back. Otherwise 0, and where the call failed before it
     *  was known. */
    uint64_t size_bytes;
    /** As the caller named it; 0 where there is none. */
    moiety_stream stream;
    /** The entry's number among those of its thread's ring, from 0 on. */
    uint64_t sequence;
    /** The kernel's number of the thread, as gettid() tells it. */
    uint32_t thread_id;
    /** A moiety_history_kind. */
    uint32_t kind;
    /** The moiety_status that the operation returned. */
    uint32_t status;
    /** 0. */
    uint32_t reserved[3];
} moiety_history_entry;

/** The sums of a reading of the history. */
typedef struct moiety_history_summary {
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
} moiety_history_summary;

/**
 * Reads the newest entries of all threads, in the order of their times.
 *
 * @param pool        The pool.
 * @param out_entries [out] Room for `capacity` entries; the newest that there
 *                    are, oldest first. May be NULL if `capacity` is 0.
 * @param capacity    Entries.
 * @param out         [in,out] `struct_size` says how much the caller has room
 *                    for. Both are written only when MOIETY_OK is returned.
 *
 * @return MOIETY_E_INVALID      `pool` or `out` is NULL, `out_entries` is NULL
 *         without a capacity of 0, or `struct_size` is less than that of version
 *         0.1.0.
 * @return MOIETY_E_UNSUPPORTED  The pool keeps no history.
 * @return MOIETY_E_NO_HOST_MEMORY  for the calling thread's own records
 *
 * Ownership: the caller's array.
 * Threads:   any, while others go on: what they note during the call is left
 *            out, what they overwrite is counted as lost, and no entry is ever
 *            half of one operation and half of another. Readers wait for each
 *            other; nobody waits for readers.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_history_read(moiety_pool *pool, moiety_history_entry *out_entries,
                    size_t capacity, moiety_history_summary *out);

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
 * Context:   none; the driver is not called.
 */
MOIETY_API const char *moiety_history_kind_name(uint32_t kind);

#ifdef __cplusplus
}
#endif

#endif
