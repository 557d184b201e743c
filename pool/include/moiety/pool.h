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
 * What every function of the library has in common, unless it says otherwise:
 *
 * Ownership: what the caller passes stays the caller's. What a function is to fill
 *            in is written only when MOIETY_OK is returned.
 * Threads:   any, concurrently.
 * Streams:   nothing is queued, and nothing is waited for.
 * Context:   any may be current, and stays so; the pool's need not be.
 *
 * Statuses that every function can return, besides those it names:
 * MOIETY_E_FORKED in the child of a fork; MOIETY_E_BUSY from inside a signal
 * handler that interrupted another call of the library in the same thread.
 * Functions that take something from the pool can also return
 * MOIETY_E_CONTEXT_DESTROYED once its context is gone, and
 * MOIETY_E_DEINITIALIZED once the driver is; frees and other calls that only
 * give something up return MOIETY_OK then.
 */
#ifndef MOIETY_POOL_H_
#define MOIETY_POOL_H_

#include <stddef.h>
#include <stdint.h>

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

/** Where a pool's memory comes from. Never renumbered. */
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

/** What a pool does with each call. Never renumbered. */
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
 * @param out      [out] The pool. Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_OK
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
 * nothing of each other reuse each other's memory. The first call makes it, with
 * defaults and MOIETY_CONF; the process's end ends it.
 *
 * @param device  The device's ordinal.
 * @param out     [out] The pool. Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_OK
 * @return MOIETY_E_INVALID  `out` is NULL, or `device` is not from 0 to 63.
 * @return MOIETY_E_BUSY     also from inside a log function that is called while
 *         this thread makes such a pool.
 * @return what moiety_pool_create() returns: the next call tries again
 *
 * Ownership: the process's. moiety_pool_destroy() and moiety_pool_destroy_later()
 *            refuse it with MOIETY_E_INVALID.
 * Threads:   any, concurrently. Wait-free, but for the first call, which calls the
 *            driver, and which others wait for.
 * Context:   any may be current, and stays so. Once the pool knows that its context
 *            is lost, the next call makes another pool. The old one's handle stays,
 *            so that late frees are taken and ignored.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_default_pool(int32_t device,
                                                             moiety_pool **out);

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
 * Ownership: none.
 * Threads:   any. Never waits.
 * Streams, Context: none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_options_check(const moiety_pool_options *options);

/** What a destroyed pool had not got back. */
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
 * The handle stays recognisable: later calls with it return MOIETY_E_INVALID.
 * Where the context is gone, only the pool's own records are freed.
 * What was exported from it must not be open in other processes any more
 * (docs/ipc.md).
 *
 * @param pool       NULL does nothing.
 * @param out_leaks  [out] NULL, or what had not been freed; written only when
 *                   the pool is gone.
 *
 * @return MOIETY_OK         The pool is gone.
 * @return MOIETY_E_INVALID  `pool` was destroyed before; it is a host arena's
 *         (moiety_host_pool()) or moiety_default_pool()'s, and goes on; or
 *         `out_leaks->struct_size` is too small.
 * @return MOIETY_E_BUSY     A capture guard is held, a capture scope of the pool
 *         is open, or a call on the pool was seen under way in some thread, or
 *         another thread destroys it; or the work cannot be waited for, since a
 *         graph is captured without a guard. That capture is lost if it is of a
 *         non-blocking stream: only the legacy stream is asked before. The pool
 *         is as it was. Scopes that were ended are released.
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
 * Takes `size_bytes` of device memory from `pool`, for work on `stream`.
 *
 * @param pool        The pool.
 * @param size_bytes  Bytes wanted; 0 gives address 0 and MOIETY_OK. Rounded up
 *                    to 512 bytes; where a cached block will do, or up to 64 KiB
 *                    where the thread asks for several sizes that are alike and
 *                    memory is not short, by at most 12.5 % more.
 * @param stream      Stream that will use the block first, or
 *                    MOIETY_STREAM_ANY if the caller cannot tell.
 * @param out         [out] Device address, aligned to 512 bytes, in an exportable
 *                    pool to 2 MiB above 1 MiB. Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_OK
 * @return MOIETY_E_INVALID    `pool` or `out` is NULL, or the pool destroyed.
 * @return MOIETY_E_TOO_LARGE  More than the pool may ever reserve.
 * @return MOIETY_E_CAPTURING  `stream` captures a graph, outside any scope
 *         (moiety/scope.h). Noticed only while a capture guard is held: without
 *         one the pool does not ask, and serves memory that the graph must not
 *         use.
 * @return MOIETY_E_NO_DEVICE_MEMORY (_PINNED_ for a source of pinned memory)
 *         Nothing was free, growing was refused, and waiting did not help:
 *         moiety_pool_last_oom() tells what was tried.
 * @return MOIETY_E_NO_HOST_MEMORY  for the pool's own records
 * @return MOIETY_E_DRIVER, or what the source said
 *
 * Ownership: the caller's until it is freed into the same pool, by any thread.
 * Threads:   any, concurrently. Wait-free when the calling thread's cache has a
 *            block; otherwise it may wait for a short lock of free memory, with
 *            which nobody calls the driver, for a thread that grows the pool, and
 *            for the last search of one that is out of memory (moiety/oom.h).
 *            The first call of a thread, and its first with a stream, takes a lock.
 * Streams:   work already on `stream` may still be using the block's last
 *            life; work enqueued on `stream` from now on is ordered after it.
 *            In a capture scope nothing is pending on the block.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_alloc(moiety_pool *pool,
                                                      size_t size_bytes,
                                                      moiety_stream stream,
                                                      moiety_devptr *out);

/* Ways to allocate: bits of moiety_alloc_options.flags. */

/** The `size_bytes` are zeroed on the stream: work that is put there afterwards
 *  sees them. A stream that captures gets a node that zeroes the block at each
 *  launch. Not with MOIETY_STREAM_ANY or MOIETY_STREAM_DONE, which have no order
 *  in which the zeroes would come first. */
#define MOIETY_ALLOC_ZEROED (UINT32_C(1) << 0)
/** The call never waits for the device, nor for another thread that grows the pool
 *  or is on its way out of memory. It may wait for a short lock of free memory,
 *  with which nobody calls the driver; and it may ask the source for memory if no
 *  other thread does. MOIETY_E_BUSY: there is nothing to be had without
 *  waiting. */
#define MOIETY_ALLOC_NO_WAIT (UINT32_C(1) << 1)
/** The call takes a block of the thread's cache, or of what is free in the pool,
 *  and calls nobody, neither the driver nor a callback: for callers who hold a
 *  lock under which they must not call the driver, like Python's. After
 *  MOIETY_E_BUSY they release it and call moiety_alloc(). That status leaves
 *  moiety_last_error_message() as it was; it also comes for calls that
 *  moiety_alloc() has to look into, as the first of a thread for a stream is.
 *  Only MOIETY_ALLOC_NO_WAIT, which it includes, may be beside it. */
#define MOIETY_ALLOC_NO_CALL (UINT32_C(1) << 2)

/** How a block is taken. 0 is the default of every field but the first. */
typedef struct moiety_alloc_options {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** MOIETY_ALLOC_ bits. */
    uint32_t flags;
    /** A power of two up to 2 MiB; up to 512 it changes nothing. Above that, not
     *  with `private_arena`, whose blocks lie at multiples of 512. */
    size_t alignment_bytes;
    /** The tenant of the pool that is charged for the block: moiety/tenant.h. */
    moiety_tenant tenant;
    /** The arena of the pool that the block is from: moiety/private.h. Not with
     *  `tenant`. */
    moiety_private private_arena;
} moiety_alloc_options;

/** Every field at its default. */
#ifdef __cplusplus
#define MOIETY_ALLOC_OPTIONS_INIT                                              \
    {                                                                          \
        (uint32_t)sizeof(moiety_alloc_options), 0, 0, 0, 0                     \
    }
#else
#define MOIETY_ALLOC_OPTIONS_INIT                                              \
    {                                                                          \
        .struct_size = (uint32_t)sizeof(moiety_alloc_options)                  \
    }
#endif

/**
 * As moiety_alloc(), in the way that `options` say.
 *
 * @param pool        The pool. NULL where `options` name a tenant or an arena,
 *                    which have one.
 * @param size_bytes,stream,out  As for moiety_alloc(). One that captures does so,
 *                    for a block of an arena, in a scope of this arena.
 * @param options     NULL is moiety_alloc().
 *
 * @return MOIETY_OK
 * @return as moiety_alloc()
 * @return MOIETY_E_INVALID      also when `options` have a field that is out of
 *         range, or two that exclude each other, which the message names; or the
 *         tenant or the arena is none, or another pool's.
 * @return MOIETY_E_BUSY         as MOIETY_ALLOC_NO_WAIT and _NO_CALL say; or the
 *         arena, or that of the tenant, is paused.
 * @return MOIETY_E_BUDGET       With this block the tenant would have more than its
 *         budget, or the arena more than its limit and waiting for what was freed
 *         in it did not help. The pool may have memory all the same.
 * @return MOIETY_E_TOO_LARGE    also when it is more than the arena's limit.
 * @return MOIETY_E_CAPTURING    also when `stream` captures, in no scope of the
 *         arena.
 * @return MOIETY_E_UNSUPPORTED  An alignment above 512 of a tenant that can be
 *         paused: its blocks are an arena's.
 * @return what the driver said when it refused to fill: no block is taken then
 *
 * Ownership: as moiety_alloc()
 * Threads:   as moiety_alloc(), but only with MOIETY_ALLOC_NO_CALL wait-free where
 *            the thread's cache has a block. A block of an arena takes the arena's
 *            lock, and MOIETY_ALLOC_ZEROED calls the driver once more.
 * Streams:   as moiety_alloc(); the filling is work of `stream`. In an arena: what
 *            was freed on `stream` outside of captures may serve it at once; what
 *            was freed on another when an event of each context, recorded since,
 *            is over. In a capture: what the same stream freed in it, and what
 *            captures of the arena freed that have ended.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_alloc_with(moiety_pool *pool, size_t size_bytes, moiety_stream stream,
                  const moiety_alloc_options *options, moiety_devptr *out);

/**
 * Takes several blocks of one size: all or none.
 *
 * @param pool,size_bytes,stream  As for moiety_alloc().
 * @param count  Blocks wanted; 0 does nothing.
 * @param out    [out] `count` addresses, in no order; their contents are
 *               undefined unless MOIETY_OK is returned.
 *
 * @return as moiety_alloc()
 * @return MOIETY_E_TOO_LARGE  also when all the blocks together are more than
 *         the pool may ever reserve: no block is taken, and `out` is not
 *         written.
 * @return MOIETY_E_INVALID    also when no array has room for `count`
 *         addresses.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_alloc_batch(moiety_pool *pool, size_t size_bytes, moiety_stream stream,
                   size_t count, moiety_devptr *out);

/**
 * Gives a block back.
 *
 * @param pool     The pool that it is from.
 * @param address  As it was allocated; 0 does nothing.
 * @param stream   Stream whose queued work uses the block last. The caller
 *                 asserts that this stream's tail comes after the block's
 *                 allocation and all of its uses; if it cannot, it names
 *                 MOIETY_STREAM_ANY, or the others by moiety_record_use().
 *                 MOIETY_STREAM_DONE asserts that no use is pending.
 *
 * @return MOIETY_OK
 * @return MOIETY_E_INVALID  `pool` is NULL or destroyed; `address` is inside a
 *         block, or free. A block that was freed twice is recognised if it is
 *         the last of its size that the thread freed on the stream, and in any
 *         case once it has left the caches, by any thread, on any stream,
 *         however late. A second free of a block that lies in a cache is taken:
 *         the block may be handed out twice until one of the two comes to leave
 *         a cache, which statistics then count (double_frees_found). A checked
 *         pool (moiety/checked.h) sees it at once.
 * @return MOIETY_E_FOREIGN  `address` is not the pool's.
 * @return MOIETY_E_BUSY     `stream` is capturing a graph, outside any scope.
 * @return MOIETY_E_NO_HOST_MEMORY, MOIETY_E_DRIVER
 *
 * Ownership: the pool's after MOIETY_OK, else as it was.
 * Threads:   any, concurrently. Wait-free when the calling thread's cache has
 *            room, also while another thread is out of memory; otherwise with short
 *            locks, and driver calls that do not wait. The first call of a thread,
 *            and its first with a stream, takes a lock.
 * Streams:   the memory serves `stream` again at once, others when the work
 *            that is on `stream` now is over. What a capture scope keeps
 *            (moiety/scope.h) serves nobody but its capture before the release.
 */
MOIETY_API moiety_status moiety_free(moiety_pool *pool, moiety_devptr address,
                                     moiety_stream stream);

/**
 * Gives a block back if nobody has to be called for that: the counterpart of
 * MOIETY_ALLOC_NO_CALL.
 *
 * @return MOIETY_OK
 * @return MOIETY_E_INVALID  `pool` is NULL; or the block is the last of its size
 *         that the thread freed on the stream.
 * @return MOIETY_E_BUSY     It is for moiety_free(), and the caller's still: the
 *         first of a thread for a stream, what other streams use, a tenant's
 *         where the thread's cache is full, and what is no block.
 *
 * Ownership: the pool's after MOIETY_OK, else as it was.
 * Threads:   any, concurrently. Wait-free where the thread's cache has room, else
 *            lock-free: it waits for no thread that searches. No driver call, no
 *            callback.
 * Streams, Context: as moiety_free()
 */
MOIETY_API moiety_status moiety_free_no_call(moiety_pool *pool,
                                             moiety_devptr address,
                                             moiety_stream stream);

/**
 * The same for a caller who knows the size, which is faster.
 *
 * @param pool,address,stream  As for moiety_free().
 * @param size_bytes  As it was asked for.
 *
 * @return as moiety_free()
 * @return MOIETY_E_INVALID  also when the block has another size: it stays the
 *         caller's.
 */
MOIETY_API moiety_status moiety_free_sized(moiety_pool *pool,
                                           moiety_devptr address,
                                           size_t size_bytes,
                                           moiety_stream stream);

/**
 * Gives a block back for a caller who knows its address alone: on the stream
 * that it was allocated for. The pool must be made with
 * MOIETY_POOL_NOTE_STREAMS.
 *
 * @param pool     The pool that it is from.
 * @param address  As it was allocated; 0 does nothing.
 *
 * @return MOIETY_OK
 * @return MOIETY_E_UNSUPPORTED  The pool was made without
 *         MOIETY_POOL_NOTE_STREAMS.
 * @return as moiety_free()
 *
 * Ownership: the pool's after MOIETY_OK, else as it was.
 * Threads:   any, concurrently. Wait-free where moiety_free() on that stream is
 *            and it is the calling thread's last one; walks the thread's streams
 *            otherwise. Takes a lock for an instant where the block is above
 *            1 MiB, a tenant's or otherwise special, or the thread has not named
 *            its stream yet. The stream may be retired by another thread at the
 *            same time; that waits for this call.
 * Streams:   the block is freed as by moiety_free() on the stream named by
 *            moiety_alloc(), whose tail must come after all uses; others are
 *            named by moiety_record_use(). It is freed as with MOIETY_STREAM_ANY
 *            where that was named, or MOIETY_STREAM_DONE; where the stream was
 *            retired since; and where it was MOIETY_STREAM_PER_THREAD of another
 *            thread.
 */
MOIETY_API moiety_status moiety_free_on_alloc_stream(moiety_pool *pool,
                                                     moiety_devptr address);

/**
 * Gives several blocks back, in the order given.
 *
 * @param pool,stream  As for moiety_free().
 * @param count      Addresses.
 * @param addresses  May contain 0.
 * @param out_freed  [out] NULL, or how many of them were dealt with: all after
 *                   MOIETY_OK, otherwise those before the one that failed.
 *
 * @return as moiety_free()
 */
MOIETY_API moiety_status moiety_free_batch(moiety_pool *pool,
                                           const moiety_devptr *addresses,
                                           size_t count, moiety_stream stream,
                                           size_t *out_freed);

/**
 * Tells how many bytes of a block may be used: at least what was asked for.
 *
 * @param pool     The pool that it is from.
 * @param address  As it was allocated.
 * @param out      [out] Bytes. Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_OK
 * @return MOIETY_E_INVALID  `pool` or `out` is NULL, the pool destroyed, or
 *         `address` inside a block or free.
 * @return MOIETY_E_FOREIGN  `address` is not the pool's.
 *
 * Ownership: the block stays the caller's.
 * Threads:   any, but not at the same time as the block's free. Wait-free.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_usable_size(moiety_pool *pool, moiety_devptr address, size_t *out);

/**
 * Makes a block longer or shorter where it lies. It never moves, and keeps its
 * contents up to the lesser of both sizes. It grows if the bytes behind it are
 * free for work on `stream` without waiting: done, freed on that stream, or in
 * the calling thread's caches for it. The pool does not grow for it; memory that
 * moiety_pool_reserve() reserved ahead is there to grow into.
 *
 * @param pool        The pool that it is from.
 * @param address     As it was allocated.
 * @param size_bytes  Bytes wanted, 1 or more; moiety_free_sized() takes this size
 *                    afterwards. Rounded as by moiety_alloc(), or for a tenant's
 *                    block as moiety/tenant.h says; up to 1 MiB a block that is
 *                    longer by less than 12.5 % stays as it is.
 * @param stream      Stream that uses the added bytes first, or used the ones
 *                    that are given back last; MOIETY_STREAM_ANY if the caller
 *                    cannot tell.
 *
 * @return MOIETY_OK
 * @return MOIETY_E_BUSY         There is no room behind the block, which for one of
 *         a private arena is the arena's; or it is exported, or a capture has it,
 *         or its arena is paused; or the pool is checked, where no block changes
 *         its size. It is as it was: take another one instead.
 * @return MOIETY_E_BUDGET       The block's tenant may not have more.
 * @return MOIETY_E_INVALID      `address` or `size_bytes` is 0, `pool` is NULL or
 *         destroyed, or `address` is inside a block or free.
 * @return MOIETY_E_FOREIGN      `address` is not the pool's.
 * @return MOIETY_E_TOO_LARGE    More than the pool may ever reserve.
 * @return MOIETY_E_UNSUPPORTED  The pool passes all through, and the size is
 *         another.
 * @return MOIETY_E_CAPTURING    `stream` captures a graph. Noticed only while a
 *         capture guard is held.
 * @return MOIETY_E_NO_HOST_MEMORY  for the thread's or the stream's first call
 * @return MOIETY_E_DRIVER       for what the driver said about `stream`
 *
 * Ownership: the block stays the caller's, also after a failure.
 * Threads:   any, but not at the same time as another call with this block.
 *            It may wait for a short lock of free memory, and while another thread
 *            searches memory for the last time (moiety/oom.h).
 * Streams:   the added bytes are as from moiety_alloc() on `stream`; those that
 *            are given back as after moiety_free() on it, and behind all streams
 *            of moiety_record_use(). Of a pool with MOIETY_POOL_NOTE_STREAMS a
 *            block that grew is `stream`'s from then on.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_resize(moiety_pool *pool,
                                                       moiety_devptr address,
                                                       size_t size_bytes,
                                                       moiety_stream stream);

/**
 * Frees every live block of a pool, each as by moiety_free() on `stream`: at the
 * end of a request, a batch or an epoch of training. Blocks of tenants and
 * private arenas are among them; those that capture scopes keep, or that are
 * exported, are kept until their release. Free memory in caches and heaps stays
 * where it is.
 *
 * @param pool       The pool.
 * @param stream     Whose work used them last, or MOIETY_STREAM_ANY.
 * @param out_freed  [out] NULL, or how many blocks were freed, after any failure
 *                   too.
 *
 * @return MOIETY_OK         No block is live that was when the call began.
 * @return MOIETY_E_INVALID  `pool` is NULL or destroyed.
 * @return MOIETY_E_BUSY     Other threads' calls did not come to an end within a
 *         second: nothing was freed. Or `stream` captures a graph.
 * @return MOIETY_E_NO_HOST_MEMORY  for the list of blocks: nothing was freed
 * @return as moiety_free(), of the first block that was refused: it and those that
 *         were to follow stay
 *
 * Ownership: of all blocks, the pool's after MOIETY_OK.
 * Threads:   any, but no other thread may free or resize a block of the pool
 *            meanwhile, nor use one afterwards; what is allocated meanwhile may be
 *            freed too. Stops the pool for a moment, as a heap snapshot
 *            (moiety/heap.h), and costs a free for each block.
 * Streams, Context: as moiety_free()
 */
MOIETY_API moiety_status moiety_free_all(moiety_pool *pool,
                                         moiety_stream stream,
                                         uint64_t *out_freed);

/**
 * Tells the options that a pool goes by: those that it was made with, MOIETY_CONF
 * and defaults resolved, and the limit as it is now.
 *
 * @param pool  The pool.
 * @param out   [in,out] `struct_size` says how much the caller has room for and
 *              gets the bytes filled in. `limit_bytes` is what counts, never 0;
 *              `memory` is MAPPED, or else DRIVER; `cache_bytes` may be 0, for its
 *              share;
 *              `context` the pool's; `source` and `allocation_callbacks` NULL, or
 *              the pool's copies.
 *
 * @return MOIETY_OK
 * @return MOIETY_E_INVALID  `pool` or `out` is NULL, the pool is destroyed, or
 *         `struct_size` is less than that of version 0.1.0.
 *
 * Ownership: the caller's struct; the copies until the pool's end.
 * Threads:   any, concurrently. Wait-free.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_get_options(moiety_pool *pool, moiety_pool_options *out);

/**
 * Changes the most that a pool reserves. A growth that is under way ends first.
 * What is reserved above a lower limit goes back at once, as far as
 * moiety_pool_trim() can give it back; the rest is used as it is, and the pool
 * does not grow before it is below.
 *
 * @param pool         The pool.
 * @param limit_bytes  In whole units of 2 MiB, rounded down; 0: as much as the
 *                     device has and the tables have a place for.
 *
 * @return MOIETY_OK
 * @return MOIETY_E_INVALID    `pool` is NULL or destroyed, or the limit is below
 *         2 MiB and not 0.
 * @return MOIETY_E_TOO_LARGE  The limit is above 16 times that with which the
 *         pool was made (up to 1 TiB, where that was 16 GiB or more): its tables
 *         have no place for more.
 * @return MOIETY_E_FORKED, or why the device does not say what it has
 * @return what the source said when it refused to take something back: the limit
 *         counts all the same
 *
 * Threads:   any. Waits for a thread that grows the pool; blocks in the source.
 * Streams:   as moiety_pool_trim()
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_set_limit(moiety_pool *pool, uint64_t limit_bytes);

/**
 * Reserves ahead of need: until the pool has `total_bytes`, used or not. They
 * stay until a trim.
 *
 * @param pool         The pool.
 * @param total_bytes  What shall be reserved, all in all.
 *
 * @return MOIETY_OK
 * @return MOIETY_E_INVALID      `pool` is NULL or destroyed.
 * @return MOIETY_E_TOO_LARGE    More than the limit.
 * @return MOIETY_E_UNSUPPORTED  The pool passes all through.
 * @return MOIETY_E_NO_DEVICE_MEMORY (or _PINNED_, for such a source), or what
 *         else the source said: what was added until then stays
 *
 * Threads:   any. Blocks in the source, in the calling thread. Waits up to
 *            `wait_ms` for the device if other pools could give memory back then.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_reserve(moiety_pool *pool, uint64_t total_bytes);

/**
 * Tells which pool of this process an address is of, a host arena's too.
 *
 * @param address  Any in a segment of the pool; of a pool that passes all
 *                 through, where a block begins. Memory that was imported from
 *                 another process is no pool's.
 * @param out      [out] The pool. Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_OK
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
 * @param pool        The pool.
 * @param keep_bytes  Bytes to keep reserved: the pool is left with this much,
 *                    or with more where segments are in use or do not fit.
 * @param out_bytes   [out] NULL, or the bytes that the source took back.
 *
 * @return MOIETY_OK
 * @return MOIETY_E_INVALID  `pool` is NULL or destroyed.
 * @return what the source said when it refused
 *
 * Threads:   any. Blocks in the source.
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
 * @return MOIETY_OK
 * @return MOIETY_E_INVALID         `pool` is NULL or destroyed.
 * @return MOIETY_E_NO_HOST_MEMORY  The thread's first call.
 *
 * Ownership: the pool is still to be destroyed.
 * Threads:   any, concurrently. Calls that are under way in other threads may
 *            still call the driver. The first call of a thread takes a lock.
 * Context:   any may be current; the driver is not called.
 */
MOIETY_API moiety_status moiety_pool_context_lost(moiety_pool *pool);

/* Callers compiled so mean their own default stream by a null stream. */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define moiety_alloc(pool, size, stream, out)                                  \
    moiety_alloc(pool, size, moiety_stream_of_caller(stream), out)
#define moiety_alloc_with(pool, size, stream, options, out)                    \
    moiety_alloc_with(pool, size, moiety_stream_of_caller(stream), options, out)
#define moiety_alloc_batch(pool, size, stream, count, out)                     \
    moiety_alloc_batch(pool, size, moiety_stream_of_caller(stream), count, out)
#define moiety_free(pool, address, stream)                                     \
    moiety_free(pool, address, moiety_stream_of_caller(stream))
#define moiety_free_no_call(pool, address, stream)                             \
    moiety_free_no_call(pool, address, moiety_stream_of_caller(stream))
#define moiety_free_sized(pool, address, size, stream)                         \
    moiety_free_sized(pool, address, size, moiety_stream_of_caller(stream))
#define moiety_free_batch(pool, addresses, count, stream, out)                 \
    moiety_free_batch(pool, addresses, count, moiety_stream_of_caller(stream), \
                      out)
#define moiety_resize(pool, address, size, stream)                             \
    moiety_resize(pool, address, size, moiety_stream_of_caller(stream))
#define moiety_free_all(pool, stream, out)                                     \
    moiety_free_all(pool, moiety_stream_of_caller(stream), out)
#endif

#ifdef __cplusplus
}
#endif

#endif
