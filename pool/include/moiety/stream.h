/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Streams: which of them a block belongs to, and when another may have it.
 * docs/streams.md has the rules as a table.
 *
 * A block that was freed on a stream serves that stream again at once: work
 * that is queued later runs later. Before it serves another stream, an event
 * that was recorded after the free must be over. A pool does that by itself;
 * what it must be told is below.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_STREAM_H_
#define MOIETY_STREAM_H_

#include <stdint.h>

#include "moiety/status.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A pool of device memory; moiety/pool.h. */
typedef struct moiety_pool moiety_pool;

/** The legacy default stream of the pool's context (CU_STREAM_LEGACY). The null
 *  stream is the same, unless the caller is compiled with
 *  CUDA_API_PER_THREAD_DEFAULT_STREAM, as for CUDA's own functions. */
#define MOIETY_STREAM_LEGACY ((moiety_stream)(uintptr_t)1)
/** The calling thread's own default stream (CU_STREAM_PER_THREAD). */
#define MOIETY_STREAM_PER_THREAD ((moiety_stream)(uintptr_t)2)
/** No stream can be named. Freed so, a block waits for all work that any stream
 *  of the context has been given until then; allocated so, a block has no work
 *  pending and may be used anywhere at once, by the CPU too. */
#define MOIETY_STREAM_ANY ((moiety_stream)(~(uintptr_t)0))
/** Freed so: nothing that uses the block is pending. For an allocation it means
 *  the same as MOIETY_STREAM_ANY. */
#define MOIETY_STREAM_DONE ((moiety_stream)(~(uintptr_t)1))

/** What a null stream means to this caller: see MOIETY_STREAM_LEGACY. */
static inline moiety_stream moiety_stream_of_caller(moiety_stream stream)
{
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
    return stream ? stream : MOIETY_STREAM_PER_THREAD;
#else
    return stream;
#endif
}

/**
 * Says that a block is used by another stream than the one that it will be
 * freed on. The free then waits for that stream too.
 *
 * @param pool     The pool that the block is from.
 * @param address  A live block's address, as allocated; 0 is ignored.
 * @param stream   The stream that uses it: any but MOIETY_STREAM_DONE. Named
 *                 twice is as good as once.
 *
 * @return MOIETY_E_INVALID         `pool` is NULL, `stream` is
 *         MOIETY_STREAM_DONE, or `address` is inside a block.
 * @return MOIETY_E_FOREIGN         `address` is not the pool's.
 * @return MOIETY_E_NO_HOST_MEMORY  Nothing was noted.
 *
 * Threads:   any, but not at the same time as the block's free. Takes a lock
 *            for an instant.
 * Streams:   to be called after the use was queued, or before the free at the
 *            latest. The block waits until an event of all contexts, recorded
 *            after the free, is over, or until the stream of the free and those
 *            of all uses have nothing left to do. Launches of a graph that
 *            `stream` captures by then are not waited for.
 */
MOIETY_API moiety_status moiety_record_use(moiety_pool *pool,
                                           moiety_devptr address,
                                           moiety_stream stream);

/**
 * Frees a block that is in use until an event of the caller's is over.
 *
 * @param pool     The pool that the block is from.
 * @param address  A live block's address; 0 does nothing.
 * @param event    An event that was recorded after the last use, in any
 *                 context of the pool's device; the caller may record it again
 *                 or destroy it when the call has returned.
 *
 * @return as moiety_free()
 * @return MOIETY_E_IN_USE   The block is exported, or a capture scope keeps it.
 * @return MOIETY_E_DRIVER   The driver refused the event: the block is still
 *         the caller's.
 *
 * Ownership: the block is the pool's after MOIETY_OK, the caller's otherwise.
 * Threads:   Calls the driver; does not wait for the event.
 * Streams:   an event that is over when the call is made is waited for no more;
 *            one that is not, until an event of all contexts, recorded later, is
 *            over: the pool keeps none of the caller's.
 */
MOIETY_API moiety_status moiety_free_on_event(moiety_pool *pool,
                                              moiety_devptr address,
                                              moiety_event event);

/**
 * Tells the pool that a stream is about to be destroyed. To be called before
 * cuStreamDestroy(): a later stream may get the same handle.
 *
 * @param pool    A pool whose blocks were used on the stream.
 * @param stream  A created stream. One that the pool has not seen is fine.
 *
 * @return MOIETY_E_INVALID   `pool` is NULL, or `stream` is no created stream
 *         (null, LEGACY, PER_THREAD, ANY, DONE).
 * @return MOIETY_E_IN_USE    A capture scope of the pool is open for it.
 * @return MOIETY_E_CAPTURING  It captures a graph: what was freed on it waits for
 *         the whole context instead.
 * @return MOIETY_E_DRIVER    No event could be recorded on it: what was freed
 *         on it waits for the whole context instead.
 *
 * Ownership: the stream stays the caller's, and may be destroyed now.
 * Threads:   any, but no other call may name this stream at the same time or
 *            later, until a new stream has got the handle. Waits for calls of
 *            other threads that are recording on it.
 * Streams:   an event is recorded on it.
 */
MOIETY_API moiety_status moiety_pool_retire_stream(moiety_pool *pool,
                                                   moiety_stream stream);

/**
 * The same for all pools and host arenas of the process: for programs that do not
 * know which of them have met the stream.
 *
 * @param stream  A created stream.
 *
 * @return MOIETY_E_INVALID   `stream` is no created stream.
 * @return as moiety_pool_retire_stream() of the first pool that did not return
 *         MOIETY_OK: the others are told all the same.
 *
 * Ownership, Threads, Streams, Context: as moiety_pool_retire_stream(). Pools that
 * are made meanwhile may be left out, and may not know the stream.
 */
MOIETY_API moiety_status moiety_retire_stream(moiety_stream stream);

/**
 * Keeps all pools of the process from recording a context event, which would
 * break a graph capture under way in the context. Hold a guard from before
 * cuStreamBeginCapture() until after cuStreamEndCapture(), whichever thread
 * captures. Guards are counted. Meanwhile what was freed with
 * MOIETY_STREAM_ANY waits, and pools are slower: they ask the driver at each
 * call whether the stream captures. Memory for the capture itself takes a
 * capture scope, moiety/scope.h, which is a guard too.
 *
 * @return MOIETY_E_FORKED  No guard was taken.
 * @return MOIETY_E_REENTRANT  No guard was taken: this is a signal handler that
 *         interrupted another call of the library in the same thread.
 *
 * Threads:   any; the two calls of a pair may come from different threads.
 *            Waits for context events that are being recorded right now, which
 *            takes a microsecond. With a driver that has none (before CUDA 12.5)
 *            it waits for threads that wait for all work of a context.
 * Context:   none need be current. The first guard records an event in each
 *            context of pools that streams have freed in.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_capture_guard_begin(void);

/**
 * Ends what moiety_capture_guard_begin() began.
 *
 * @return MOIETY_E_INVALID  No guard is held.
 * @return MOIETY_E_REENTRANT  As above: the guard is still held.
 *
 * Threads:   Takes a lock for an instant. The end of the last guard tries the
 *            pools that moiety_pool_destroy_later() has kept.
 * Streams:   none, but for such pools.
 * Context:   none; the driver is not called, but for such pools.
 */
MOIETY_API moiety_status moiety_capture_guard_end(void);

/**
 * Destroys a pool at once, or as soon as nothing keeps it from ending: for owners
 * whose end can neither wait nor return a status, such as destructors. A pool whose
 * end moiety_pool_destroy() would refuse stays as it is, and its end is tried again
 * later. So it is while a capture guard is held, and for two seconds after a pool of
 * the process met a capture (moiety_capture_age_ns()).
 *
 * Calls of any thread try again: the end of the last capture guard or scope; those
 * that make, trim or destroy a pool or an arena, or destroy one later; and
 * allocations that may wait and that the caches do not serve. A try never waits for
 * the device. It ends a pool whose work was over, and, if the driver would wait
 * before it takes the memory back (memory that is not mapped), only while the
 * contexts of the pool have no work at all. Until then, and for good if none of these
 * calls is made or the driver refuses all events, the pool keeps its memory. With a
 * driver before CUDA 12.5, which cannot be asked, a try waits as
 * moiety_pool_destroy() does; allocations and trims then make none.
 *
 * @param pool  NULL does nothing.
 *
 * @return MOIETY_OK         The pool is gone, or will be; also if it was left so
 *         before, and is still there. What its end says later is a warning to the
 *         log function (moiety/callbacks.h).
 * @return any other status  as moiety_pool_destroy()
 *
 * Ownership: ends.
 * Threads:   any, also two for one pool. This call itself waits as
 *            moiety_pool_destroy() does, unless the pool is kept.
 * Streams, Context: as moiety_pool_destroy()
 */
MOIETY_API moiety_status moiety_pool_destroy_later(moiety_pool *pool);

/**
 * Nanoseconds since a pool of the process met a graph capture while no capture guard
 * was held: a stream that it was called for captured, the legacy stream told of a
 * blocking one that does, or the driver refused an event because of one. 0: a guard is
 * held. For bindings that destroy or trim pools at a moment which nobody chose, as a
 * garbage collector's is: that waits for the context, and ends a capture that is still
 * under way. A capture of a non-blocking stream that no pool was called for meanwhile
 * is met only by the event that ends it.
 *
 * @return UINT64_MAX  No pool has met one.
 *
 * Threads:   Never waits. No driver call.
 */
MOIETY_API uint64_t moiety_capture_age_ns(void);

/**
 * Waits for all work that was queued before, as cuCtxSynchronize() does, and for
 * what was freed before to be everybody's: an allocation on any stream may have
 * it, and moiety_pool_trim() gives it back. Never while a graph is captured
 * under a guard.
 *
 * @param timeout_ms  Milliseconds to wait at most; 0: only ask. Work that has
 *                    just ended may be asked for twice.
 *
 * @return MOIETY_E_INVALID         `pool` is NULL.
 * @return MOIETY_E_CAPTURING       A capture guard, or a scope of any pool, is
 *         held: the call did not wait. Or one came, or a graph was captured
 *         without a guard, so that no event could be recorded for the pool's
 *         wait_ms, 200 at least. Memory that is idle by then is free.
 * @return MOIETY_E_TIMEOUT         Work was not over after `timeout_ms`; or the
 *         driver refused events for that long. Memory that is idle by then is
 *         free.
 * @return MOIETY_E_INTERRUPTED     See moiety_set_interrupt(). As above.
 * @return MOIETY_E_CONTEXT_DESTROYED
 * @return MOIETY_E_NO_HOST_MEMORY  The thread's first call.
 *
 * Threads:   any, concurrently; others allocate and free meanwhile. Takes the
 *            caches of threads that are in no call of the pool; those that are
 *            in one give theirs up at their next, and what they freed may wait
 *            for that.
 * Streams:   all of the contexts that the pool knows. Work that is queued during
 *            the call may be waited for. What was freed in private arenas is
 *            taken back at their next call. A driver without events of a context
 *            (before CUDA 12.5) blocks until all work is over, whatever
 *            `timeout_ms` is.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_synchronize(moiety_pool *pool, uint32_t timeout_ms);

/**
 * Names a further context whose work may use the pool's memory: that of a peer
 * device, or a second one of the same device. From then on what is freed with
 * MOIETY_STREAM_ANY waits for it too. Streams of it may be named like the
 * pool's own, but for 0, LEGACY and PER_THREAD, which mean the pool's context.
 *
 * @param context  A context, which must outlive the pool. Named twice, or the
 *                 pool's own: nothing changes.
 *
 * @return MOIETY_E_INVALID         `pool` is NULL, or nothing is mapped at
 *         `context`.
 * @return MOIETY_E_CONTEXT_DESTROYED  The pool's context is gone; or `context`
 *         was destroyed, or is no context: moiety/types.h.
 * @return MOIETY_E_NO_ROOM         The pool knows 16 of them already.
 *
 * Ownership: the context stays the caller's.
 * Threads:   Takes a lock for an instant. Call it before the context is given
 *            memory of the pool.
 * Context:   any may be current; the driver is asked about `context`.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_pool_add_context(moiety_pool *pool, moiety_context context);

/* Callers compiled so mean their own default stream by a null stream. */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define moiety_record_use(pool, address, stream)                               \
    moiety_record_use(pool, address, moiety_stream_of_caller(stream))
#endif

#ifdef __cplusplus
}
#endif

#endif
