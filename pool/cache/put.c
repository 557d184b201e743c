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

/* The bytes that the count of its class misses. */
static uint64_t put_uneven_bytes(const struct moietyi_block *block)
{
    return moietyi_uneven_bytes(block->class_index, block->grains);
}

static inline void count_free(struct moietyi_cache *cache,
                              const struct moietyi_block *block)
{
    uint64_t bytes = block->grains * MOIETYI_GRAIN_BYTES;
    if (block->class_index < MOIETYI_CLASSES) {
        moietyi_count_add(&cache->magazines[block->class_index].free_count, 1);
        moietyi_count_add(&cache->uneven_free_bytes, put_uneven_bytes(block));
        moietyi_live_tell(cache, block->class_index);
        return;
    }
    moietyi_count(cache->thread_state, MOIETYI_COUNT_FREES, 1);
    moietyi_count(cache->thread_state, MOIETYI_COUNT_FREE_BYTES, bytes);
}

static void put_push(struct moietyi_cache *cache,
                     const struct moietyi_block *block, moiety_devptr address)
{
    struct moietyi_magazine *magazine = &cache->magazines[block->class_index];
    uint32_t count = moietyi_magazine_count(magazine);
    const struct moietyi_engine *engine = cache->thread_state->engine;
    magazine->entries[count] = moietyi_entry_of(block->grains, address);
    moietyi_magazine_set(magazine, count + 1);
    moietyi_count_add(&cache->uneven_cached_bytes, put_uneven_bytes(block));
    if (engine->notes)
        moietyi_note_put(engine->notes, block->start, block->byte,
                         cache->stream_state->note);
}

/* A cheap test for a double free: the address is on top of the magazine. */
static bool is_on_top(const struct moietyi_magazine *magazine,
                      moiety_devptr address)
{
    uint32_t count = moietyi_magazine_count(magazine);
    return count &&
           moietyi_entry_address(magazine->entries[count - 1]) == address;
}

static moiety_status refuse_twice(moiety_devptr address)
{
    return moietyi_fail(MOIETY_E_DOUBLE_FREE,
                        "the block at 0x%llx was freed before", address);
}

static inline moiety_status put_plain(struct moietyi_cache *cache,
                                      const struct moietyi_block *block,
                                      moiety_devptr address)
{
    uint32_t class_index = block->class_index;
    bool is_cached = class_index < MOIETYI_CLASSES;
    if (is_cached && is_on_top(&cache->magazines[class_index], address))
        return refuse_twice(address);
    if (is_cached && moietyi_magazine_make_room(cache, class_index))
        put_push(cache, block, address);
    else
        moietyi_flush_known(cache->thread_state, cache->stream_state, block);
    return MOIETY_OK;
}

/* Takes a tenant's tag off the block, which no other thread may have before. */
static moietyi_tag untag(struct moietyi_engine *engine,
                         struct moietyi_block *block)
{
    struct moietyi_tags *tags =
        block->byte & MOIETYI_BYTE_SPECIAL ? moietyi_tags(engine) : NULL;
    moietyi_tag tag = moietyi_tag_of(tags, block->start);
    if (!tag)
        return 0;
    moietyi_tag_set(tags, block->start, 0);
    if (!(tag & MOIETYI_TAG_FURTHER)) {
        block->byte &= (uint8_t)~MOIETYI_BYTE_SPECIAL;
        moietyi_space_set_class(engine->streams.space, block->start,
                                block->byte);
    }
    return tag;
}

/* The block is still the caller's. */
static void retag(struct moietyi_engine *engine,
                  const struct moietyi_block *block, moietyi_tag tag)
{
    if (!tag)
        return;
    moietyi_tag_set(moietyi_tags(engine), block->start, tag);
    moietyi_space_set_class(engine->streams.space, block->start, block->byte);
}

static void discharge(const struct moietyi_call *call,
                      const struct moietyi_block *block, moietyi_tag tag)
{
    if (tag)
        moietyi_account_release(&moietyi_tenant_of_tag(tag)->account,
                                call->thread->number,
                                block->grains * MOIETYI_GRAIN_BYTES);
}

moiety_status moietyi_put_plain(struct moietyi_call *call,
                                const struct moietyi_block *block,
                                moiety_devptr address)
{
    moiety_status status = put_plain(call->push, block, address);
    if (status == MOIETY_OK)
        count_free(call->push, block);
    return status;
}

static void put_settle(struct moietyi_call *call,
                       const struct moietyi_block *block, moietyi_tag tag)
{
    count_free(call->push, block);
    discharge(call, block, tag);
}

void moietyi_discharge(const struct moietyi_call *call,
                       const struct moietyi_block *block)
{
    struct moietyi_block bare = *block;
    discharge(call, block, untag(call->engine, &bare));
}

/* The memory is gone with its context, so it is never reused. */
static moiety_status put_lost(struct moietyi_call *call,
                              const struct moietyi_block *block,
                              moiety_devptr address)
{
    struct moietyi_block bare = *block;
    moietyi_tag tag = untag(call->engine, &bare);
    moietyi_give_block(call->thread_state, address);
    put_settle(call, block, tag);
    return MOIETY_OK;
}

static moiety_status cache_put(struct moietyi_call *call,
                               const struct moietyi_block *block,
                               moiety_devptr address, CUevent event)
{
    if (call->is_capturing) {
        return moietyi_fail(MOIETY_E_CAPTURING,
                            "the stream is capturing a graph, which may use "
                            "the block at 0x%llx whenever it runs",
                            address);
    }
    struct moietyi_block bare = *block;
    moietyi_tag tag = untag(call->engine, &bare);
    moiety_status status = event || bare.byte & MOIETYI_BYTE_SPECIAL
                               ? moietyi_put_used(call, address, event)
                               : put_plain(call->push, &bare, address);
    if (status == MOIETY_OK)
        put_settle(call, block, tag);
    else
        retag(call->engine, block, tag);
    return status;
}

moiety_status moietyi_put_after(struct moietyi_call *call,
                                const struct moietyi_block *block,
                                moiety_devptr address, CUevent event)
{
    if (moietyi_is_lost(call->pool))
        return put_lost(call, block, address);
    moiety_status status = cache_put(call, block, address, event);
    return status != MOIETY_OK && moietyi_is_lost(call->pool)
               ? put_lost(call, block, address)
               : status;
}

moiety_status moietyi_put(struct moietyi_call *call,
                          const struct moietyi_block *block,
                          moiety_devptr address)
{
    return moietyi_put_after(call, block, address, NULL);
}
