/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool of device memory: it reserves large segments from a source, and serves
 * blocks of them from per-thread caches. A block may be freed by any thread and
 * on any stream.
 *
 *     moiety_pool *pool;
 *     moiety_devptr block;
 *     if (moiety_pool_create(NULL, &pool) != MOIETY_OK ||
 *         moiety_alloc(pool, 1 << 20, stream, &block) != MOIETY_OK)
 *         return fail(moiety_last_error_message());
 *     moiety_free(pool, block, stream);
 *     moiety_pool_destroy(pool, NULL);
 *
 * Rules of all functions of the library, unless one says otherwise:
 *
 * Parameters: `pool`, `host`, `arena`, `tenant` and `scope` are live objects, and what
 *            the function is about.
 * Ownership: arguments stay the caller's, the structs and buffers for results too.
 *            Results are written only if MOIETY_OK is returned.
 * Threads:   any, concurrently. A function says which locks it takes and what it
 *            waits for; "no driver call" is a promise.
 * Streams:   nothing is queued, and nothing is waited for.
 * Context:   any or none may be current, and stays so; the pool's need not be.
 *
 * Statuses that every function can return, besides those it names: MOIETY_OK, and
 * MOIETY_E_FORKED in the child of a fork; MOIETY_E_DESTROYED if the pool, or the object of a handle,
 * was destroyed or has ended; MOIETY_E_REENTRANT from inside a callback of the pool,
 * or a signal handler that interrupted another call of the library in the same
 * thread.
 * Functions that take something from the pool can also return
 * MOIETY_E_CONTEXT_DESTROYED once its context is gone, and
 * MOIETY_E_DEINITIALIZED once the driver is; frees and other calls that only
 * give something up return MOIETY_OK then.
 */
#ifndef MOIETY_POOL_H_
#define MOIETY_POOL_H_

#include <stddef.h>
#include <stdint.h>

#include "moiety/block.h" /* IWYU pragma: export */
#include "moiety/callbacks.h"
#include "moiety/source.h"
#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a pool behaves: bits of moiety_pool_options.flags. */

/** Before it fails, the pool may let the requesting stream wait for another's
 *  work (cuStreamWaitEvent). That couples streams which the program keeps
 *  apart, and can deadlock where one waits for the other by other means. */
#define MOIETY_POOL_REUSE_DEPENDENCIES (UINT32_C(1) << 0)
/** moiety_pool_destroy() prints to stderr what was never freed; to a log function
 *  (moiety/callbacks.h) it tells that in any case. */
#define MOIETY_POOL_REPORT_LEAKS (UINT32_C(1) << 1)
/** Blocks may be shared with other processes, moiety/ipc.h. A process that gets
 *  one block can see all of the segment that it lies in, so keep nothing else
 *  there. Blocks above 1 MiB are aligned to 2 MiB. */
#define MOIETY_POOL_EXPORTABLE (UINT32_C(1) << 2)
/** A capture without a scope (moiety/scope.h) gets one when the pool meets it, as
 *  it does with a capture guard held; until moiety_scope_release_all(). */
#define MOIETY_POOL_AUTO_SCOPE (UINT32_C(1) << 3)
/** The pool notes what stream each block was allocated for: moiety_free_on_alloc_stream()
 *  needs that. 4 bytes of host memory for each 512 of device memory where blocks
 *  begin, by the page; frees take some nanoseconds more. */
#define MOIETY_POOL_NOTE_STREAMS (UINT32_C(1) << 4)
/** In a checked mode, what is allocated is filled with a pattern too. This flag
 *  and the next two need MOIETY_MODE_CHECKED or _CHECKED_PASS_THROUGH. */
#define MOIETY_POOL_CHECKED_FILL (UINT32_C(1) << 5)
/** The first finding ends the process: abort(). */
#define MOIETY_POOL_CHECKED_ABORT (UINT32_C(1) << 6)
/** Findings are counted and returned, but neither printed to stderr nor logged. */
#define MOIETY_POOL_CHECKED_QUIET (UINT32_C(1) << 7)
/** The tables of a pool with a limit of 2 GiB or more ask for huge pages: calls
 *  between other work take less time, but wait where such a page is new, and 10
 *  MiB more of the host's memory are used. */
#define MOIETY_POOL_HUGE_TABLES (UINT32_C(1) << 8)

/** The source of a pool's memory. Never renumbered. */
typedef enum moiety_memory {
    /** Mapped where the device has such memory and nothing speaks against it:
     *  `source`, MOIETY_POOL_EXPORTABLE, a mode that passes through. Otherwise the
     *  driver's, also once a driver refuses to map (docs/mapped.md).
     *  moiety_pool_get_options(), moiety_heap_summary.source_name and the reports
     *  say which. */
    MOIETY_MEMORY_AUTO = 0,
    /** cuMemAlloc's, or what `source` reserves. */
    MOIETY_MEMORY_DRIVER = 1,
    /** Mapped piece by piece (cuMemMap): the pool grows by what is missing beside a
     *  free block, and pieces that are wholly free move to where they are wanted,
     *  so that it needs little more than what is live. Such memory has no legacy
     *  IPC handles (with MOIETY_POOL_EXPORTABLE, moiety_ipc_send() shares it), and
     *  is in pieces of 2 to 256 MiB, which libraries that register memory may not
     *  expect. MOIETY_E_UNSUPPORTED where the device has no such memory. Neither
     *  with `source` nor with a mode that passes through. */
    MOIETY_MEMORY_MAPPED = 2
} moiety_memory;

/** The way that a pool treats each call. Never renumbered. */
typedef enum moiety_mode {
    /** It serves it. */
    MOIETY_MODE_PLAIN = 0,
    /** It checks it, and fills each freed block with a pattern, holds it back and
     *  looks at it before it serves again: moiety/checked.h. Slow, for finding
     *  mistakes. Not together with MOIETY_POOL_EXPORTABLE. */
    MOIETY_MODE_CHECKED = 1,
    /** Each block is a reservation of its own from the source, which gets it back
     *  when the work that uses it is over: for tools that watch the driver's
     *  allocations. Not together with MOIETY_POOL_EXPORTABLE. */
    MOIETY_MODE_PASS_THROUGH = 2,
    MOIETY_MODE_CHECKED_PASS_THROUGH = 3
} moiety_mode;

/* Where 0 is a default and "none" means something else, these say none. In
 * MOIETY_CONF the number 0 says it. */

/** Of wait_ms: wait for nothing. */
#define MOIETY_WAIT_NONE UINT32_MAX
/** Of thread_cache_bytes and quarantine_bytes: no such memory. */
#define MOIETY_BYTES_NONE UINT64_MAX

/**
 * How a pool is made. `struct_size` alone has to be set: 0 is the default of
 * every other field, so that in C
 *
 *     moiety_pool_options options = {.struct_size = sizeof options,
 *                                    .limit_bytes = UINT64_C(8) << 30};
 *
 * is a pool of 8 GiB at most. The environment variable MOIETY_CONF,
 * "key:value,key:value", goes over what the program says; sizes take the
 * suffixes K, M and G (2^10, 2^20, 2^30). The keys are the names in [brackets];
 * those that begin with host_ are for host arenas alone, trace:FILE is told in
 * moiety/trace.h, and expose is for the whole process: moiety/expose.h.
 */
typedef struct moiety_pool_options {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** MOIETY_POOL_ bits. [reuse_dependencies, report_leaks, exportable,
     *  auto_scope, note_streams, checked_fill, checked_abort, checked_quiet,
     *  huge_tables: 0, 1] */
    uint32_t flags;
    /** [memory: auto, driver, mapped] */
    moiety_memory memory;
    /** [checked, pass_through: 0, 1] */
    moiety_mode mode;
    /** Ordinal of the device whose primary context the pool uses and keeps
     *  alive. Ignored where `context` is set. */
    int32_t device;
    /** Longest wait before an allocation fails for want of memory, in
     *  milliseconds, for the device's work; for what other threads have in
     *  their caches, the same up to 200. MOIETY_WAIT_NONE: wait for neither. 0:
     *  1000. [wait_ms] */
    uint32_t wait_ms;
    /** NULL, or the context to use, which must outlive the pool; checked as
     *  moiety/types.h says. */
    moiety_context context;
    /** NULL for cuMemAlloc, or where the memory comes from. Copied. */
    const moiety_source *source;
    /** Most that the pool ever reserves; 0: what the device has. [limit] */
    uint64_t limit_bytes;
    /** A segment has at least the first size, 2 MiB if that is 0: 2 MiB for
     *  requests up to 1 MiB; below 10 MiB as much as is reserved, at least twice
     *  the request and at most 20 MiB; otherwise the request's own size; or a
     *  quarter of what is reserved, up to the largest size, 1 GiB if that is 0,
     *  where that is eight times the request. Multiples of 2 MiB.
     *  [first_segment, largest_segment] */
    uint64_t first_segment_bytes;
    uint64_t largest_segment_bytes;
    /** Free memory that one thread's caches may hold; 0: 64 MiB;
     *  MOIETY_BYTES_NONE: no caches. No more than its share: what is reserved, divided by the threads
     *  that have caches, or 512 KiB if that is more; a quarter of that at first and
     *  whenever the pool has grown, which doubles with each 1024 misses that need
     *  no more memory. Of each size class and stream a thread keeps a 64th of that
     *  at first, up to 64 blocks and 512 KiB, and more where that proves too
     *  little; longer blocks are not cached. [thread_cache] */
    uint64_t thread_cache_bytes;
    /** The same for all threads together; 0: an eighth of what may be
     *  reserved, and 64 MiB at least. [cache] */
    uint64_t cache_bytes;
    /** Operations that the pool notes of each thread, the last ones, for
     *  moiety_history_read(); rounded up to a power of two, 48 bytes each; up
     *  to 1048576. 0: none, which costs nothing. [history] */
    uint64_t history_entries;
    /** Soft limit on what the pool reserves; 0: none. Below it the pool grows as
     *  it needs. To grow past it, it first takes back what is done and what all
     *  threads' caches hold; and what is reserved above it goes back to the
     *  source when whole segments are free, at the next allocation that is
     *  neither a hit nor one with MOIETY_ALLOC_NO_WAIT. Not above the limit. [watermark] */
    uint64_t watermark_bytes;
    /** Freed bytes that a checked pool holds back before they serve again; the
     *  longer, the more writes after a free it sees. 0: 64 MiB;
     *  MOIETY_BYTES_NONE: none. Without effect in other pools. [quarantine] */
    uint64_t quarantine_bytes;
    /** Devices that may access the pool's memory as well, of a mapped pool: bit n
     *  for the device of ordinal n. (Contexts that enable peer
     *  access to the pool's reach memory of cuMemAlloc().)
     *  [peers: ordinals with a + between, as 1+3] */
    uint64_t peer_devices;
    /** NULL, or who is told of each allocation and free: moiety/callbacks.h. Copied.
     *  No cache serves such a pool's calls at once: each takes some hundred
     *  nanoseconds more, and the functions' time. */
    const moiety_allocation_callbacks *allocation_callbacks;
} moiety_pool_options;

/** Every field at its default. */
#ifdef __cplusplus
#define MOIETY_POOL_OPTIONS_INIT                                               \
    {                                                                          \
        (uint32_t)sizeof(moiety_pool_options), 0, MOIETY_MEMORY_AUTO,          \
            MOIETY_MODE_PLAIN, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0,    \
            NULL                                                               \
    }
#else
#define MOIETY_POOL_OPTIONS_INIT                                               \
    {                                                                          \
        .struct_size = (uint32_t)sizeof(moiety_pool_options)                   \
    }
#endif

/**
 * Makes a pool. No memory is reserved before the first allocation.
 *
 * @param options  NULL for the defaults.
 * @param out      [out] The pool.
 *
 * @return MOIETY_E_INVALID  `out` is NULL; an option or a key of MOIETY_CONF is
 *         unknown, out of range, given twice, in contradiction to another, or
 *         without effect; a field of `source` or `allocation_callbacks` is refused;
 *         nothing is mapped at
 *         `options->context`.
 * @return MOIETY_E_CONTEXT_DESTROYED  `options->context` was destroyed, or is no
 *         context.
 * @return MOIETY_E_NO_HOST_MEMORY
 * @return what moiety_probe() returns for a driver or device that is not there
 *
 * Ownership: the caller's, to be destroyed by moiety_pool_destroy().
 * Threads:   any. Calls the driver; may block.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_create(const moiety_pool_options *options, moiety_pool **out);

/**
 * The pool of a device that all of the process shares, so that libraries which know
 * nothing of each other reuse each other's memory. The first call makes it, with the
 * options of moiety_default_pool_set_options() and MOIETY_CONF; the process's end
 * ends it.
 *
 * @param device  The device's ordinal.
 * @param out     [out] The pool.
 *
 * @return MOIETY_E_INVALID  `out` is NULL, or `device` is not from 0 to 63.
 * @return MOIETY_E_REENTRANT  also from inside a log function that is called while
 *         this thread makes such a pool.
 * @return what moiety_pool_create() returns: the next call tries again
 *
 * Ownership: the process's. moiety_pool_destroy() and moiety_pool_destroy_later()
 *            refuse it with MOIETY_E_INVALID.
 * Threads:   Wait-free, but for the first call, which calls the driver, and which
 *            others wait for.
 * Context:   any may be current, and stays so. Once the pool knows that its context
 *            is lost, the next call makes another pool. The old one's handle stays,
 *            so that late frees are taken and ignored.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_default_pool(int32_t device,
                                                             moiety_pool **out);

/**
 * Sets the options of moiety_default_pool(), for all devices. A program calls it
 * before it uses a default pool, as do libraries that need an option. Without it
 * the options are the defaults. A process that did nothing else with the library may
 * fork: its children make pools of their own, with these options.
 *
 * @param options  Copied. `device`, `context`, `source` and `allocation_callbacks`
 *                 must be 0. MOIETY_CONF overrides the others.
 *
 * @return MOIETY_E_INVALID  as of moiety_pool_options_check(), or a field that must
 *         be 0 is not.
 * @return MOIETY_E_IN_USE   The process has a default pool already, or makes one.
 *         The options stay. moiety_pool_get_options() reports those of the pool.
 * @return MOIETY_E_NO_HOST_MEMORY
 *
 * Ownership: none.
 * Threads:   any, concurrently.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_default_pool_set_options(const moiety_pool_options *options);

/**
 * Checks options as moiety_pool_create() does, with MOIETY_CONF, and makes
 * nothing: for callers that make their pools later.
 *
 * @param options  NULL for the defaults.
 *
 * @return MOIETY_OK         moiety_pool_create() may still find that the device is
 *         not there, or has no such memory.
 * @return MOIETY_E_INVALID  An option or a key of MOIETY_CONF is unknown, out of
 *         range, given twice, in contradiction to another, or without effect.
 *
 * Threads:   Never waits. No driver call.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_options_check(const moiety_pool_options *options);

/** The blocks that were live when a pool was destroyed. */
typedef struct moiety_leaks {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** Addresses that follow. */
    uint32_t address_count;
    /** Blocks, and bytes of them all. */
    uint64_t block_count;
    uint64_t bytes;
    /** Of the blocks with the lowest offsets in the pool. */
    moiety_devptr addresses[16];
} moiety_leaks;

/**
 * Destroys a pool and gives its memory back to the source: all of it, also
 * what was never freed. Waits until the work of the pool's contexts is over.
 * Scopes that were ended end with it.
 * The handle stays recognisable: later calls with it return MOIETY_E_DESTROYED.
 * If the context is gone, only the pool's own records are freed.
 * Other processes must have closed the blocks that it exported
 * (docs/ipc.md).
 *
 * @param pool       NULL does nothing.
 * @param out_leaks  [out] NULL, or what had not been freed; written only when
 *                   the pool is gone.
 *
 * @return MOIETY_OK         The pool is gone.
 * @return MOIETY_E_INVALID  The pool is a host arena's (moiety_host_pool()) or
 *         moiety_default_pool()'s, and goes on; or `out_leaks->struct_size` is too
 *         small.
 * @return MOIETY_E_IN_USE   A capture scope of the pool is open, or a call on the
 *         pool was seen under way in some thread, or another thread destroys it:
 *         it is as it was.
 * @return MOIETY_E_CAPTURING  A capture guard is held, or a graph is captured
 *         without a guard, so that the work cannot be waited for: the pool is as it
 *         was. That capture is lost if it is of a non-blocking stream: only the
 *         legacy stream is asked before.
 * @return MOIETY_E_INTERRUPTED, MOIETY_E_REENTRANT  The pool is as it was: see
 *         moiety_set_interrupt(), and above.
 * @return any other status  The pool is gone; the source or the driver said
 *         this of memory that it did not take back, or of a context that a fault
 *         of the device has ended, or of the wait: if it refuses events it is
 *         asked for cuCtxSynchronize(), and if it refuses that four times too,
 *         it gets nothing back, as memory may be in use.
 *
 * Ownership: ends. 128 bytes stay behind for each pool.
 * Threads:   one; no other call on this pool may be under way. One that is
 *            found out is refused, but one that a cache serves is not found
 *            out. Threads that used it may go on to live and to end.
 * Streams:   work that is queued on any of them is waited for.
 */
MOIETY_API moiety_status moiety_pool_destroy(moiety_pool *pool,
                                             moiety_leaks *out_leaks);

/**
 * Tells the options that a pool goes by: those that it was made with, MOIETY_CONF
 * and defaults resolved, and the limit as it is now.
 *
 * @param out   [in,out] `struct_size` says how much the caller has room for and
 *              gets the bytes filled in. `limit_bytes` is what counts, never 0;
 *              `memory` is MAPPED, or else DRIVER; `cache_bytes` may be 0, for its
 *              share;
 *              `context` the pool's; `source` and `allocation_callbacks` NULL, or
 *              the pool's copies.
 *
 * @return MOIETY_E_INVALID  `pool` or `out` is NULL, or `struct_size` is less
 *         than that of version 0.1.0.
 *
 * Ownership: the caller's struct; the copies until the pool's end.
 * Threads:   Wait-free. No driver call.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_get_options(moiety_pool *pool, moiety_pool_options *out);

/**
 * Changes the most that a pool reserves. A growth that is under way ends first.
 * Memory that is reserved above a lower limit goes back at once, as far as
 * moiety_pool_trim() can give it back; the rest is used as it is, and the pool
 * does not grow before it is below.
 *
 * @param limit_bytes  In whole units of 2 MiB, rounded down; 0: as much as the
 *                     device has and the tables have a place for.
 *
 * @return MOIETY_E_INVALID    `pool` is NULL, or the limit is below 2 MiB and
 *         not 0.
 * @return MOIETY_E_TOO_LARGE  The limit is above 16 times that with which the
 *         pool was made (up to 1 TiB, where that was 16 GiB or more): its tables
 *         have no place for more.
 * @return MOIETY_E_FORKED, or why the device does not say what it has
 * @return what the source said when it refused to take something back: the limit
 *         counts all the same
 *
 * Threads:   Waits for a thread that grows the pool; blocks in the source.
 * Streams:   as moiety_pool_trim()
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_set_limit(moiety_pool *pool, uint64_t limit_bytes);

/**
 * Reserves ahead of need: until the pool has `total_bytes`, used or not. They
 * stay until a trim.
 *
 * @param total_bytes  What shall be reserved, all in all.
 *
 * @return MOIETY_E_INVALID      `pool` is NULL.
 * @return MOIETY_E_TOO_LARGE    More than the limit.
 * @return MOIETY_E_UNSUPPORTED  The pool passes all through.
 * @return MOIETY_E_NO_DEVICE_MEMORY (or _PINNED_, for such a source), or what
 *         else the source said: what was added until then stays
 *
 * Threads:   Blocks in the source, in the calling thread. Waits up to `wait_ms`
 *            for the device if other pools could give memory back then.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_reserve(moiety_pool *pool, uint64_t total_bytes);

/**
 * Tells which pool of this process an address is of, a host arena's too.
 *
 * @param address  Any in a segment of the pool; of a pool that passes all
 *                 through, where a block begins. Memory that was imported from
 *                 another process is no pool's.
 * @param out      [out] The pool.
 *
 * @return MOIETY_E_INVALID  `out` is NULL.
 * @return MOIETY_E_FOREIGN  No pool has it.
 *
 * Ownership: whose the pool was: it is there for as long as a block in it is, if
 *            its owner keeps to that.
 * Threads:   any, concurrently. Blocks while a pool is made or destroyed.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_pool_of(moiety_devptr address,
                                                        moiety_pool **out);

/**
 * Gives memory that nobody uses back to the source: empties the calling
 * thread's caches and what ended threads left; if more than `keep_bytes` is
 * reserved, takes the caches of threads that are in no call of the pool (those
 * that are in one give theirs up at their next); takes back what is done; and
 * releases segments that are wholly free as long as `keep_bytes` stay reserved.
 *
 * @param keep_bytes  Bytes to keep reserved: the pool is left with this much,
 *                    or with more where segments are in use or do not fit.
 * @param out_bytes   [out] NULL, or the bytes that the source took back.
 *
 * @return MOIETY_E_INVALID  `pool` is NULL.
 * @return what the source said when it refused
 *
 * Threads:   Blocks in the source.
 * Streams:   what is not done stays: moiety_pool_synchronize() comes before a
 *            trim of all. The source may wait: cuMemFree() does, for all work.
 */
MOIETY_API moiety_status moiety_pool_trim(moiety_pool *pool,
                                          uint64_t keep_bytes,
                                          uint64_t *out_bytes);

/**
 * Says that the pool's context is gone or about to go: cuCtxDestroy() of it, or
 * cuDevicePrimaryCtxReset() of its device. All of the pool's memory goes with
 * it. From then on nothing of the pool calls the driver; allocations return
 * MOIETY_E_CONTEXT_DESTROYED, and late frees are taken and ignored.
 *
 * A pool finds out by itself at the first call that needs the driver, if the
 * driver can tell contexts apart (CUDA 12.0); but a call that a thread's cache
 * serves needs none. So a program that resets says so, and before it does.
 * docs/process.md has the whole.
 *
 * @param pool  The pool. Said twice is as good as once.
 *
 * @return MOIETY_E_INVALID         `pool` is NULL.
 * @return MOIETY_E_NO_HOST_MEMORY  The thread's first call.
 *
 * Ownership: the pool is still to be destroyed.
 * Threads:   Calls that are under way in other threads may still call the driver.
 *            The first call of a thread takes a lock. This call makes no driver call.
 */
MOIETY_API moiety_status moiety_pool_context_lost(moiety_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
