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
/* Whether all work is over that the contexts had at the first of these calls,
 * without a wait; `at_rest`: and whether they have no work now. No call is
 * under way or begins. As moietyi_look_last(). */
MOIETY_MUST_USE moiety_status moietyi_engine_look(struct moietyi_engine *engine,
                                                  bool at_rest);
/* Waits for all work of the contexts, unless it is over, and gives all free
 * memory to the space: a block with a metadata byte then is in use. No call is
 * under way. MOIETY_OK, a refusal (later.h: the work cannot be waited for; nothing
 * was done), or the driver's error for work that has ended. */
moiety_status moietyi_engine_drain(struct moietyi_engine *engine, bool is_over);
/* After that. */
void moietyi_engine_destroy(struct moietyi_engine *engine);

/* Makes room for tags, if there is none yet. MOIETY_OK,
 * MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status
moietyi_engine_make_tags(struct moietyi_engine *engine, uint32_t page_capacity);

/* A call that is no hit, for one stream of one pool. It is a slow path from
 * begin to end: see gate.h. */
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
    bool is_pressed;  /* the pool may not grow; take others' memory */
    bool may_wait;    /* may wait for other threads and the device */
    int cancel_state; /* the thread's, held meanwhile: see cancel.h */
    /* until the call's end; NULL: none */
    struct moietyi_stream_state *pinned;
    struct moietyi_capture capture; /* if it is */
};

/* The call as a user of pool/stream. */
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

/* Asks the driver whether a stream captures; within a call. MOIETY_OK, or the
 * driver's error. */
MOIETY_MUST_USE moiety_status
moietyi_look_for_capture(const struct moietyi_call *call, moiety_stream stream,
                         struct moietyi_capture *out);

/* Begins a call; a stream that is new to the thread gets its caches. MOIETY_OK,
 * MOIETY_E_INVALID (no pool), MOIETY_E_DESTROYED, MOIETY_E_FORKED,
 * MOIETY_E_REENTRANT, MOIETY_E_NO_HOST_MEMORY, or the driver's error for the stream. */
MOIETY_MUST_USE moiety_status moietyi_call_begin(struct moiety_pool *pool,
                                                 moiety_stream stream,
                                                 struct moietyi_call *out);
/* Begins a call that calls nobody and waits for no thread's work, if nothing
 * has to be checked first. Inside, by a right route (hit.h), also after the
 * end. False: use moietyi_call_begin(). */
bool moietyi_call_begin_plain(struct moiety_pool *pool,
                              struct moietyi_thread *thread,
                              const struct moietyi_route *route,
                              struct moietyi_call *out);
void moietyi_call_end_plain(struct moietyi_call *call);
/* Turns a call for DONE into one for the stream of a note, which is not retired
 * before the call's end; or into one for ANY, if that stream was retired or is
 * another thread's own. MOIETY_OK, or MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_call_turn(struct moietyi_call *call,
                                                uint32_t note);
/* After that: checks whether the stream captures. MOIETY_OK, or the driver's
 * error. */
MOIETY_MUST_USE moiety_status moietyi_call_look(struct moietyi_call *call);
void moietyi_call_end(struct moietyi_call *call);
/* Ends a call that only read: the driver is not called. */
void moietyi_call_leave(struct moietyi_call *call);
/* Before memory is taken: waits while another thread takes its final scan. */
void moietyi_call_pass_gate(struct moietyi_call *call);
/* Begins the call's slow path again after moietyi_slow_path_end(), and gives up
 * what others asked for meanwhile. */
void moietyi_call_resume(struct moietyi_call *call);
/* moietyi_nap_longer(), outside of slow paths, so that others may take their
 * final scan. */
void moietyi_call_nap(struct moietyi_call *call, long *duration_ns,
                      long most_ns);

struct moietyi_request {
    struct moietyi_size size;
    size_t size_bytes;
    uint32_t alignment_grains;
    bool is_exact; /* a longer one that a scope keeps will not do */
};

/* Takes a block from the thread's magazines, or from the stream's heap and
 * DONE's. False: there is none. It neither grows the pool nor waits for more
 * than a heap's lock. */
bool moietyi_take(struct moietyi_call *call,
                  const struct moietyi_request *request, moiety_devptr *out);
/* The last try before memory is declared exhausted. */
bool moietyi_take_last(struct moietyi_call *call,
                       const struct moietyi_request *request,
                       moiety_devptr *out);

/* A block of the request's size begins there. */
void moietyi_mark_block(struct moietyi_engine *engine, moietyi_grain start,
                        const struct moietyi_request *request);
/* Notes the stream that a block was allocated for, if the pool notes
 * streams. */
void moietyi_note_stream(const struct moietyi_call *call,
                         moiety_devptr address);

/* Frees a block that `stream` used last, without or with other tables to look
 * in. MOIETY_OK, or why the block is still the caller's. */
MOIETY_MUST_USE moiety_status moietyi_put(struct moietyi_call *call,
                                          const struct moietyi_block *block,
                                          moiety_devptr address);
/* The same in a plain call, of a block that no other table has. */
MOIETY_MUST_USE moiety_status
moietyi_put_plain(struct moietyi_call *call, const struct moietyi_block *block,
                  moiety_devptr address);
/* Takes the block and its bytes off its tenant, if it has one. The call holds
 * the block. */
void moietyi_discharge(const struct moietyi_call *call,
                       const struct moietyi_block *block);
/* As moietyi_put(), behind an event, or NULL. */
MOIETY_MUST_USE moiety_status
moietyi_put_after(struct moietyi_call *call, const struct moietyi_block *block,
                  moiety_devptr address, CUevent event);
/* Notes that a stream uses the block; `block` is NULL if `address` has no
 * metadata. MOIETY_OK, MOIETY_E_NO_HOST_MEMORY, or the driver's error. */
MOIETY_MUST_USE moiety_status moietyi_use(struct moietyi_call *call,
                                          const struct moietyi_block *block,
                                          moiety_devptr address,
                                          moiety_stream stream);
/* Makes a block `grains` long where it lies; the caller asked for `size_bytes`.
 * False: the call may not take the memory behind it. */
MOIETY_MUST_USE bool moietyi_block_grow(struct moietyi_call *call,
                                        const struct moietyi_block *block,
                                        uint64_t grains, size_t size_bytes);
/* Notes a block's length. */
void moietyi_block_mark(const struct moietyi_call *call,
                        const struct moietyi_block *block, uint64_t grains);
/* Frees the end of a block, as by this call. */
void moietyi_block_shrink(struct moietyi_call *call,
                          const struct moietyi_block *block, uint64_t grains);
/* Whether uses of the block are noted. */
bool moietyi_is_used(struct moietyi_engine *engine, moiety_devptr address);

/* Empties the magazines of a thread state, by its own thread. */
void moietyi_thread_state_empty(struct moietyi_thread_state *thread_state);

/* Steps before an allocation fails. True: memory became free. */
bool moietyi_reclaim_done(struct moietyi_call *call);
/* The same without an event of its own. */
bool moietyi_reclaim_poll(struct moietyi_call *call);
/* Extends mapped memory by what the call lacks next to the memory that it may
 * take; as moietyi_segments_extend(). */
MOIETY_MUST_USE moiety_status moietyi_extend_for(struct moietyi_call *call,
                                                 uint64_t needed_bytes);
/* Gives wholly free segments back to the source, and waits for the device if
 * the source does; as moietyi_segments_trim(). */
moiety_status moietyi_trim_for(struct moietyi_call *call, uint64_t keep_bytes,
                               uint64_t *out_bytes);
/* The same under a rule, which may be NULL. */
moiety_status moietyi_trim_by(struct moietyi_call *call, uint64_t keep_bytes,
                              const struct moietyi_release_rule *rule,
                              uint64_t *out_bytes);
/* Gives all wholly free segments back; as moietyi_segments_trim_unwatched(). */
moiety_status moietyi_trim_unwatched(struct moietyi_call *call,
                                     const struct moietyi_release_rule *rule,
                                     uint64_t *out_bytes);
/* Whether no context of the pool has work left, as far as events show: false
 * while a capture guard is held, and without events of contexts. Waits some
 * microseconds for the event. */
bool moietyi_reclaim_is_device_idle(struct moietyi_call *call);
/* The heap that the call may take from. */
struct moietyi_view moietyi_call_view(const struct moietyi_call *call);
bool moietyi_reclaim_own(struct moietyi_call *call);
bool moietyi_reclaim_abandoned(struct moietyi_call *call);
/* Adopts the caches of a few ended threads: at calls that are not cheap anyway,
 * so that ended thread states do not pile up. */
void moietyi_reclaim_some_abandoned(struct moietyi_call *call);
/* Takes the caches of threads outside of calls; those inside give theirs up at
 * their next call. */
bool moietyi_steal_caches(struct moietyi_call *call);
/* The same, but false if another thread did so a moment ago: waiters repeat it,
 * and the others need their hits. */
bool moietyi_steal_caches_at_times(struct moietyi_call *call);
/* Moves cached blocks to heaps, where an event can be recorded behind them: the
 * caches of ended threads, of the caller and, if `asks_others`, of other
 * threads. */
void moietyi_reclaim_cached(struct moietyi_call *call, bool asks_others);
/* If the caller's caches had no room because others' have it, the thread states
 * of resting threads are abandoned. At a call that may wait: it waits for
 * threads that begin or end. */
void moietyi_steal_resting_caches(struct moietyi_call *call);
/* Makes the caller's stream wait for another's work, and takes a block of that
 * stream. */
bool moietyi_hand_over(struct moietyi_call *call,
                       const struct moietyi_request *request,
                       moiety_devptr *out);
/* At a call that may wait: what its stream freed becomes done after an event,
 * if another thread asked for that. */
void moietyi_reclaim_own_stream(struct moietyi_call *call);
/* Before a capture on the call's stream: what the stream freed becomes done
 * after an event, as long as one can be recorded. Blocks in other threads'
 * caches stay. */
void moietyi_reclaim_before_capture(struct moietyi_call *call);
/* Asks a stream whether it is idle, before an allocation fails. */
bool moietyi_reclaim_idle_streams(struct moietyi_call *call);
/* An old driver: waits for all work, if memory waits for that. */
bool moietyi_reclaim_synchronise(struct moietyi_call *call);

/* MOIETY_OK, or MOIETY_E_DRIVER when no event could be recorded. */
moiety_status moietyi_stream_close(struct moietyi_call *call,
                                   moiety_stream stream);

/* Sums of the thread states' counters and of the memory that they hold. */
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

/* The most bytes that were ever live; `live_bytes` are live by the sums. */
uint64_t moietyi_engine_live_peak(struct moietyi_engine *engine,
                                  uint64_t live_bytes);
/* The peak begins anew at the live bytes. */
void moietyi_engine_reset_live_peak(struct moietyi_engine *engine);

#endif
