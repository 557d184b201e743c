/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the facade uses of the caches: an engine per pool, and the parts of a
 * call that is no hit. The order in which an allocation tries them is the
 * facade's.
 */
#ifndef MOIETY_POOL_CACHE_CACHE_H_
#define MOIETY_POOL_CACHE_CACHE_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/status.h"
#include "moiety/stream.h"
#include "pool/cache/flush.h"
#include "pool/cache/state.h"
#include "pool/cache/thread.h"
#include "pool/stream/event.h"
#include "pool/stream/last.h"

struct moietyi_engine_options {
    struct moiety_pool *pool; /* its engine is set */
    const struct moietyi_driver *driver;
    struct moietyi_segments *segments; /* outlive the engine */
    struct moietyi_space *space;
    struct moietyi_context *own_context; /* outlives the engine */
    uint64_t thread_cache_bytes;
    uint64_t cache_bytes;
    uint64_t history_entries; /* of each thread; 0: none */
    uint32_t noted_pages; /* of the offset space, to note streams; 0: do not */
    struct moietyi_heap *any_heap; /* outlive the engine: see segment.h */
};

/* MOIETY_OK or MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_engine_create(
    const struct moietyi_engine_options *options, struct moietyi_engine **out);
/* Whether all work is over that the contexts had been given at the first of these
 * calls, without a wait; `at_rest`: and whether they have nothing to do now. No
 * call is under way, or comes. As moietyi_look_last(). */
MOIETY_MUST_USE moiety_status moietyi_engine_look(struct moietyi_engine *engine,
                                                  bool at_rest);
/* Waits for all work of the contexts, unless that is over, and gives all that is
 * free to the space: what has a metadata byte then is in use. No call is under
 * way. MOIETY_OK, MOIETY_E_BUSY (the work cannot be waited for: nothing was done),
 * or what the driver said of work that has ended. */
moiety_status moietyi_engine_drain(struct moietyi_engine *engine, bool is_over);
/* After that. */
void moietyi_engine_destroy(struct moietyi_engine *engine);

/* Makes room for tags, if there is none yet. MOIETY_OK,
 * MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status
moietyi_engine_make_tags(struct moietyi_engine *engine, uint32_t page_capacity);

/* A call that is no hit, for one stream of one pool. From its begin to its end
 * it is a slow path: see gate.h. */
struct moietyi_call {
    struct moiety_pool *pool;
    moiety_stream stream; /* as the caller named it */
    struct moietyi_engine *engine;
    struct moietyi_thread *thread;
    struct moietyi_thread_state *thread_state;
    struct moietyi_cache *pop;
    struct moietyi_cache *push;
    bool is_capturing; /* the stream; known only while a guard is held */
    bool has_missed;   /* the thread's magazines */
    bool is_miss_counted;
    bool is_pressed;  /* the pool may not grow: others' memory is wanted */
    bool may_wait;    /* for other threads and the device */
    int cancel_state; /* the thread's, held meanwhile: see cancel.h */
    /* until the call's end; NULL: none */
    struct moietyi_stream_state *pinned;
    struct moietyi_capture capture; /* if it is */
};

/* As one who asks pool/stream. */
static inline struct moietyi_stream_user
moietyi_call_user(const struct moietyi_call *call)
{
    struct moietyi_stream_user user =
        moietyi_thread_state_user(call->thread_state);
    user.stream_state = call->push->stream_state;
    user.may_wait = call->may_wait;
    user.is_capturing = call->is_capturing;
    return user;
}

/* Asks the driver about a stream; within a call. MOIETY_OK, or what it said. */
MOIETY_MUST_USE moiety_status
moietyi_look_for_capture(const struct moietyi_call *call, moiety_stream stream,
                         struct moietyi_capture *out);

/* Begins it; a stream that the thread has not named yet gets its caches.
 * MOIETY_OK, MOIETY_E_INVALID (no pool), MOIETY_E_FORKED, MOIETY_E_BUSY,
 * MOIETY_E_NO_HOST_MEMORY, or what the driver said about the stream. */
MOIETY_MUST_USE moiety_status moietyi_call_begin(struct moiety_pool *pool,
                                                 moiety_stream stream,
                                                 struct moietyi_call *out);
/* Begins one that calls nobody and waits for no thread's work, while nothing has to
 * be looked at first. Inside, by a right route, as hit.h says it, also after the end.
 * False: it is for moietyi_call_begin(). */
bool moietyi_call_begin_plain(struct moiety_pool *pool,
                              struct moietyi_thread *thread,
                              const struct moietyi_route *route,
                              struct moietyi_call *out);
void moietyi_call_end_plain(struct moietyi_call *call);
/* A call for DONE goes on as one for the stream that a note stands for, which
 * is not retired before the call's end, or for ANY: where that stream was
 * retired, or is another thread's own. MOIETY_OK, or MOIETY_E_NO_HOST_MEMORY.
 */
MOIETY_MUST_USE moiety_status moietyi_call_turn(struct moietyi_call *call,
                                                uint32_t note);
/* Then: whether the stream captures. MOIETY_OK, or what the driver said. */
MOIETY_MUST_USE moiety_status moietyi_call_look(struct moietyi_call *call);
void moietyi_call_end(struct moietyi_call *call);
/* Ends one that only looked: the driver is not called. */
void moietyi_call_leave(struct moietyi_call *call);
/* Before memory is taken: waits while another thread takes its final scan. */
void moietyi_call_pass_gate(struct moietyi_call *call);
/* Begins the call's slow path again after moietyi_slow_path_end(): what others
 * asked for meanwhile is given up. */
void moietyi_call_resume(struct moietyi_call *call);
/* moietyi_nap_longer(), outside of slow paths: others may search for the last
 * time meanwhile. */
void moietyi_call_nap(struct moietyi_call *call, long *duration_ns,
                      long most_ns);

struct moietyi_request {
    struct moietyi_size size;
    size_t size_bytes;
    uint32_t alignment_grains;
    bool is_exact; /* a longer one that a scope keeps will not do */
};

/* Takes a block: out of the thread's magazines, then out of the stream's heap and
 * what is done. False: there is none. Neither grows the pool nor waits for more than
 * a heap's lock. */
bool moietyi_take(struct moietyi_call *call,
                  const struct moietyi_request *request, moiety_devptr *out);
/* The same once more before memory is declared exhausted. */
bool moietyi_take_last(struct moietyi_call *call,
                       const struct moietyi_request *request,
                       moiety_devptr *out);

/* A block of the request's size begins there. */
void moietyi_mark_block(struct moietyi_engine *engine, moietyi_grain start,
                        const struct moietyi_request *request);
/* Notes what stream a block was allocated for, if the pool does. */
void moietyi_note_stream(const struct moietyi_call *call,
                         moiety_devptr address);

/* Gives a block back that `stream` used last, without or with more to look up.
 * MOIETY_OK, or why the block is still the caller's. */
MOIETY_MUST_USE moiety_status moietyi_put(struct moietyi_call *call,
                                          const struct moietyi_block *block,
                                          moiety_devptr address);
/* The same in a plain call, of a block of which nothing is noted besides. */
MOIETY_MUST_USE moiety_status
moietyi_put_plain(struct moietyi_call *call, const struct moietyi_block *block,
                  moiety_devptr address);
/* The block is its tenant's no more, if it has one, whose bytes it was. The call
 * holds it. */
void moietyi_discharge(const struct moietyi_call *call,
                       const struct moietyi_block *block);
/* As moietyi_put(), behind an event, or NULL. */
MOIETY_MUST_USE moiety_status
moietyi_put_after(struct moietyi_call *call, const struct moietyi_block *block,
                  moiety_devptr address, CUevent event);
/* Notes that a stream uses the block, which is NULL where `address` has no
 * metadata. MOIETY_OK, MOIETY_E_NO_HOST_MEMORY, or what the driver said. */
MOIETY_MUST_USE moiety_status moietyi_use(struct moietyi_call *call,
                                          const struct moietyi_block *block,
                                          moiety_devptr address,
                                          moiety_stream stream);
/* A block becomes `grains` long where it lies, for a caller who asked for
 * `size_bytes`. False: what is behind it is not free as the call sees it. */
MOIETY_MUST_USE bool moietyi_block_grow(struct moietyi_call *call,
                                        const struct moietyi_block *block,
                                        uint64_t grains, size_t size_bytes);
/* Notes a block's length. */
void moietyi_block_mark(const struct moietyi_call *call,
                        const struct moietyi_block *block, uint64_t grains);
/* Gives the end of a block back, as freed by the call. */
void moietyi_block_shrink(struct moietyi_call *call,
                          const struct moietyi_block *block, uint64_t grains);
/* Whether uses of the block are noted. */
bool moietyi_is_used(struct moietyi_engine *engine, moiety_devptr address);

/* What a thread state's own thread gives up: its magazines. */
void moietyi_thread_state_empty(struct moietyi_thread_state *thread_state);

/* Steps of the way out of memory. True: something became free. */
bool moietyi_reclaim_done(struct moietyi_call *call);
/* The same without an event of its own. */
bool moietyi_reclaim_poll(struct moietyi_call *call);
/* Extends mapped memory by what is missing in a row, beside what the call may
 * take; as moietyi_segments_extend(). */
MOIETY_MUST_USE moiety_status moietyi_extend_for(struct moietyi_call *call,
                                                 uint64_t needed_bytes);
/* Gives the source what is wholly free, and waits for the device if the source
 * does; as moietyi_segments_trim(). */
moiety_status moietyi_trim_for(struct moietyi_call *call, uint64_t keep_bytes,
                               uint64_t *out_bytes);
/* The same by a rule, which may be NULL. */
moiety_status moietyi_trim_by(struct moietyi_call *call, uint64_t keep_bytes,
                              const struct moietyi_release_rule *rule,
                              uint64_t *out_bytes);
/* Gives the source all that is wholly free; as
 * moietyi_segments_trim_unwatched(). */
moiety_status moietyi_trim_unwatched(struct moietyi_call *call,
                                     const struct moietyi_release_rule *rule,
                                     uint64_t *out_bytes);
/* Whether all contexts that the pool knows have nothing left to do, as far as
 * events tell: false while a capture guard is held, and with a driver that has
 * no events of contexts. Waits some microseconds for the event. */
bool moietyi_reclaim_is_device_idle(struct moietyi_call *call);
/* Out of which heap the call may take. */
struct moietyi_view moietyi_call_view(const struct moietyi_call *call);
bool moietyi_reclaim_own(struct moietyi_call *call);
bool moietyi_reclaim_abandoned(struct moietyi_call *call);
/* What a few threads left that have ended: at calls that are not cheap anyhow,
 * so that thread states of ended threads do not pile up. */
void moietyi_reclaim_some_abandoned(struct moietyi_call *call);
/* The caches of threads that are not in a call; those that are give theirs up
 * at their next one. */
bool moietyi_steal_caches(struct moietyi_call *call);
/* The same, but false where any thread did so a moment ago: a waiter does so
 * again and again, and those who do not shall have hits. */
bool moietyi_steal_caches_at_times(struct moietyi_call *call);
/* What caches have goes where an event can be recorded behind it: that of threads
 * that ended, the caller's, and others' where `asks_others`. */
void moietyi_reclaim_cached(struct moietyi_call *call, bool asks_others);
/* Where the caller's caches had no room for others': those of threads that rest
 * become abandoned thread states. At a call that may wait: it waits for threads
 * that come or go. */
void moietyi_steal_resting_caches(struct moietyi_call *call);
/* Lets the caller's stream wait for another's work, and takes a block of it. */
bool moietyi_hand_over(struct moietyi_call *call,
                       const struct moietyi_request *request,
                       moiety_devptr *out);
/* At a call that may wait: what its stream freed becomes everybody's after an
 * event, if somebody asked for that. */
void moietyi_reclaim_own_stream(struct moietyi_call *call);
/* Before a capture on the call's stream: what the stream freed, and nobody has
 * in another thread, becomes everybody's after an event, while one can be
 * recorded. */
void moietyi_reclaim_before_capture(struct moietyi_call *call);
/* A stream that is asked whether it is idle, before an allocation fails. */
bool moietyi_reclaim_idle_streams(struct moietyi_call *call);
/* An old driver: waits for all work, if memory waits for that. */
bool moietyi_reclaim_synchronise(struct moietyi_call *call);

/* MOIETY_OK, or MOIETY_E_DRIVER when no event could be recorded. */
moiety_status moietyi_stream_close(struct moietyi_call *call,
                                   moiety_stream stream);

/* Sums of what thread states counted, and what they hold. */
struct moietyi_sums {
    uint64_t counts[MOIETYI_COUNTS]; /* ALLOCS to REQUESTED_BYTES: all caches */
    uint64_t cached_bytes;
    /* Of these: in the caches of `own`, and of thread states without a thread. The
     * rest is in other threads' caches. */
    uint64_t own_bytes;
    uint64_t ended_bytes;
    uint64_t retiring_bytes;
    uint64_t thread_count;
    uint64_t stream_count;
};

/* `own` may be NULL. */
void moietyi_engine_sums(struct moietyi_engine *engine,
                         const struct moietyi_thread_state *own,
                         struct moietyi_sums *out);

/* The most bytes that were live; `live_bytes` are, by the sums. */
uint64_t moietyi_engine_live_peak(struct moietyi_engine *engine,
                                  uint64_t live_bytes);
/* It begins anew at what is live. */
void moietyi_engine_reset_live_peak(struct moietyi_engine *engine);

#endif
