/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Notes in the history, for the facade: hits of pools that keep one, and calls
 * that are no hits. Where none is kept, a call that is no hit pays a look at
 * its thread state, and a hit nothing.
 */
#ifndef BINADE_POOL_CORE_RECORDED_H_
#define BINADE_POOL_CORE_RECORDED_H_

#include "pool/cache/cache.h"
#include "pool/cache/hit.h"
#include "pool/ring/ring.h"

/* Whether to try the two below where no hit was plain; `pool` may be NULL. */
static inline bool binadei_is_recorded(const struct binade_pool *pool)
{
    return pool && (binadei_attention(pool) & BINADEI_ATTENTION_RECORDED) != 0;
}

/* A hit with its note; 0: it is none. */
binade_devptr binadei_recorded_alloc(struct binade_pool *pool,
                                     size_t size_bytes, binade_stream stream);
/* `size_bytes` is the caller's claim, or 0. False: it is none. */
bool binadei_recorded_free(struct binade_pool *pool, binade_devptr address,
                           size_t size_bytes, binade_stream stream);

/* The moment before something is given back. A note with it has to follow. */
static inline uint64_t binadei_ticks_before(const struct binadei_call *call)
{
    struct binadei_history_ring *ring = call->thread_state->history;
    if (!ring)
        return 0;
    binadei_history_begin_note(ring);
    uint64_t ticks = binadei_ticks(ring->is_counter);
    /* RP.release: until the note is made, which may be long. */
    binadei_store_release(&ring->pending, ticks);
    return ticks;
}

/* Nothing was given back after all, and no note follows. */
static inline void binadei_ticks_drop(const struct binadei_call *call)
{
    if (call->thread_state->history)
        binadei_history_end_note(call->thread_state->history);
}

/* Notes what a call did, inside it. Without a moment of its own (0) it gets
 * this one. */
void binadei_note_call(const struct binadei_call *call,
                       const struct binadei_note *note);

static inline void binadei_note(const struct binadei_call *call,
                                const struct binadei_note *note)
{
    if (call->thread_state->history)
        binadei_note_call(call, note);
}

#endif
