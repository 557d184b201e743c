/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the facade uses of the caches: an engine per pool, and the parts of a
 * call that is no hit. The order in which an allocation tries them is the
 * facade's.
 */
#ifndef BINADE_POOL_CACHE_CACHE_H_
#define BINADE_POOL_CACHE_CACHE_H_

#include <stdbool.h>
#include <stdint.h>

#include "binade/status.h"
#include "binade/stream.h"
#include "pool/cache/flush.h"
#include "pool/cache/state.h"
#include "pool/cache/thread.h"
#include "pool/stream/event.h"

struct binadei_engine_options {
    struct binade_pool *pool; /* its engine is set */
    const struct binadei_driver *driver;
    struct binadei_segments *segments; /* outlive the engine */
    struct binadei_buddy *buddy;
    struct binadei_context *own_context; /* outlives the engine */
    uint64_t thread_cache_bytes;
    uint64_t cache_bytes;
    uint64_t history_entries; /* of each thread; 0: none */
    uint32_t noted_pages; /* of the offset space, to note streams; 0: do not */
    struct binadei_maps *any_maps; /* outlive the engine: see segment.h */
};

/* BINADE_OK or BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_engine_create(
    const struct binadei_engine_options *options, struct binadei_engine **out);
/* Waits for all work of the contexts, and gives all that is free to the buddy:
 * what has a metadata byte then is in use. No call is under way. BINADE_OK,
 * BINADE_E_BUSY (a capture guard is held: nothing was done), or what the driver
 * said. */
binade_status binadei_engine_drain(struct binadei_engine *engine);
/* After that. */
void binadei_engine_destroy(struct binadei_engine *engine);

/* Makes room for tags, if there is none yet. BINADE_OK,
 * BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status
binadei_engine_make_tags(struct binadei_engine *engine, uint32_t page_capacity);

/* A call that is no hit, for one stream of one pool. From its begin to its end
 * it is a slow path: see gate.h. */
struct binadei_call {
    struct binade_pool *pool;
    binade_stream stream; /* as the caller named it */
    struct binadei_engine *engine;
    struct binadei_thread *thread;
    struct binadei_thread_state *thread_state;
    struct binadei_cache *pop;
    struct binadei_cache *push;
    bool is_capturing; /* the stream; known only while a guard is held */
    bool has_missed;   /* the thread's magazines; counted once */
    bool is_pressed;   /* the pool may not grow: others' memory is wanted */
    bool may_wait;     /* for other threads and the device */
    int cancel_state;  /* the thread's, held meanwhile: see cancel.h */
    /* until the call's end; NULL: none */
    struct binadei_stream_state *pinned;
    struct binadei_capture capture; /* if it is */
};

/* As one who asks pool/stream. */
static inline struct binadei_stream_user
binadei_call_user(const struct binadei_call *call)
{
    struct binadei_stream_user user =
        binadei_thread_state_user(call->thread_state);
    user.stream_state = call->push->stream_state;
    user.may_wait = call->may_wait;
    user.is_capturing = call->is_capturing;
    return user;
}

/* Asks the driver about a stream; within a call. BINADE_OK, or what it said. */
BINADE_MUST_USE binade_status
binadei_look_for_capture(const struct binadei_call *call, binade_stream stream,
                         struct binadei_capture *out);

/* Begins it; a stream that the thread has not named yet gets its caches.
 * BINADE_OK, BINADE_E_INVALID (no pool), BINADE_E_FORKED, BINADE_E_BUSY,
 * BINADE_E_NO_HOST_MEMORY, or what the driver said about the stream. */
BINADE_MUST_USE binade_status binadei_call_begin(struct binade_pool *pool,
                                                 binade_stream stream,
                                                 struct binadei_call *out);
/* Begins one that calls nobody and waits for no thread's work: for a stream that
 * the thread has caches for, while nothing has to be looked at first. False: it
 * is for binadei_call_begin(). */
bool binadei_call_begin_plain(struct binade_pool *pool, binade_stream stream,
                              struct binadei_call *out);
/* A call for DONE goes on as one for the stream that a note stands for, which
 * is not retired before the call's end, or for ANY: where that stream was
 * retired, or is another thread's own. BINADE_OK, or BINADE_E_NO_HOST_MEMORY.
 */
BINADE_MUST_USE binade_status binadei_call_turn(struct binadei_call *call,
                                                uint32_t note);
/* Then: whether the stream captures. BINADE_OK, or what the driver said. */
BINADE_MUST_USE binade_status binadei_call_look(struct binadei_call *call);
void binadei_call_end(struct binadei_call *call);
/* Ends one that only looked: the driver is not called. */
void binadei_call_leave(struct binadei_call *call);
/* Before memory is taken: waits while another thread takes its final scan. */
void binadei_call_pass_gate(struct binadei_call *call);
/* Begins the call's slow path again after binadei_slow_path_end(): what others
 * asked for meanwhile is given up. */
void binadei_call_resume(struct binadei_call *call);
/* binadei_nap_longer(), outside of slow paths: others may search for the last
 * time meanwhile. */
void binadei_call_nap(struct binadei_call *call, long *duration_ns,
                      long most_ns);

struct binadei_request {
    struct binadei_size size;
    size_t size_bytes;
    uint32_t alignment_grains;
    bool is_exact; /* a longer one that a scope keeps will not do */
};

/* Takes a block: out of the thread's magazines, then of what threads share and
 * the buddy. False: there is none. Neither grows the pool nor waits. */
bool binadei_take(struct binadei_call *call,
                  const struct binadei_request *request, binade_devptr *out);
/* The same once more before memory is declared exhausted. */
bool binadei_take_last(struct binadei_call *call,
                       const struct binadei_request *request,
                       binade_devptr *out);

/* A block of the request's size begins there. */
void binadei_mark_block(struct binadei_engine *engine, binadei_grain start,
                        const struct binadei_request *request);
/* Notes what stream a block was allocated for, if the pool does. */
void binadei_note_stream(const struct binadei_call *call,
                         binade_devptr address);

/* Gives a block back that `stream` used last, without or with more to look up.
 * BINADE_OK, or why the block is still the caller's. */
BINADE_MUST_USE binade_status binadei_put(struct binadei_call *call,
                                          const struct binadei_block *block,
                                          binade_devptr address);
/* The block is its tenant's no more, if it has one, whose bytes it was. The call
 * holds it. */
void binadei_discharge(const struct binadei_call *call,
                       const struct binadei_block *block);
/* As binadei_put(), behind an event. */
BINADE_MUST_USE binade_status binadei_put_after(struct binadei_call *call,
                                                binade_devptr address,
                                                CUevent event);
BINADE_MUST_USE binade_status binadei_use(struct binadei_call *call,
                                          const struct binadei_block *block,
                                          binade_devptr address,
                                          binade_stream stream);
/* A block becomes `grains` long where it lies, for a caller who asked for
 * `size_bytes`. False: what is behind it is not free as the call sees it. */
BINADE_MUST_USE bool binadei_block_grow(struct binadei_call *call,
                                        const struct binadei_block *block,
                                        uint64_t grains, size_t size_bytes);
/* Notes a block's length. */
void binadei_block_mark(const struct binadei_call *call,
                        const struct binadei_block *block, uint64_t grains);
/* Gives the end of a block back, as freed by the call. */
void binadei_block_shrink(struct binadei_call *call,
                          const struct binadei_block *block, uint64_t grains);
/* Whether uses of the block are noted. */
bool binadei_is_used(struct binadei_engine *engine, binade_devptr address);

/* What a thread state's own thread gives up: its magazines. */
void binadei_thread_state_empty(struct binadei_thread_state *thread_state);

/* Steps of the way out of memory. True: something became free. */
bool binadei_reclaim_done(struct binadei_call *call);
/* Extends mapped memory by what is missing in a row, beside what the call may
 * take; as binadei_segments_extend(). */
BINADE_MUST_USE binade_status binadei_extend_for(struct binadei_call *call,
                                                 uint64_t needed_bytes);
/* Gives the source what is wholly free; as binadei_segments_trim(). */
binade_status binadei_trim_for(struct binadei_call *call, uint64_t keep_bytes,
                               uint64_t *out_bytes);
/* Gives the source all that is wholly free; as
 * binadei_segments_trim_unwatched(). */
binade_status binadei_trim_unwatched(struct binadei_call *call,
                                     uint64_t *out_bytes);
/* Out of which maps the call may take. */
struct binadei_view binadei_call_view(const struct binadei_call *call);
bool binadei_reclaim_own(struct binadei_call *call);
bool binadei_reclaim_abandoned(struct binadei_call *call);
/* What a few threads left that have ended: at calls that are not cheap anyhow,
 * so that thread states of ended threads do not pile up. */
void binadei_reclaim_some_abandoned(struct binadei_call *call);
/* The caches of threads that are not in a call; those that are give theirs up
 * at their next one. */
bool binadei_steal_caches(struct binadei_call *call);
/* The same, but false where any thread did so a moment ago: a waiter does so
 * again and again, and those who do not shall have hits. */
bool binadei_steal_caches_at_times(struct binadei_call *call);
/* What caches have goes where an event can be recorded behind it: that of threads
 * that ended, the caller's, and others' where `asks_others`. */
void binadei_reclaim_cached(struct binadei_call *call, bool asks_others);
/* Where the caller's caches had no room for others': those of threads that rest
 * become abandoned thread states. At a call that may wait: it waits for threads
 * that come or go. */
void binadei_steal_resting_caches(struct binadei_call *call);
/* Lets the caller's stream wait for another's work, and takes a block of it. */
bool binadei_hand_over(struct binadei_call *call,
                       const struct binadei_request *request,
                       binade_devptr *out);
/* At a call that may wait: what its stream freed becomes everybody's after an
 * event, if somebody asked for that. */
void binadei_reclaim_own_stream(struct binadei_call *call);
/* Before a capture on the call's stream: what the stream freed, and nobody has
 * in another thread, becomes everybody's after an event, while one can be
 * recorded. */
void binadei_reclaim_before_capture(struct binadei_call *call);
/* A stream that is asked whether it is idle, before an allocation fails. */
bool binadei_reclaim_idle_streams(struct binadei_call *call);
/* An old driver: waits for all work, if memory waits for that. */
bool binadei_reclaim_synchronise(struct binadei_call *call);

/* BINADE_OK, or BINADE_E_DRIVER when no event could be recorded. */
binade_status binadei_stream_close(struct binadei_call *call,
                                   binade_stream stream);

/* Sums of what thread states counted, and what they hold. */
struct binadei_sums {
    uint64_t counts[BINADEI_COUNTS]; /* ALLOCS to REQUESTED_BYTES: all caches */
    uint64_t cached_bytes;
    /* Of these: in the caches of `own`, of thread states without a thread, and
     * in depots. The rest is in other threads' caches. */
    uint64_t own_bytes;
    uint64_t ended_bytes;
    uint64_t depot_bytes;
    uint64_t retiring_bytes;
    uint64_t thread_count;
    uint64_t stream_count;
};

/* `own` may be NULL. */
void binadei_engine_sums(struct binadei_engine *engine,
                         const struct binadei_thread_state *own,
                         struct binadei_sums *out);

/* The most bytes that were live; `live_bytes` are, by the sums. */
uint64_t binadei_engine_live_peak(struct binadei_engine *engine,
                                  uint64_t live_bytes);
/* It begins anew at what is live. */
void binadei_engine_reset_live_peak(struct binadei_engine *engine);

#endif
