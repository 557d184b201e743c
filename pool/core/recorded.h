/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Notes in the history, for the facade: hits of pools that keep one, and calls
 * that are no hits. Where none is kept, a call that is no hit pays a look at
 * its thread state, and a hit nothing.
 */
#ifndef MOIETY_POOL_CORE_RECORDED_H_
#define MOIETY_POOL_CORE_RECORDED_H_

#include "pool/cache/cache.h"
#include "pool/cache/hit.h"
#include "pool/ring/ring.h"

/* Whether to try the two below where no hit was plain; `pool` may be NULL. */
static inline bool moietyi_is_recorded(const struct moiety_pool *pool)
{
    return pool && (moietyi_attention(pool) & MOIETYI_ATTENTION_RECORDED) != 0;
}

/* A hit with its note; 0: it is none. */
moiety_devptr moietyi_recorded_alloc(struct moiety_pool *pool,
                                     size_t size_bytes, moiety_stream stream);
/* `size_bytes` is the caller's claim, or 0. False: it is none. */
bool moietyi_recorded_free(struct moiety_pool *pool, moiety_devptr address,
                           size_t size_bytes, moiety_stream stream);

/* The moment before something is given back. A note with it has to follow. */
static inline uint64_t moietyi_ticks_before(const struct moietyi_call *call)
{
    struct moietyi_history_ring *ring = call->thread_state->history;
    if (!ring)
        return 0;
    moietyi_history_begin_note(ring);
    uint64_t ticks = moietyi_ticks(ring->is_counter);
    /* RP.release: until the note is made, which may be long. */
    moietyi_store_release(&ring->pending, ticks);
    return ticks;
}

/* Nothing was given back after all, and no note follows. */
static inline void moietyi_ticks_drop(const struct moietyi_call *call)
{
    if (call->thread_state->history)
        moietyi_history_end_note(call->thread_state->history);
}

/* Notes what a call did, inside it. Without a moment of its own (0) it gets
 * this one. */
void moietyi_note_call(const struct moietyi_call *call,
                       const struct moietyi_note *note);

static inline void moietyi_note(const struct moietyi_call *call,
                                const struct moietyi_note *note)
{
    if (call->thread_state->history)
        moietyi_note_call(call, note);
}

#endif
