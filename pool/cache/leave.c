/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks on their way out. A batch is published only after its events were
 * recorded, and what is not recorded stays with its cache: memory never comes
 * back early because the driver refused something.
 */
#include "pool/cache/leave.h"

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/cache/bounds.h"
#include "pool/cache/bundle.h"
#include "pool/cache/epoch.h"
#include "pool/cache/record.h"
#include "pool/cache/retired.h"
#include "pool/cache/slot.h"

#define MANY_PLACES_BYTES ((size_t)16 << 10)
#define SOME_PLACES_BYTES ((size_t)128 << 10)
/* A depot may hold this part of what all threads' caches may. */
#define DEPOT_SHARE 8U

uint64_t binadei_block_grains(const struct binadei_engine *engine,
                              binadei_grain start, uint8_t byte)
{
    if ((byte & ~BINADEI_BYTE_SPECIAL) != BINADEI_BYTE_RUN)
        return binadei_class_grains((byte & ~BINADEI_BYTE_SPECIAL) - 1);
    return binadei_buddy_run_grains(engine->buddy, start);
}

static uint32_t class_of(uint8_t byte, uint64_t grains)
{
    if ((byte & ~BINADEI_BYTE_SPECIAL) != BINADEI_BYTE_RUN)
        return (byte & ~BINADEI_BYTE_SPECIAL) - 1;
    return binadei_run_class_of(grains);
}

binade_status binadei_block_at(const struct binadei_engine *engine,
                               binade_devptr address, struct binadei_block *out)
{
    binadei_grain start;
    if (!binadei_grain_of(engine->lookup, address, &start))
        return binadei_fail(BINADE_E_FOREIGN,
                            "address 0x%llx is not of this pool", address);
    uint8_t byte = binadei_buddy_class(engine->buddy, start);
    if (address % BINADEI_GRAIN_BYTES || !byte) {
        return binadei_fail(BINADE_E_INVALID,
                            "no block starts at address 0x%llx: it is inside "
                            "one, or free",
                            address);
    }
    uint64_t grains = binadei_block_grains(engine, start, byte);
    *out = (struct binadei_block){start, byte, class_of(byte, grains), grains};
    return BINADE_OK;
}

uint64_t binadei_block_bytes(const struct binadei_engine *engine,
                             uint32_t class_index, binade_devptr address)
{
    binadei_grain start = {0};
    if (class_index < BINADEI_SMALL_CLASSES)
        return binadei_class_bytes(class_index);
    (void)binadei_grain_of(engine->lookup, address, &start);
    return binadei_block_grains(engine, start, BINADEI_BYTE_RUN) *
           BINADEI_GRAIN_BYTES;
}

uint64_t binadei_bundle_bytes(const struct binadei_engine *engine,
                              const struct binadei_bundle *bundle)
{
    uint64_t bytes = 0;
    if (bundle->class_index < BINADEI_SMALL_CLASSES)
        return bundle->count *
               (uint64_t)binadei_class_bytes(bundle->class_index);
    for (uint32_t i = 0; i < bundle->count; i++)
        bytes += binadei_block_bytes(engine, bundle->class_index,
                                     bundle->addresses[i]);
    return bytes;
}

/* Neighbours that go back by one give. */
struct range {
    uint64_t start;
    uint64_t grains;
};

/* To the buddy where `slot` is NULL, else to the slot's maps. */
static void give_range(struct binadei_member *by, struct binadei_slot *slot,
                       const struct range *range)
{
    struct binadei_engine *engine = by->engine;
    binadei_grain start = binadei_grain_at(range->start);
    if (!range->grains)
        return;
    if (!slot)
        by->given_bytes += range->grains * BINADEI_GRAIN_BYTES;
    bool is_given = slot
                        ? binadei_epoch_give(engine, slot, start, range->grains)
                        : binadei_buddy_give(engine->buddy, &by->home, start,
                                             range->grains);
    if (!is_given)
        binadei_count(by, BINADEI_COUNT_DOUBLE_FREES, 1);
}

/* Joins the block to the range, or gives the range and begins another. */
static void give_next(struct binadei_member *by, struct binadei_slot *slot,
                      struct range *range, binade_devptr address)
{
    struct binadei_engine *engine = by->engine;
    binadei_grain start;
    uint8_t byte = 0;
    if (binadei_grain_of(engine->lookup, address, &start))
        byte = binadei_buddy_end_class(engine->buddy, start);
    if (!byte) {
        binadei_count(by, BINADEI_COUNT_DOUBLE_FREES, 1);
        return;
    }
    uint64_t grains = binadei_block_grains(engine, start, byte);
    if (start.index == range->start + range->grains) {
        range->grains += grains;
    } else if (start.index + grains == range->start) {
        *range = (struct range){start.index, range->grains + grains};
    } else {
        give_range(by, slot, range);
        *range = (struct range){start.index, grains};
    }
}

static void give_bundle_to(struct binadei_member *by, struct binadei_slot *slot,
                           struct binadei_bundle *bundle)
{
    struct range range = {0, 0};
    for (uint32_t i = 0; i < bundle->count; i++)
        give_next(by, slot, &range, bundle->addresses[i]);
    give_range(by, slot, &range);
    BINADEI_STEP("flush.given");
    binadei_bundle_spare(by, bundle);
}

void binadei_give_bundle(struct binadei_member *by,
                         struct binadei_bundle *bundle)
{
    give_bundle_to(by, NULL, bundle);
}

static void give_block_to(struct binadei_member *by, struct binadei_slot *slot,
                          binade_devptr address)
{
    struct range range = {0, 0};
    give_next(by, slot, &range, address);
    give_range(by, slot, &range);
}

void binadei_give_block(struct binadei_member *by, binade_devptr address)
{
    give_block_to(by, NULL, address);
}

/* How many places a class has: what threads leave each other is not in any
 * thread's budget. */
static unsigned place_count(uint32_t class_index)
{
    size_t size_bytes = binadei_class_bytes(class_index);
    if (size_bytes <= MANY_PLACES_BYTES)
        return BINADEI_DEPOT_PLACES;
    return size_bytes <= SOME_PLACES_BYTES ? BINADEI_DEPOT_PLACES / 2
                                           : BINADEI_DEPOT_PLACES / 4;
}

/* Counts bytes in if the depot may still hold them. */
static bool reserve_depot(const struct binadei_engine *engine,
                          struct binadei_slot *slot, uint64_t bytes)
{
    /* relaxed: a bound, not a lock; others may pass it at the same time. */
    if (atomic_load_explicit(&slot->depot_bytes, memory_order_relaxed) + bytes >
        binadei_bound(engine, engine->cache_bytes) / DEPOT_SHARE)
        return false;
    atomic_fetch_add_explicit(&slot->depot_bytes, bytes, memory_order_relaxed);
    return true;
}

static void release_depot(struct binadei_slot *slot, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&slot->depot_bytes, bytes, memory_order_relaxed);
}

/* Into the first place that is empty. */
static bool put_in_place(struct binadei_slot *slot,
                         struct binadei_bundle *bundle)
{
    unsigned places = place_count(bundle->class_index);
    for (unsigned i = 0; i < places; i++) {
        _Atomic(struct binadei_bundle *) *place =
            &slot->depot[bundle->class_index][i];
        struct binadei_bundle *nobody = NULL;
        /* relaxed: a look, so that full places cost no exchange. */
        if (atomic_load_explicit(place, memory_order_relaxed))
            continue;
        BINADEI_STEP("depot.put");
        /* DE.release: the addresses, and that their last owners have queued
         * their work. On failure the place is full. */
        if (atomic_compare_exchange_strong_explicit(place, &nobody, bundle,
                                                    memory_order_release,
                                                    memory_order_relaxed))
            return true;
    }
    return false;
}

bool binadei_depot_put(struct binadei_member *by, struct binadei_slot *slot,
                       struct binadei_bundle *bundle)
{
    /* Before: once it is in, it may be anybody's. */
    uint64_t bytes = binadei_bundle_bytes(by->engine, bundle);
    if (!reserve_depot(by->engine, slot, bytes))
        return false;
    if (put_in_place(slot, bundle)) {
        binadei_count(by, BINADEI_COUNT_DEPOT_IN_BYTES, bytes);
        return true;
    }
    release_depot(slot, bytes);
    return false;
}

struct binadei_bundle *binadei_depot_take(struct binadei_member *by,
                                          struct binadei_slot *slot,
                                          uint32_t class_index)
{
    if (class_index >= BINADEI_CLASSES)
        return NULL;
    for (unsigned i = 0; i < BINADEI_DEPOT_PLACES; i++) {
        _Atomic(struct binadei_bundle *) *place = &slot->depot[class_index][i];
        /* relaxed: a look, as above. */
        if (!atomic_load_explicit(place, memory_order_relaxed))
            continue;
        BINADEI_STEP("depot.take");
        /* DE.acquire. */
        struct binadei_bundle *bundle =
            atomic_exchange_explicit(place, NULL, memory_order_acquire);
        if (!bundle)
            continue;
        uint64_t bytes = binadei_bundle_bytes(by->engine, bundle);
        release_depot(slot, bytes);
        binadei_count(by, BINADEI_COUNT_DEPOT_OUT_BYTES, bytes);
        binadei_count(by, BINADEI_COUNT_DEPOT_EXCHANGES, 1);
        return bundle;
    }
    return NULL;
}

void binadei_depot_drain(struct binadei_member *by, struct binadei_cache *cache)
{
    for (uint32_t i = 0; i < BINADEI_CLASSES; i++) {
        struct binadei_bundle *bundle;
        while ((bundle = binadei_depot_take(by, cache->slot, i)))
            binadei_leave_bundle(by, cache, bundle, false);
    }
}

/* Of what another thread may take at once. */
static bool has_depot(const struct binadei_slot *slot)
{
    return slot->kind == BINADEI_SLOT_DONE ||
           (slot->kind == BINADEI_SLOT_STREAM && !binadei_slot_is_closed(slot));
}

static uint32_t leaving_blocks(const struct binadei_cache *cache)
{
    return atomic_load_explicit(&cache->leaving_blocks, memory_order_relaxed);
}

static void set_leaving(struct binadei_cache *cache, uint32_t blocks,
                        uint64_t bytes)
{
    /* CT: the owner alone writes. */
    atomic_store_explicit(&cache->leaving_blocks, blocks, memory_order_relaxed);
    cache->leaving_bytes = bytes;
}

static void retire_if_due(struct binadei_member *by,
                          struct binadei_cache *cache)
{
    if (leaving_blocks(cache) >= BINADEI_BATCH_BLOCKS ||
        cache->leaving_bytes >= BINADEI_BATCH_BYTES)
        /* What cannot be recorded now stays, and is tried again. */
        (void)binadei_retire(by, cache);
}

static void add_leaving(struct binadei_member *by, struct binadei_cache *cache,
                        uint32_t blocks, uint64_t bytes)
{
    set_leaving(cache, leaving_blocks(cache) + blocks,
                cache->leaving_bytes + bytes);
    binadei_count(by, BINADEI_COUNT_RETIRING_IN_BYTES, bytes);
    retire_if_due(by, cache);
}

void binadei_leave_bundle(struct binadei_member *by,
                          struct binadei_cache *cache,
                          struct binadei_bundle *bundle, bool may_share)
{
    struct binadei_slot *slot = cache->slot;
    if (may_share && bundle->class_index < BINADEI_CLASSES && has_depot(slot) &&
        binadei_depot_put(by, slot, bundle))
        return;
    if (slot->kind == BINADEI_SLOT_DONE || slot->maps) {
        give_bundle_to(by, slot->maps ? slot : NULL, bundle);
        return;
    }
    bundle->next = cache->leaving;
    cache->leaving = bundle;
    add_leaving(by, cache, bundle->count,
                binadei_bundle_bytes(by->engine, bundle));
}

/* A leaving bundle of the class that is not full. */
static struct binadei_bundle *open_bundle(const struct binadei_cache *cache,
                                          uint32_t class_index)
{
    struct binadei_bundle *bundle = cache->leaving;
    while (bundle && (bundle->class_index != class_index ||
                      bundle->count == BINADEI_BUNDLE_BLOCKS))
        bundle = bundle->next;
    return bundle;
}

bool binadei_is_leaving_last(const struct binadei_cache *cache,
                             uint32_t class_index, binade_devptr address)
{
    const struct binadei_bundle *bundle = open_bundle(cache, class_index);
    return bundle && bundle->addresses[bundle->count - 1] == address;
}

bool binadei_leave_block(struct binadei_member *by, struct binadei_cache *cache,
                         uint32_t class_index, binade_devptr address)
{
    struct binadei_slot *slot = cache->slot;
    if (slot->maps || slot->kind == BINADEI_SLOT_DONE) {
        give_block_to(by, slot->maps ? slot : NULL, address);
        return true;
    }
    struct binadei_bundle *bundle = open_bundle(cache, class_index);
    if (!bundle) {
        bundle = binadei_bundle_take(by, class_index);
        if (!bundle)
            return false;
        bundle->next = cache->leaving;
        cache->leaving = bundle;
    }
    bundle->addresses[bundle->count++] = address;
    add_leaving(by, cache, 1,
                binadei_block_bytes(by->engine, class_index, address));
    return true;
}

struct binadei_bundle *binadei_leaving_take(struct binadei_member *by,
                                            struct binadei_cache *cache,
                                            uint32_t class_index)
{
    struct binadei_bundle **at = &cache->leaving;
    while (*at && (*at)->class_index != class_index)
        at = &(*at)->next;
    struct binadei_bundle *bundle = *at;
    if (!bundle)
        return NULL;
    uint64_t bytes = binadei_bundle_bytes(by->engine, bundle);
    *at = bundle->next;
    set_leaving(cache, leaving_blocks(cache) - bundle->count,
                cache->leaving_bytes - bytes);
    binadei_count(by, BINADEI_COUNT_RETIRING_OUT_BYTES, bytes);
    return bundle;
}

/* An event is recorded once another stream wants the memory; until then it
 * serves its own again without. Anybody can record one on a created stream, and
 * a later event waits for no less. But where others have looked lately, it is
 * recorded at once, so that it is over the sooner. */
static bool waits_for_a_record(struct binadei_slot *slot)
{
    if (slot->kind != BINADEI_SLOT_STREAM || binadei_slot_is_closed(slot))
        return false;
    /* relaxed: a hint; two that see the same number do no harm. */
    uint32_t ahead =
        atomic_load_explicit(&slot->record_ahead, memory_order_relaxed);
    if (ahead)
        atomic_store_explicit(&slot->record_ahead, ahead - 1,
                              memory_order_relaxed);
    return ahead == 0;
}

binade_status binadei_retire(struct binadei_member *by,
                             struct binadei_cache *cache)
{
    if (!cache->leaving)
        return BINADE_OK;
    struct binadei_batch *batch = binadei_batch_take(by);
    if (!batch)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory for a batch of freed blocks");
    batch->needs_record = waits_for_a_record(cache->slot);
    binade_status status = batch->needs_record
                               ? BINADE_OK
                               : binadei_batch_record(by, cache->slot, batch);
    if (status != BINADE_OK) {
        binadei_batch_spare(by, batch);
        return status;
    }
    batch->bundles = cache->leaving;
    batch->bytes = cache->leaving_bytes;
    cache->leaving = NULL;
    set_leaving(cache, 0, 0);
    binadei_count(by, BINADEI_COUNT_BATCHES, 1);
    binadei_retired_push(by->engine, cache->slot, batch);
    return BINADE_OK;
}
