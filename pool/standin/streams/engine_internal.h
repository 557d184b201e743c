/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the files of streams, and those above that queue work, share.
 *
 * All functions: lock held, unless said otherwise.
 */
#ifndef MOIETY_POOL_STANDIN_STREAMS_ENGINE_INTERNAL_H_
#define MOIETY_POOL_STANDIN_STREAMS_ENGINE_INTERNAL_H_

#include <stdbool.h>

#include "pool/standin/streams/engine.h"
#include "pool/standin/work/op.h"

/* --- engine.c --------------------------------------------------------- */

/* An operation that is done when all that is queued in `engine` is. */
struct op *engine_join(struct engine *engine);
/* A wait for all of `engine` waits for `op` of another context too. */
void engine_keep_busy(struct engine *engine, struct op *op);
/* Blocks the caller until `op` (NULL is done) is over, gives its reference
 * back, and says how `context` fares then. */
CUresult engine_wait_for(struct CUctx_st *context, struct op *op);
/* Frees an event whose handle is gone. */
void event_free(struct CUevent_st *event);
/* Wraps an event's operation when the fault plan makes events late: on
 * `stream`, NULL for the whole context. Takes over the reference to `op` and
 * gives one to the result. */
struct op *engine_delay_event(struct engine *engine, struct CUstream_st *stream,
                              struct op *op);

/* --- launch.c --------------------------------------------------------- */

/* stream_named(), for a call that queues work: first waits while launches are
 * held back or the stream's queue is full, then applies sticky errors and the
 * capture rules. */
struct CUstream_st *launch_begin(CUstream handle, bool is_per_thread,
                                 CUresult *why);
/* What launch_begin() applies after the wait. */
CUresult launch_refusal(const struct CUstream_st *stream);
/* Queues `work`, or makes it a node where the stream captures; takes over what
 * the work owns. *out (may be NULL) gets a referenced operation, or NULL when
 * it became a node. */
CUresult launch(struct CUstream_st *stream, const struct work *work,
                struct op **out);
/* Queues on `stream` by the rules of streams; one reference is the caller's. */
struct op *enqueue(struct CUstream_st *stream, const struct work *work,
                   struct op *also_after);

/* --- queue.c ---------------------------------------------------------- */

/* The stream takes no further operation before one of its own is over. */
bool queue_is_full(const struct CUstream_st *stream);
/* Waits until the launchers that are blocked on `stream` now have gone on.
 * True: it has waited, and the stream may be gone. */
bool queue_await_launchers(const struct CUstream_st *stream);
/* Calls that wait in engine_await_room() or for one that does. */
unsigned queue_blocked(void);

/* --- stream.c --------------------------------------------------------- */

struct CUstream_st *stream_make(struct engine *engine, unsigned flags);
/* The stream of any context that `handle` names; NULL and *why. */
struct CUstream_st *stream_named(CUstream handle, bool is_per_thread,
                                 CUresult *why);
/* Its owner lets go: holds and captures end, queued work still runs. */
void stream_end(struct CUstream_st *stream);
/* Nothing is queued that a wait for `stream` waits for (legacy: blocking
 * streams too). */
bool stream_is_idle(const struct CUstream_st *stream);
/* An operation that is done when the stream would be idle by what is queued
 * now; referenced, NULL when it is idle. */
struct op *stream_join(const struct CUstream_st *stream);

#endif
