/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A hit and its note are one step to others: both are made inside. A block's
 * allocation is noted with a moment after it, its free with one before anybody
 * else can have it, so that the notes of one block are in the order of its
 * lives.
 */
#include "pool/core/recorded.h"

/* Inside: the route, if the pool's history is all that keeps it from being
 * right and nobody asks for the caches; or NULL. */
static const struct moietyi_route *recorded_find(struct moietyi_thread *thread,
                                                 const struct moiety_pool *pool,
                                                 moiety_stream stream)
{
    struct moietyi_route *route = thread->last;
    if (!route || route->pool != pool || route->stream != stream)
        route = moietyi_thread_find(thread, pool, stream);
    if (!route || !route->push)
        return NULL;
    uint64_t attention = moietyi_attention(pool) & ~MOIETYI_ATTENTION_RECORDED;
    return route->attention == attention && !moietyi_hit_is_revoked(thread)
               ? route
               : NULL;
}

/* Inside: pops a block and notes it; 0: there is none. */
static moiety_devptr recorded_pop(const struct moietyi_route *route,
                                  size_t size_bytes, moiety_stream stream)
{
    moiety_devptr address = moietyi_hit_alloc(route, size_bytes);
    struct moietyi_history_ring *ring = route->pop->thread_state->history;
    if (!address)
        return 0;
    moietyi_history_begin_note(ring);
    const struct moietyi_note note = {
        .kind = MOIETY_HISTORY_ALLOC,
        .ticks = moietyi_ticks(ring->is_counter),
        .address = address,
        .size_bytes = size_bytes,
        .stream = stream,
    };
    moietyi_history_write(ring, &note);
    moietyi_history_end_note(ring);
    return address;
}

moiety_devptr moietyi_recorded_alloc(struct moiety_pool *pool,
                                     size_t size_bytes, moiety_stream stream)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    if (!moietyi_hit_begin(thread))
        return 0;
    const struct moietyi_route *route = recorded_find(thread, pool, stream);
    moiety_devptr address = route ? recorded_pop(route, size_bytes, stream) : 0;
    moietyi_thread_leave(thread);
    return address;
}

/* A block of the size that the caller claims; 0: of any. */
static bool find_block(const struct moiety_pool *pool, moiety_devptr address,
                       size_t size_bytes, struct moietyi_block *out)
{
    moietyi_grain start;
    uint8_t byte = moietyi_hit_byte(pool, address, &start);
    if (!byte || byte & MOIETYI_BYTE_SPECIAL)
        return false;
    *out = moietyi_block_of(pool->engine, start, byte);
    return !size_bytes || moietyi_block_may_have(out, size_bytes);
}

/* Inside: pushes a block and notes it. `size_bytes` is the caller's claim, or
 * 0. */
static bool recorded_push(const struct moietyi_route *route,
                          moiety_devptr address, size_t size_bytes,
                          moiety_stream stream)
{
    struct moietyi_block block;
    struct moietyi_history_ring *ring = route->push->thread_state->history;
    if (!find_block(route->pool, address, size_bytes, &block) ||
        !moietyi_hit_free_noted(route, address, &block))
        return false;
    moietyi_history_begin_note(ring);
    const struct moietyi_note note = {
        .kind = size_bytes ? MOIETY_HISTORY_FREE_SIZED : MOIETY_HISTORY_FREE,
        .ticks = moietyi_ticks(ring->is_counter),
        .address = address,
        .size_bytes =
            size_bytes ? size_bytes : block.grains * MOIETYI_GRAIN_BYTES,
        .stream = stream,
    };
    moietyi_history_write(ring, &note);
    moietyi_history_end_note(ring);
    return true;
}

bool moietyi_recorded_free(struct moiety_pool *pool, moiety_devptr address,
                           size_t size_bytes, moiety_stream stream)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    if (!moietyi_hit_begin(thread))
        return false;
    const struct moietyi_route *route = recorded_find(thread, pool, stream);
    bool is_pushed = route && recorded_push(route, address, size_bytes, stream);
    moietyi_thread_leave(thread);
    return is_pushed;
}

void moietyi_note_call(const struct moietyi_call *call,
                       const struct moietyi_note *note)
{
    struct moietyi_history_ring *ring = call->thread_state->history;
    struct moietyi_note timed = *note;
    /* relaxed: only the owner writes. A call that gives back has a moment, which
     * stays until its own note. */
    bool is_within = !note->ticks && moietyi_load_relaxed(&ring->pending);
    if (!note->ticks) {
        if (!is_within)
            moietyi_history_begin_note(ring);
        timed.ticks = moietyi_ticks_after(ring->is_counter);
    }
    moietyi_history_write(ring, &timed);
    if (!is_within)
        moietyi_history_end_note(ring);
}
