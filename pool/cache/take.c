/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where a block comes from when the first magazine has none: the thread's DONE
 * magazine, the depots, the stream's maps, the buddy. What comes from the buddy
 * alone is nobody's yet, so it goes through the DONE magazine, where it can still
 * serve any stream.
 */
#include "pool/base/step.h"
#include "pool/cache/cache.h"
#include "pool/cache/magazine.h"
#include "pool/cache/registry.h"
#include "pool/cache/slot.h"

/* So many look through all free memory for the best fit; more would be in each
 * other's way. */
#define FEW_THREADS 4U

static uint32_t class_of(const struct binadei_request *request)
{
    return request->size.class_index;
}

static bool is_run(const struct binadei_request *request)
{
    return request->size.chunks != 0;
}

/* Counts on a magazine, or on the member for blocks that have none. */
static void count_alloc(struct binadei_cache *cache,
                        const struct binadei_request *request, uint64_t bytes)
{
    struct binadei_member *member = cache->member;
    if (class_of(request) < BINADEI_CLASSES) {
        binadei_magazine_count_alloc(&cache->magazines[class_of(request)],
                                     request->size_bytes);
        if (is_run(request))
            binadei_count_add(&cache->run_alloc_bytes, bytes);
        return;
    }
    binadei_count(member, BINADEI_COUNT_ALLOCS, 1);
    binadei_count(member, BINADEI_COUNT_ALLOC_BYTES, bytes);
    binadei_count(member, BINADEI_COUNT_REQUESTED_BYTES, request->size_bytes);
}

static bool is_long_enough(const struct binadei_request *request,
                           uint64_t bytes)
{
    uint64_t needed_bytes = request->size.grains * BINADEI_GRAIN_BYTES;
    return request->is_exact ? bytes == needed_bytes : bytes >= needed_bytes;
}

static bool is_aligned(const struct binadei_request *request,
                       binade_devptr address)
{
    return !(address & (request->alignment_grains * BINADEI_GRAIN_BYTES - 1));
}

/* The newest run of the bucket that is long enough. */
static bool pop_run(struct binadei_cache *cache,
                    const struct binadei_request *request, binade_devptr *out)
{
    struct binadei_magazine *magazine = &cache->magazines[class_of(request)];
    uint32_t count = binadei_magazine_count(magazine);
    for (uint32_t i = count; i-- > 0;) {
        binade_devptr address = magazine->addresses[i];
        uint64_t bytes = binadei_block_bytes(cache->member->engine,
                                             class_of(request), address);
        if (!is_long_enough(request, bytes) || !is_aligned(request, address))
            continue;
        magazine->addresses[i] = magazine->addresses[count - 1];
        binadei_magazine_set(magazine, count - 1);
        binadei_count_add(&cache->run_cached_bytes, -bytes);
        count_alloc(cache, request, bytes);
        *out = address;
        return true;
    }
    return false;
}

static bool pop_small(struct binadei_cache *cache,
                      const struct binadei_request *request, binade_devptr *out)
{
    struct binadei_magazine *magazine = &cache->magazines[class_of(request)];
    uint32_t count = binadei_magazine_count(magazine);
    if (!count)
        return false;
    binade_devptr address = magazine->addresses[count - 1];
    if (!is_aligned(request, address))
        return false;
    binadei_magazine_set(magazine, count - 1);
    count_alloc(cache, request, 0);
    *out = address;
    return true;
}

static bool pop(struct binadei_cache *cache,
                const struct binadei_request *request, binade_devptr *out)
{
    if (class_of(request) >= BINADEI_CLASSES)
        return false;
    return is_run(request) ? pop_run(cache, request, out)
                           : pop_small(cache, request, out);
}

void binadei_mark_block(struct binadei_engine *engine, binadei_grain start,
                        const struct binadei_request *request)
{
    uint8_t byte = (uint8_t)(class_of(request) + 1);
    if (is_run(request)) {
        byte = BINADEI_BYTE_RUN;
        binadei_buddy_set_run_grains(engine->buddy, start,
                                     request->size.grains);
    }
    binadei_buddy_set_class(engine->buddy, start, byte);
}

void binadei_note_stream(const struct binadei_call *call, binade_devptr address)
{
    binadei_grain start;
    if (call->engine->notes &&
        binadei_grain_of(call->engine->lookup, address, &start))
        binadei_note_put(call->engine->notes, start, call->push->slot->note);
}

/* One block from the buddy, straight to the caller. */
static void hand_out(struct binadei_call *call,
                     const struct binadei_request *request, binadei_grain start,
                     binade_devptr *out)
{
    binadei_mark_block(call->engine, start, request);
    count_alloc(call->member->done, request,
                request->size.grains * BINADEI_GRAIN_BYTES);
    *out = binadei_address_of(call->engine->lookup, start);
}

/* Blocks that begin at `starts` go into the cache's magazine, but for the first,
 * which the caller gets. */
static void share_out(struct binadei_call *call, struct binadei_cache *cache,
                      const struct binadei_request *request,
                      const binadei_grain *starts, uint32_t taken,
                      binade_devptr *out)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_magazine *magazine = &cache->magazines[class_of(request)];
    uint32_t count = binadei_magazine_count(magazine);
    /* The lowest is on top. The magazine has room: see its refill. */
    for (uint32_t i = taken; i-- > 1;) {
        binadei_mark_block(engine, starts[i], request);
        if (engine->notes)
            binadei_note_put(engine->notes, starts[i], cache->slot->note);
        magazine->addresses[count++] =
            binadei_address_of(engine->lookup, starts[i]);
    }
    binadei_magazine_set(magazine, count);
    hand_out(call, request, starts[0], out);
}

/* Several blocks by one claim; all but one stay in the DONE magazine. */
static bool take_small(struct binadei_call *call,
                       const struct binadei_request *request,
                       binade_devptr *out)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_cache *done = call->member->done;
    bool is_plain = request->alignment_grains == 1;
    const struct binadei_take what = {
        (uint32_t)request->size.grains,
        is_plain ? binadei_magazine_refill(done, class_of(request)) : 1,
        request->alignment_grains};
    binadei_grain starts[BINADEI_REFILL_BLOCKS];
    uint32_t taken =
        binadei_buddy_take(engine->buddy, &call->member->home, &what, starts);
    if (!taken)
        return false;
    BINADEI_STEP("refill.taken");
    share_out(call, done, request, starts, taken, out);
    return true;
}

/* A bundle for a cache's magazine, and a block of it. */
static bool load_and_pop(struct binadei_call *call, struct binadei_cache *cache,
                         struct binadei_bundle *bundle,
                         const struct binadei_request *request,
                         binade_devptr *out)
{
    if (!bundle)
        return false;
    if (binadei_magazine_load(call->member, cache, bundle))
        return pop(cache, request, out);
    binadei_leave_bundle(call->member, cache, bundle, true);
    return false;
}

/* What other threads left for this stream. */
static bool take_depot(struct binadei_call *call, struct binadei_cache *cache,
                       const struct binadei_request *request,
                       binade_devptr *out)
{
    return load_and_pop(
        call, cache,
        binadei_depot_take(call->member, cache->slot, class_of(request)),
        request, out);
}

/* The maps from which the call may take, beside what is done. */
static struct binadei_maps *maps_of(const struct binadei_call *call)
{
    const struct binadei_slot *slot = call->pop->slot;
    struct binadei_maps *maps =
        slot->kind >= BINADEI_SLOT_STREAM && !binadei_slot_is_closed(slot)
            ? slot->maps
            : NULL;
    return binadei_maps_grains(maps, BINADEI_FRESH) ||
                   binadei_maps_grains(maps, BINADEI_AGEING)
               ? maps
               : NULL;
}

static struct binadei_view view_of(const struct binadei_call *call,
                                   struct binadei_maps *maps)
{
    const struct binadei_engine *engine = call->engine;
    /* relaxed: advice. */
    return (struct binadei_view){
        .buddy = engine->buddy,
        .maps = maps,
        .is_crowded = atomic_load_explicit(&engine->member_count,
                                           memory_order_relaxed) > FEW_THREADS};
}

/* Small blocks: the stream's own first, which nobody else can use; then what is
 * done; then a run that is put together from both. */
static bool take_small_of_maps(struct binadei_call *call,
                               const struct binadei_request *request,
                               binade_devptr *out)
{
    struct binadei_maps *maps = maps_of(call);
    const struct binadei_view view = view_of(call, maps);
    binadei_grain starts[BINADEI_REFILL_BLOCKS];
    struct binadei_take what = {(uint32_t)request->size.grains, 1,
                                request->alignment_grains};
    uint32_t taken = 0;
    if (maps && request->alignment_grains == 1)
        what.count = binadei_magazine_refill(call->pop, class_of(request));
    if (maps)
        taken = binadei_maps_take(maps, &what, starts);
    if (!taken && take_small(call, request, out))
        return true;
    if (!taken)
        taken = binadei_view_take(&view, what.grains, what.alignment, false,
                                  starts);
    if (taken)
        share_out(call, call->pop, request, starts, taken, out);
    return taken != 0;
}

/* One block from all that the call may take from. */
static bool take_of_view(struct binadei_call *call,
                         const struct binadei_request *request,
                         bool is_thorough, binade_devptr *out)
{
    const struct binadei_view view = view_of(call, maps_of(call));
    binadei_grain start;
    if (!binadei_view_take(&view, request->size.grains,
                           request->alignment_grains, is_thorough, &start))
        return false;
    hand_out(call, request, start, out);
    return true;
}

/* While memory is short, what is longer than a chunk goes where it fits best,
 * and not where it is found first. */
static bool is_worth_fitting(const struct binadei_call *call,
                             const struct binadei_request *request)
{
    /* relaxed: advice. */
    return request->size.grains > BINADEI_CHUNK_GRAINS &&
           atomic_load_explicit(&call->engine->halvings,
                                memory_order_relaxed) != 0;
}

static bool take_shared(struct binadei_call *call,
                        const struct binadei_request *request,
                        binade_devptr *out)
{
    struct binadei_cache *done = call->member->done;
    if (!call->has_missed)
        binadei_count(call->member, BINADEI_COUNT_MISSES, 1);
    call->has_missed = true;
    return take_depot(call, call->pop, request, out) ||
           (call->pop != done && take_depot(call, done, request, out)) ||
           (is_run(request) || is_worth_fitting(call, request)
                ? take_of_view(call, request, false, out)
                : take_small_of_maps(call, request, out));
}

bool binadei_take(struct binadei_call *call,
                  const struct binadei_request *request, binade_devptr *out)
{
    if (pop(call->pop, request, out))
        return true;
    if (class_of(request) < BINADEI_CLASSES)
        binadei_magazine_missed(&call->pop->magazines[class_of(request)]);
    if (call->pop != call->member->done &&
        pop(call->member->done, request, out))
        return true;
    return take_shared(call, request, out);
}

bool binadei_take_last(struct binadei_call *call,
                       const struct binadei_request *request,
                       binade_devptr *out)
{
    binadei_buddy_trim(call->engine->buddy);
    return binadei_take(call, request, out) ||
           take_of_view(call, request, true, out);
}
