/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How large magazines are. A magazine starts with little, doubles when it
 * overflows up to what threads exchange at once, and beyond that only where the
 * same thread also runs dry: a producer's consumer does not hoard. Of runs the
 * last few are kept, whatever their classes (docs/adr/0036-last-runs.md). When the
 * budget is spent, a clock's hand passes over the magazines and takes from those
 * that rested since it passed last.
 */
#include "pool/cache/magazine.h"

#include <stdlib.h>

#include "pool/cache/flush.h"
#include "pool/cache/live.h"

#define FIRST_BYTES (UINT64_C(64) << 10)
#define FIRST_BLOCKS 16U
#define ANY_BLOCKS 8U
/* Up to these a magazine grows by overflowing alone. */
#define EXCHANGE_BYTES (UINT64_C(4) << 20)
#define EXCHANGE_BLOCKS 64U
#define LARGEST_BLOCKS 8192U
/* What one miss takes from the buddy at most. */
#define REFILL_BYTES (UINT64_C(1) << 20)
/* Magazines that one look for bytes passes: few, so that one has time to be
 * used between two passes. */
#define HAND_STEPS 4U
#define HAND_CACHES 32U
#define TOLD_PARTS 16U
#define TOLD_BYTES_MOST (UINT64_C(1) << 20)
/* The longest small block that is kept is this part of what a thread's caches may
 * hold. */
#define BLOCK_PART 4U
/* The last runs together are at most this part of it, and one of them half of
 * that. */
#define LAST_RUNS_PART 2U

static uint32_t blocks_of(uint64_t bytes, uint32_t class_index, uint32_t most)
{
    uint64_t blocks = bytes / moietyi_class_bytes(class_index);
    if (blocks < 1)
        return 1;
    return blocks < most ? (uint32_t)blocks : most;
}

bool moietyi_magazine_reserve(struct moietyi_magazine *magazine,
                              uint32_t blocks)
{
    if (blocks <= magazine->room)
        return true;
    uint32_t room = magazine->room ? magazine->room : 8;
    while (room < blocks)
        room *= 2;
    moiety_devptr *entries =
        realloc(magazine->entries, room * sizeof(*entries));
    if (!entries)
        return false;
    magazine->entries = entries;
    magazine->room = room;
    return true;
}

/* Whether small blocks of this class are kept at all: a thread's share is a few
 * times their size. */
static bool is_kept(const struct moietyi_engine *engine, uint32_t class_index)
{
    return moietyi_class_bytes(class_index) <=
           moietyi_share(engine, engine->thread_cache_bytes / BLOCK_PART * 2) /
               2;
}

static uint64_t activity(const struct moietyi_magazine *magazine)
{
    return moietyi_count_read(&magazine->alloc_count) +
           moietyi_count_read(&magazine->free_count);
}

uint64_t moietyi_cache_activity(const struct moietyi_cache *cache)
{
    uint64_t sum = 0;
    for (uint32_t i = moietyi_cache_next_in_use(cache, 0); i < MOIETYI_CLASSES;
         i = moietyi_cache_next_in_use(cache, i + 1))
        sum += activity(&cache->magazines[i]);
    return sum;
}

/* CT, relaxed: only the owner writes, so this needs no read-modify-write. */
static void set_in_use(struct moietyi_cache *cache, uint32_t class_index,
                       bool is_in_use)
{
    uint64_t bit = UINT64_C(1) << class_index % 64;
    _Atomic uint64_t *word = &cache->in_use[class_index / 64];
    uint64_t before = atomic_load_explicit(word, memory_order_relaxed);
    atomic_store_explicit(word, is_in_use ? before | bit : before & ~bit,
                          memory_order_relaxed);
}

/* Steps in which the engine is told what its thread states were granted: what
 * all of them have not told is a small part of what it may grant. */
static uint64_t told_step(const struct moietyi_engine *engine)
{
    /* relaxed: advice. One at least: the caller. */
    uint64_t thread_states =
        atomic_load_explicit(&engine->thread_state_count, memory_order_relaxed);
    uint64_t part = engine->cache_bytes / TOLD_PARTS / (thread_states + 1);
    return part < TOLD_BYTES_MOST ? part : TOLD_BYTES_MOST;
}

/* Of what is nothing any more the engine is told at once. */
static void tell_granted(struct moietyi_thread_state *thread_state)
{
    uint64_t granted = thread_state->granted_bytes;
    uint64_t told = thread_state->told_bytes;
    uint64_t untold = granted > told ? granted - told : told - granted;
    if (granted && untold <= told_step(thread_state->engine))
        return;
    thread_state->told_bytes = granted;
    /* relaxed: a bound, not a lock. It wraps around where it shrinks. */
    atomic_fetch_add_explicit(&thread_state->engine->granted_bytes,
                              granted - told, memory_order_relaxed);
}

/* To 0 only where it is empty. */
static void set_capacity(struct moietyi_cache *cache, uint32_t class_index,
                         uint32_t capacity)
{
    struct moietyi_thread_state *thread_state = cache->thread_state;
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint64_t size_bytes = moietyi_class_bytes(class_index);
    /* Wraps around where it shrinks. */
    uint64_t more = ((uint64_t)capacity - magazine->capacity) * size_bytes;
    magazine->capacity = capacity;
    set_in_use(cache, class_index, capacity != 0);
    thread_state->granted_bytes += more;
    tell_granted(thread_state);
}

/* What the count of its blocks does not tell; wraps around below 0. */
static uint64_t magazine_uneven_bytes(const struct moietyi_engine *engine,
                                      const struct moietyi_bundle *bundle)
{
    return moietyi_bundle_bytes(engine, bundle) +
           bundle->count * moietyi_uneven_bytes(bundle->class_index, 0);
}

/* Moves `blocks` of the oldest into a bundle that leaves. False: no memory. */
static bool shed(struct moietyi_thread_state *by, struct moietyi_cache *cache,
                 uint32_t class_index, uint32_t blocks, bool may_share)
{
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    struct moietyi_bundle *bundle = moietyi_bundle_take(by, class_index);
    uint32_t left = moietyi_magazine_count(magazine) - blocks;
    if (!bundle)
        return false;
    bundle->count = blocks;
    for (uint32_t i = 0; i < blocks; i++)
        bundle->entries[i] = magazine->entries[i];
    for (uint32_t i = 0; i < left; i++)
        magazine->entries[i] = magazine->entries[i + blocks];
    moietyi_magazine_set(magazine, left);
    moietyi_count_add(&cache->uneven_cached_bytes,
                      -magazine_uneven_bytes(by->engine, bundle));
    moietyi_live_tell(cache, class_index);
    moietyi_flush_bundle(by, cache, bundle, may_share);
    return true;
}

/* Everything in one magazine leaves, without passing through the depot: its
 * stream may be retired by now. */
static bool empty(struct moietyi_thread_state *by, struct moietyi_cache *cache,
                  uint32_t class_index)
{
    uint32_t count;
    while ((count = moietyi_magazine_count(&cache->magazines[class_index]))) {
        if (count > MOIETYI_BUNDLE_BLOCKS)
            count = MOIETYI_BUNDLE_BLOCKS;
        if (!shed(by, cache, class_index, count, false))
            return false;
    }
    return true;
}

bool moietyi_cache_empty(struct moietyi_thread_state *by,
                         struct moietyi_cache *cache)
{
    for (uint32_t i = moietyi_cache_next_in_use(cache, 0); i < MOIETYI_CLASSES;
         i = moietyi_cache_next_in_use(cache, i + 1)) {
        if (!empty(by, cache, i))
            return false;
        set_capacity(cache, i, 0);
    }
    cache->last_run_count = 0;
    /* CT, relaxed: ours. What wrong frees left over in it ends here. */
    atomic_store_explicit(&cache->uneven_cached_bytes, 0, memory_order_relaxed);
    return true;
}

static bool fits_thread(const struct moietyi_thread_state *thread_state,
                        uint64_t more_bytes)
{
    return thread_state->granted_bytes + more_bytes <=
           moietyi_thread_bound(thread_state->engine);
}

static bool magazine_fits(const struct moietyi_thread_state *thread_state,
                          uint64_t more_bytes)
{
    const struct moietyi_engine *engine = thread_state->engine;
    return fits_thread(thread_state, more_bytes) &&
           /* relaxed: a bound. */
           atomic_load_explicit(&engine->granted_bytes, memory_order_relaxed) +
                   thread_state->granted_bytes - thread_state->told_bytes +
                   more_bytes <=
               moietyi_bound(engine, engine->cache_bytes);
}

/* The next magazine in use under the clock's hand; NULL: none in the
 * few caches that it passes. */
static struct moietyi_magazine *
advance(struct moietyi_thread_state *thread_state)
{
    uint32_t from = thread_state->hand_class + 1;
    for (unsigned i = 0; i < HAND_CACHES; i++) {
        if (!thread_state->hand || from >= MOIETYI_CLASSES) {
            thread_state->hand = thread_state->hand && thread_state->hand->next
                                     ? thread_state->hand->next
                                     : thread_state->caches;
            from = 0;
        }
        thread_state->hand_class =
            moietyi_cache_next_in_use(thread_state->hand, from);
        if (thread_state->hand_class < MOIETYI_CLASSES)
            return &thread_state->hand->magazines[thread_state->hand_class];
        from = MOIETYI_CLASSES;
    }
    return NULL;
}

/* Takes capacity from magazines that rest until `more_bytes` fit. `keep` is
 * the one that they are for. */
static bool take_from_resting(struct moietyi_thread_state *thread_state,
                              uint64_t more_bytes,
                              const struct moietyi_magazine *keep)
{
    for (unsigned i = 0;
         i < HAND_STEPS && !magazine_fits(thread_state, more_bytes); i++) {
        struct moietyi_magazine *magazine = advance(thread_state);
        if (!magazine)
            break;
        if (magazine == keep)
            continue;
        if (magazine->seen != activity(magazine))
            magazine->seen = activity(magazine);
        else if (empty(thread_state, thread_state->hand,
                       thread_state->hand_class))
            set_capacity(thread_state->hand, thread_state->hand_class, 0);
    }
    return magazine_fits(thread_state, more_bytes);
}

/* Raises the capacity to `capacity` if the budget allows. */
static bool magazine_grant(struct moietyi_cache *cache, uint32_t class_index,
                           uint32_t capacity)
{
    struct moietyi_thread_state *thread_state = cache->thread_state;
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint64_t more_bytes = (uint64_t)(capacity - magazine->capacity) *
                          moietyi_class_bytes(class_index);
    if (!is_kept(thread_state->engine, class_index))
        return false;
    if (!magazine_fits(thread_state, more_bytes) &&
        !take_from_resting(thread_state, more_bytes, magazine)) {
        thread_state->is_refused |= fits_thread(thread_state, more_bytes);
        return false;
    }
    if (!moietyi_magazine_reserve(magazine, capacity))
        return false;
    set_capacity(cache, class_index, capacity);
    return true;
}

/* What a full magazine may grow to; its own capacity if to no more. */
static uint32_t next_capacity(const struct moietyi_cache *cache,
                              uint32_t class_index)
{
    const struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint32_t capacity = magazine->capacity;
    if (cache->stream_state->kind == MOIETYI_STREAM_STATE_ANY)
        return blocks_of(FIRST_BYTES, class_index, ANY_BLOCKS);
    if (!capacity)
        return blocks_of(FIRST_BYTES, class_index, FIRST_BLOCKS);
    if (2 * capacity <= blocks_of(EXCHANGE_BYTES, class_index, EXCHANGE_BLOCKS))
        return 2 * capacity;
    if (magazine->has_bounced && capacity <= LARGEST_BLOCKS / 2)
        return 2 * capacity;
    return capacity;
}

/* How many blocks go at once: of ANY's, all, since they are never popped. */
static uint32_t shed_count(const struct moietyi_cache *cache, uint32_t count)
{
    uint32_t blocks =
        cache->stream_state->kind == MOIETYI_STREAM_STATE_ANY || count == 1
            ? count
            : count / 2;
    return blocks < MOIETYI_BUNDLE_BLOCKS ? blocks : MOIETYI_BUNDLE_BLOCKS;
}

static uint64_t last_runs_bytes(const struct moietyi_cache *cache)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < cache->last_run_count; i++)
        bytes += moietyi_class_bytes(cache->last_runs[i]);
    return bytes;
}

/* A run that is no longer there. */
static void last_runs_forget(struct moietyi_cache *cache, uint32_t index)
{
    uint32_t class_index = cache->last_runs[index];
    cache->last_run_count--;
    for (uint32_t i = index; i < cache->last_run_count; i++)
        cache->last_runs[i] = cache->last_runs[i + 1];
    set_capacity(cache, class_index,
                 moietyi_magazine_count(&cache->magazines[class_index]));
}

/* The oldest leaves. False: no memory. */
static bool last_runs_shed(struct moietyi_cache *cache)
{
    uint32_t class_index = cache->last_runs[0];
    /* It may have gone with its magazine. */
    if (moietyi_magazine_count(&cache->magazines[class_index]) &&
        !shed(cache->thread_state, cache, class_index, 1, false))
        return false;
    last_runs_forget(cache, 0);
    return true;
}

void moietyi_last_runs_popped(struct moietyi_cache *cache, uint32_t class_index)
{
    uint32_t index = cache->last_run_count;
    while (index-- > 0) {
        if (cache->last_runs[index] == class_index) {
            last_runs_forget(cache, index);
            return;
        }
    }
}

static bool last_runs_make_room(struct moietyi_cache *cache,
                                uint32_t class_index)
{
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint64_t size_bytes = moietyi_class_bytes(class_index);
    uint64_t most_bytes =
        moietyi_thread_bound(cache->thread_state->engine) / LAST_RUNS_PART;
    if (cache->stream_state->kind == MOIETYI_STREAM_STATE_ANY ||
        size_bytes > most_bytes / 2)
        return false;
    while (cache->last_run_count == MOIETYI_LAST_RUNS ||
           last_runs_bytes(cache) + size_bytes > most_bytes)
        if (!cache->last_run_count || !last_runs_shed(cache))
            return false;
    uint32_t capacity = moietyi_magazine_count(magazine) + 1;
    if (!magazine_fits(cache->thread_state, size_bytes) ||
        !moietyi_magazine_reserve(magazine, capacity))
        return false;
    set_capacity(cache, class_index, capacity);
    cache->last_runs[cache->last_run_count++] = (uint8_t)class_index;
    return true;
}

bool moietyi_magazine_make_room(struct moietyi_cache *cache,
                                uint32_t class_index)
{
    if (!moietyi_class_is_small(class_index))
        return last_runs_make_room(cache, class_index);
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint32_t count = moietyi_magazine_count(magazine);
    if (count < magazine->capacity)
        return true;
    uint32_t capacity = next_capacity(cache, class_index);
    if (capacity > magazine->capacity &&
        magazine_grant(cache, class_index, capacity)) {
        magazine->has_bounced = false;
        if (count < capacity)
            return true;
    }
    magazine->has_overflowed = true;
    return count && magazine->capacity &&
           shed(cache->thread_state, cache, class_index,
                shed_count(cache, count), true);
}

/* So many misses in a row for one length make it the only one. */
#define SAME_MISSES 8U

static void note_length(struct moietyi_magazine *magazine, uint64_t grains)
{
    bool is_same = magazine->missed_grains == grains;
    magazine->is_mixed |= magazine->missed_grains && !is_same;
    magazine->same_misses = is_same ? (uint8_t)(magazine->same_misses + 1) : 0;
    magazine->missed_grains = (uint16_t)grains;
    if (magazine->same_misses >= SAME_MISSES) {
        magazine->same_misses = 0;
        magazine->is_mixed = false;
    }
}

/* Blocks that are taken side by side rest until they are asked for. So they are
 * taken one by one where some are freed between misses, and twice as many at each
 * where none are. */
static void end_burst(struct moietyi_magazine *magazine,
                      const struct moietyi_size *size)
{
    uint64_t frees = moietyi_count_read(&magazine->free_count);
    if (frees != magazine->missed_frees && size->grains > MOIETYI_CHUNK_GRAINS)
        magazine->refill = 0;
    magazine->missed_frees = frees;
}

void moietyi_magazine_missed(struct moietyi_magazine *magazine,
                             const struct moietyi_size *size)
{
    if (moietyi_class_is_small(size->class_index))
        note_length(magazine, size->grains);
    magazine->has_bounced |= magazine->has_overflowed;
    magazine->has_overflowed = false;
    end_burst(magazine, size);
}

uint32_t moietyi_magazine_room(const struct moietyi_magazine *magazine)
{
    uint32_t count = moietyi_magazine_count(magazine);
    return magazine->capacity > count ? magazine->capacity - count : 1;
}

uint32_t moietyi_magazine_refill(struct moietyi_cache *cache,
                                 uint32_t class_index)
{
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint32_t most = blocks_of(REFILL_BYTES, class_index, MOIETYI_REFILL_BLOCKS);
    uint32_t blocks = 2 * magazine->refill;
    if (blocks < 1)
        blocks = 1;
    if (blocks > most)
        blocks = most;
    /* Blocks that were too short for the request are still there. */
    uint32_t count = moietyi_magazine_count(magazine);
    if (count + blocks > magazine->capacity &&
        !magazine_grant(cache, class_index, count + blocks))
        blocks = moietyi_magazine_room(magazine);
    if (!moietyi_magazine_reserve(magazine, count + blocks))
        return 1;
    magazine->refill = blocks;
    return blocks;
}

bool moietyi_magazine_load(struct moietyi_thread_state *thread_state,
                           struct moietyi_cache *cache,
                           struct moietyi_bundle *bundle)
{
    uint32_t class_index = bundle->class_index;
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint32_t count = moietyi_magazine_count(magazine);
    uint32_t total = count + bundle->count;
    if (!moietyi_magazine_reserve(magazine, total))
        return false;
    /* If the budget refuses, the next frees shed what is too much. */
    if (total > magazine->capacity)
        (void)magazine_grant(cache, class_index, total);
    set_in_use(cache, class_index, true);
    for (uint32_t i = 0; i < bundle->count; i++)
        magazine->entries[count + i] = bundle->entries[i];
    moietyi_magazine_set(magazine, total);
    moietyi_count_add(&cache->uneven_cached_bytes,
                      magazine_uneven_bytes(thread_state->engine, bundle));
    moietyi_bundle_recycle(thread_state, bundle);
    return true;
}

/* The bounds. All of it is advice, hence relaxed: a halving too many or too few
 * changes how often caches miss, and nothing else. */

/* So many at a time, of each thread. */
#define TOLD_MISSES 32U

/* Changes a count of halvings by 1 or -1, if it is not at its end. relaxed: a
 * bound, not a lock. */
static bool bounds_step(atomic_uint *halvings, unsigned end, unsigned more)
{
    unsigned seen = atomic_load_explicit(halvings, memory_order_relaxed);
    while (seen != end) {
        if (atomic_compare_exchange_weak_explicit(halvings, &seen, seen + more,
                                                  memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

static void begin_calm(struct moietyi_engine *engine)
{
    atomic_store_explicit(&engine->calm_misses, 0, memory_order_relaxed);
}

void moietyi_bounds_shrink(struct moietyi_thread_state *by)
{
    by->calm_misses = 0;
    begin_calm(by->engine);
    if (bounds_step(&by->engine->halvings, MOIETYI_HALVINGS_MAX, 1))
        moietyi_count(by, MOIETYI_COUNT_SHRINKS, 1);
}

void moietyi_bounds_note_growth(struct moietyi_engine *engine, bool is_first)
{
    begin_calm(engine);
    (void)bounds_step(&engine->halvings, 0, -1U);
    if (!is_first)
        atomic_store_explicit(&engine->grown_steps, MOIETYI_GROWN_STEPS,
                              memory_order_relaxed);
}

static bool are_wide(const struct moietyi_engine *engine)
{
    return !atomic_load_explicit(&engine->halvings, memory_order_relaxed) &&
           !atomic_load_explicit(&engine->grown_steps, memory_order_relaxed);
}

void moietyi_bounds_stay_calm(struct moietyi_thread_state *by)
{
    struct moietyi_engine *engine = by->engine;
    /* Threads share the count only while the bounds are shrunk. */
    if (are_wide(engine) || ++by->calm_misses < TOLD_MISSES)
        return;
    by->calm_misses = 0;
    if (atomic_fetch_add_explicit(&engine->calm_misses, TOLD_MISSES,
                                  memory_order_relaxed) +
            TOLD_MISSES >=
        MOIETYI_CALM_MISSES) {
        begin_calm(engine);
        (void)bounds_step(&engine->halvings, 0, -1U);
        (void)bounds_step(&engine->grown_steps, 0, -1U);
    }
}
