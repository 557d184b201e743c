/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where a block comes from when the first magazine has none: the thread's DONE
 * magazine, the depots, retired batches, the buddy. What comes from the buddy
 * is nobody's yet, so it goes through the DONE magazine, where it can still
 * serve any stream.
 */
#include "pool/base/step.h"
#include "pool/cache/cache.h"
#include "pool/cache/entry.h"
#include "pool/cache/magazine.h"
#include "pool/cache/own.h"
#include "pool/cache/poll.h"
#include "pool/cache/registry.h"
#include "pool/cache/slot.h"

static uint32_t class_of(const struct binadei_request *request)
{
    return request->size.class_index;
}

static bool is_run(const struct binadei_request *request)
{
    return request->size.chunks != 0;
}

/* A run above what the buddy cuts out of one page. */
static bool is_long(const struct binadei_request *request)
{
    return request->size.grains > BINADEI_TAKE_GRAINS_MAX;
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

static bool is_aligned(const struct binadei_request *request,
                       binade_devptr address)
{
    return !(address & (request->alignment_grains * BINADEI_GRAIN_BYTES - 1));
}

static uint64_t entry_grains(const struct binadei_engine *engine,
                             uint32_t class_index, binade_devptr entry)
{
    return binadei_class_has_entries(class_index)
               ? binadei_class_grains(class_index) -
                     binadei_entry_shortfall(entry)
               : binadei_block_bytes(engine, class_index, entry) /
                     BINADEI_GRAIN_BYTES;
}

/* By how many grains a cached run may be longer than what is asked for. */
static uint64_t slack_of(const struct binadei_call *call,
                         const struct binadei_request *request)
{
    return request->is_exact ? 0
                             : request->size.grains >> call->pool->slack_shift;
}

/* The newest run of the bucket that is long enough, and not too long. */
static bool pop_run(const struct binadei_call *call,
                    struct binadei_cache *cache,
                    const struct binadei_request *request, binade_devptr *out)
{
    struct binadei_magazine *magazine = &cache->magazines[class_of(request)];
    uint64_t slack = slack_of(call, request);
    uint32_t count = binadei_magazine_count(magazine);
    for (uint32_t i = count; i-- > 0;) {
        binade_devptr entry = magazine->entries[i];
        uint64_t grains = entry_grains(call->engine, class_of(request), entry);
        /* Wraps around where the run is too short. */
        if (grains - request->size.grains > slack ||
            !is_aligned(request, binadei_entry_address(entry)))
            continue;
        magazine->entries[i] = magazine->entries[count - 1];
        binadei_magazine_set(magazine, count - 1);
        count_alloc(cache, request, grains * BINADEI_GRAIN_BYTES);
        *out = binadei_entry_address(entry);
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
    binade_devptr address = magazine->entries[count - 1];
    if (!is_aligned(request, address))
        return false;
    binadei_magazine_set(magazine, count - 1);
    count_alloc(cache, request, 0);
    *out = address;
    return true;
}

static bool pop(const struct binadei_call *call, struct binadei_cache *cache,
                const struct binadei_request *request, binade_devptr *out)
{
    if (class_of(request) >= BINADEI_CLASSES)
        return false;
    return is_run(request) ? pop_run(call, cache, request, out)
                           : pop_small(cache, request, out);
}

static void mark(struct binadei_engine *engine, binadei_grain start,
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

/* Runs that come into the cache's magazines beside frees. */
static void count_moved(struct binadei_cache *cache,
                        const struct binadei_request *request, uint64_t bytes)
{
    if (is_run(request) && class_of(request) < BINADEI_CLASSES)
        binadei_count_add(&cache->run_moved_bytes, bytes);
}

/* One block from the buddy, straight to the caller. */
static void hand_out(struct binadei_call *call,
                     const struct binadei_request *request, binadei_grain start,
                     binade_devptr *out)
{
    struct binadei_cache *done = call->member->done;
    uint64_t bytes = request->size.grains * BINADEI_GRAIN_BYTES;
    mark(call->engine, start, request);
    count_alloc(done, request, bytes);
    /* It was in no magazine. */
    count_moved(done, request, bytes);
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
        mark(engine, starts[i], request);
        magazine->entries[count++] =
            binadei_entry_of(class_of(request), request->size.grains,
                             binadei_address_of(engine->lookup, starts[i]));
    }
    binadei_magazine_set(magazine, count);
    count_moved(cache, request,
                (taken - 1) * request->size.grains * BINADEI_GRAIN_BYTES);
    hand_out(call, request, starts[0], out);
}

/* Several blocks of up to 1 MiB by one claim; all but one stay in the DONE
 * magazine. */
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

static bool take_run(struct binadei_call *call,
                     const struct binadei_request *request, binade_devptr *out)
{
    binadei_grain start;
    if (!binadei_buddy_take_run(call->engine->buddy, &call->member->home,
                                request->size.chunks, &start))
        return false;
    uint64_t grains = request->size.grains;
    uint64_t rest =
        (uint64_t)request->size.chunks * BINADEI_CHUNK_GRAINS - grains;
    /* It is ours, so giving it back cannot contradict. */
    if (rest)
        (void)binadei_buddy_give(call->engine->buddy, &call->member->home,
                                 binadei_grain_at(start.index + grains), rest);
    hand_out(call, request, start, out);
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
        return pop(call, cache, request, out);
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

/* What this thread has on its way out, for the stream that freed it. */
static bool take_leaving(struct binadei_call *call,
                         const struct binadei_request *request,
                         binade_devptr *out)
{
    return call->pop == call->push && class_of(request) < BINADEI_CLASSES &&
           load_and_pop(
               call, call->pop,
               binadei_leaving_take(call->member, call->pop, class_of(request)),
               request, out);
}

/* A block that is too large for a magazine, back for the stream that freed
 * it. */
static bool take_uncached(struct binadei_poll *poll,
                          const struct binadei_request *request,
                          binade_devptr *out)
{
    uint64_t bytes = request->size.grains * BINADEI_GRAIN_BYTES;
    uint64_t most_bytes = request->is_exact ? bytes : bytes + bytes / 8;
    if (!binadei_own_reuse_block(poll, bytes, most_bytes, out))
        return false;
    count_alloc(
        poll->own, request,
        binadei_block_bytes(poll->member->engine, BINADEI_CLASSES, *out));
    return true;
}

static bool take_retired(struct binadei_call *call,
                         const struct binadei_request *request,
                         binade_devptr *out)
{
    struct binadei_poll poll = {
        .member = call->member,
        .class_index = class_of(request),
        .own = call->pop->slot->kind >= BINADEI_SLOT_STREAM ? call->pop : NULL,
    };
    if (poll.own && class_of(request) == BINADEI_CLASSES)
        return take_uncached(&poll, request, out);
    binadei_poll_own(&poll, call->push->slot);
    return poll.found && (pop(call, call->pop, request, out) ||
                          pop(call, call->member->done, request, out));
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

/* Small blocks: the stream's own first, which nobody else can use; then what is
 * done; then a run that is put together from both. */
static bool take_small_of_maps(struct binadei_call *call,
                               const struct binadei_request *request,
                               binade_devptr *out)
{
    struct binadei_maps *maps = maps_of(call);
    const struct binadei_view view = {call->engine->buddy, maps, false};
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

/* How many blocks to carve side by side for the cache. */
static uint32_t carve_count(struct binadei_cache *cache,
                            const struct binadei_request *request)
{
    return class_of(request) < BINADEI_CLASSES && request->alignment_grains == 1
               ? binadei_magazine_refill(cache, class_of(request))
               : 1;
}

/* Runs of the length that is asked for, side by side, so that nothing is left
 * between them and they merge again; or one. What is done can serve any stream
 * later. */
static bool take_runs_of_maps(struct binadei_call *call,
                              const struct binadei_request *request,
                              binade_devptr *out)
{
    const struct binadei_view view = {call->engine->buddy, maps_of(call),
                                      false};
    struct binadei_cache *cache = view.maps ? call->pop : call->member->done;
    uint64_t grains = request->size.grains;
    uint32_t count = carve_count(cache, request);
    binadei_grain starts[BINADEI_REFILL_BLOCKS];
    if (count > 1 &&
        !binadei_view_take(&view, count * grains, 1, false, starts))
        count = 1;
    if (count == 1 &&
        !binadei_view_take(&view, grains, request->alignment_grains, false,
                           starts))
        return false;
    for (uint32_t i = 1; i < count; i++)
        starts[i] = binadei_grain_at(starts[0].index + i * grains);
    if (count == 1)
        hand_out(call, request, starts[0], out);
    else
        share_out(call, cache, request, starts, count, out);
    return true;
}

/* One block from all that the call may take from, whatever the hints say. */
static bool take_thoroughly(struct binadei_call *call,
                            const struct binadei_request *request,
                            binade_devptr *out)
{
    const struct binadei_view view = {call->engine->buddy, maps_of(call),
                                      false};
    binadei_grain start;
    if (!binadei_view_take(&view, request->size.grains,
                           request->alignment_grains, true, &start))
        return false;
    hand_out(call, request, start, out);
    return true;
}

static bool take_of_maps(struct binadei_call *call,
                         const struct binadei_request *request,
                         binade_devptr *out)
{
    struct binadei_cache *done = call->member->done;
    return take_depot(call, call->pop, request, out) ||
           (call->pop != done && take_depot(call, done, request, out)) ||
           (is_run(request) ? take_runs_of_maps(call, request, out)
                            : take_small_of_maps(call, request, out));
}

static bool take_shared(struct binadei_call *call,
                        const struct binadei_request *request,
                        binade_devptr *out)
{
    struct binadei_cache *done = call->member->done;
    if (!call->has_missed)
        binadei_count(call->member, BINADEI_COUNT_MISSES, 1);
    call->has_missed = true;
    if (call->engine->has_maps)
        return take_of_maps(call, request, out);
    return take_leaving(call, request, out) ||
           take_depot(call, call->pop, request, out) ||
           (call->pop != done && take_depot(call, done, request, out)) ||
           take_retired(call, request, out) ||
           (is_long(request) ? take_run(call, request, out)
                             : take_small(call, request, out));
}

bool binadei_take(struct binadei_call *call,
                  const struct binadei_request *request, binade_devptr *out)
{
    if (pop(call, call->pop, request, out))
        return true;
    if (class_of(request) < BINADEI_CLASSES)
        binadei_magazine_missed(&call->pop->magazines[class_of(request)]);
    if (call->pop != call->member->done &&
        pop(call, call->member->done, request, out))
        return true;
    return take_shared(call, request, out);
}

bool binadei_take_last(struct binadei_call *call,
                       const struct binadei_request *request,
                       binade_devptr *out)
{
    binadei_grain start;
    const struct binadei_take what = {(uint32_t)request->size.grains, 1,
                                      request->alignment_grains};
    binadei_buddy_trim(call->engine->buddy);
    if (binadei_take(call, request, out))
        return true;
    if (call->engine->has_maps)
        return take_thoroughly(call, request, out);
    if (is_long(request) ||
        !binadei_buddy_take_last_resort(call->engine->buddy, &what, &start))
        return false;
    hand_out(call, request, start, out);
    return true;
}
