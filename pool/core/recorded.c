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
static const struct binadei_route *recorded_find(struct binadei_thread *thread,
                                                 const struct binade_pool *pool,
                                                 binade_stream stream)
{
    struct binadei_route *route = thread->last;
    if (!route || route->pool != pool || route->stream != stream)
        route = binadei_thread_find(thread, pool, stream);
    if (!route || !route->push)
        return NULL;
    uint64_t attention = binadei_attention(pool) & ~BINADEI_ATTENTION_RECORDED;
    return route->attention == attention && !binadei_hit_is_revoked(thread)
               ? route
               : NULL;
}

/* Inside: pops a block and notes it; 0: there is none. */
static binade_devptr recorded_pop(const struct binadei_route *route,
                                  size_t size_bytes, binade_stream stream)
{
    binade_devptr address = binadei_hit_alloc(route, size_bytes);
    struct binadei_history_ring *ring = route->pop->thread_state->history;
    if (!address)
        return 0;
    binadei_history_begin_note(ring);
    const struct binadei_note note = {
        .kind = BINADE_HISTORY_ALLOC,
        .ticks = binadei_ticks(ring->is_counter),
        .address = address,
        .size_bytes = size_bytes,
        .stream = stream,
    };
    binadei_history_write(ring, &note);
    binadei_history_end_note(ring);
    return address;
}

binade_devptr binadei_recorded_alloc(struct binade_pool *pool,
                                     size_t size_bytes, binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (!binadei_hit_begin(thread))
        return 0;
    const struct binadei_route *route = recorded_find(thread, pool, stream);
    binade_devptr address = route ? recorded_pop(route, size_bytes, stream) : 0;
    binadei_thread_leave(thread);
    return address;
}

/* A block of the size that the caller claims; 0: of any. */
static bool find_block(const struct binade_pool *pool, binade_devptr address,
                       size_t size_bytes, struct binadei_block *out)
{
    out->byte = binadei_hit_byte(pool, address, &out->start);
    if (!out->byte || out->byte & BINADEI_BYTE_SPECIAL)
        return false;
    out->grains = binadei_block_grains(pool->engine, out->start, out->byte);
    out->class_index = binadei_class_of_grains(out->grains);
    return !size_bytes || binadei_block_may_have(out, size_bytes);
}

/* Inside: pushes a block and notes it. `size_bytes` is the caller's claim, or
 * 0. */
static bool recorded_push(const struct binadei_route *route,
                          binade_devptr address, size_t size_bytes,
                          binade_stream stream)
{
    struct binadei_block block;
    struct binadei_history_ring *ring = route->push->thread_state->history;
    if (!find_block(route->pool, address, size_bytes, &block) ||
        !binadei_hit_free_noted(route, address, block.byte, block.start))
        return false;
    binadei_history_begin_note(ring);
    const struct binadei_note note = {
        .kind = size_bytes ? BINADE_HISTORY_FREE_SIZED : BINADE_HISTORY_FREE,
        .ticks = binadei_ticks(ring->is_counter),
        .address = address,
        .size_bytes =
            size_bytes ? size_bytes : block.grains * BINADEI_GRAIN_BYTES,
        .stream = stream,
    };
    binadei_history_write(ring, &note);
    binadei_history_end_note(ring);
    return true;
}

bool binadei_recorded_free(struct binade_pool *pool, binade_devptr address,
                           size_t size_bytes, binade_stream stream)
{
    struct binadei_thread *thread = binadei_thread_self;
    if (!binadei_hit_begin(thread))
        return false;
    const struct binadei_route *route = recorded_find(thread, pool, stream);
    bool is_pushed = route && recorded_push(route, address, size_bytes, stream);
    binadei_thread_leave(thread);
    return is_pushed;
}

void binadei_note_call(const struct binadei_call *call,
                       const struct binadei_note *note)
{
    struct binadei_history_ring *ring = call->thread_state->history;
    struct binadei_note timed = *note;
    /* relaxed: only the owner writes. A call that gives back has a moment, which
     * stays until its own note. */
    bool is_within = !note->ticks && binadei_load_relaxed(&ring->pending);
    if (!note->ticks) {
        if (!is_within)
            binadei_history_begin_note(ring);
        timed.ticks = binadei_ticks_after(ring->is_counter);
    }
    binadei_history_write(ring, &timed);
    if (!is_within)
        binadei_history_end_note(ring);
}
