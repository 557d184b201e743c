/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Streams, events and the workers that run what is queued on them.
 *
 * All functions: lock held, unless said otherwise.
 */
#ifndef MOIETY_POOL_STANDIN_STREAMS_ENGINE_H_
#define MOIETY_POOL_STANDIN_STREAMS_ENGINE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/standin/base/context.h"

/* Makes context->engine: the legacy default stream, no others yet. */
CUresult engine_context_init(struct CUctx_st *context);

/* Destroys all streams and events of `context`. Work that is queued and not
 * yet running is dropped; what runs is waited for. */
void engine_context_fini(struct CUctx_st *context);

/* The stream that `handle` names for the calling thread in `context`: 0 is the
 * legacy stream, or the thread's own where `is_per_thread`; 1 and 2 are these
 * two always. NULL and *why otherwise (INVALID_HANDLE). */
struct CUstream_st *engine_stream(struct CUctx_st *context, CUstream handle,
                                  bool is_per_thread, CUresult *why);

/* Waits while the stream that `handle` names is full of queued work, as every
 * call that queues some does. Releases the lock while it waits: look the stream
 * up afterwards. */
void engine_await_room(CUstream handle, bool is_per_thread);

/* The current context, as context_current() has it, after a wait for the
 * threads that are blocked on full streams of it: what cuEventCreate and
 * cuMemAlloc wait for. Releases the lock while it waits. */
struct CUctx_st *engine_await_launchers(CUresult *why);

/* Waits until everything queued in `context` so far is done, and holds back
 * every other thread's launches meanwhile: what cuMemFree, cuMemFreeHost and
 * cuMemHostUnregister do. Releases the lock while it waits. CUDA_SUCCESS, or
 * what the fault plan says of waits: then it has not waited. */
CUresult engine_drain_and_stall(struct CUctx_st *context);

/* Calls that had to wait for queued work, or failed by plan instead. */
uint64_t engine_wait_count(void);

/* Waits for everything queued in `context` so far; launches go on. For
 * cuCtxSynchronize: while anything in the context captures, it invalidates
 * these captures and returns STREAM_CAPTURE_UNSUPPORTED instead. */
CUresult engine_synchronize(struct CUctx_st *context);

/* Queues `run(argument)` on `stream`, in stream order; it runs on a worker
 * with the lock NOT held. For work of other files (cuMemFreeAsync). While the
 * stream captures, the call becomes a node of the graph instead. */
CUresult engine_submit_action(struct CUstream_st *stream,
                              void (*run)(void *argument), void *argument);

/* Holds or releases a stream of the current context: held, its queued work
 * does not start. Counted. */
CUresult engine_hold(CUstream handle);
CUresult engine_release(CUstream handle);

/* Live "streams", "events" or "graphs" that the user made, or calls that are
 * "blocked"; -1 for another
 * kind. */
int64_t engine_live(const char *kind);

#endif
