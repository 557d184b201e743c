/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Work is a graph of operations: an operation starts when all that it depends on
 * is done, and a stream is only the rule that each operation depends on the one
 * queued before it. Events, joins of whole contexts and waits are operations as
 * well, so one mechanism orders all.
 *
 * All functions: lock held, unless said otherwise. All fields: under the lock;
 * `work` of a running operation belongs to the thread that runs it.
 */
#ifndef MOIETY_POOL_STANDIN_WORK_OP_H_
#define MOIETY_POOL_STANDIN_WORK_OP_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/standin/base/context.h"
#include "pool/standin/work/work.h"

struct capture; /* capture.h */
struct CUgraphNode_st;

enum op_state {
    OP_WAITING, /* for others, for a hold, for a value or for time */
    OP_READY,   /* in the workers' queue */
    OP_RUNNING,
    OP_DONE
};

/* "`waiter` depends on me". */
struct op_edge {
    struct op_edge *next;
    struct op *waiter; /* referenced */
};

struct op {
    struct op *next; /* in the one queue it is in: settle, ready or watch */
    struct op *live_next, *live_previous; /* engine->live, until done */
    unsigned references;
    unsigned unmet_count; /* dependencies not done */
    enum op_state state;
    struct engine *engine;      /* NULL when done */
    struct CUstream_st *stream; /* referenced; NULL: in no stream, or done */
    struct op_edge *edges;
    uint64_t done_ns; /* monotonic time at which it was done */
    struct work work;
};

/* Nodes of a graph, by handle. */
struct node_set {
    CUgraphNode *nodes;
    size_t count, capacity;
};

struct CUstream_st {
    struct CUstream_st *next, *previous; /* engine->streams */
    struct CUstream_st *next_per_thread; /* engine->per_thread */
    struct engine *engine;
    struct CUctx_st *context;
    CUstream handle;     /* NULL: a default stream */
    unsigned references; /* its owner's, and one per operation */
    unsigned flags;
    int priority;
    uint64_t id;            /* never used again */
    uint64_t thread_serial; /* of whom it is the default stream; or 0 */
    unsigned hold_count;
    unsigned queued_count; /* operations not done that take a place */
    struct op *tail;       /* referenced; NULL: idle */
    struct op *late;       /* referenced; its last event that the plan delays */
    struct op *parked;     /* ready but for the hold */
    struct capture *capture;
    struct node_set capture_tail; /* what the next captured node follows */
};

struct CUevent_st {
    CUevent handle;
    struct CUctx_st *context;
    unsigned flags;
    struct op *op;                /* referenced; NULL: never recorded */
    uint64_t capture_id;          /* not 0: last recorded in a capture */
    struct node_set capture_tail; /* the nodes it stands for there */
};

struct engine {
    struct CUctx_st *context;
    struct CUstream_st *streams; /* all, until their last work is done */
    struct CUstream_st *legacy;
    struct CUstream_st *per_thread;
    struct op *live;    /* not done yet */
    struct op *barrier; /* referenced; cuCtxWaitEvent: work follows it */
    struct op *late;    /* referenced; the last event the plan delays */
    struct op *foreign; /* referenced; copies of others that use its memory */
    unsigned stalls;    /* threads that hold back everybody's launches */
    CUresult error;     /* sticky: work has failed */
};

static inline bool stream_is_legacy(const struct CUstream_st *stream)
{
    return stream == stream->engine->legacy;
}

static inline bool stream_is_blocking(const struct CUstream_st *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* --- counted.c -------------------------------------------------------- */

/* Internal records that have no caller to report to: never NULL; a process out
 * of host memory is told so and ends. */
void *engine_alloc(size_t size_bytes);
uint64_t engine_now_ns(void);

/* Work that is nothing but a place in the order. */
extern const struct work op_marker;

/* A new operation that will not start before op_start(). The caller owns one
 * reference besides the engine's own. */
struct op *op_make(struct engine *engine, const struct work *work);
void op_unref(struct op *op);
void stream_unref(struct CUstream_st *stream);

/* --- op.c ------------------------------------------------------------- */

/* `op` waits for `other`, unless that is NULL or done. Before op_start(). */
void op_depend(struct op *op, struct op *other);
void op_start(struct op *op);
/* Worker or watcher: `op` ended with `code`. */
void op_end(struct op *op, CUresult code);
/* Ends an operation that is not running without doing its work; work that
 * must not be lost is sent to the workers at once instead. */
void op_cancel(struct op *op);
/* The hold on `stream` is over: what it parked may start. */
void op_unpark(struct CUstream_st *stream);
/* Blocks until `op` is done; releases the lock meanwhile. NULL is done. */
void op_wait(const struct op *op);
/* Blocks until some operation ends, or for no reason; the same. */
void op_wait_for_any(void);
bool op_is_done(const struct op *op);

/* --- worker.c, watcher.c ---------------------------------------------- */

/* What ends an operation: op_end(). */
typedef void op_ender(struct op *op, CUresult code);
/* Starts the first worker and the watcher, once; they end operations by it. */
CUresult workers_start(op_ender *end);
CUresult watcher_start(op_ender *end);
bool thread_start_detached(void *(*run)(void *), void *argument);
void worker_queue(struct op *op);
/* Ends `op` as soon as its work's test says so; looked at every 50 us. */
void watcher_queue(struct op *op);
/* Looks now: a value was written. */
void watcher_look(void);

#endif
