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

/* Behind the end of a segment there is another one's memory, or none. */
static bool is_in_segment(const struct binadei_call *call,
                          const struct binadei_block *block, uint64_t grains)
{
    const struct binadei_lookup *lookup = call->engine->lookup;
    binade_devptr last = binadei_address_of(lookup, block->start) +
                         (grains - 1) * BINADEI_GRAIN_BYTES;
    binadei_grain found;
    return binadei_grain_of(lookup, last, &found) &&
           found.index == block->start.index + grains - 1;
}

/* Takes an address out of a magazine; false: it is not there. */
static bool magazine_take_out(struct binadei_cache *cache,
                              const struct binadei_block *block,
                              binade_devptr address)
{
    struct binadei_magazine *magazine = &cache->magazines[block->class_index];
    uint32_t count = binadei_magazine_count(magazine);
    uint32_t end = count > LOOK_DEPTH ? count - LOOK_DEPTH : 0;
    for (uint32_t i = count; i-- > end;) {
        if (binadei_entry_address(magazine->entries[i]) != address)
            continue;
        magazine->entries[i] = magazine->entries[count - 1];
        binadei_magazine_set(magazine, count - 1);
        binadei_count_add(
            &cache->uneven_cached_bytes,
            -binadei_uneven_bytes(block->class_index, block->grains));
        return true;
    }
    return false;
}

/* The free block that begins there leaves the cache that has it, if it is one
 * that the call may pop from. */
static bool uncache(const struct binadei_call *call, binadei_grain start)
{
    struct binadei_cache *const caches[] = {call->pop,
                                            call->thread_state->done};
    binade_devptr address = binadei_address_of(call->engine->lookup, start);
    /* Of another's block all of this may be out of date: a hint. */
    uint8_t byte = binadei_buddy_class(call->engine->streams.buddy, start);
    if (!byte || byte & BINADEI_BYTE_SPECIAL)
        return false;
    struct binadei_block block = {.start = start, .byte = byte};
    block.grains = binadei_block_grains(call->engine, start, byte);
    block.class_index =
        block.grains ? binadei_class_of_grains(block.grains) : BINADEI_CLASSES;
    for (unsigned i = 0; i < 2 && block.class_index < BINADEI_CLASSES; i++) {
        if (!magazine_take_out(caches[i], &block, address))
            continue;
        binadei_flush_block(call->thread_state, caches[i]->stream_state,
                            address);
        return true;
    }
    return false;
}

/* Whether grains [at, end) are free as the call sees it. What its thread has of
 * them in caches is in the maps then. */
static bool are_free(const struct binadei_call *call, uint64_t at, uint64_t end)
{
    bool is_uncached = false;
    while (at < end) {
        const struct binadei_view view = binadei_call_view(call);
        uint64_t grains = binadei_view_free_from(&view, binadei_grain_at(at),
                                                 binadei_grain_at(end));
        at += grains;
        if (at < end && !grains && is_uncached)
            return false;
        is_uncached = at < end;
        if (is_uncached && !uncache(call, binadei_grain_at(at)))
            return false;
    }
    return true;
}

void binadei_block_mark(const struct binadei_call *call,
                        const struct binadei_block *block, uint64_t grains)
{
    const struct binadei_engine *engine = call->engine;
    struct binadei_buddy *buddy = engine->streams.buddy;
    uint8_t byte = binadei_byte_of(binadei_class_of_grains(grains), grains);
    if (byte == BINADEI_BYTE_RUN)
        binadei_buddy_set_run_grains(buddy, block->start, grains);
    /* The byte says where the note is. */
    if (engine->notes)
        binadei_note_put(
            engine->notes, block->start, byte,
            binadei_note_at(engine->notes, block->start, block->byte));
    binadei_buddy_set_class(
        buddy, block->start,
        (uint8_t)(byte | (block->byte & BINADEI_BYTE_SPECIAL)));
}

bool binadei_block_grow(struct binadei_call *call,
                        const struct binadei_block *block, uint64_t grains,
                        size_t size_bytes)
{
    uint64_t end = block->start.index + block->grains;
    uint64_t more = grains - block->grains;
    if (!is_in_segment(call, block, grains) || !are_free(call, end, end + more))
        return false;
    const struct binadei_view view = binadei_call_view(call);
    BINADEI_STEP("resize.looked");
    if (!binadei_view_claim(&view, binadei_grain_at(end), more))
        return false;
    binadei_block_mark(call, block, grains);
    binadei_count(call->thread_state, BINADEI_COUNT_ALLOC_BYTES,
                  more * BINADEI_GRAIN_BYTES);
    binadei_count(call->thread_state, BINADEI_COUNT_REQUESTED_BYTES,
                  size_bytes - block->grains * BINADEI_GRAIN_BYTES);
    return true;
}

void binadei_block_shrink(struct binadei_call *call,
                          const struct binadei_block *block, uint64_t grains)
{
    struct binadei_engine *engine = call->engine;
    uint64_t less = block->grains - grains;
    binade_devptr address = binadei_address_of(engine->lookup, block->start);
    bool is_used =
        block->byte & BINADEI_BYTE_SPECIAL && binadei_is_used(engine, address);
    binadei_block_mark(call, block, grains);
    binadei_count(call->thread_state, BINADEI_COUNT_FREE_BYTES,
                  less * BINADEI_GRAIN_BYTES);
    binadei_flush_grains(call->thread_state,
                         is_used ? engine->streams.any
                                 : call->push->stream_state,
                         binadei_grain_at(block->start.index + grains), less);
}
