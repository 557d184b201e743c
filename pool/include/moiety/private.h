/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Private arenas: memory of a pool that serves its own callers only. What they
 * are for is memory that several CUDA graphs share, as graphs that never run at
 * the same time can, and memory that a part of a program has for itself.
 * docs/cuda-graphs.md has the contract of the former. (Host arenas, of pinned
 * memory, are something else: moiety/host.h.)
 *
 * moiety_alloc_with() takes a block of an arena, whose options name it. The block is
 * freed like any other, by moiety_free() and its kin.
 * Blocks of arenas are not exported. In a pool that is checked or passes all
 * through, an arena is an account: it has limit and sums, by the bytes that were
 * asked for, and captures share nothing.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_PRIVATE_H_
#define MOIETY_PRIVATE_H_

#include <stddef.h>
#include <stdint.h>

#include "moiety/pool.h"
#include "moiety/scope.h"
#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The numbers of an arena. */
typedef struct moiety_private_stats {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** Capture scopes of the arena that were not released. */
    uint32_t graph_count;
    /** Most that it may take from the pool; 0: as much as there is. */
    uint64_t limit_bytes;
    /** Bytes that it has of the pool, and the most that it ever had: whole pages of
     *  2 MiB. */
    uint64_t reserved_bytes;
    uint64_t reserved_peak_bytes;
    /** Blocks that are in use, their bytes, and the most that these ever
     *  were. */
    uint64_t live_count;
    uint64_t live_bytes;
    uint64_t live_peak_bytes;
    /** Freed, and served to a stream of its own at most before work is over. */
    uint64_t waiting_bytes;
    /** MOIETY_PRIVATE_ bits that matter in its pool; and 1 while it is paused. */
    uint32_t flags;
    uint32_t is_paused;
    /** While it is paused, what it had of the pool; `reserved_bytes` is 0 then.
     *  Of these, the bytes whose contents are in the host's memory. */
    uint64_t paused_bytes;
    uint64_t kept_bytes;
} moiety_private_stats;

/** Its memory never moves, each piece that it takes of the pool is one handle, and
 *  a block is within one: for what is registered with a device or a library by its
 *  address. Where the pool is not mapped all memory is so, and the bit does
 *  nothing. */
#define MOIETY_PRIVATE_FIXED (UINT32_C(1) << 0)
/** It can be paused; it is fixed too, but for that. */
#define MOIETY_PRIVATE_PAUSABLE (UINT32_C(1) << 1)

/** How an arena is made. 0 is the default of every field but the first. */
typedef struct moiety_private_options {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** MOIETY_PRIVATE_ bits. */
    uint32_t flags;
    /** Most that the arena may take, by whole pages of 2 MiB; 0: no limit of its
     *  own. */
    uint64_t limit_bytes;
} moiety_private_options;

/** Every field at its default. */
#ifdef __cplusplus
#define MOIETY_PRIVATE_OPTIONS_INIT                                            \
    {                                                                          \
        (uint32_t)sizeof(moiety_private_options), 0, 0                         \
    }
#else
#define MOIETY_PRIVATE_OPTIONS_INIT                                            \
    {                                                                          \
        .struct_size = (uint32_t)sizeof(moiety_private_options)                \
    }
#endif

/**
 * Makes an arena. It takes memory of the pool when it needs some. One that is fixed
 * or can be paused takes it by whole handles of the driver, of an eighth of what the
 * arena has and 256 MiB at most, or of what an allocation needs; what is free in it
 * returns to the pool by whole handles, too. Memory of captures and other memory
 * share none.
 *
 * @param options  NULL for the defaults.
 * @param out      [out] The arena.
 *
 * @return MOIETY_E_INVALID      `pool` or `out` is NULL, or an option out of
 *         range: `limit_bytes` is 0, or 2 MiB at least.
 * @return MOIETY_E_NO_ROOM      The pool has 4096 of them.
 * @return MOIETY_E_UNSUPPORTED  MOIETY_PRIVATE_PAUSABLE in a pool that is not
 *         mapped, is checked, or passes all through.
 * @return MOIETY_E_NO_HOST_MEMORY
 *
 * Ownership: the caller's, to be destroyed; the pool's end ends it too.
 * Threads:   Takes a lock for an instant. No driver call.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_private_create(moiety_pool *pool, const moiety_private_options *options,
                      moiety_private *out);

/** Contents are copied to pinned memory of the host, and come back. Without it
 *  they are undefined after a pause. */
#define MOIETY_PAUSE_KEEP_CONTENTS (UINT32_C(1) << 0)

/**
 * Gives the device memory of an arena back to the driver, and keeps its addresses.
 * Until moiety_private_resume() others may have that memory within the pool's
 * limit; blocks can be freed, but nothing can be allocated, claimed, trimmed or
 * captured in the arena. Its scopes stay.
 *
 * To be called when all work that uses the arena is queued, and none will be
 * before it is resumed, launches of its graphs included. The host's memory stays
 * with the arena for the next pause, until moiety_private_trim() or its end.
 *
 * @param arena  The arena, made with MOIETY_PRIVATE_PAUSABLE.
 * @param flags  MOIETY_PAUSE_ bits.
 *
 * @return MOIETY_OK             The memory is the driver's.
 * @return MOIETY_E_INVALID      `arena` is NULL; a flag is not known.
 * @return MOIETY_E_UNSUPPORTED  It was not made to be paused.
 * @return MOIETY_E_PAUSED       It is paused already.
 * @return MOIETY_E_IN_USE       Another thread pauses or resumes it; or memory of it
 *         was exported, or is held by moiety_segment_hold().
 * @return MOIETY_E_TIMEOUT      Work of the pool's contexts is not over after the
 *         pool's `wait_ms`, of which 200 ms are the least.
 * @return MOIETY_E_INTERRUPTED  See moiety_set_interrupt().
 * @return MOIETY_E_CAPTURING    A scope of it is open; or a capture was not over
 *         after that time.
 * @return MOIETY_E_NO_PINNED_MEMORY, MOIETY_E_NO_HOST_MEMORY
 * @return what the driver said. After each failure the arena runs as before, with
 *         its contents; only where the driver refuses to map again what it has
 *         just unmapped the arena is paused, its memory is still taken, and
 *         resuming it brings the contents back.
 *
 * Threads:   Waits for the device, for copies, and for growers of the pool; other
 *            arenas and the pool go on.
 * Streams:   waits for all work that the pool's contexts have now. Copies are on
 *            a stream of their own.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_private_pause(moiety_private arena, uint32_t flags);

/**
 * Gives an arena that is paused memory again, at the same addresses, and its
 * contents if they were kept. Graphs that were captured on it can be launched
 * again. The memory counts within the pool's limit: what is free elsewhere is
 * given back first.
 *
 * @return MOIETY_OK         It runs.
 * @return MOIETY_E_INVALID  `arena` is NULL; or it is not paused.
 * @return MOIETY_E_IN_USE   Another thread pauses or resumes it.
 * @return MOIETY_E_NO_DEVICE_MEMORY  Others have the memory, also after the pool's
 *         `wait_ms`.
 * @return MOIETY_E_NO_HOST_MEMORY
 * @return what the driver said. After each failure it is paused as before, and can
 *         be resumed later.
 *
 * Threads:   Waits for copies, for growers of the pool, and up to `wait_ms` for
 *            memory.
 * Streams:   the contents are there when the call returns.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_private_resume(moiety_private arena);

/**
 * Destroys an arena and releases its scopes. To be called when no graph that was captured
 * in it will be launched any more; launches that are queued need not be over.
 * Free memory in it is the pool's from then on, as if freed with
 * MOIETY_STREAM_ANY. Blocks that are in use stay valid and are ordinary ones from
 * then on.
 *
 * @return MOIETY_OK         The arena is gone.
 * @return MOIETY_E_INVALID  `arena` is NULL.
 * @return MOIETY_E_IN_USE   A scope of it is open, or another thread destroys
 *         one right now, or pauses or resumes it: the arena is still there.
 * @return MOIETY_E_PAUSED   It is paused and has blocks in use: the arena is still
 *         there.
 * @return as moiety_scope_release(): the arena is still there.
 *
 * Ownership: ends.
 * Threads:   any; waits for calls on the arena that are under way.
 * Streams:   the memory serves others when all work that the pool's contexts
 *            have now is over.
 */
MOIETY_API moiety_status moiety_private_destroy(moiety_private arena);

/**
 * Takes the very bytes that are named, if all of them are free in the arena,
 * whatever they wait for: the caller says that work which uses them is over, or
 * comes before what will use them. So the blocks that were in use at some moment
 * can be had again, to restore a checkpoint.
 *
 * @param address     A multiple of 512, as blocks have it.
 * @param size_bytes  At least 1; what moiety_usable_size() told of the block.
 *                    Other sizes are rounded up as by moiety_alloc_with().
 * @param stream      The stream that the block is for, as moiety_alloc_with().
 *
 * @return MOIETY_OK         The block is in use.
 * @return MOIETY_E_INVALID  `arena` is NULL; `size_bytes` is 0, or `address` no
 *         multiple of 512.
 * @return MOIETY_E_FOREIGN  The bytes are not the arena's, or not all of the
 *         same half: captures' or others' (docs/cuda-graphs.md).
 * @return MOIETY_E_IN_USE   A part of them is in use: nothing changed.
 * @return MOIETY_E_PAUSED   It is paused: nothing changed.
 * @return MOIETY_E_UNSUPPORTED  The pool is checked, or passes all through.
 * @return MOIETY_E_NO_HOST_MEMORY
 *
 * Ownership: the caller's until it is freed.
 * Threads:   Takes the arena's lock.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_private_claim(moiety_private arena, moiety_devptr address,
                     size_t size_bytes, moiety_stream stream);

/**
 * Gives pages of 2 MiB that are wholly free, and on which nothing is pending,
 * back to the pool: of captures' memory only when no scope of the arena is left, and
 * of an arena with flags only whole handles. Host memory that a pause has left goes
 * too.
 *
 * @param out_bytes  [out] NULL, or the bytes that the pool got.
 *
 * @return MOIETY_E_INVALID  `arena` is NULL.
 * @return MOIETY_E_PAUSED, MOIETY_E_IN_USE  It is paused, or a thread pauses or
 *         resumes it.
 *
 * Threads:   Takes the arena's lock.
 */
MOIETY_API moiety_status moiety_private_trim(moiety_private arena,
                                             uint64_t *out_bytes);

/**
 * Tells what an arena has, at one moment.
 *
 * @param out    [in,out] `struct_size` is set by the caller.
 *
 * @return MOIETY_E_INVALID  `arena` is NULL; `out` is NULL, or its `struct_size`
 *         too small.
 *
 * Threads:   Takes the arena's lock. No driver call.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_private_get_stats(moiety_private arena, moiety_private_stats *out);

/**
 * Opens a capture scope whose memory is the arena's: as moiety_scope_begin(), but
 * what the capture frees serves later captures of the arena from the scope's end
 * on. The caller promises that graphs of one arena never run at the same time,
 * and that what one leaves in its blocks is not wanted once another runs, but
 * for blocks that are in use. The scope is ended and released like any other.
 *
 * @param stream  As for moiety_scope_begin().
 * @param out     [out] The scope.
 *
 * @return as moiety_scope_begin()
 * @return MOIETY_E_INVALID  also when `arena` is NULL.
 * @return MOIETY_E_PAUSED, MOIETY_E_IN_USE  also when the arena is paused, or a
 *         thread pauses or resumes it.
 *
 * Ownership: the caller's: it is ended, and then released; the arena's end
 *            releases it too.
 * Threads, Streams: as moiety_scope_begin(). An event is recorded in each
 *            context if blocks of the arena wait for one.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_private_scope_begin(
    moiety_private arena, moiety_stream stream, moiety_scope *out);

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define moiety_private_claim(arena, address, size, stream)                     \
    moiety_private_claim(arena, address, size, moiety_stream_of_caller(stream))
#define moiety_private_scope_begin(arena, stream, out)                         \
    moiety_private_scope_begin(arena, moiety_stream_of_caller(stream), out)
#endif

#ifdef __cplusplus
}
#endif

#endif
