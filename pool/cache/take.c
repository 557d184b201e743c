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
#include "pool/cache/hit.h"
#include "pool/cache/live.h"
#include "pool/cache/magazine.h"
#include "pool/cache/registry.h"
#include "pool/stream/stream_state.h"

/* Entries of a magazine that a miss looks at, newest first. */
#define POP_DEPTH 64U

static uint32_t class_of(const struct moietyi_request *request)
{
    return request->size.class_index;
}

/* Longer than what hits serve. */
static bool is_run(const struct moietyi_request *request)
{
    return !moietyi_class_is_small(class_of(request));
}

/* Counts on a magazine, or on the thread state for blocks that have none. */
static void count_alloc(struct moietyi_cache *cache,
                        const struct moietyi_request *request, uint64_t grains)
{
    struct moietyi_thread_state *thread_state = cache->thread_state;
    if (class_of(request) < MOIETYI_CLASSES) {
        moietyi_magazine_count_alloc(&cache->magazines[class_of(request)],
                                     request->size_bytes);
        moietyi_count_add(&cache->uneven_alloc_bytes,
                          moietyi_uneven_bytes(class_of(request), grains));
        moietyi_live_tell(cache, class_of(request));
        return;
    }
    moietyi_count(thread_state, MOIETYI_COUNT_ALLOCS, 1);
    moietyi_count(thread_state, MOIETYI_COUNT_ALLOC_BYTES,
                  grains * MOIETYI_GRAIN_BYTES);
    moietyi_count(thread_state, MOIETYI_COUNT_REQUESTED_BYTES,
                  request->size_bytes);
}

/* A run serves its own length alone: what were left over of it would rest. */
static bool is_long_enough(const struct moietyi_request *request,
                           uint64_t grains)
{
    return is_run(request) ? grains == request->size.grains
                           : grains >= request->size.grains;
}

static bool is_aligned(const struct moietyi_request *request,
                       moiety_devptr entry)
{
    return !(moietyi_entry_address(entry) &
             (request->alignment_grains * MOIETYI_GRAIN_BYTES - 1));
}

/* Before the allocation is counted, so that the hits among these are never too many;
 * and not before there is one, as what is never allocated is neither. */
static void count_miss(struct moietyi_call *call)
{
    if (call->has_missed && !call->is_miss_counted)
        moietyi_count(call->thread_state, MOIETYI_COUNT_MISSES, 1);
    call->is_miss_counted |= call->has_missed;
}

/* The newest block of the class that is long enough, of those that a look at the
 * magazine's top sees. `call` is NULL in a hit. */
static bool miss_pop(struct moietyi_call *call, struct moietyi_cache *cache,
                     const struct moietyi_request *request, moiety_devptr *out)
{
    if (class_of(request) >= MOIETYI_CLASSES)
        return false;
    struct moietyi_magazine *magazine = &cache->magazines[class_of(request)];
    uint32_t count = moietyi_magazine_count(magazine);
    uint32_t end = count > POP_DEPTH ? count - POP_DEPTH : 0;
    for (uint32_t i = count; i-- > end;) {
        moiety_devptr entry = magazine->entries[i];
        uint64_t grains = moietyi_entry_grains(cache->thread_state->engine,
                                               class_of(request), entry);
        if (!is_long_enough(request, grains) || !is_aligned(request, entry))
            continue;
        magazine->entries[i] = magazine->entries[count - 1];
        moietyi_magazine_set(magazine, count - 1);
        moietyi_count_add(&cache->uneven_cached_bytes,
                          -moietyi_uneven_bytes(class_of(request), grains));
        if (call)
            count_miss(call);
        count_alloc(cache, request, grains);
        if (is_run(request))
            moietyi_last_runs_popped(cache, class_of(request));
        *out = moietyi_entry_address(entry);
        return true;
    }
    return false;
}

moiety_devptr moietyi_hit_pop_run(struct moietyi_cache *cache,
                                  size_t size_bytes)
{
    if (!size_bytes)
        return 0;
    const struct moietyi_request request = {moietyi_size_of_bytes(size_bytes),
                                            size_bytes, 1, false};
    moiety_devptr address;
    return is_run(&request) && miss_pop(NULL, cache, &request, &address)
               ? address
               : 0;
}

void moietyi_mark_block(struct moietyi_engine *engine, moietyi_grain start,
                        const struct moietyi_request *request)
{
    uint8_t byte = moietyi_byte_of(class_of(request), request->size.grains);
    if (byte == MOIETYI_BYTE_RUN)
        moietyi_buddy_set_run_grains(engine->streams.buddy, start,
                                     request->size.grains);
    moietyi_buddy_set_class(engine->streams.buddy, start, byte);
}

void moietyi_note_stream(const struct moietyi_call *call, moiety_devptr address)
{
    moietyi_grain start;
    const struct moietyi_engine *engine = call->engine;
    if (engine->notes && moietyi_grain_of(engine->lookup, address, &start))
        moietyi_note_put(engine->notes, start,
                         moietyi_buddy_class(engine->streams.buddy, start),
                         call->push->stream_state->note);
}

/* One block from the buddy, straight to the caller. */
static void miss_hand_out(struct moietyi_call *call,
                          const struct moietyi_request *request,
                          moietyi_grain start, moiety_devptr *out)
{
    moietyi_mark_block(call->engine, start, request);
    count_miss(call);
    count_alloc(call->thread_state->done, request, request->size.grains);
    *out = moietyi_address_of(call->engine->lookup, start);
}

/* Blocks that begin at `starts` go into the cache's magazine, but for the first,
 * which the caller gets. */
static void share_out(struct moietyi_call *call, struct moietyi_cache *cache,
                      const struct moietyi_request *request,
                      const moietyi_grain *starts, uint32_t taken,
                      moiety_devptr *out)
{
    struct moietyi_engine *engine = call->engine;
    struct moietyi_magazine *magazine = &cache->magazines[class_of(request)];
    uint32_t count = moietyi_magazine_count(magazine);
    uint8_t byte = moietyi_byte_of(class_of(request), request->size.grains);
    /* The lowest is on top. The magazine has room: see its refill. */
    for (uint32_t i = taken; i-- > 1;) {
        moietyi_mark_block(engine, starts[i], request);
        if (engine->notes)
            moietyi_note_put(engine->notes, starts[i], byte,
                             cache->stream_state->note);
        magazine->entries[count++] =
            moietyi_entry_of(class_of(request), request->size.grains,
                             moietyi_address_of(engine->lookup, starts[i]));
    }
    moietyi_magazine_set(magazine, count);
    moietyi_count_add(&cache->uneven_cached_bytes,
                      (taken - 1) * moietyi_uneven_bytes(class_of(request),
                                                         request->size.grains));
    miss_hand_out(call, request, starts[0], out);
}

/* Several blocks by one claim; all but one stay in the DONE magazine. */
static bool miss_take_small(struct moietyi_call *call,
                            const struct moietyi_request *request,
                            moiety_devptr *out)
{
    struct moietyi_engine *engine = call->engine;
    struct moietyi_cache *done = call->thread_state->done;
    bool is_plain = request->alignment_grains == 1;
    const struct moietyi_take what = {
        (uint32_t)request->size.grains,
        is_plain ? moietyi_magazine_refill(done, class_of(request)) : 1,
        request->alignment_grains};
    moietyi_grain starts[MOIETYI_REFILL_BLOCKS];
    uint32_t taken = moietyi_buddy_take(engine->streams.buddy, &what, starts);
    if (!taken)
        return false;
    MOIETYI_STEP("refill.taken");
    share_out(call, done, request, starts, taken, out);
    return true;
}

/* A bundle for a cache's magazine, and a block of it. */
static bool load_and_pop(struct moietyi_call *call, struct moietyi_cache *cache,
                         struct moietyi_bundle *bundle,
                         const struct moietyi_request *request,
                         moiety_devptr *out)
{
    if (!bundle)
        return false;
    if (moietyi_magazine_load(call->thread_state, cache, bundle))
        return miss_pop(call, cache, request, out);
    moietyi_flush_bundle(call->thread_state, cache, bundle, true);
    return false;
}

/* What other threads left for this stream. */
static bool take_depot(struct moietyi_call *call, struct moietyi_cache *cache,
                       const struct moietyi_request *request,
                       moiety_devptr *out)
{
    return load_and_pop(call, cache,
                        moietyi_depot_take(call->thread_state,
                                           cache->stream_state,
                                           class_of(request)),
                        request, out);
}

/* The maps from which the call may take, beside what is done. */
static struct moietyi_maps *maps_of(const struct moietyi_call *call)
{
    const struct moietyi_stream_state *stream_state = call->pop->stream_state;
    struct moietyi_maps *maps =
        stream_state->kind >= MOIETYI_STREAM_STATE_STREAM &&
                !moietyi_stream_state_is_closed(stream_state)
            ? stream_state->maps
            : NULL;
    return moietyi_maps_grains(maps, MOIETYI_FRESH) ||
                   moietyi_maps_grains(maps, MOIETYI_AGEING)
               ? maps
               : NULL;
}

static struct moietyi_view view_of(const struct moietyi_call *call,
                                   struct moietyi_maps *maps)
{
    return (struct moietyi_view){.buddy = call->engine->streams.buddy,
                                 .maps = maps};
}

struct moietyi_view moietyi_call_view(const struct moietyi_call *call)
{
    return view_of(call, maps_of(call));
}

/* Small blocks are gathered, as one of them keeps what is around it from being one
 * run: the stream's own where small ones are already, then what is done, then the
 * rest of its own, and at last a run that is put together from both. */
static bool take_small_of_maps(struct moietyi_call *call,
                               const struct moietyi_request *request,
                               moiety_devptr *out)
{
    struct moietyi_maps *maps = maps_of(call);
    const struct moietyi_view view = view_of(call, maps);
    moietyi_grain starts[MOIETYI_REFILL_BLOCKS];
    struct moietyi_take what = {(uint32_t)request->size.grains, 1,
                                request->alignment_grains};
    uint32_t taken = 0;
    if (maps && request->alignment_grains == 1)
        what.count = moietyi_magazine_refill(call->pop, class_of(request));
    if (maps)
        taken = moietyi_maps_take(maps, &what, true, starts);
    if (!taken && miss_take_small(call, request, out))
        return true;
    if (!taken && maps) {
        const struct moietyi_magazine *magazine =
            &call->pop->magazines[class_of(request)];
        /* The look at what is done may have taken room from this magazine. */
        if (what.count > moietyi_magazine_room(magazine))
            what.count = moietyi_magazine_room(magazine);
        taken = moietyi_maps_take(maps, &what, false, starts);
    }
    if (!taken)
        taken = moietyi_view_take(&view, what.grains, what.alignment, starts);
    if (taken)
        share_out(call, call->pop, request, starts, taken, out);
    return taken != 0;
}

/* One block from all that the call may have. */
static bool take_one(struct moietyi_call *call,
                     const struct moietyi_request *request, moiety_devptr *out)
{
    const struct moietyi_view view = moietyi_call_view(call);
    moietyi_grain start;
    if (!moietyi_view_take(&view, request->size.grains,
                           request->alignment_grains, &start))
        return false;
    miss_hand_out(call, request, start, out);
    return true;
}

static bool is_memory_short(const struct moietyi_call *call)
{
    /* relaxed: advice. */
    return atomic_load_explicit(&call->engine->halvings,
                                memory_order_relaxed) != 0;
}

/* Blocks side by side from a good fit, so that nothing is left between them and
 * they merge again: of what the stream has, or of what is done where it has
 * nothing; or one from both. What is done never rests in a cache of the stream's,
 * from where it would go to the stream's maps, and wait for work that did not use
 * it. */
static bool take_side_by_side(struct moietyi_call *call,
                              const struct moietyi_request *request,
                              moiety_devptr *out)
{
    struct moietyi_maps *maps = maps_of(call);
    struct moietyi_cache *cache = maps ? call->pop : call->thread_state->done;
    struct moietyi_view view = view_of(call, maps);
    uint64_t grains = request->size.grains;
    uint32_t count = request->alignment_grains == 1 && !is_memory_short(call)
                         ? moietyi_magazine_refill(cache, class_of(request))
                         : 1;
    moietyi_grain starts[MOIETYI_REFILL_BLOCKS];
    view.is_own_only = maps != NULL;
    if (count == 1 || !moietyi_view_take_good(&view, count * grains, 1, starts))
        return take_one(call, request, out);
    for (uint32_t i = 1; i < count; i++)
        starts[i] = moietyi_grain_at(starts[0].index + i * grains);
    share_out(call, cache, request, starts, count, out);
    return true;
}

/* Whether the thread asks for several lengths of the class. */
static bool is_mixed(const struct moietyi_call *call,
                     const struct moietyi_request *request)
{
    return call->pop->magazines[class_of(request)].is_mixed;
}

/* As long as was asked for; or, where a thread asks for several lengths of a
 * class and memory is not short, as the class, so that the block serves all of
 * them. */
static uint64_t length_of(const struct moietyi_call *call,
                          const struct moietyi_request *request)
{
    return is_mixed(call, request) && !is_memory_short(call)
               ? moietyi_class_grains(class_of(request))
               : request->size.grains;
}

/* A block of more than a chunk goes where it fits; smaller ones where they are
 * found first. */
static bool take_of_maps(struct moietyi_call *call,
                         const struct moietyi_request *request,
                         moiety_devptr *out)
{
    struct moietyi_request sized = *request;
    if (is_run(request))
        return take_one(call, request, out);
    sized.size.grains = length_of(call, request);
    return sized.size.grains > MOIETYI_CHUNK_GRAINS
               ? take_side_by_side(call, &sized, out)
               : take_small_of_maps(call, &sized, out);
}

static bool take_shared(struct moietyi_call *call,
                        const struct moietyi_request *request,
                        moiety_devptr *out)
{
    struct moietyi_cache *done = call->thread_state->done;
    call->has_missed = true;
    return take_depot(call, call->pop, request, out) ||
           (call->pop != done && take_depot(call, done, request, out)) ||
           take_of_maps(call, request, out);
}

bool moietyi_take(struct moietyi_call *call,
                  const struct moietyi_request *request, moiety_devptr *out)
{
    if (miss_pop(call, call->pop, request, out))
        return true;
    if (class_of(request) < MOIETYI_CLASSES) {
        moietyi_magazine_missed(&call->pop->magazines[class_of(request)],
                                &request->size);
        moietyi_live_tell(call->pop, class_of(request));
    }
    if (call->pop != call->thread_state->done &&
        miss_pop(call, call->thread_state->done, request, out))
        return true;
    return take_shared(call, request, out);
}

bool moietyi_take_last(struct moietyi_call *call,
                       const struct moietyi_request *request,
                       moiety_devptr *out)
{
    moietyi_grain start;
    if (moietyi_take(call, request, out))
        return true;
    const struct moietyi_view view = moietyi_call_view(call);
    if (!moietyi_view_take_best(&view, request->size.grains,
                                request->alignment_grains, &start))
        return false;
    miss_hand_out(call, request, start, out);
    return true;
}
