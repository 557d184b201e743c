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
 * What pool/cache keeps for a stream, depots, lies in its stream state; this
 * folder never looks into it.
 */
#ifndef BINADE_POOL_STREAM_STREAMS_H_
#define BINADE_POOL_STREAM_STREAMS_H_

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "binade/status.h"
#include "binade/stream.h"
#include "binade/types.h"
#include "pool/base/counter.h"
#include "pool/buddy/classes.h"
#include "pool/buddy/map.h"
#include "pool/driver/context.h"
#include "pool/driver/driver_table.h"

struct binadei_bundle;

#define BINADEI_DEPOT_PLACES 8U
#define BINADEI_CONTEXTS_MAX 17U /* the pool's own and 16 more */
#define BINADEI_STREAM_STATES_MAX 16384U
#define BINADEI_STREAM_STATE_BUCKETS 2048U

enum binadei_stream_state_kind {
    BINADEI_STREAM_STATE_DONE,      /* nothing is pending */
    BINADEI_STREAM_STATE_ANY,       /* freed by who names no stream */
    BINADEI_STREAM_STATE_STREAM,    /* one stream */
    BINADEI_STREAM_STATE_PER_THREAD /* the default stream of one thread */
};

/* Where the ageing map of a stream is: see epoch.h. */
enum binadei_epoch_state {
    BINADEI_EPOCH_IDLE,       /* it is empty */
    BINADEI_EPOCH_UNRECORDED, /* closed, and no event says when it is done */
    BINADEI_EPOCH_OWN,        /* behind the event of the stream */
    BINADEI_EPOCH_CONTEXT     /* behind an event of all contexts */
};

struct binadei_epoch {
    /* Edge RO: released (release) -> taken (acquire), by compare-and-swap and
     * never waited for. Its holder alone closes and drains the maps, and reads
     * and writes what is below. */
    atomic_bool is_taken;
    enum binadei_epoch_state state;
    uint64_t number;   /* CONTEXT: of the event */
    CUevent event;     /* of the stream's own; made when first needed */
    CUcontext context; /* of the event */
    /* Closed for the next event of all contexts, whose role's holder has this
     * one's as well; that one's alone to read and write. */
    bool is_joining;
    /* Edge MV: counted (release) -> who frees (acquire). How often something was
     * moved from fresh to ageing, counted after the move, so that what is freed
     * after a look is moved by a later one; and that count when what was ageing
     * left. */
    _Atomic uint64_t moves;
    uint64_t left_at_moves;
    /* Edge: none; relaxed, for reports. CLOCK_MONOTONIC. */
    _Atomic uint64_t closed_ns;
};

struct binadei_stream_state {
    enum binadei_stream_state_kind kind;
    uint32_t index; /* in the table */
    /* Stands for this stream, and for none that has the stream state later.
     * Constant while the stream state has users; the stream states' lock. */
    uint32_t note;
    CUstream stream;
    CUcontext context; /* of the stream */
    const void *owner; /* of PER_THREAD: whose */
    /* the stream states' lock; see closed_first */
    struct binadei_stream_state *next_in_bucket;
    /* Edge SU: down by anyone (release) -> who would use the stream state again
     * (acquire). Caches and notes that refer to it; up under the stream states'
     * lock. */
    atomic_uint cache_count;

    /* Edge PI: is_closed (release) -> a slow path's look after it has counted
     * itself; both sides are sequentially consistent. */
    atomic_uint pins;
    atomic_bool is_closed;
    /* Edge SF: retire (release) -> who finds the stream state closed (acquire).
     * The event that stands for a stream that is retired; NULL: none yet, and
     * all work of the context stands for it. */
    _Atomic(CUevent) final_event;

    /* What was freed on it and is no other stream's yet; constant. NULL for
     * DONE, whose blocks go to the buddy. */
    struct binadei_maps *maps;
    struct binadei_epoch epoch;
    /* What it said when it was asked last; by who has the role of ANY's stream
     * state. */
    uint64_t asked_round;
    bool was_idle;

    /* Edge: none; relaxed: a bound. Counted in before a bundle is put and out
     * after it was taken, so where it is 0 the depot is empty. */
    _Atomic uint64_t depot_bytes;
    /* Edge DE: put (release) -> take (acquire). Of small blocks. */
    alignas(64) _Atomic(struct binadei_bundle *)
        depot[BINADEI_SMALL_CLASSES][BINADEI_DEPOT_PLACES];
};

/* Events of all contexts that may be in flight. */
#define BINADEI_CONTEXT_EPOCHS 4U

/* Numbers go up from 1; a later event is over no earlier than one before. */
struct binadei_context_epochs {
    /* Edge RO, as of a stream's: its holder alone records and asks. */
    atomic_bool is_taken;
    /* Edge CE: recorded and passed (release) -> who finds that its number has
     * (acquire). */
    _Atomic uint64_t recorded;
    _Atomic uint64_t passed;
    CUevent events[BINADEI_CONTEXT_EPOCHS][BINADEI_CONTEXTS_MAX];
    unsigned counts[BINADEI_CONTEXT_EPOCHS]; /* of contexts */
};

/* What one who asks counts. */
enum binadei_stream_count {
    BINADEI_STREAM_EPOCHS, /* closed behind an event */
    BINADEI_STREAM_EVENTS,
    BINADEI_STREAM_CONTEXT_EVENTS,
    BINADEI_STREAM_QUERIES,
    BINADEI_STREAM_WAITS,
    BINADEI_STREAM_GUARDED,
    BINADEI_STREAM_DISTURBED,
    BINADEI_STREAM_COUNTS
};

struct binadei_streams;

/* What pool/cache does when something happens here. */
struct binadei_stream_hooks {
    /* ANY's memory was drained; the role of its stream state is held. */
    void (*any_drained)(struct binadei_streams *streams);
    /* Before the first capture guard of the process is held, and under the lock
     * of capture_guard.c: binadei_epochs_close_before_capture_guard(). */
    void (*close)(struct binadei_streams *streams);
    /* The first capture guard of the process begins, or the last has ended;
     * under the lock of capture_guard.c. */
    void (*guarded)(struct binadei_streams *streams, bool is_held);
};

struct binadei_streams {
    const struct binadei_driver *driver;
    struct binadei_buddy *buddy;
    /* The pool's own context, contexts[0]: every section is entered by it. */
    struct binadei_context *own_context;
    struct binadei_stream_hooks hooks;
    struct binadei_context_epochs context_epochs;
    /* Edge: none; relaxed, advice. Somebody needed what streams freed and a
     * capture guard was held: calls that name a stream record on it. */
    atomic_bool wants_own_epochs;
    /* capture_guard.c's, under its lock */
    struct binadei_streams *next_guarded;
    /* CT: recorded before a guard began, under the same lock. */
    binadei_counter guard_events;

    /* The pool's own first; only appended to. Edge CX: context_count (release) ->
     * its readers (acquire). */
    CUcontext contexts[BINADEI_CONTEXTS_MAX];
    atomic_uint context_count;

    pthread_mutex_t stream_states_lock;
    struct binadei_stream_state *buckets[BINADEI_STREAM_STATE_BUCKETS];
    /* Closed stream states, in the order in which they are looked at to be used
     * again; by next_in_bucket. The stream states' lock. */
    struct binadei_stream_state *closed_first;
    struct binadei_stream_state *closed_last;
    /* Edge: none; relaxed, advice: how many they are. */
    atomic_uint closed_count;
    struct binadei_stream_state *any;
    struct binadei_stream_state *done;
    /* Edge SN: stream_state_count (release) -> its readers (acquire); stream
     * states are never freed before the engine, only used again. */
    _Atomic(struct binadei_stream_state *)
        stream_states[BINADEI_STREAM_STATES_MAX];
    atomic_uint stream_state_count;
};

/* Begins streams whose driver, buddy, home and hooks are set, and all else 0.
 * `any_maps` outlive them. False: there is no memory. */
bool binadei_streams_init(struct binadei_streams *streams,
                          struct binadei_maps *any_maps);
/* No call is under way. */
void binadei_streams_fini(struct binadei_streams *streams);

/* Adds a context that ANY waits for. BINADE_OK, BINADE_E_TOO_LARGE. */
BINADE_MUST_USE binade_status
binadei_streams_add_context(struct binadei_streams *streams, CUcontext context);
/* Whether it is the pool's own, or was added. */
bool binadei_streams_know_context(const struct binadei_streams *streams,
                                  CUcontext context);

/* A role, which its holder alone has, and nobody waits for. */
static inline bool binadei_role_try_take(atomic_bool *is_taken)
{
    /* relaxed: a look. */
    if (atomic_load_explicit(is_taken, memory_order_relaxed))
        return false;
    /* RO.acquire: what the last holder did. */
    return !atomic_exchange_explicit(is_taken, true, memory_order_acquire);
}

static inline void binadei_role_release(atomic_bool *is_taken)
{
    /* RO.release. */
    atomic_store_explicit(is_taken, false, memory_order_release);
}

/* A thread that asks, within a call that names a stream. */
struct binadei_stream_user {
    struct binadei_streams *streams;
    binadei_counter *counts; /* by enum binadei_stream_count */
    /* of the stream that the call names */
    struct binadei_stream_state *stream_state;
    /* the owner of stream states of its own default stream */
    const void *thread;
    bool may_wait;     /* for other threads and the device */
    bool is_capturing; /* the stream is known to capture a graph */
};

static inline void binadei_stream_tally(const struct binadei_stream_user *user,
                                        enum binadei_stream_count which)
{
    binadei_count_add(&user->counts[which], 1);
}

static inline unsigned
binadei_stream_state_count(const struct binadei_streams *streams)
{
    /* SN.acquire: the stream states that are counted. */
    return atomic_load_explicit(&streams->stream_state_count,
                                memory_order_acquire);
}

static inline struct binadei_stream_state *
binadei_stream_state_at(const struct binadei_streams *streams, uint32_t index)
{
    /* relaxed: SN brought it. */
    return atomic_load_explicit(&streams->stream_states[index],
                                memory_order_relaxed);
}

#endif
