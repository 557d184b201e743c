/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block of a private arena that changes its length where it lies, outside of
 * captures: into what the arena has free for the call's stream, and back.
 */
#include "pool/graph/privates.h"

#include "pool/core/body.h"

/* The arena of a block that no capture got, with its lock held; NULL: it has none,
 * or its memory is away. */
static struct moietyi_private *
private_resize_enter(const struct moietyi_call *call,
                     const struct moietyi_block *block, uint32_t *out_mark)
{
    struct moietyi_privates *privates = call->pool->body->privates;
    moietyi_page page = moietyi_page_of_grain(block->start);
    struct moietyi_private *arena =
        moietyi_privates_owner(privates, block->start);
    if (!arena)
        return NULL;
    pthread_mutex_lock(&arena->lock);
    *out_mark = moietyi_private_mark_at(privates, page);
    if (*out_mark == moietyi_private_mark_of(arena, MOIETYI_PRIVATE_PLAIN) &&
        arena->phase == MOIETYI_PRIVATE_RUNNING)
        return arena;
    pthread_mutex_unlock(&arena->lock);
    return NULL;
}

bool moietyi_private_grow(struct moietyi_call *call,
                          const struct moietyi_block *block, uint64_t grains)
{
    const struct moietyi_private_key key = {moietyi_private_note_of(call), 0};
    uint64_t end = block->start.index + block->grains;
    uint64_t more = grains - block->grains;
    uint32_t mark;
    struct moietyi_private *arena = private_resize_enter(call, block, &mark);
    if (!arena)
        return false;
    bool is_grown = moietyi_private_has_marks(call, end, end + more, mark) &&
                    moietyi_half_extend(&arena->halves[MOIETYI_PRIVATE_PLAIN],
                                        &key, moietyi_grain_at(end), more);
    if (is_grown) {
        moietyi_block_mark(call, block, grains);
        moietyi_private_count_live(arena, more * MOIETYI_GRAIN_BYTES);
    }
    pthread_mutex_unlock(&arena->lock);
    return is_grown;
}

bool moietyi_private_cut(struct moietyi_call *call,
                         const struct moietyi_block *block, uint64_t grains)
{
    const struct moietyi_private_key nobody = {0};
    const struct moietyi_private_key key = {moietyi_private_note_of(call), 0};
    moietyi_grain end = {block->start.index + grains};
    uint64_t less = block->grains - grains;
    uint32_t mark;
    bool is_used = moietyi_is_used(
        call->engine, moietyi_address_of(call->engine->lookup, block->start));
    struct moietyi_private *arena = private_resize_enter(call, block, &mark);
    if (!arena)
        return false;
    struct moietyi_half *half = &arena->halves[MOIETYI_PRIVATE_PLAIN];
    moietyi_block_mark(call, block, grains);
    arena->live_bytes -= less * MOIETYI_GRAIN_BYTES;
    if (!is_used && call->push->stream_state->kind == MOIETYI_STREAM_STATE_DONE)
        moietyi_half_give_done(half, end, less);
    else
        moietyi_half_give(half, is_used ? &nobody : &key, end, less);
    pthread_mutex_unlock(&arena->lock);
    return true;
}
