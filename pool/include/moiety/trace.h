/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Records all that is done with a pool to a file, as a trace that can be looked
 * at and replayed on other allocators: docs/dev/trace-format.md.
 * MOIETY_CONF=trace:FILE does it without a change to the program.
 * (moiety_record_use() is of streams: moiety/stream.h.)
 *
 * What it costs: nothing while nothing is recorded, beside what the history
 * costs that it needs (docs/debugging.md: about 25 ns an operation). Recording
 * takes 80 ns more of an operation with one thread, 110 with 8 and 150 with 16.
 * It is done when a ring is full, for all rings, by the thread that finds it: so
 * once in `history_entries` operations of a thread a call takes milliseconds,
 * and a program that does nothing but allocate goes at that pace. The file grows
 * by 14 to 20 bytes for each operation. (Processor time of a virtual machine
 * with two cores, pairs of 64 KiB: 18 ns without, 80 with a history, 240 to 380
 * recorded.)
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_TRACE_H_
#define MOIETY_TRACE_H_

#include <stdint.h>

#include "moiety/status.h"
#include "moiety/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What was recorded so far. */
typedef struct moiety_trace_summary {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** The moiety_status of what failed first. From then on nothing is written,
     *  the file stays one that was cut off, and the program goes on. */
    uint32_t status;
    /** The errno of that, if the system refused to write; 0 otherwise. */
    int32_t system_error;
    uint32_t reserved;
    /** Operations that were written. */
    uint64_t operation_count;
    /** Bytes that were given to the file system. */
    uint64_t byte_count;
    /** Operations that were lost. There are none: a thread waits rather than
     *  overwrite what was not recorded. Only where there is no host memory to
     *  put them in order; `status` tells of it. */
    uint64_t lost_count;
} moiety_trace_summary;

/**
 * Begins to record a pool that was made with `history_entries`. Blocks that are
 * live already are not in the trace; their frees are dropped and counted there.
 *
 * @param pool  The pool.
 * @param path  The file: made, or emptied. A regular file, or a character
 *              device; it must not be one that is recorded to already.
 *
 * @return MOIETY_E_INVALID      `pool` or `path` is NULL or empty, or the file
 *         cannot be opened or written: the message says why.
 * @return MOIETY_E_IN_USE       The pool is recorded already, or another one, of
 *         any process, to this file.
 * @return MOIETY_E_UNSUPPORTED  The pool keeps no history.
 * @return MOIETY_E_NO_HOST_MEMORY
 *
 * Ownership: `path` is copied. The file is the pool's until the recording is
 *            stopped, the pool is destroyed, or the process exits: each writes
 *            the end. A child of a fork writes nothing.
 * Threads:   any, while others go on. May block, on the file and on others who
 *            start, stop or write.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_trace_start(moiety_pool *pool,
                                                            const char *path);

/**
 * Writes what was done until now, and the file's end.
 *
 * @param pool  The pool.
 * @param out   [in,out] NULL, or where `struct_size` says how much the caller
 *              has room for; written whenever there was a recording to stop.
 *
 * @return MOIETY_OK         All that was done since the start is in the file,
 *         but for calls of other threads that are still under way.
 * @return MOIETY_E_INVALID  `pool` is NULL, `struct_size` is less than that of
 *         version 0.1.0, the pool is not recorded, or the system refused to
 *         write: then `out` has its errno.
 * @return MOIETY_E_TOO_LARGE       There were more threads, streams or live
 *         blocks than a trace may have.
 * @return MOIETY_E_NO_HOST_MEMORY  Some of it is missing for want of memory.
 *
 * Ownership: the file is the caller's again.
 * Threads:   any, while others go on. May block, as the start.
 * Context:   none; the driver is not called.
 */
MOIETY_API moiety_status moiety_trace_stop(moiety_pool *pool,
                                           moiety_trace_summary *out);

/**
 * Writes what was done until now, as far as its order is known, and tells how
 * the recording stands. What failed is in `out`, not in the status.
 *
 * @param pool  The pool.
 * @param out   [in,out] As for moiety_trace_stop().
 *
 * @return MOIETY_E_INVALID  `pool` is NULL, `struct_size` is less than that of
 *         version 0.1.0, or the pool is not recorded.
 * @return MOIETY_E_NO_HOST_MEMORY  for the calling thread's own records
 *
 * Ownership: the file stays the pool's.
 * Threads:   any, while others go on. May block, as the start.
 * Context:   none; the driver is not called.
 */
MOIETY_API moiety_status moiety_trace_flush(moiety_pool *pool,
                                            moiety_trace_summary *out);

#ifdef __cplusplus
}
#endif

#endif
