/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How large magazines are: small at first, because a miss is cheap, and twice
 * as large each time one runs dry after it overflowed. A thread spends the
 * bytes that it may hold on the magazines that it uses. When they are spent, a
 * clock's hand passes over the magazines and empties those that rested since
 * its last pass.
 */
#include "pool/cache/magazine.h"

#include <stdlib.h>

#include "pool/cache/flush.h"
#include "pool/cache/live.h"

/* The room of a magazine at first: this part of what a thread may hold, and at
 * most so much. */
#define FIRST_PART 64U
#define FIRST_BYTES (UINT64_C(512) << 10)
#define FIRST_BLOCKS 64U
/* Of longer blocks, up to so many bytes and this part: one, once a block came
 * back to the thread that freed it. */
#define ONE_BYTES (UINT64_C(64) << 10)
#define ONE_PART 8U
/* In the end. */
#define GROWN_PART 2U
#define GROWN_BLOCKS 8192U
/* Of blocks freed with ANY, which are never popped. */
#define ANY_BLOCKS 8U
/* Magazines that one search for bytes passes. */
#define HAND_STEPS 4U
#define HAND_CACHES 32U

_Static_assert(FIRST_BLOCKS / 2 <= MOIETYI_REFILL_BLOCKS,
               "a refill is more than a miss may take");

/* --- the room of a magazine --- */

static bool is_of_any(const struct moietyi_cache *cache)
{
    return cache->stream_state->kind == MOIETYI_STREAM_STATE_ANY;
}

static uint32_t blocks_of(uint64_t bytes, uint32_t class_index, uint32_t most)
{
    uint64_t blocks = bytes / moietyi_class_bytes(class_index);
    return blocks < most ? (uint32_t)blocks : most;
}

/* The room, if the thread may hold so many bytes; 0: the class is not kept. A
 * magazine that ran dry after it overflowed has twice the room:
 * `has_bounced`. */
static uint32_t next_capacity(const struct moietyi_cache *cache,
                              uint32_t class_index, uint64_t bytes,
                              bool has_bounced)
{
    uint64_t first = bytes / FIRST_PART;
    uint32_t blocks =
        blocks_of(first < FIRST_BYTES ? first : FIRST_BYTES, class_index,
                  is_of_any(cache) ? ANY_BLOCKS : FIRST_BLOCKS);
    uint32_t capacity = cache->magazines[class_index].capacity;
    if (!blocks && (capacity || has_bounced) &&
        moietyi_class_bytes(class_index) <= ONE_BYTES)
        blocks = blocks_of(bytes / ONE_PART, class_index, 1);
    uint32_t most = blocks_of(bytes / GROWN_PART, class_index, GROWN_BLOCKS);
    if (is_of_any(cache) || !blocks || capacity <= blocks / 2)
        return blocks;
    capacity = has_bounced ? 2 * capacity : capacity;
    if (capacity > most)
        capacity = most;
    return capacity > blocks ? capacity : blocks;
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

/* Sets the capacity, to 0 only if the magazine is empty. The bytes were granted
 * to the thread, or are given back. */
static void set_capacity(struct moietyi_cache *cache, uint32_t class_index,
                         uint32_t capacity)
{
    _Atomic uint64_t *word = &cache->in_use[class_index / 64];
    uint64_t bit = UINT64_C(1) << class_index % 64;
    /* CT, relaxed: only the owner writes, so this needs no read-modify-write. */
    uint64_t before = atomic_load_explicit(word, memory_order_relaxed);
    /* CT, relaxed: as above. */
    atomic_store_explicit(word, capacity ? before | bit : before & ~bit,
                          memory_order_relaxed);
    cache->magazines[class_index].capacity = capacity;
    cache->magazines[class_index].fitted_bytes = 0;
}

/* --- blocks that leave --- */

/* The oldest `blocks` of a magazine leave; at most as many as may leave at
 * once. */
static void shed(struct moietyi_thread_state *by, struct moietyi_cache *cache,
                 uint32_t class_index, uint32_t blocks)
{
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint32_t left = moietyi_magazine_count(magazine) - blocks;
    uint64_t short_grains = 0;
    for (uint32_t i = 0; i < blocks; i++)
        short_grains += moietyi_entry_shortfall(magazine->entries[i]);
    moietyi_flush_entries(by, cache->stream_state, magazine->entries, blocks);
    for (uint32_t i = 0; i < left; i++)
        magazine->entries[i] = magazine->entries[i + blocks];
    moietyi_magazine_set(magazine, left);
    moietyi_count_add(&cache->uneven_cached_bytes,
                      short_grains * MOIETYI_GRAIN_BYTES);
    moietyi_live_tell(cache, class_index);
}

static void close_magazine(struct moietyi_thread_state *by,
                           struct moietyi_cache *cache, uint32_t class_index)
{
    const struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint64_t bytes = magazine->capacity * moietyi_class_bytes(class_index);
    uint32_t count;
    while ((count = moietyi_magazine_count(magazine)))
        shed(by, cache, class_index,
             count < MOIETYI_FLUSH_BLOCKS ? count : MOIETYI_FLUSH_BLOCKS);
    set_capacity(cache, class_index, 0);
    cache->thread_state->granted_bytes -= bytes;
    /* relaxed: a bound, not a lock. */
    atomic_fetch_sub_explicit(&by->engine->granted_bytes, bytes,
                              memory_order_relaxed);
}

void moietyi_cache_empty(struct moietyi_thread_state *by,
                         struct moietyi_cache *cache)
{
    for (uint32_t i = moietyi_cache_next_in_use(cache, 0); i < MOIETYI_CLASSES;
         i = moietyi_cache_next_in_use(cache, i + 1))
        close_magazine(by, cache, i);
    /* CT, relaxed: ours. Drops what wrong frees left over in it. */
    atomic_store_explicit(&cache->uneven_cached_bytes, 0, memory_order_relaxed);
}

/* --- what a thread may hold --- */

static bool fits_thread(const struct moietyi_thread_state *thread_state,
                        uint64_t bytes)
{
    return thread_state->granted_bytes + bytes <=
           moietyi_thread_bound(thread_state->engine);
}

static bool grant_room(struct moietyi_thread_state *thread_state,
                       uint64_t bytes)
{
    struct moietyi_engine *engine = thread_state->engine;
    if (!fits_thread(thread_state, bytes))
        return false;
    /* relaxed, both: a bound, not a lock. */
    if (atomic_fetch_add_explicit(&engine->granted_bytes, bytes,
                                  memory_order_relaxed) +
            bytes <=
        moietyi_bound(engine, engine->cache_bytes)) {
        thread_state->granted_bytes += bytes;
        return true;
    }
    atomic_fetch_sub_explicit(&engine->granted_bytes, bytes,
                              memory_order_relaxed);
    return false;
}

/* Moves the hand to the next magazine in use. False: the few caches that it
 * passed have none. */
static bool advance(struct moietyi_thread_state *thread_state)
{
    uint32_t from = thread_state->hand_class + 1;
    for (unsigned i = 0; i < HAND_CACHES && thread_state->caches; i++) {
        if (!thread_state->hand || from >= MOIETYI_CLASSES) {
            thread_state->hand = thread_state->hand && thread_state->hand->next
                                     ? thread_state->hand->next
                                     : thread_state->caches;
            from = 0;
        }
        thread_state->hand_class =
            moietyi_cache_next_in_use(thread_state->hand, from);
        if (thread_state->hand_class < MOIETYI_CLASSES)
            return true;
        from = MOIETYI_CLASSES;
    }
    return false;
}

/* The same, from magazines that rest; `keep` is the one that needs the
 * bytes. */
static bool grant_rested(struct moietyi_thread_state *thread_state,
                         uint64_t bytes, const struct moietyi_magazine *keep)
{
    const struct moietyi_magazine *first = NULL;
    for (unsigned i = 0; i < HAND_STEPS && advance(thread_state); i++) {
        struct moietyi_cache *cache = thread_state->hand;
        struct moietyi_magazine *magazine =
            &cache->magazines[thread_state->hand_class];
        bool rests = magazine->seen == activity(magazine);
        if (magazine == first)
            break;
        first = first ? first : magazine;
        magazine->seen = activity(magazine);
        if (!rests || magazine == keep)
            continue;
        close_magazine(thread_state, cache, thread_state->hand_class);
        if (grant_room(thread_state, bytes))
            return true;
    }
    return false;
}

static bool reserve_entries(struct moietyi_magazine *magazine, uint32_t blocks)
{
    uint32_t room = magazine->entries_room ? magazine->entries_room : 8;
    if (blocks <= magazine->entries_room)
        return true;
    while (room < blocks)
        room *= 2;
    moiety_devptr *entries =
        realloc(magazine->entries, room * sizeof(*entries));
    if (!entries)
        return false;
    magazine->entries = entries;
    magazine->entries_room = room;
    return true;
}

/* Gives a magazine the room that it may have if the thread may hold `bound`
 * bytes. False: none. */
static bool change_room(struct moietyi_cache *cache, uint32_t class_index,
                        uint64_t bound, bool has_bounced)
{
    struct moietyi_thread_state *thread_state = cache->thread_state;
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint32_t capacity = next_capacity(cache, class_index, bound, has_bounced);
    if (capacity < magazine->capacity)
        close_magazine(thread_state, cache, class_index);
    uint64_t bytes = (uint64_t)(capacity - magazine->capacity) *
                     moietyi_class_bytes(class_index);
    if (!bytes) {
        magazine->fitted_bytes = bound;
        return capacity != 0;
    }
    if (!reserve_entries(magazine, capacity))
        return magazine->capacity != 0;
    if (grant_room(thread_state, bytes) ||
        grant_rested(thread_state, bytes, magazine))
        set_capacity(cache, class_index, capacity);
    else
        thread_state->is_refused |= fits_thread(thread_state, bytes);
    return magazine->capacity != 0;
}

/* The same for the present bound. At most calls nothing has changed. */
static inline bool fit_room(struct moietyi_cache *cache, uint32_t class_index,
                            bool has_bounced)
{
    const struct moietyi_magazine *magazine = &cache->magazines[class_index];
    uint64_t bound = moietyi_thread_bound(cache->thread_state->engine);
    return !has_bounced && bound && magazine->fitted_bytes == bound
               ? magazine->capacity != 0
               : change_room(cache, class_index, bound, has_bounced);
}

/* How many blocks leave at once: all of ANY's, since they are never popped. */
static uint32_t shed_count(const struct moietyi_cache *cache, uint32_t count)
{
    uint32_t blocks = is_of_any(cache) || count == 1 ? count : count / 2;
    return blocks < MOIETYI_FLUSH_BLOCKS ? blocks : MOIETYI_FLUSH_BLOCKS;
}

bool moietyi_magazine_make_room(struct moietyi_cache *cache,
                                uint32_t class_index)
{
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    if (moietyi_magazine_count(magazine) < magazine->capacity)
        return true;
    if (!fit_room(cache, class_index, false)) {
        magazine->has_overflowed = true;
        return false;
    }
    uint32_t count = moietyi_magazine_count(magazine);
    if (count >= magazine->capacity) {
        magazine->has_overflowed = true;
        shed(cache->thread_state, cache, class_index, shed_count(cache, count));
    }
    return true;
}

uint32_t moietyi_magazine_refill(struct moietyi_cache *cache,
                                 uint32_t class_index)
{
    struct moietyi_magazine *magazine = &cache->magazines[class_index];
    bool has_overflowed = magazine->has_overflowed;
    magazine->has_overflowed = false;
    if (moietyi_is_short(cache->thread_state->engine) ||
        !fit_room(cache, class_index, has_overflowed))
        return 1;
    /* Blocks that were too short for the request are still there. */
    uint32_t room = magazine->capacity - moietyi_magazine_count(magazine);
    uint32_t blocks = magazine->capacity / 2;
    if (blocks > MOIETYI_REFILL_BLOCKS)
        blocks = MOIETYI_REFILL_BLOCKS;
    if (blocks > room)
        blocks = room;
    return blocks ? blocks : 1;
}

/* The bounds. All of it is advice, hence relaxed: a halving too many or too few
 * changes how often caches miss, and nothing else. */

/* So many at a time, of each thread. */
#define TOLD_MISSES 32U

/* Once more or less, between these. */
static bool bounds_step(struct moietyi_engine *engine, unsigned least,
                        unsigned most, unsigned more)
{
    /* relaxed, all: a bound, not a lock. */
    unsigned seen = moietyi_halvings(engine);
    while (seen + more >= least && seen + more <= most) {
        /* relaxed: as above. */
        if (atomic_compare_exchange_weak_explicit(
                &engine->halvings, &seen, seen + more, memory_order_relaxed,
                memory_order_relaxed))
            return true;
    }
    return false;
}

/* As narrow as after a growth, or narrower. */
static void bounds_be_grown(struct moietyi_engine *engine)
{
    while (bounds_step(engine, 0, MOIETYI_HALVINGS_GROWN, 1))
        continue;
}

static void begin_calm(struct moietyi_engine *engine)
{
    atomic_store_explicit(&engine->calm_misses, 0, memory_order_relaxed);
}

void moietyi_bounds_shrink(struct moietyi_thread_state *by)
{
    by->calm_misses = 0;
    begin_calm(by->engine);
    bounds_be_grown(by->engine);
    if (bounds_step(by->engine, 0, MOIETYI_HALVINGS_MAX, 1))
        moietyi_count(by, MOIETYI_COUNT_SHRINKS, 1);
}

void moietyi_bounds_note_growth(struct moietyi_engine *engine)
{
    begin_calm(engine);
    if (bounds_step(engine, MOIETYI_HALVINGS_GROWN, MOIETYI_HALVINGS_MAX, -1U))
        return;
    bounds_be_grown(engine);
}

void moietyi_bounds_stay_calm(struct moietyi_thread_state *by)
{
    struct moietyi_engine *engine = by->engine;
    if (++by->calm_misses < TOLD_MISSES)
        return;
    by->calm_misses = 0;
    /* relaxed: as above. */
    if (atomic_fetch_add_explicit(&engine->calm_misses, TOLD_MISSES,
                                  memory_order_relaxed) +
            TOLD_MISSES >=
        MOIETYI_CALM_MISSES) {
        begin_calm(engine);
        (void)bounds_step(engine, 0, MOIETYI_HALVINGS_MAX, -1U);
    }
}
