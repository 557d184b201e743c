/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Out of memory: what a pool tried before an allocation failed, why nothing of
 * it helped, and functions of the program's that may free something first.
 * docs/out-of-memory.md explains the steps and how to read a report.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_OOM_H_
#define MOIETY_OOM_H_

#include <stddef.h>
#include <stdint.h>

#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The steps, as indices into moiety_oom_report.steps, about in the order in which
 * they are taken. An allocation may empty its own caches before it grows, and waits,
 * trims and grows in turns (docs/dev/maintainers.md). */

/** Takes back what was freed and whose events are over. */
#define MOIETY_OOM_DONE 0
/** Asks the source for a segment. */
#define MOIETY_OOM_GROW 1
/** Empties the calling thread's caches. */
#define MOIETY_OOM_OWN_CACHE 2
/** Empties the caches of threads that have ended. */
#define MOIETY_OOM_ORPHANS 3
/** Takes the caches of threads that are in no call. */
#define MOIETY_OOM_IDLE_THREADS 4
/** Releases segments that are wholly free, and grows again. */
#define MOIETY_OOM_TRIM 5
/** Takes what another stream freed and lets the caller's wait for it. */
#define MOIETY_OOM_HAND_OVER 6
/** Calls the functions of moiety_pool_add_oom_callback(). */
#define MOIETY_OOM_CALLBACKS 7
/** Waits for outstanding events. */
#define MOIETY_OOM_WAIT 8
/** Looks once more, with all other allocations held back. */
#define MOIETY_OOM_LAST_LOOK 9
#define MOIETY_OOM_STEPS 10

/** The result of a step. */
typedef struct moiety_oom_step {
    /** Times that it was taken in this allocation. */
    uint64_t tries;
    /** Bytes that became free by it, or were added to the pool; others may have
     *  taken them. */
    uint64_t gave_bytes;
} moiety_oom_step;

/* Kinds of moiety_oom_stream. */

/** One stream: created, or the legacy default stream. */
#define MOIETY_OOM_KIND_STREAM 0
/** The default stream of one thread. */
#define MOIETY_OOM_KIND_PER_THREAD 1
/** All work of the pool's contexts: freed with MOIETY_STREAM_ANY, or with a
 *  recorded use, after an event, or on a stream that was retired. */
#define MOIETY_OOM_KIND_CONTEXT 2

/** A stream, or all work of a context, whose events are not over yet. */
typedef struct moiety_oom_stream {
    /** The handle; MOIETY_STREAM_ANY for _KIND_CONTEXT. */
    moiety_stream stream;
    /** The stream's context; the pool's own for _KIND_CONTEXT. */
    moiety_context context;
    /** MOIETY_OOM_KIND_ */
    uint32_t kind;
    /** 0. */
    uint32_t reserved;
    /** Bytes that wait for it. */
    uint64_t retiring_bytes;
    /** Since its event was asked for, in nanoseconds; 0: it was not yet. */
    uint64_t oldest_ns;
} moiety_oom_stream;

/** A capture guard or a scope is held. */
#define MOIETY_OOM_UNRECORDED_GUARD 1
/** A blocking stream captures a graph, without a guard. */
#define MOIETY_OOM_UNRECORDED_CAPTURE 2

/** Room for moiety_oom_report.grow_reason. */
#define MOIETY_OOM_GROW_REASON_BYTES 128

/** Streams that a report has room for. */
#define MOIETY_OOM_STREAMS 8

/**
 * Why an allocation failed. Bytes of blocks are what the blocks hold, not what
 * was asked for.
 */
typedef struct moiety_oom_report {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** The moiety_status that the allocation returned; MOIETY_OK: none of this
     *  thread has failed yet, and all other fields are 0. */
    uint32_t status;
    /** The pool, and the stream as the caller named it. */
    moiety_pool *pool;
    moiety_stream stream;
    /** Bytes that were asked for; what a block of that size holds; and its
     *  alignment. */
    uint64_t requested_bytes;
    uint64_t needed_bytes;
    uint64_t alignment_bytes;

    /** The pool's limit, and what is reserved of it. */
    uint64_t limit_bytes;
    uint64_t reserved_bytes;
    /** Of these: segments that the source refused to take back. */
    uint64_t unreleased_bytes;
    /** Segments that the pool has. */
    uint64_t segment_count;
    /** Blocks in use. */
    uint64_t live_bytes;
    uint64_t live_count;
    /** Freed, but an event is still to come. */
    uint64_t retiring_bytes;
    /** Free, in caches: of the calling thread, of other threads, and of threads
     *  that ended. */
    uint64_t cached_own_bytes;
    uint64_t cached_others_bytes;
    uint64_t cached_ended_bytes;
    /** Free, and in nobody's hands. */
    uint64_t free_bytes;
    /** The longest run of it in one piece, down to 512 bytes. */
    uint64_t largest_free_bytes;

    /** The device's memory as the driver tells it; both 0 if it does not. */
    uint64_t device_free_bytes;
    uint64_t device_total_bytes;
    /** The status that growing ended with, a moiety_status; MOIETY_OK: it grew, but other
     *  threads took the memory first. */
    uint32_t grow_status;
    /** The CUresult of this thread's last driver error, or 0. */
    int32_t driver_code;

    /** By MOIETY_OOM_ step. */
    moiety_oom_step steps[MOIETY_OOM_STEPS];
    /** Callbacks that were called, and those that said that they freed. */
    uint64_t callback_calls;
    uint64_t callback_successes;
    /** How long the allocation took, in nanoseconds. */
    uint64_t duration_ns;
    /** 1: while the pool looked for the last time nothing in it moved, so the
     *  bytes above are exact and nothing was free that would have done. 0:
     *  other threads did not come to rest in time, so that they are sums of
     *  slightly different moments. */
    uint32_t is_exact;

    /** Entries that follow, and how many there would be with room for all. The
     *  one that waits longest comes first. */
    uint32_t stream_count;
    uint64_t waiting_stream_count;
    moiety_oom_stream streams[MOIETY_OOM_STREAMS];
    /** The kind of the pool's memory: moiety_source.name, "cuMemAlloc", or "cuMemMap"
     *  for mapped memory; its first 31 bytes at most, and a 0. */
    char source_name[32];
    /** Other pools of the process on this device that were asked because the driver
     *  had too little, and what they gave back to it. */
    uint64_t other_pool_count;
    uint64_t other_pool_bytes;
    /** The error of growing, in words; its first 127 bytes at most, and a 0. */
    char grow_reason[MOIETY_OOM_GROW_REASON_BYTES];
    /** Of `retiring_bytes`: what no event stands for, because of
     *  `unrecorded_cause`. */
    uint64_t unrecorded_bytes;
    /** Of `free_bytes`: segments that would go back to the source if the device had
     *  no work. */
    uint64_t held_up_bytes;
    /** MOIETY_OOM_UNRECORDED_; 0: events are recorded. */
    uint32_t unrecorded_cause;
    /** 0. */
    uint32_t reserved;
} moiety_oom_report;

/**
 * Tells why the calling thread's last failed allocation from a pool failed for
 * want of memory. An allocation that succeeds leaves the report of an earlier
 * failure in place; one with MOIETY_ALLOC_NO_WAIT that returns MOIETY_E_WOULD_BLOCK
 * makes none.
 *
 * @param pool  The pool.
 * @param out   [in,out] `struct_size` says how much the caller has room for and
 *              gets the bytes filled in. Written only when MOIETY_OK is
 *              returned, and nothing past `struct_size`.
 *
 * @return MOIETY_E_INVALID  `pool` or `out` is NULL, or `struct_size` is less
 *         than that of version 0.1.0.
 * @return MOIETY_E_NO_HOST_MEMORY  in a thread's first call
 *
 * Ownership: the caller's struct.
 * Threads:   any; each has reports of its own. Wait-free but for the first call
 *            of a thread.
 * Streams:   none. Those in the report may have been destroyed since.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_last_oom(moiety_pool *pool, moiety_oom_report *out);

/**
 * Writes a report as text of several lines, each with its final newline.
 *
 * @param report      As moiety_pool_last_oom() filled it in.
 * @param buffer      [out] The text, cut to `size_bytes` with its final 0. May
 *                    be NULL where `size_bytes` is 0.
 * @param size_bytes  Room in `buffer`; 4096 are enough.
 *
 * @return Bytes of the whole text without its final 0, as snprintf(); 0 if
 *         `report` is NULL or shorter than that of version 0.1.0, or `buffer`
 *         is NULL although `size_bytes` is not 0: then nothing is written.
 *
 * Ownership: the caller's buffer.
 * Threads:   any. Wait-free.
 * Context:   none; the driver is not called.
 */
MOIETY_API size_t moiety_oom_text(const moiety_oom_report *report, char *buffer,
                                  size_t size_bytes);

/**
 * Called by a pool when an allocation would fail, so that the program can give
 * something up: free blocks, drop a cache of its own, let a stream go on.
 *
 * It may allocate from this pool, free into it, and add callbacks; if an
 * allocation of its own finds no memory, that fails without calling callbacks
 * again. It must return: no longjmp(), no C++ exception, no end of the thread.
 * It must not destroy the pool, nor retire the stream of the allocation that it
 * is called for. Several threads may be in it at once.
 *
 * @param pool             The pool that is out of memory.
 * @param requested_bytes  What the allocation asked for.
 * @param user             As it was registered.
 *
 * @return Not 0 if it freed something, into this pool or of the device: then the
 *         pool looks again before it calls further ones, and calls all of them
 *         again if that was not enough and does not wait for work either. 0 if it
 *         has nothing to free. A callback that claims so for ever, and frees
 *         nothing of the pool, is not called more than 16 times.
 *
 * Threads:   the allocating thread. The library holds no lock.
 * Streams:   what it frees on streams with work on them becomes free only when
 *            that is over; the pool waits for it afterwards, if it may.
 * Context:   the caller's, as at the allocation; leave it as it was.
 */
typedef int (*moiety_oom_callback)(moiety_pool *pool, uint64_t requested_bytes,
                                   void *user);

/**
 * Registers a callback. They are called in the order of their registration. One
 * that is registered by a callback is not called before the next allocation
 * that would fail.
 *
 * @param pool      The pool.
 * @param callback  Not NULL; with this `user` not registered yet.
 * @param user      Passed to it.
 *
 * @return MOIETY_E_INVALID  `pool` or `callback` is NULL, or both were
 *         registered before.
 * @return MOIETY_E_NO_HOST_MEMORY
 *
 * Ownership: what `user` points to stays the caller's, and must last until the
 *            callback is removed or the pool destroyed.
 * Threads:   any, also inside a callback. Takes a lock.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_pool_add_oom_callback(
    moiety_pool *pool, moiety_oom_callback callback, void *user);

/**
 * Removes a callback. After MOIETY_OK it is not running in any thread, and is
 * never called again: outside of callbacks this waits until it has returned, so
 * the caller must hold nothing that it may wait for.
 *
 * @return MOIETY_E_INVALID  `pool` or `callback` is NULL, or the two are not
 *         registered.
 * @return MOIETY_E_REENTRANT  This thread is inside a callback of the pool, and
 *         the one to remove is running, perhaps here: nothing has changed.
 *
 * Threads:   any. May block, on the callback.
 * Context:   none; the driver is not called.
 */
MOIETY_API moiety_status moiety_pool_remove_oom_callback(
    moiety_pool *pool, moiety_oom_callback callback, void *user);

#ifdef __cplusplus
}
#endif

#endif
