/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where a block comes from if its magazine is empty: the thread's DONE
 * magazine, then the stream's heap and DONE's. Blocks that a miss takes from
 * DONE's heap in advance go into the DONE magazine, where any stream can still
 * use them.
 */
#include "pool/base/step.h"
#include "pool/cache/cache.h"
#include "pool/cache/hit.h"
#include "pool/cache/live.h"
#include "pool/cache/magazine.h"
#include "pool/cache/registry.h"
#include "pool/stream/stream_state.h"

static uint32_t class_of(const struct moietyi_request *request)
{
    return request->size.class_index;
}

/* Whether there are magazines for such blocks. */
static bool has_magazine(const struct moietyi_request *request)
{
    return class_of(request) < MOIETYI_CLASSES;
}

/* Counts on a magazine, or on the thread state for blocks without one. */
static void count_alloc(struct moietyi_cache *cache,
                        const struct moietyi_request *request, uint64_t grains)
{
    struct moietyi_thread_state *thread_state = cache->thread_state;
    if (has_magazine(request)) {
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

static bool is_aligned(const struct moietyi_request *request,
                       moiety_devptr entry)
{
    return !(moietyi_entry_address(entry) &
             (request->alignment_grains * MOIETYI_GRAIN_BYTES - 1));
}

/* Before the allocation is counted, so that there are never more hits than
 * allocations; and only if it succeeds, because a failure is neither. */
static void count_miss(struct moietyi_call *call)
{
    if (call->has_missed && !call->is_miss_counted)
        moietyi_count(call->thread_state, MOIETYI_COUNT_MISSES, 1);
    call->is_miss_counted |= call->has_missed;
}

/* The newest block of the class that is long enough. */
static bool miss_pop(struct moietyi_call *call, struct moietyi_cache *cache,
                     const struct moietyi_request *request, moiety_devptr *out)
{
    struct moietyi_magazine *magazine = &cache->magazines[class_of(request)];
    uint32_t count = moietyi_magazine_count(magazine);
    uint64_t most =
        moietyi_class_grains(class_of(request)) - request->size.grains;
    for (uint32_t i = count; i-- > 0;) {
        moiety_devptr entry = magazine->entries[i];
        uint64_t shortfall = moietyi_entry_shortfall(entry);
        if (shortfall > most || !is_aligned(request, entry))
            continue;
        magazine->entries[i] = magazine->entries[count - 1];
        moietyi_magazine_set(magazine, count - 1);
        moietyi_count_add(&cache->uneven_cached_bytes,
                          shortfall * MOIETYI_GRAIN_BYTES);
        count_miss(call);
        count_alloc(cache, request,
                    moietyi_class_grains(class_of(request)) - shortfall);
        *out = moietyi_entry_address(entry);
        return true;
    }
    return false;
}

/* Most are empty. */
static inline bool try_pop(struct moietyi_call *call,
                           struct moietyi_cache *cache,
                           const struct moietyi_request *request,
                           moiety_devptr *out)
{
    return moietyi_magazine_count(&cache->magazines[class_of(request)]) &&
           miss_pop(call, cache, request, out);
}

void moietyi_mark_block(struct moietyi_engine *engine, moietyi_grain start,
                        const struct moietyi_request *request)
{
    uint8_t byte = moietyi_byte_of(class_of(request), request->size.grains);
    if (byte == MOIETYI_BYTE_RUN)
        moietyi_space_set_run_grains(engine->streams.space, start,
                                     request->size.grains);
    moietyi_space_set_class(engine->streams.space, start, byte);
}

void moietyi_note_stream(const struct moietyi_call *call, moiety_devptr address)
{
    moietyi_grain start;
    const struct moietyi_engine *engine = call->engine;
    if (engine->notes && moietyi_grain_of(engine->lookup, address, &start))
        moietyi_note_put(engine->notes, start,
                         moietyi_space_class(engine->streams.space, start),
                         call->push->stream_state->note);
}

/* One block, straight to the caller. */
static void hand_out(struct moietyi_call *call,
                     const struct moietyi_request *request, moietyi_grain start,
                     moiety_devptr *out)
{
    moietyi_mark_block(call->engine, start, request);
    count_miss(call);
    count_alloc(call->pop, request, request->size.grains);
    *out = moietyi_address_of(call->engine->lookup, start);
}

/* Puts free blocks into the cache's magazine, which has room for them. */
static void keep(struct moietyi_call *call, struct moietyi_cache *cache,
                 const struct moietyi_request *request,
                 const moietyi_grain *starts, uint32_t blocks)
{
    struct moietyi_engine *engine = call->engine;
    struct moietyi_magazine *magazine = &cache->magazines[class_of(request)];
    uint32_t count = moietyi_magazine_count(magazine);
    uint64_t grains = request->size.grains;
    uint8_t byte = moietyi_byte_of(class_of(request), grains);
    /* The lowest is on top. */
    for (uint32_t i = blocks; i-- > 0;) {
        moietyi_mark_block(engine, starts[i], request);
        if (engine->notes)
            moietyi_note_put(engine->notes, starts[i], byte,
                             cache->stream_state->note);
        magazine->entries[count++] = moietyi_entry_of(
            grains, moietyi_address_of(engine->lookup, starts[i]));
    }
    moietyi_magazine_set(magazine, count);
    moietyi_count_add(&cache->uneven_cached_bytes,
                      blocks * moietyi_uneven_bytes(class_of(request), grains));
}

/* Keeps what a miss took from DONE's heap in advance; the DONE magazine may
 * have less room than the stream's. */
static void keep_done(struct moietyi_call *call,
                      const struct moietyi_request *request,
                      const moietyi_grain *starts, uint32_t blocks)
{
    struct moietyi_cache *done = call->thread_state->done;
    uint32_t room = blocks;
    if (done != call->pop)
        room = moietyi_magazine_refill(done, class_of(request)) - 1;
    for (; blocks > room; blocks--)
        moietyi_flush_grains(call->thread_state, done->stream_state,
                             starts[blocks - 1], request->size.grains);
    keep(call, done, request, starts, blocks);
}

/* The stream's heap, if the call may take from it. */
static struct moietyi_heap *heap_of(const struct moietyi_call *call)
{
    const struct moietyi_stream_state *stream_state = call->pop->stream_state;
    return stream_state->kind >= MOIETYI_STREAM_STATE_STREAM &&
                   !moietyi_stream_state_is_closed(stream_state) &&
                   moietyi_heap_has_any(stream_state->heap)
               ? stream_state->heap
               : NULL;
}

struct moietyi_view moietyi_call_view(const struct moietyi_call *call)
{
    return (struct moietyi_view){.space = call->engine->streams.space,
                                 .heap = heap_of(call)};
}

/* If a thread asks for several lengths of a class, blocks up to this length are
 * as long as the class, unless memory is short. Each then fits any request of
 * the class, and its free need not look at its length. */
#define EVEN_GRAINS_MOST 128U

static uint64_t length_of(const struct moietyi_call *call,
                          const struct moietyi_request *request)
{
    struct moietyi_magazine *magazine =
        &call->pop->magazines[class_of(request)];
    uint64_t grains = moietyi_class_grains(class_of(request));
    uint64_t missed = magazine->missed_grains;
    if (grains > EVEN_GRAINS_MOST)
        return request->size.grains;
    magazine->missed_grains = (uint8_t)request->size.grains;
    return missed && missed != request->size.grains && !request->is_exact &&
                   !moietyi_is_short(call->engine)
               ? grains
               : request->size.grains;
}

/* Takes several blocks by one call; the first is the caller's. */
static bool take_some(struct moietyi_call *call,
                      const struct moietyi_request *asked, moiety_devptr *out)
{
    struct moietyi_request even = *asked;
    const struct moietyi_request *request = &even;
    even.size.grains = length_of(call, asked);
    const struct moietyi_view view = moietyi_call_view(call);
    bool is_plain = request->alignment_grains == 1;
    const struct moietyi_take what = {
        (uint32_t)request->size.grains,
        is_plain ? moietyi_magazine_refill(call->pop, class_of(request)) : 1,
        request->alignment_grains};
    moietyi_grain starts[MOIETYI_REFILL_BLOCKS];
    bool is_done;
    uint32_t taken = moietyi_view_take_some(&view, &what, &is_done, starts);
    if (!taken)
        return false;
    MOIETYI_STEP("refill.taken");
    if (taken > 1 && is_done)
        keep_done(call, request, starts + 1, taken - 1);
    else if (taken > 1)
        keep(call, call->pop, request, starts + 1, taken - 1);
    hand_out(call, request, starts[0], out);
    return true;
}

/* Takes a block that no magazine keeps. */
static bool take_one(struct moietyi_call *call,
                     const struct moietyi_request *request, moiety_devptr *out)
{
    const struct moietyi_view view = moietyi_call_view(call);
    moietyi_grain start;
    if (!moietyi_view_take(&view, request->size.grains,
                           request->alignment_grains, &start))
        return false;
    hand_out(call, request, start, out);
    return true;
}

bool moietyi_take(struct moietyi_call *call,
                  const struct moietyi_request *request, moiety_devptr *out)
{
    struct moietyi_cache *done = call->thread_state->done;
    if (has_magazine(request) &&
        (try_pop(call, call->pop, request, out) ||
         (call->pop != done && try_pop(call, done, request, out))))
        return true;
    call->has_missed = true;
    if (!has_magazine(request))
        return take_one(call, request, out);
    return take_some(call, request, out);
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
    hand_out(call, request, start, out);
    return true;
}
