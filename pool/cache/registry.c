/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Thread states and their caches, and who still knows whom.
 */
#define _DEFAULT_SOURCE
#include "pool/cache/registry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/base/lock.h"
#include "pool/base/step.h"
#include "pool/cache/flush.h"
#include "pool/cache/live.h"
#include "pool/ring/ring.h"
#include "pool/stream/stream_state.h"

/* With fewer caches than this a thread state looks through them all. */
#define FIRST_BUCKETS 16U

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void moietyi_registry_lock(void)
{
    moietyi_lock(&lock);
}

void moietyi_registry_unlock(void)
{
    moietyi_unlock(&lock);
}

/* Lock held. */
static struct moietyi_thread_state *
find_thread_state(struct moietyi_thread *thread,
                  const struct moietyi_engine *engine)
{
    struct moietyi_thread_state *thread_state = thread->thread_states;
    while (thread_state && thread_state->engine != engine)
        thread_state = thread_state->of_thread;
    return thread_state;
}

static bool begin_history(struct moietyi_thread_state *thread_state)
{
    moietyi_registry_lock();
    thread_state->history =
        moietyi_history_reuse(thread_state->engine->history);
    moietyi_registry_unlock();
    thread_state->history =
        moietyi_history_begin(thread_state->engine->history,
                              thread_state->history, thread_state->thread_id);
    return thread_state->history != NULL;
}

static void end_history(struct moietyi_thread_state *thread_state)
{
    if (!thread_state->history)
        return;
    moietyi_registry_lock();
    moietyi_history_end(thread_state->engine->history, thread_state->history);
    moietyi_registry_unlock();
}

static struct moietyi_thread_state *
make_thread_state(struct moietyi_thread *thread, struct moietyi_engine *engine)
{
    struct moietyi_thread_state *thread_state =
        calloc(1, sizeof(*thread_state));
    if (!thread_state)
        return NULL;
    thread_state->engine = engine;
    thread_state->thread = thread;
    thread_state->thread_id = (uint32_t)syscall(SYS_gettid);
    thread_state->is_new = true;
    if (engine->history && !begin_history(thread_state)) {
        free(thread_state);
        return NULL;
    }
    thread_state->done = moietyi_cache_make(thread_state, engine->streams.done);
    if (!thread_state->done) {
        end_history(thread_state);
        free(thread_state);
        return NULL;
    }
    moietyi_registry_lock();
    MOIETYI_STEP("locked.thread_state");
    if (thread->left_oom.pool == engine->pool)
        thread_state->oom = thread->left_oom;
    thread_state->of_thread = thread->thread_states;
    thread->thread_states = thread_state;
    thread_state->of_pool = engine->thread_states;
    engine->thread_states = thread_state;
    /* relaxed: advice. */
    atomic_fetch_add_explicit(&engine->thread_state_count, 1,
                              memory_order_relaxed);
    moietyi_registry_unlock();
    return thread_state;
}

struct moietyi_thread_state *
moietyi_thread_state_of(struct moietyi_thread *thread,
                        struct moietyi_engine *engine)
{
    moietyi_registry_lock();
    struct moietyi_thread_state *thread_state =
        find_thread_state(thread, engine);
    moietyi_registry_unlock();
    return thread_state ? thread_state : make_thread_state(thread, engine);
}

/* Stream states are numbered from 0 up. */
static struct moietyi_cache **
registry_bucket_of(const struct moietyi_thread_state *thread_state,
                   const struct moietyi_stream_state *stream_state)
{
    return &thread_state->cache_buckets[stream_state->index %
                                        thread_state->cache_bucket_count];
}

static void put_in_bucket(const struct moietyi_thread_state *thread_state,
                          struct moietyi_cache *cache)
{
    struct moietyi_cache **at =
        registry_bucket_of(thread_state, cache->stream_state);
    cache->next_in_bucket = *at;
    *at = cache;
}

struct moietyi_cache *
moietyi_cache_find(const struct moietyi_thread_state *thread_state,
                   const struct moietyi_stream_state *stream_state)
{
    struct moietyi_cache *cache =
        thread_state->cache_buckets
            ? *registry_bucket_of(thread_state, stream_state)
            : thread_state->caches;
    while (cache && cache->stream_state != stream_state)
        cache =
            thread_state->cache_buckets ? cache->next_in_bucket : cache->next;
    return cache;
}

/* At least as many buckets as caches; without memory for them the chains are
 * longer. */
static void widen_buckets(struct moietyi_thread_state *thread_state)
{
    uint32_t count = thread_state->cache_bucket_count
                         ? 2 * thread_state->cache_bucket_count
                         : 2 * FIRST_BUCKETS;
    struct moietyi_cache **buckets =
        calloc(count, sizeof(struct moietyi_cache *));
    if (!buckets)
        return;
    free(thread_state->cache_buckets);
    thread_state->cache_buckets = buckets;
    thread_state->cache_bucket_count = count;
    for (struct moietyi_cache *cache = thread_state->caches; cache;
         cache = cache->next)
        put_in_bucket(thread_state, cache);
}

/* The cache becomes the first of the thread state's. */
static void enter_bucket(struct moietyi_thread_state *thread_state,
                         struct moietyi_cache *cache)
{
    bool is_due =
        ++thread_state->cache_count > thread_state->cache_bucket_count &&
        thread_state->cache_count >= FIRST_BUCKETS;
    if (thread_state->cache_buckets)
        put_in_bucket(thread_state, cache);
    if (is_due)
        widen_buckets(thread_state);
}

static void leave_bucket(struct moietyi_thread_state *thread_state,
                         const struct moietyi_cache *cache)
{
    thread_state->cache_count--;
    if (!thread_state->cache_buckets)
        return;
    struct moietyi_cache **at =
        registry_bucket_of(thread_state, cache->stream_state);
    while (*at != cache)
        at = &(*at)->next_in_bucket;
    *at = cache->next_in_bucket;
}

struct moietyi_cache *
moietyi_cache_make(struct moietyi_thread_state *thread_state,
                   struct moietyi_stream_state *stream_state)
{
    struct moietyi_cache *cache =
        aligned_alloc(alignof(struct moietyi_cache), sizeof(*cache));
    if (!cache)
        return NULL;
    memset(cache, 0, sizeof(*cache));
    cache->thread_state = thread_state;
    cache->stream_state = stream_state;
    moietyi_registry_lock();
    cache->next = thread_state->caches;
    thread_state->caches = cache;
    moietyi_registry_unlock();
    enter_bucket(thread_state, cache);
    return cache;
}

void moietyi_cache_counts(const struct moietyi_cache *cache, uint64_t *counts)
{
    /* Read before the counts, which are raised first for a block. */
    counts[MOIETYI_COUNT_ALLOC_BYTES] +=
        moietyi_count_read(&cache->uneven_alloc_bytes);
    counts[MOIETYI_COUNT_FREE_BYTES] +=
        moietyi_count_read(&cache->uneven_free_bytes);
    for (uint32_t i = 0; i < MOIETYI_CLASSES; i++) {
        const struct moietyi_magazine *magazine = &cache->magazines[i];
        uint64_t bytes = moietyi_class_bytes(i);
        uint64_t allocs = moietyi_count_read(&magazine->alloc_count);
        uint64_t frees = moietyi_count_read(&magazine->free_count);
        counts[MOIETYI_COUNT_ALLOCS] += allocs;
        counts[MOIETYI_COUNT_ALLOC_BYTES] += allocs * bytes;
        counts[MOIETYI_COUNT_FREES] += frees;
        counts[MOIETYI_COUNT_FREE_BYTES] += frees * bytes;
        counts[MOIETYI_COUNT_REQUESTED_BYTES] +=
            moietyi_count_read(&magazine->requested_bytes);
    }
}

/* Reports all of a cache that ends. */
static void tell_last(struct moietyi_cache *cache)
{
    uint64_t more = moietyi_live_of_uneven(cache);
    uint64_t told = cache->told_uneven_bytes;
    for (uint32_t i = 0; i < MOIETYI_CLASSES; i++) {
        more += moietyi_live_of_magazine(cache, i);
        told += cache->told_counts[i] * moietyi_class_bytes(i);
    }
    cache->thread_state->counted_bytes += told;
    moietyi_live_add(cache->thread_state, more);
}

/* Adds what the cache counted to the thread state. */
static void fold(struct moietyi_cache *cache)
{
    struct moietyi_thread_state *thread_state = cache->thread_state;
    uint64_t counts[MOIETYI_COUNTS] = {0};
    tell_last(cache);
    moietyi_cache_counts(cache, counts);
    for (unsigned i = 0; i <= MOIETYI_COUNT_REQUESTED_BYTES; i++)
        moietyi_count(thread_state, i, counts[i]);
}

static void free_cache(struct moietyi_cache *cache)
{
    for (uint32_t i = 0; i < MOIETYI_CLASSES; i++)
        free(cache->magazines[i].entries);
    free(cache);
}

bool moietyi_cache_try_drop(struct moietyi_cache *cache)
{
    struct moietyi_thread_state *thread_state = cache->thread_state;
    if (!moietyi_try_lock(&lock))
        return false;
    struct moietyi_cache **at = &thread_state->caches;
    while (*at != cache)
        at = &(*at)->next;
    *at = cache->next;
    fold(cache);
    moietyi_registry_unlock();
    leave_bucket(thread_state, cache);
    if (thread_state->hand == cache)
        thread_state->hand = NULL;
    if (cache->stream_state->kind >= MOIETYI_STREAM_STATE_STREAM)
        moietyi_stream_state_unuse(cache->stream_state);
    free_cache(cache);
    return true;
}

bool moietyi_thread_state_try_drop(struct moietyi_thread_state *thread_state)
{
    struct moietyi_engine *engine = thread_state->engine;
    if (!moietyi_try_lock(&lock))
        return false;
    struct moietyi_thread_state **at = &engine->thread_states;
    while (*at != thread_state)
        at = &(*at)->of_pool;
    *at = thread_state->of_pool;
    /* relaxed: advice. */
    atomic_fetch_sub_explicit(&engine->thread_state_count, 1,
                              memory_order_relaxed);
    moietyi_live_tell_own(thread_state);
    moietyi_live_publish(thread_state);
    for (unsigned i = 0; i < MOIETYI_COUNTS; i++)
        engine->gone[i] += moietyi_count_read(&thread_state->counts[i]);
    /* IN.seq_cst: what its slow paths moved is seen whole. */
    engine->gone_slow_paths +=
        atomic_load_explicit(&thread_state->slow_path, memory_order_seq_cst);
    if (thread_state->history)
        moietyi_history_end(engine->history, thread_state->history);
    moietyi_registry_unlock();
    moietyi_records_leave(engine->streams.space, &thread_state->records);
    free(thread_state->cache_buckets);
    free(thread_state);
    return true;
}

void moietyi_thread_state_unlink(struct moietyi_thread_state *thread_state)
{
    struct moietyi_thread_state **at = &thread_state->thread->thread_states;
    while (*at != thread_state)
        at = &(*at)->of_thread;
    *at = thread_state->of_thread;
    thread_state->thread = NULL;
}

/* A thread state that no thread knows any more; NULL if there is none. */
static struct moietyi_thread_state *
pop_thread_state(struct moietyi_engine *engine)
{
    moietyi_registry_lock();
    struct moietyi_thread_state *thread_state = engine->thread_states;
    if (thread_state) {
        engine->thread_states = thread_state->of_pool;
        if (thread_state->thread)
            moietyi_thread_state_unlink(thread_state);
    }
    moietyi_registry_unlock();
    return thread_state;
}

void moietyi_thread_states_destroy(struct moietyi_engine *engine)
{
    struct moietyi_thread_state *thread_state;
    while ((thread_state = pop_thread_state(engine))) {
        while (thread_state->caches) {
            struct moietyi_cache *cache = thread_state->caches;
            thread_state->caches = cache->next;
            free_cache(cache);
        }
        free(thread_state->cache_buckets);
        free(thread_state);
    }
}

void moietyi_abandoned_push(struct moietyi_thread_state *thread_state)
{
    struct moietyi_engine *engine = thread_state->engine;
    /* relaxed: compared and stored. */
    struct moietyi_thread_state *seen =
        atomic_load_explicit(&engine->abandoned, memory_order_relaxed);
    do {
        thread_state->next_abandoned = seen;
        /* OR.release: all that the thread left behind. */
    } while (!atomic_compare_exchange_weak_explicit(
        &engine->abandoned, &seen, thread_state, memory_order_release,
        memory_order_relaxed));
}

void moietyi_thread_states_abandon(struct moietyi_thread *thread)
{
    /* Under the lock, so that no pool ends meanwhile. */
    moietyi_registry_lock();
    while (thread->thread_states) {
        struct moietyi_thread_state *thread_state = thread->thread_states;
        thread->thread_states = thread_state->of_thread;
        thread_state->thread = NULL;
        /* IN: a final scan sees that a thread state was abandoned. */
        thread_state->engine->abandoned_count++;
        moietyi_abandoned_push(thread_state);
        MOIETYI_STEP("locked.abandoned");
    }
    moietyi_registry_unlock();
}
