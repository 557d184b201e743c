/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks on their way out. Giving needs neither the driver nor host memory, and
 * waits for no thread that has a heap's lock.
 */
#include "pool/cache/flush.h"

#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/cache/magazine.h"
#include "pool/stream/epoch.h"
#include "pool/stream/stream_state.h"

#define MANY_PLACES_BYTES ((size_t)16 << 10)
#define SOME_PLACES_BYTES ((size_t)128 << 10)
#define KEPT_BUNDLES 64U

static struct moietyi_bundle *last_bundle(struct moietyi_bundle *bundle)
{
    while (bundle->next)
        bundle = bundle->next;
    return bundle;
}

static struct moietyi_bundle *take_bundles(struct moietyi_engine *engine)
{
    /* SP.acquire: the links. */
    return atomic_exchange_explicit(&engine->bundle_freelist, NULL,
                                    memory_order_acquire);
}

/* A chain goes to the pool. It may be long, and what came meanwhile is short,
 * so that is taken, put in front, and the whole pushed. */
static void push_bundles(struct moietyi_engine *engine,
                         struct moietyi_bundle *first)
{
    struct moietyi_bundle *nothing = NULL;
    /* SP.release: the taker sees the links. On failure nothing was published.
     */
    while (first && !atomic_compare_exchange_strong_explicit(
                        &engine->bundle_freelist, &nothing, first,
                        memory_order_release, memory_order_relaxed)) {
        struct moietyi_bundle *newer = take_bundles(engine);
        nothing = NULL;
        if (!newer)
            continue;
        last_bundle(newer)->next = first;
        first = newer;
    }
}

/* Some of the pool's free list. */
static void fetch_bundles(struct moietyi_thread_state *thread_state)
{
    struct moietyi_engine *engine = thread_state->engine;
    /* relaxed: a hint. */
    if (!atomic_load_explicit(&engine->bundle_freelist, memory_order_relaxed))
        return;
    struct moietyi_bundle *all = take_bundles(engine);
    MOIETYI_STEP("freelist.taken");
    while (all && thread_state->bundle_count < KEPT_BUNDLES / 2) {
        struct moietyi_bundle *bundle = all;
        all = bundle->next;
        bundle->next = thread_state->bundles;
        thread_state->bundles = bundle;
        thread_state->bundle_count++;
    }
    push_bundles(engine, all);
}

struct moietyi_bundle *
moietyi_bundle_take(struct moietyi_thread_state *thread_state,
                    uint32_t class_index)
{
    if (!thread_state->bundles)
        fetch_bundles(thread_state);
    struct moietyi_bundle *bundle = thread_state->bundles;
    if (bundle) {
        thread_state->bundles = bundle->next;
        thread_state->bundle_count--;
    } else {
        bundle = malloc(sizeof(*bundle));
        if (!bundle)
            return NULL;
    }
    bundle->next = NULL;
    bundle->class_index = class_index;
    bundle->count = 0;
    return bundle;
}

/* A few of the thread state's, up to `last`, go to the pool. */
static void share_bundles(struct moietyi_thread_state *thread_state,
                          struct moietyi_bundle *last)
{
    struct moietyi_bundle *first = thread_state->bundles;
    thread_state->bundles = last->next;
    last->next = take_bundles(thread_state->engine);
    push_bundles(thread_state->engine, first);
}

/* Half of what the thread state keeps. */
static void share_half_of_bundles(struct moietyi_thread_state *thread_state)
{
    struct moietyi_bundle *last = thread_state->bundles;
    for (uint32_t i = 1; i < KEPT_BUNDLES / 2; i++)
        last = last->next;
    thread_state->bundle_count -= KEPT_BUNDLES / 2;
    share_bundles(thread_state, last);
}

void moietyi_bundle_recycle(struct moietyi_thread_state *thread_state,
                            struct moietyi_bundle *bundle)
{
    bundle->next = thread_state->bundles;
    thread_state->bundles = bundle;
    if (++thread_state->bundle_count >= KEPT_BUNDLES)
        share_half_of_bundles(thread_state);
}

void moietyi_bundle_freelist_share(struct moietyi_thread_state *thread_state)
{
    if (thread_state->bundles)
        share_bundles(thread_state, last_bundle(thread_state->bundles));
    thread_state->bundle_count = 0;
}

void moietyi_bundles_free(struct moietyi_bundle *bundles)
{
    while (bundles) {
        struct moietyi_bundle *next = bundles->next;
        free(bundles);
        bundles = next;
    }
}

void moietyi_bundle_freelist_destroy(struct moietyi_engine *engine)
{
    /* relaxed: nobody else is left. */
    moietyi_bundles_free(atomic_exchange_explicit(&engine->bundle_freelist,
                                                  NULL, memory_order_relaxed));
}

uint64_t moietyi_block_grains(const struct moietyi_engine *engine,
                              moietyi_grain start, uint8_t byte)
{
    uint8_t bare = byte & (uint8_t)~MOIETYI_BYTE_SPECIAL;
    return bare == MOIETYI_BYTE_RUN
               ? moietyi_buddy_run_grains(engine->streams.buddy, start)
               : moietyi_grains_of_byte(bare);
}

struct moietyi_block moietyi_block_of(const struct moietyi_engine *engine,
                                      moietyi_grain start, uint8_t byte)
{
    uint64_t grains = moietyi_block_grains(engine, start, byte);
    return (struct moietyi_block){start, byte, moietyi_class_of_grains(grains),
                                  grains};
}

moiety_status moietyi_block_at(const struct moietyi_engine *engine,
                               moiety_devptr address, struct moietyi_block *out)
{
    moietyi_grain start;
    if (!moietyi_grain_of(engine->lookup, address, &start))
        return moietyi_fail(MOIETY_E_FOREIGN,
                            "address 0x%llx is not of this pool", address);
    uint8_t byte = moietyi_buddy_class(engine->streams.buddy, start);
    if (address % MOIETYI_GRAIN_BYTES || !byte) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "no block starts at address 0x%llx: it is inside "
                            "one, or free",
                            address);
    }
    *out = moietyi_block_of(engine, start, byte);
    return MOIETY_OK;
}

uint64_t moietyi_entry_grains(const struct moietyi_engine *engine,
                              uint32_t class_index, moiety_devptr entry)
{
    moietyi_grain start = {0};
    if (moietyi_class_is_small(class_index))
        return moietyi_class_grains(class_index) -
               moietyi_entry_shortfall(entry);
    (void)moietyi_grain_of(engine->lookup, entry, &start);
    return moietyi_buddy_run_grains(engine->streams.buddy, start);
}

uint64_t moietyi_bundle_bytes(const struct moietyi_engine *engine,
                              const struct moietyi_bundle *bundle)
{
    uint64_t grains = 0;
    for (uint32_t i = 0; i < bundle->count; i++)
        grains += moietyi_entry_grains(engine, bundle->class_index,
                                       bundle->entries[i]);
    return grains * MOIETYI_GRAIN_BYTES;
}

/* Neighbours that go back by one give. */
struct range {
    uint64_t start;
    uint64_t grains;
};

/* It is done where `stream_state` is NULL, and else goes to the stream's heap. */
static void give_range(struct moietyi_thread_state *by,
                       struct moietyi_stream_state *stream_state,
                       const struct range *range)
{
    struct moietyi_engine *engine = by->engine;
    moietyi_grain start = moietyi_grain_at(range->start);
    if (!range->grains)
        return;
    if (!stream_state)
        by->given_bytes += range->grains * MOIETYI_GRAIN_BYTES;
    bool is_given =
        stream_state
            ? moietyi_maps_give(stream_state->maps, start, range->grains)
            : moietyi_buddy_give(engine->streams.buddy, start, range->grains);
    MOIETYI_STEP("range.given");
    if (!is_given)
        moietyi_count(by, MOIETYI_COUNT_DOUBLE_FREES, 1);
}

/* Joins the block to the range, or gives the range and begins another. */
static void give_next(struct moietyi_thread_state *by,
                      struct moietyi_stream_state *stream_state,
                      struct range *range, moiety_devptr address)
{
    struct moietyi_engine *engine = by->engine;
    moietyi_grain start;
    uint8_t byte = 0;
    if (moietyi_grain_of(engine->lookup, address, &start))
        byte = moietyi_buddy_end_class(engine->streams.buddy, start);
    if (!byte) {
        moietyi_count(by, MOIETYI_COUNT_DOUBLE_FREES, 1);
        return;
    }
    uint64_t grains = moietyi_block_grains(engine, start, byte);
    if (start.index == range->start + range->grains) {
        range->grains += grains;
    } else if (start.index + grains == range->start) {
        *range = (struct range){start.index, range->grains + grains};
    } else {
        give_range(by, stream_state, range);
        *range = (struct range){start.index, grains};
    }
}

/* `stream_state` has maps, or is DONE's. */
static struct moietyi_stream_state *
stream_state_with_maps(struct moietyi_stream_state *stream_state)
{
    return stream_state->maps ? stream_state : NULL;
}

static void give_bundle_to(struct moietyi_thread_state *by,
                           struct moietyi_stream_state *stream_state,
                           struct moietyi_bundle *bundle)
{
    struct range range = {0, 0};
    for (uint32_t i = 0; i < bundle->count; i++)
        give_next(by, stream_state, &range,
                  moietyi_entry_address(bundle->entries[i]));
    give_range(by, stream_state, &range);
    MOIETYI_STEP("flush.given");
    moietyi_bundle_recycle(by, bundle);
}

void moietyi_give_bundle(struct moietyi_thread_state *by,
                         struct moietyi_bundle *bundle)
{
    give_bundle_to(by, NULL, bundle);
}

void moietyi_flush_block(struct moietyi_thread_state *by,
                         struct moietyi_stream_state *stream_state,
                         moiety_devptr address)
{
    struct range range = {0, 0};
    give_next(by, stream_state_with_maps(stream_state), &range, address);
    give_range(by, stream_state_with_maps(stream_state), &range);
}

void moietyi_flush_grains(struct moietyi_thread_state *by,
                          struct moietyi_stream_state *stream_state,
                          moietyi_grain start, uint64_t grains)
{
    const struct range range = {start.index, grains};
    give_range(by, stream_state_with_maps(stream_state), &range);
}

void moietyi_give_block(struct moietyi_thread_state *by, moiety_devptr address)
{
    moietyi_flush_block(by, by->engine->streams.done, address);
}

/* How many places a class has: what threads leave each other is not in any
 * thread's budget. */
static unsigned place_count(uint32_t class_index)
{
    size_t size_bytes = moietyi_class_bytes(class_index);
    if (size_bytes <= MANY_PLACES_BYTES)
        return MOIETYI_DEPOT_PLACES;
    return size_bytes <= SOME_PLACES_BYTES ? MOIETYI_DEPOT_PLACES / 2
                                           : MOIETYI_DEPOT_PLACES / 4;
}

/* Counts bytes in if the depot may still hold them. */
static bool reserve_depot(const struct moietyi_engine *engine,
                          struct moietyi_stream_state *stream_state,
                          uint64_t bytes)
{
    /* relaxed: a bound, not a lock; others may pass it at the same time. */
    if (atomic_load_explicit(&stream_state->depot_bytes, memory_order_relaxed) +
            bytes >
        moietyi_depot_bound(engine))
        return false;
    atomic_fetch_add_explicit(&stream_state->depot_bytes, bytes,
                              memory_order_relaxed);
    return true;
}

static void release_depot(struct moietyi_stream_state *stream_state,
                          uint64_t bytes)
{
    atomic_fetch_sub_explicit(&stream_state->depot_bytes, bytes,
                              memory_order_relaxed);
}

/* Into the first place that is empty. */
static bool put_in_place(struct moietyi_stream_state *stream_state,
                         struct moietyi_bundle *bundle)
{
    unsigned places = place_count(bundle->class_index);
    for (unsigned i = 0; i < places; i++) {
        _Atomic(struct moietyi_bundle *) *place =
            &stream_state->depot[bundle->class_index][i];
        struct moietyi_bundle *nobody = NULL;
        /* relaxed: a look, so that full places cost no exchange. */
        if (atomic_load_explicit(place, memory_order_relaxed))
            continue;
        MOIETYI_STEP("depot.put");
        /* DE.release: the addresses, and that their last owners have queued
         * their work. On failure the place is full. */
        if (atomic_compare_exchange_strong_explicit(place, &nobody, bundle,
                                                    memory_order_release,
                                                    memory_order_relaxed))
            return true;
    }
    return false;
}

bool moietyi_depot_put(struct moietyi_thread_state *by,
                       struct moietyi_stream_state *stream_state,
                       struct moietyi_bundle *bundle)
{
    /* Before: once it is in, it may be anybody's. */
    uint64_t bytes = moietyi_bundle_bytes(by->engine, bundle);
    if (!reserve_depot(by->engine, stream_state, bytes))
        return false;
    bundle->depot_bytes = bytes;
    if (put_in_place(stream_state, bundle)) {
        moietyi_count(by, MOIETYI_COUNT_DEPOT_IN_BYTES, bytes);
        return true;
    }
    release_depot(stream_state, bytes);
    return false;
}

struct moietyi_bundle *
moietyi_depot_take(struct moietyi_thread_state *by,
                   struct moietyi_stream_state *stream_state,
                   uint32_t class_index)
{
    if (!moietyi_class_is_small(class_index))
        return NULL;
    for (unsigned i = 0; i < MOIETYI_DEPOT_PLACES; i++) {
        _Atomic(struct moietyi_bundle *) *place =
            &stream_state->depot[class_index][i];
        /* relaxed: a look, as above. */
        if (!atomic_load_explicit(place, memory_order_relaxed))
            continue;
        MOIETYI_STEP("depot.take");
        /* DE.acquire. */
        struct moietyi_bundle *bundle =
            atomic_exchange_explicit(place, NULL, memory_order_acquire);
        if (!bundle)
            continue;
        uint64_t bytes = bundle->depot_bytes;
        release_depot(stream_state, bytes);
        moietyi_count(by, MOIETYI_COUNT_DEPOT_OUT_BYTES, bytes);
        moietyi_count(by, MOIETYI_COUNT_DEPOT_EXCHANGES, 1);
        return bundle;
    }
    return NULL;
}

void moietyi_depot_drain(struct moietyi_thread_state *by,
                         struct moietyi_stream_state *stream_state)
{
    for (uint32_t i = 0; i < MOIETYI_SMALL_CLASSES; i++) {
        struct moietyi_bundle *bundle;
        while ((bundle = moietyi_depot_take(by, stream_state, i)))
            give_bundle_to(by, stream_state_with_maps(stream_state), bundle);
    }
}

/* Of what another thread may take at once. */
static bool has_depot(const struct moietyi_stream_state *stream_state)
{
    return stream_state->kind == MOIETYI_STREAM_STATE_DONE ||
           (stream_state->kind == MOIETYI_STREAM_STATE_STREAM &&
            !moietyi_stream_state_is_closed(stream_state));
}

void moietyi_flush_bundle(struct moietyi_thread_state *by,
                          struct moietyi_cache *cache,
                          struct moietyi_bundle *bundle, bool may_share)
{
    struct moietyi_stream_state *stream_state = cache->stream_state;
    if (!may_share || !moietyi_class_is_small(bundle->class_index) ||
        !has_depot(stream_state) ||
        !moietyi_depot_put(by, stream_state, bundle))
        give_bundle_to(by, stream_state_with_maps(stream_state), bundle);
}
