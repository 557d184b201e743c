/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A block that changes its length where it lies. What it gains is claimed as one
 * interval, of what the call's stream may have; what it loses goes back as freed
 * memory does. Its holder makes the call, so nobody else changes its metadata.
 */
#include "pool/base/step.h"
#include "pool/cache/cache.h"
#include "pool/cache/magazine.h"

/* Entries of a magazine that are looked through, newest first. */
#define LOOK_DEPTH 1024U

/* Behind the end of a segment lies another segment, or nothing. */
static bool is_in_segment(const struct moietyi_call *call,
                          const struct moietyi_block *block, uint64_t grains)
{
    const struct moietyi_lookup *lookup = call->engine->lookup;
    moiety_devptr last = moietyi_address_of(lookup, block->start) +
                         (grains - 1) * MOIETYI_GRAIN_BYTES;
    moietyi_grain found;
    return moietyi_grain_of(lookup, last, &found) &&
           found.index == block->start.index + grains - 1;
}

/* Takes an address out of a magazine; false: it is not there. */
static bool magazine_take_out(struct moietyi_cache *cache,
                              const struct moietyi_block *block,
                              moiety_devptr address)
{
    struct moietyi_magazine *magazine = &cache->magazines[block->class_index];
    uint32_t count = moietyi_magazine_count(magazine);
    uint32_t end = count > LOOK_DEPTH ? count - LOOK_DEPTH : 0;
    for (uint32_t i = count; i-- > end;) {
        if (moietyi_entry_address(magazine->entries[i]) != address)
            continue;
        magazine->entries[i] = magazine->entries[count - 1];
        moietyi_magazine_set(magazine, count - 1);
        moietyi_count_add(
            &cache->uneven_cached_bytes,
            -moietyi_uneven_bytes(block->class_index, block->grains));
        return true;
    }
    return false;
}

/* Takes the free block that begins there out of its cache, if the call may pop
 * from that cache. */
static bool uncache(const struct moietyi_call *call, moietyi_grain start)
{
    struct moietyi_cache *const caches[] = {call->pop,
                                            call->thread_state->done};
    moiety_devptr address = moietyi_address_of(call->engine->lookup, start);
    /* A hint: the owner of another block may change the byte meanwhile. */
    uint8_t byte = moietyi_space_class(call->engine->streams.space, start);
    if (!byte || byte & MOIETYI_BYTE_SPECIAL)
        return false;
    struct moietyi_block block = {.start = start, .byte = byte};
    block.grains = moietyi_block_grains(call->engine, start, byte);
    block.class_index =
        block.grains ? moietyi_class_of_grains(block.grains) : MOIETYI_CLASSES;
    for (unsigned i = 0; i < 2 && block.class_index < MOIETYI_CLASSES; i++) {
        if (!magazine_take_out(caches[i], &block, address))
            continue;
        moietyi_flush_block(call->thread_state, caches[i]->stream_state,
                            address);
        return true;
    }
    return false;
}

/* Whether the call may take grains [at, end). Those in caches of its thread
 * were moved to a heap before. */
static bool are_free(const struct moietyi_call *call, uint64_t at, uint64_t end)
{
    bool is_uncached = false;
    while (at < end) {
        const struct moietyi_view view = moietyi_call_view(call);
        uint64_t grains = moietyi_view_free_from(&view, moietyi_grain_at(at),
                                                 moietyi_grain_at(end));
        at += grains;
        if (at < end && !grains && is_uncached)
            return false;
        is_uncached = at < end;
        if (is_uncached && !uncache(call, moietyi_grain_at(at)))
            return false;
    }
    return true;
}

void moietyi_block_mark(const struct moietyi_call *call,
                        const struct moietyi_block *block, uint64_t grains)
{
    const struct moietyi_engine *engine = call->engine;
    struct moietyi_space *space = engine->streams.space;
    uint8_t byte = moietyi_byte_of(moietyi_class_of_grains(grains), grains);
    if (byte == MOIETYI_BYTE_RUN)
        moietyi_space_set_run_grains(space, block->start, grains);
    /* The byte says where the note is. */
    if (engine->notes)
        moietyi_note_put(
            engine->notes, block->start, byte,
            moietyi_note_at(engine->notes, block->start, block->byte));
    moietyi_space_set_class(
        space, block->start,
        (uint8_t)(byte | (block->byte & MOIETYI_BYTE_SPECIAL)));
}

bool moietyi_block_grow(struct moietyi_call *call,
                        const struct moietyi_block *block, uint64_t grains,
                        size_t size_bytes)
{
    uint64_t end = block->start.index + block->grains;
    uint64_t more = grains - block->grains;
    if (!is_in_segment(call, block, grains) || !are_free(call, end, end + more))
        return false;
    const struct moietyi_view view = moietyi_call_view(call);
    MOIETYI_STEP("resize.looked");
    if (!moietyi_view_claim(&view, moietyi_grain_at(end), more))
        return false;
    moietyi_block_mark(call, block, grains);
    moietyi_count(call->thread_state, MOIETYI_COUNT_ALLOC_BYTES,
                  more * MOIETYI_GRAIN_BYTES);
    moietyi_count(call->thread_state, MOIETYI_COUNT_REQUESTED_BYTES,
                  size_bytes - block->grains * MOIETYI_GRAIN_BYTES);
    return true;
}

void moietyi_block_shrink(struct moietyi_call *call,
                          const struct moietyi_block *block, uint64_t grains)
{
    struct moietyi_engine *engine = call->engine;
    uint64_t less = block->grains - grains;
    moiety_devptr address = moietyi_address_of(engine->lookup, block->start);
    bool is_used =
        block->byte & MOIETYI_BYTE_SPECIAL && moietyi_is_used(engine, address);
    moietyi_block_mark(call, block, grains);
    moietyi_count(call->thread_state, MOIETYI_COUNT_FREE_BYTES,
                  less * MOIETYI_GRAIN_BYTES);
    moietyi_flush_grains(call->thread_state,
                         is_used ? engine->streams.any
                                 : call->push->stream_state,
                         moietyi_grain_at(block->start.index + grains), less);
}
