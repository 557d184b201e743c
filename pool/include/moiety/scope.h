/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Capture scopes: memory for CUDA graphs. A graph that is captured runs later,
 * on any stream, any number of times, so what it uses must stay reserved as
 * long as it may run, also what was freed while it was captured. A scope knows
 * which blocks these are. docs/cuda-graphs.md has the contract and an example.
 * All pools have scopes; in a checked one, what a graph writes after the
 * release is found.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_SCOPE_H_
#define MOIETY_SCOPE_H_

#include "moiety/pool.h"
#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Opens a scope for one capture that is about to begin on `stream`, and takes a
 * capture guard for it. To be called before cuStreamBeginCapture(). While it is
 * open, what is allocated for that stream, and for streams that joined its
 * capture, belongs to the scope as soon as they capture.
 *
 * @param pool    The pool.
 * @param stream  The stream that will begin the capture; one that only joins it
 *                needs no scope of its own: if it has an open one, the two share
 *                the capture, and its memory stays until both are released. MOIETY_STREAM_PER_THREAD means the
 *                calling thread's.
 * @param out     [out] The scope. Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_E_INVALID         `pool` or `out` is NULL; `stream` cannot
 *         capture (null, LEGACY, ANY, DONE), or has an open scope in this pool;
 *         in a checked pool, `stream` was destroyed.
 * @return MOIETY_E_NO_HOST_MEMORY
 * @return what the driver said about the stream
 *
 * Ownership: the caller's: it is ended, and then released.
 * Threads:   any. Takes locks for an instant, and waits for context events that
 *            are being recorded right now, which takes a microsecond.
 * Streams:   `stream` must live until the scope is ended. An event is recorded
 *            on it if memory was freed on it: none can be while it captures.
 *            That waits where the stream's launch queue is full.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_scope_begin(moiety_pool *pool, moiety_stream stream, moiety_scope *out);

/**
 * Ends a scope and gives its capture guard back. To be called after
 * cuStreamEndCapture(), also when the capture failed. Its blocks stay as they
 * are: the graph may run now.
 *
 * @param scope  An open scope.
 *
 * @return MOIETY_E_INVALID  `scope` is NULL.
 * @return MOIETY_E_DESTROYED  also when it was ended before.
 *
 * Ownership: the scope stays the caller's.
 * Threads:   any, also another one than began it. Takes locks for an instant.
 * Context:   none; the driver is not called, but as by the end of a guard.
 */
MOIETY_API moiety_status moiety_scope_end(moiety_scope scope);

/**
 * Releases what a scope kept reserved. To be called when the graph will not be
 * launched any more; launches that are queued need not be over. What was freed
 * into the scope is free from now on, as by moiety_free() with
 * MOIETY_STREAM_ANY. What was not freed stays valid and is an ordinary block
 * from now on, to be freed as such.
 *
 * @param scope  An ended scope.
 *
 * @return MOIETY_OK                The scope is gone.
 * @return MOIETY_E_INVALID         `scope` is NULL.
 * @return MOIETY_E_IN_USE          It is open, or another thread releases it
 *         right now.
 * @return MOIETY_E_NO_HOST_MEMORY, MOIETY_E_DRIVER  The scope is still there,
 *         with what could not be freed: call again.
 *
 * Ownership: ends.
 * Threads:   any. Takes a lock for an instant for each block.
 * Streams:   the memory serves others when all work that the pool's contexts
 *            have now is over.
 */
MOIETY_API moiety_status moiety_scope_release(moiety_scope scope);

/**
 * Releases all scopes of a pool that are not open: those that were ended, and
 * those that MOIETY_POOL_AUTO_SCOPE opened. No capture that the latter belong
 * to may be under way any more.
 *
 * @param pool  The pool.
 *
 * @return MOIETY_E_INVALID  `pool` is NULL.
 * @return MOIETY_E_IN_USE   Another thread releases one of them right now.
 * @return MOIETY_E_NO_HOST_MEMORY, MOIETY_E_DRIVER  as moiety_scope_release();
 *         the scopes that come after are still there.
 *
 * Ownership: of the scopes ends.
 * Threads:   any. Takes a lock for an instant for each block.
 * Streams:   as moiety_scope_release().
 */
MOIETY_API moiety_status moiety_scope_release_all(moiety_pool *pool);

#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define moiety_scope_begin(pool, stream, out)                                  \
    moiety_scope_begin(pool, moiety_stream_of_caller(stream), out)
#endif

#ifdef __cplusplus
}
#endif

#endif
