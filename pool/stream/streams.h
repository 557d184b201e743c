/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The streams that a pool knows, and what they freed. Private to this folder
 * and pool/cache; docs/streams.md explains how the parts work together.
 *
 *   streams       one per pool
 *   stream state  one per pool and stream: whose memory may be reused when
 *   epoch         what was freed on a stream state and waits for the same event
 *
 */
#ifndef MOIETY_POOL_STREAM_STREAMS_H_
#define MOIETY_POOL_STREAM_STREAMS_H_

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"
#include "pool/base/counter.h"
#include "pool/driver/context.h"
#include "pool/driver/driver_table.h"
#include "pool/heap/classes.h"
#include "pool/heap/heap.h"

#define MOIETYI_CONTEXTS_MAX 17U /* the pool's own and 16 more */
#define MOIETYI_STREAM_STATES_MAX 16384U
#define MOIETYI_STREAM_STATE_BUCKETS 2048U

enum moietyi_stream_state_kind {
    MOIETYI_STREAM_STATE_DONE,      /* nothing is pending */
    MOIETYI_STREAM_STATE_ANY,       /* freed by callers that name no stream */
    MOIETYI_STREAM_STATE_STREAM,    /* one stream */
    MOIETYI_STREAM_STATE_PER_THREAD /* the default stream of one thread */
};

/* Where the ageing memory of a stream is: see epoch.h. */
enum moietyi_epoch_state {
    MOIETYI_EPOCH_IDLE,       /* it is empty */
    MOIETYI_EPOCH_UNRECORDED, /* closed, and no event says when it is done */
    MOIETYI_EPOCH_OWN,        /* behind the event of the stream */
    MOIETYI_EPOCH_CONTEXT     /* behind an event of all contexts */
};

struct moietyi_epoch {
    /* Edge RO: released (release) -> taken (acquire), by compare-and-swap and
     * never waited for. Its holder alone closes and drains the heap, and reads
     * and writes what is below. */
    atomic_bool is_taken;
    enum moietyi_epoch_state state;
    uint64_t number;   /* CONTEXT: of the event */
    CUevent event;     /* of the stream's own; made when first needed */
    CUcontext context; /* of the event */
    /* Closed for the next event of all contexts, whose role's holder has this
     * one's as well; that one's alone to read and write. */
    bool is_joining;
    /* Edge MV: counted (release) -> the thread that frees (acquire). How often
     * memory was moved from fresh to ageing, counted after the move, so that
     * memory freed after a look is moved by a later one; and that count when
     * the ageing memory left. */
    _Atomic uint64_t moves;
    uint64_t left_at_moves;
    /* Edge: none; relaxed, for reports. CLOCK_MONOTONIC. */
    _Atomic uint64_t closed_ns;
};

struct moietyi_stream_state {
    enum moietyi_stream_state_kind kind;
    uint32_t index; /* in the table */
    /* The number of this stream only. Constant while the stream state has
     * users; the stream states' lock. */
    uint32_t note;
    CUstream stream;
    CUcontext context; /* of the stream */
    const void *owner; /* of PER_THREAD: whose */
    /* the stream states' lock; see closed_first */
    struct moietyi_stream_state *next_in_bucket;
    /* Edge SU: down by anyone (release) -> the thread that uses the stream
     * state again (acquire). Caches and notes that refer to it; up under the
     * stream states' lock. */
    atomic_uint cache_count;

    /* Edge PI: is_closed (release) -> a slow path's look after it has counted
     * itself; both sides are sequentially consistent. */
    atomic_uint pins;
    atomic_bool is_closed;
    /* Edge SF: retire (release) -> who finds the stream state closed (acquire).
     * The event that stands for a retired stream; NULL: none yet, and all work
     * of the context stands for it. */
    _Atomic(CUevent) final_event;

    /* Memory that was freed on it and that no other stream may use yet;
     * constant. NULL for DONE, whose blocks are done. */
    struct moietyi_heap *heap;
    struct moietyi_epoch epoch;
    /* The last answer of the stream; written by the holder of the role of ANY's
     * stream state. */
    uint64_t asked_round;
    bool was_idle;
};

/* Events of all contexts that may be in flight. */
#define MOIETYI_CONTEXT_EPOCHS 4U

/* Numbers count from 1; a later event is over no earlier than an earlier
 * one. */
struct moietyi_context_epochs {
    /* Edge RO, as of a stream's: only its holder records and asks. */
    atomic_bool is_taken;
    /* Edge CE: recorded and passed (release) -> who finds that its number has
     * (acquire). */
    _Atomic uint64_t recorded;
    _Atomic uint64_t passed;
    CUevent events[MOIETYI_CONTEXT_EPOCHS][MOIETYI_CONTEXTS_MAX];
    unsigned counts[MOIETYI_CONTEXT_EPOCHS]; /* of contexts */
};

/* The counters of a thread that asks. */
enum moietyi_stream_count {
    MOIETYI_STREAM_EPOCHS, /* closed behind an event */
    MOIETYI_STREAM_EVENTS,
    MOIETYI_STREAM_CONTEXT_EVENTS,
    MOIETYI_STREAM_WAITS,
    MOIETYI_STREAM_GUARDED,
    MOIETYI_STREAM_DISTURBED,
    MOIETYI_STREAM_COUNTS
};

struct moietyi_streams;

/* Hooks of pool/cache. */
struct moietyi_stream_hooks {
    /* ANY's memory was drained; the role of its stream state is held. */
    void (*any_drained)(struct moietyi_streams *streams);
    /* Before the first capture guard of the process is held; the pool does not
     * end meanwhile: moietyi_epochs_close_before_capture_guard(). */
    void (*close)(struct moietyi_streams *streams);
    /* The first capture guard of the process begins, or the last has ended;
     * under the lock of capture_guard.c. */
    void (*guarded)(struct moietyi_streams *streams, bool is_held);
};

struct moietyi_streams {
    const struct moietyi_driver *driver;
    struct moietyi_space *space;
    /* The pool's own context, contexts[0]: every section is entered by it. */
    struct moietyi_context *own_context;
    struct moietyi_stream_hooks hooks;
    struct moietyi_context_epochs context_epochs;
    /* Edge: none; relaxed, advice. A thread needed memory of streams while a
     * capture guard was held: calls that name a stream record on it. */
    atomic_bool wants_own_epochs;
    /* capture_guard.c's, under its lock */
    struct moietyi_streams *next_guarded;
    unsigned guard_visitors; /* threads that must find it alive */
    /* CT: recorded before a guard began. */
    moietyi_counter guard_events;
    /* Behind all work that each context had when the pool was first seen to be
     * closing: written by the thread that ends it. NULL: none yet. */
    CUevent last_events[MOIETYI_CONTEXTS_MAX];

    /* The pool's own first; only appended to. Edge CX: context_count (release) ->
     * its readers (acquire). */
    CUcontext contexts[MOIETYI_CONTEXTS_MAX];
    atomic_uint context_count;

    pthread_mutex_t stream_states_lock;
    struct moietyi_stream_state *buckets[MOIETYI_STREAM_STATE_BUCKETS];
    /* Closed stream states, in the order in which new streams look at them; by
     * next_in_bucket. The stream states' lock. */
    struct moietyi_stream_state *closed_first;
    struct moietyi_stream_state *closed_last;
    /* Edge: none; relaxed, advice: how many they are. */
    atomic_uint closed_count;
    struct moietyi_stream_state *any;
    struct moietyi_stream_state *done;
    /* Edge SN: stream_state_count (release) -> its readers (acquire); stream
     * states are never freed before the engine, only used again. */
    _Atomic(struct moietyi_stream_state *)
        stream_states[MOIETYI_STREAM_STATES_MAX];
    atomic_uint stream_state_count;
};

/* Begins streams whose driver, space, context and hooks are set, and all else
 * 0. `any_heap` outlives them. False: there is no memory. */
bool moietyi_streams_init(struct moietyi_streams *streams,
                          struct moietyi_heap *any_heap);
/* No call is under way. */
void moietyi_streams_fini(struct moietyi_streams *streams);

/* Adds a context that ANY waits for. MOIETY_OK, MOIETY_E_TOO_LARGE. */
MOIETY_MUST_USE moiety_status
moietyi_streams_add_context(struct moietyi_streams *streams, CUcontext context);
/* Whether it is the pool's own, or was added. */
bool moietyi_streams_know_context(const struct moietyi_streams *streams,
                                  CUcontext context);

/* A role: only its holder may do its work, and no thread waits for it. */
static inline bool moietyi_role_try_take(atomic_bool *is_taken)
{
    /* relaxed: a look. */
    if (atomic_load_explicit(is_taken, memory_order_relaxed))
        return false;
    /* RO.acquire: the last holder's work. */
    return !atomic_exchange_explicit(is_taken, true, memory_order_acquire);
}

static inline void moietyi_role_release(atomic_bool *is_taken)
{
    /* RO.release. */
    atomic_store_explicit(is_taken, false, memory_order_release);
}

/* A thread that asks, within a call that names a stream. */
struct moietyi_stream_user {
    struct moietyi_streams *streams;
    moietyi_counter *counts; /* by enum moietyi_stream_count */
    /* the stream state of the call's stream */
    struct moietyi_stream_state *stream_state;
    /* the owner of stream states of its own default stream */
    const void *thread;
    bool may_wait;     /* for other threads and the device */
    bool is_capturing; /* the stream is known to capture a graph */
};

static inline void moietyi_stream_tally(const struct moietyi_stream_user *user,
                                        enum moietyi_stream_count which)
{
    moietyi_count_add(&user->counts[which], 1);
}

static inline unsigned
moietyi_stream_state_count(const struct moietyi_streams *streams)
{
    /* SN.acquire: the stream states that are counted. */
    return atomic_load_explicit(&streams->stream_state_count,
                                memory_order_acquire);
}

static inline struct moietyi_stream_state *
moietyi_stream_state_at(const struct moietyi_streams *streams, uint32_t index)
{
    /* relaxed: SN brought it. */
    return atomic_load_explicit(&streams->stream_states[index],
                                memory_order_relaxed);
}

#endif
