/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where a freed block goes when the magazine does not just take it.
 */
#include "pool/base/failure.h"
#include "pool/cache/cache.h"
#include "pool/cache/hit.h"
#include "pool/cache/live.h"
#include "pool/cache/magazine.h"
#include "pool/cache/uses.h"
#include "pool/tenant/directory.h"

/* What the count of its class does not tell. */
static uint64_t put_uneven_bytes(const struct binadei_block *block)
{
    return binadei_uneven_bytes(block->class_index, block->grains);
}

static void count_free(struct binadei_cache *cache,
                       const struct binadei_block *block)
{
    uint64_t bytes = block->grains * BINADEI_GRAIN_BYTES;
    if (block->class_index < BINADEI_CLASSES) {
        binadei_count_add(&cache->magazines[block->class_index].free_count, 1);
        binadei_count_add(&cache->uneven_free_bytes, put_uneven_bytes(block));
        binadei_live_tell(cache, block->class_index);
        return;
    }
    binadei_count(cache->thread_state, BINADEI_COUNT_FREES, 1);
    binadei_count(cache->thread_state, BINADEI_COUNT_FREE_BYTES, bytes);
}

static void put_push(struct binadei_cache *cache,
                     const struct binadei_block *block, binade_devptr address)
{
    struct binadei_magazine *magazine = &cache->magazines[block->class_index];
    uint32_t count = binadei_magazine_count(magazine);
    const struct binadei_engine *engine = cache->thread_state->engine;
    magazine->entries[count] =
        binadei_entry_of(block->class_index, block->grains, address);
    binadei_magazine_set(magazine, count + 1);
    binadei_count_add(&cache->uneven_cached_bytes, put_uneven_bytes(block));
    if (engine->notes)
        binadei_note_put(engine->notes, block->start, block->byte,
                         cache->stream_state->note);
}

/* A hit: a byte that says nothing of a block there leads to a class that is not
 * small. */
bool binadei_hit_free_short(const struct binadei_route *route,
                            binade_devptr address, uint8_t byte,
                            binadei_grain start)
{
    if (!byte || byte & BINADEI_BYTE_SPECIAL)
        return false;
    uint64_t grains = binadei_block_grains(route->pool->engine, start, byte);
    uint32_t class_index = binadei_class_of_grains(grains);
    uint64_t bytes = binadei_uneven_bytes(class_index, grains);
    if (!binadei_class_is_small(class_index) ||
        !binadei_hit_push(&route->push->magazines[class_index],
                          binadei_entry_of(class_index, grains, address)))
        return false;
    binadei_count_add(&route->push->uneven_free_bytes, bytes);
    binadei_count_add(&route->push->uneven_cached_bytes, bytes);
    return true;
}

/* Freed twice in a row: as much as can be seen without looking further. */
static bool is_on_top(const struct binadei_magazine *magazine,
                      binade_devptr address)
{
    uint32_t count = binadei_magazine_count(magazine);
    return count &&
           binadei_entry_address(magazine->entries[count - 1]) == address;
}

static binade_status refuse_twice(binade_devptr address)
{
    return binadei_fail(BINADE_E_INVALID,
                        "the block at 0x%llx was freed before", address);
}

static binade_status put_plain(struct binadei_cache *cache,
                               const struct binadei_block *block,
                               binade_devptr address)
{
    uint32_t class_index = block->class_index;
    bool is_cached = class_index < BINADEI_CLASSES;
    if (is_cached && is_on_top(&cache->magazines[class_index], address))
        return refuse_twice(address);
    if (is_cached && binadei_magazine_make_room(cache, class_index))
        put_push(cache, block, address);
    else
        binadei_flush_block(cache->thread_state, cache->stream_state, address);
    return BINADE_OK;
}

/* Takes a tenant's tag off the block, which nobody else may have before. */
static binadei_tag untag(struct binadei_engine *engine,
                         struct binadei_block *block)
{
    struct binadei_tags *tags =
        block->byte & BINADEI_BYTE_SPECIAL ? binadei_tags(engine) : NULL;
    binadei_tag tag = binadei_tag_of(tags, block->start);
    if (!tag)
        return 0;
    binadei_tag_set(tags, block->start, 0);
    if (!(tag & BINADEI_TAG_FURTHER)) {
        block->byte &= (uint8_t)~BINADEI_BYTE_SPECIAL;
        binadei_buddy_set_class(engine->streams.buddy, block->start,
                                block->byte);
    }
    return tag;
}

/* The block is still the caller's. */
static void retag(struct binadei_engine *engine,
                  const struct binadei_block *block, binadei_tag tag)
{
    if (!tag)
        return;
    binadei_tag_set(binadei_tags(engine), block->start, tag);
    binadei_buddy_set_class(engine->streams.buddy, block->start, block->byte);
}

static void discharge(const struct binadei_call *call,
                      const struct binadei_block *block, binadei_tag tag)
{
    if (tag)
        binadei_account_release(&binadei_tenant_of_tag(tag)->account,
                                call->thread->number,
                                block->grains * BINADEI_GRAIN_BYTES);
}

static void put_settle(struct binadei_call *call,
                       const struct binadei_block *block, binadei_tag tag)
{
    count_free(call->push, block);
    discharge(call, block, tag);
}

void binadei_discharge(const struct binadei_call *call,
                       const struct binadei_block *block)
{
    struct binadei_block bare = *block;
    discharge(call, block, untag(call->engine, &bare));
}

/* The memory went with its context: nobody will be given it again. */
static binade_status put_lost(struct binadei_call *call,
                              const struct binadei_block *block,
                              binade_devptr address)
{
    struct binadei_block bare = *block;
    binadei_tag tag = untag(call->engine, &bare);
    binadei_give_block(call->thread_state, address);
    put_settle(call, block, tag);
    return BINADE_OK;
}

static binade_status cache_put(struct binadei_call *call,
                               const struct binadei_block *block,
                               binade_devptr address)
{
    if (call->is_capturing) {
        return binadei_fail(BINADE_E_BUSY,
                            "the stream is capturing a graph, which may use "
                            "the block at 0x%llx whenever it runs",
                            address);
    }
    struct binadei_block bare = *block;
    binadei_tag tag = untag(call->engine, &bare);
    binade_status status = bare.byte & BINADEI_BYTE_SPECIAL
                               ? binadei_put_used(call, address, NULL)
                               : put_plain(call->push, &bare, address);
    if (status == BINADE_OK)
        put_settle(call, block, tag);
    else
        retag(call->engine, block, tag);
    return status;
}

binade_status binadei_put(struct binadei_call *call,
                          const struct binadei_block *block,
                          binade_devptr address)
{
    if (binadei_is_lost(call->pool))
        return put_lost(call, block, address);
    binade_status status = cache_put(call, block, address);
    return status != BINADE_OK && binadei_is_lost(call->pool)
               ? put_lost(call, block, address)
               : status;
}

binade_status binadei_put_after(struct binadei_call *call,
                                binade_devptr address, CUevent event)
{
    struct binadei_block block;
    binade_status status = binadei_block_at(call->engine, address, &block);
    if (status != BINADE_OK)
        return status;
    if (binadei_is_lost(call->pool))
        return put_lost(call, &block, address);
    struct binadei_block bare = block;
    binadei_tag tag = untag(call->engine, &bare);
    status = binadei_put_used(call, address, event);
    if (status == BINADE_OK) {
        put_settle(call, &block, tag);
        return BINADE_OK;
    }
    retag(call->engine, &block, tag);
    return binadei_is_lost(call->pool) ? put_lost(call, &block, address)
                                       : status;
}
