/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of a pool: allocated, freed, resized. moiety/pool.h includes this header,
 * and has the rules that all functions have in common.
 */
#ifndef MOIETY_BLOCK_H_
#define MOIETY_BLOCK_H_

#include <stddef.h>
#include <stdint.h>

#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Takes `size_bytes` of device memory from `pool`, for work on `stream`.
 *
 * @param size_bytes  Bytes wanted; 0 gives address 0 and MOIETY_OK. Rounded up
 *                    to 512 bytes; where a cached block will do, or up to 64 KiB
 *                    where the thread asks for several sizes that are alike and
 *                    memory is not short, by at most 12.5 % more.
 * @param stream      Stream that will use the block first, or
 *                    MOIETY_STREAM_ANY if the caller cannot tell.
 * @param out         [out] Device address, aligned to 512 bytes, in an exportable
 *                    pool to 2 MiB above 1 MiB.
 *
 * @return MOIETY_E_INVALID    `pool` or `out` is NULL.
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
 * Threads:   Wait-free when the calling thread's cache has a block; otherwise it
 *            may wait for a short lock of free memory, with which nobody calls
 *            the driver, for a thread that grows the pool, and for the last
 *            search of one that is out of memory (moiety/oom.h). The first call
 *            of a thread, and its first with a stream, takes a lock.
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
 *  or takes the steps of moiety/oom.h. It may wait for a short lock of free memory,
 *  under which no thread calls the driver. It may ask the source for memory if no
 *  other thread does. MOIETY_E_WOULD_BLOCK: no memory can be had without a wait. */
#define MOIETY_ALLOC_NO_WAIT (UINT32_C(1) << 1)
/** The call takes a block of the thread's cache, or of what is free in the pool,
 *  and calls nobody, neither the driver nor a callback: for callers who hold a
 *  lock under which they must not call the driver, like Python's. After
 *  MOIETY_E_WOULD_BLOCK they release it and call moiety_alloc(). That status leaves
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
        (uint32_t)sizeof(moiety_alloc_options), 0, 0, NULL, NULL               \
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
 * @return as moiety_alloc()
 * @return MOIETY_E_INVALID      also when `options` have a field that is out of
 *         range, or two that exclude each other, which the message names; or the
 *         tenant or the arena is none, or another pool's.
 * @return MOIETY_E_WOULD_BLOCK  as MOIETY_ALLOC_NO_WAIT and _NO_CALL say
 * @return MOIETY_E_PAUSED, MOIETY_E_IN_USE  The arena, or that of the tenant, is
 *         paused, or a thread pauses or resumes it.
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
 * @return MOIETY_E_DOUBLE_FREE  The block was freed before: it is the last of its
 *         size that the thread freed on the stream, or a scope, an export or a
 *         private arena has it.
 * @return MOIETY_E_INVALID  `pool` is NULL; `address` is inside a block, or
 *         free: also of a block that was freed twice, once it has left the caches,
 *         by any thread, on any stream, however late. A second free of a block
 *         that lies in a cache is taken: the block may be handed out twice until
 *         one of the two comes to leave a cache, which statistics then count
 *         (double_frees_found). A checked pool (moiety/checked.h) sees it at once,
 *         and always returns MOIETY_E_DOUBLE_FREE.
 * @return MOIETY_E_FOREIGN  `address` is not the pool's.
 * @return MOIETY_E_CAPTURING  `stream` is capturing a graph, outside any scope.
 * @return MOIETY_E_NO_HOST_MEMORY, MOIETY_E_DRIVER
 *
 * Ownership: the pool's after MOIETY_OK, else as it was.
 * Threads:   Wait-free when the calling thread's cache has room, also while
 *            another thread is out of memory; otherwise with short locks, and
 *            driver calls that do not wait. The first call of a thread, and its
 *            first with a stream, takes a lock.
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
 * @return MOIETY_E_INVALID  `pool` is NULL.
 * @return MOIETY_E_DOUBLE_FREE  The block is the last of its size that the thread
 *         freed on the stream.
 * @return MOIETY_E_WOULD_BLOCK  It is for moiety_free(), and the caller's still:
 *         the first of a thread for a stream, what other streams use, a tenant's
 *         where the thread's cache is full, and what is no block.
 *
 * Ownership: the pool's after MOIETY_OK, else as it was.
 * Threads:   Wait-free where the thread's cache has room, else lock-free: it
 *            waits for no thread that searches. No driver call, no callback.
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
 * @return MOIETY_E_UNSUPPORTED  The pool was made without
 *         MOIETY_POOL_NOTE_STREAMS.
 * @return as moiety_free()
 *
 * Ownership: the pool's after MOIETY_OK, else as it was.
 * Threads:   Wait-free where moiety_free() on that stream is and it is the
 *            calling thread's last one; walks the thread's streams otherwise.
 *            Takes a lock for an instant where the block is above 1 MiB, a
 *            tenant's or otherwise special, or the thread has not named its
 *            stream yet. The stream may be retired by another thread at the same
 *            time; that waits for this call.
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
 * @param out      [out] Bytes.
 *
 * @return MOIETY_E_INVALID  `pool` or `out` is NULL, or `address` inside a
 *         block or free.
 * @return MOIETY_E_FOREIGN  `address` is not the pool's.
 *
 * Threads:   any, but not at the same time as the block's free. Wait-free. No
 *            driver call.
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
 * @return MOIETY_E_NO_ROOM      There is no room behind the block, which for one of
 *         a private arena is the arena's; or the pool is checked, where no block
 *         changes its size. It is as it was: take another one instead.
 * @return MOIETY_E_IN_USE       It is exported, or a capture has it, or a thread
 *         pauses or resumes its arena: as above.
 * @return MOIETY_E_PAUSED       Its arena is paused: as above.
 * @return MOIETY_E_BUDGET       The block's tenant may not have more.
 * @return MOIETY_E_INVALID      `address` or `size_bytes` is 0, `pool` is NULL,
 *         or `address` is inside a block or free.
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
 * @param stream     Whose work used them last, or MOIETY_STREAM_ANY.
 * @param out_freed  [out] NULL, or how many blocks were freed, after any failure
 *                   too.
 *
 * @return MOIETY_OK         No block is live that was when the call began.
 * @return MOIETY_E_INVALID  `pool` is NULL.
 * @return MOIETY_E_TIMEOUT  Other threads' calls did not come to an end within a
 *         second: nothing was freed.
 * @return MOIETY_E_CAPTURING  `stream` captures a graph.
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
