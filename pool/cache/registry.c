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

#include "pool/base/step.h"
#include "pool/cache/flush.h"
#include "pool/cache/live.h"
#include "pool/ring/ring.h"
#include "pool/stream/stream_state.h"

/* With fewer caches than this a thread state looks through them all. */
#define FIRST_BUCKETS 16U

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void binadei_registry_lock(void)
{
    pthread_mutex_lock(&lock);
}

void binadei_registry_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* Lock held. */
static struct binadei_thread_state *
find_thread_state(struct binadei_thread *thread,
                  const struct binadei_engine *engine)
{
    struct binadei_thread_state *thread_state = thread->thread_states;
    while (thread_state && thread_state->engine != engine)
        thread_state = thread_state->of_thread;
    return thread_state;
}

static bool begin_history(struct binadei_thread_state *thread_state)
{
    binadei_registry_lock();
    thread_state->history =
        binadei_history_reuse(thread_state->engine->history);
    binadei_registry_unlock();
    thread_state->history =
        binadei_history_begin(thread_state->engine->history,
                              thread_state->history, thread_state->thread_id);
    return thread_state->history != NULL;
}

static void end_history(struct binadei_thread_state *thread_state)
{
    if (!thread_state->history)
        return;
    binadei_registry_lock();
    binadei_history_end(thread_state->engine->history, thread_state->history);
    binadei_registry_unlock();
}

static struct binadei_thread_state *
make_thread_state(struct binadei_thread *thread, struct binadei_engine *engine)
{
    struct binadei_thread_state *thread_state =
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
    thread_state->done = binadei_cache_make(thread_state, engine->streams.done);
    if (!thread_state->done) {
        end_history(thread_state);
        free(thread_state);
        return NULL;
    }
    binadei_registry_lock();
    BINADEI_STEP("locked.thread_state");
    if (thread->left_oom.pool == engine->pool)
        thread_state->oom = thread->left_oom;
    thread_state->of_thread = thread->thread_states;
    thread->thread_states = thread_state;
    thread_state->of_pool = engine->thread_states;
    engine->thread_states = thread_state;
    /* relaxed: advice. */
    atomic_fetch_add_explicit(&engine->thread_state_count, 1,
                              memory_order_relaxed);
    binadei_registry_unlock();
    return thread_state;
}

struct binadei_thread_state *
binadei_thread_state_of(struct binadei_thread *thread,
                        struct binadei_engine *engine)
{
    binadei_registry_lock();
    struct binadei_thread_state *thread_state =
        find_thread_state(thread, engine);
    binadei_registry_unlock();
    return thread_state ? thread_state : make_thread_state(thread, engine);
}

/* Stream states are numbered from 0 up. */
static struct binadei_cache **
registry_bucket_of(const struct binadei_thread_state *thread_state,
                   const struct binadei_stream_state *stream_state)
{
    return &thread_state->cache_buckets[stream_state->index %
                                        thread_state->cache_bucket_count];
}

struct binadei_cache *
binadei_cache_find(const struct binadei_thread_state *thread_state,
                   const struct binadei_stream_state *stream_state)
{
    struct binadei_cache *cache =
        thread_state->cache_buckets
            ? *registry_bucket_of(thread_state, stream_state)
            : thread_state->caches;
    while (cache && cache->stream_state != stream_state)
        cache =
            thread_state->cache_buckets ? cache->next_in_bucket : cache->next;
    return cache;
}

/* As many buckets as there are caches, and more; without memory for them the
 * ways are longer. */
static void widen_buckets(struct binadei_thread_state *thread_state)
{
    uint32_t count = thread_state->cache_bucket_count
                         ? 2 * thread_state->cache_bucket_count
                         : 2 * FIRST_BUCKETS;
    struct binadei_cache **buckets =
        calloc(count, sizeof(struct binadei_cache *));
    if (!buckets)
        return;
    free(thread_state->cache_buckets);
    thread_state->cache_buckets = buckets;
    thread_state->cache_bucket_count = count;
    for (struct binadei_cache *cache = thread_state->caches; cache;
         cache = cache->next) {
        struct binadei_cache **at =
            registry_bucket_of(thread_state, cache->stream_state);
        cache->next_in_bucket = *at;
        *at = cache;
    }
}

/* The cache is the first of the thread state's. */
static void enter_bucket(struct binadei_thread_state *thread_state,
                         struct binadei_cache *cache)
{
    bool is_due =
        ++thread_state->cache_count > thread_state->cache_bucket_count &&
        thread_state->cache_count >= FIRST_BUCKETS;
    if (thread_state->cache_buckets) {
        struct binadei_cache **at =
            registry_bucket_of(thread_state, cache->stream_state);
        cache->next_in_bucket = *at;
        *at = cache;
    }
    if (is_due)
        widen_buckets(thread_state);
}

static void leave_bucket(struct binadei_thread_state *thread_state,
                         const struct binadei_cache *cache)
{
    thread_state->cache_count--;
    if (!thread_state->cache_buckets)
        return;
    struct binadei_cache **at =
        registry_bucket_of(thread_state, cache->stream_state);
    while (*at != cache)
        at = &(*at)->next_in_bucket;
    *at = cache->next_in_bucket;
}

struct binadei_cache *
binadei_cache_make(struct binadei_thread_state *thread_state,
                   struct binadei_stream_state *stream_state)
{
    struct binadei_cache *cache =
        aligned_alloc(alignof(struct binadei_cache), sizeof(*cache));
    if (!cache)
        return NULL;
    memset(cache, 0, sizeof(*cache));
    cache->thread_state = thread_state;
    cache->stream_state = stream_state;
    binadei_registry_lock();
    cache->next = thread_state->caches;
    thread_state->caches = cache;
    binadei_registry_unlock();
    enter_bucket(thread_state, cache);
    return cache;
}

static void registry_add(struct binadei_thread_state *thread_state,
                         enum binadei_count which,
                         const binadei_counter *counter, uint64_t times)
{
    binadei_count(thread_state, which, binadei_count_read(counter) * times);
}

/* Tells all of a cache that ends; what was told stays so. */
static void tell_last(struct binadei_cache *cache)
{
    uint64_t more = binadei_live_of_uneven(cache);
    uint64_t told = cache->told_uneven_bytes;
    for (uint32_t i = 0; i < BINADEI_SMALL_CLASSES; i++) {
        more += binadei_live_of_magazine(cache, i);
        told += cache->told_counts[i] * binadei_class_bytes(i);
    }
    cache->thread_state->counted_bytes += told;
    binadei_live_add(cache->thread_state, more);
}

/* What the cache counted becomes the thread state's. */
static void fold(struct binadei_cache *cache)
{
    struct binadei_thread_state *thread_state = cache->thread_state;
    tell_last(cache);
    for (uint32_t i = 0; i < BINADEI_CLASSES; i++) {
        const struct binadei_magazine *magazine = &cache->magazines[i];
        uint64_t bytes = binadei_class_is_small(i) ? binadei_class_bytes(i) : 0;
        registry_add(thread_state, BINADEI_COUNT_ALLOCS, &magazine->alloc_count,
                     1);
        registry_add(thread_state, BINADEI_COUNT_FREES, &magazine->free_count,
                     1);
        registry_add(thread_state, BINADEI_COUNT_ALLOC_BYTES,
                     &magazine->alloc_count, bytes);
        registry_add(thread_state, BINADEI_COUNT_FREE_BYTES,
                     &magazine->free_count, bytes);
        registry_add(thread_state, BINADEI_COUNT_REQUESTED_BYTES,
                     &magazine->requested_bytes, 1);
    }
    registry_add(thread_state, BINADEI_COUNT_ALLOC_BYTES,
                 &cache->uneven_alloc_bytes, 1);
    registry_add(thread_state, BINADEI_COUNT_FREE_BYTES,
                 &cache->uneven_free_bytes, 1);
}

static void free_cache(struct binadei_cache *cache)
{
    for (uint32_t i = 0; i < BINADEI_CLASSES; i++)
        free(cache->magazines[i].entries);
    free(cache);
}

bool binadei_cache_try_drop(struct binadei_cache *cache)
{
    struct binadei_thread_state *thread_state = cache->thread_state;
    if (pthread_mutex_trylock(&lock) != 0)
        return false;
    struct binadei_cache **at = &thread_state->caches;
    while (*at != cache)
        at = &(*at)->next;
    *at = cache->next;
    fold(cache);
    binadei_registry_unlock();
    leave_bucket(thread_state, cache);
    if (thread_state->hand == cache)
        thread_state->hand = NULL;
    if (cache->stream_state->kind >= BINADEI_STREAM_STATE_STREAM)
        binadei_stream_state_unuse(cache->stream_state);
    free_cache(cache);
    return true;
}

bool binadei_thread_state_try_drop(struct binadei_thread_state *thread_state)
{
    struct binadei_engine *engine = thread_state->engine;
    binadei_bundle_freelist_share(thread_state);
    if (pthread_mutex_trylock(&lock) != 0)
        return false;
    struct binadei_thread_state **at = &engine->thread_states;
    while (*at != thread_state)
        at = &(*at)->of_pool;
    *at = thread_state->of_pool;
    /* relaxed: advice. */
    atomic_fetch_sub_explicit(&engine->thread_state_count, 1,
                              memory_order_relaxed);
    binadei_live_tell_own(thread_state);
    binadei_live_publish(thread_state);
    for (unsigned i = 0; i < BINADEI_COUNTS; i++)
        engine->gone[i] += binadei_count_read(&thread_state->counts[i]);
    /* IN.seq_cst: what its slow paths moved is seen whole. */
    engine->gone_slow_paths +=
        atomic_load_explicit(&thread_state->slow_path, memory_order_seq_cst);
    if (thread_state->history)
        binadei_history_end(engine->history, thread_state->history);
    binadei_registry_unlock();
    free(thread_state->cache_buckets);
    free(thread_state);
    return true;
}

void binadei_thread_state_unlink(struct binadei_thread_state *thread_state)
{
    struct binadei_thread_state **at = &thread_state->thread->thread_states;
    while (*at != thread_state)
        at = &(*at)->of_thread;
    *at = thread_state->of_thread;
    thread_state->thread = NULL;
}

/* A thread state that no thread knows any more; NULL: there is none. */
static struct binadei_thread_state *
pop_thread_state(struct binadei_engine *engine)
{
    binadei_registry_lock();
    struct binadei_thread_state *thread_state = engine->thread_states;
    if (thread_state) {
        engine->thread_states = thread_state->of_pool;
        if (thread_state->thread)
            binadei_thread_state_unlink(thread_state);
    }
    binadei_registry_unlock();
    return thread_state;
}

void binadei_thread_states_destroy(struct binadei_engine *engine)
{
    struct binadei_thread_state *thread_state;
    while ((thread_state = pop_thread_state(engine))) {
        while (thread_state->caches) {
            struct binadei_cache *cache = thread_state->caches;
            thread_state->caches = cache->next;
            free_cache(cache);
        }
        binadei_bundles_free(thread_state->bundles);
        free(thread_state->cache_buckets);
        free(thread_state);
    }
}

void binadei_abandoned_push(struct binadei_thread_state *thread_state)
{
    struct binadei_engine *engine = thread_state->engine;
    /* relaxed: compared and stored. */
    struct binadei_thread_state *seen =
        atomic_load_explicit(&engine->abandoned, memory_order_relaxed);
    do {
        thread_state->next_abandoned = seen;
        /* OR.release: all that the thread left behind. */
    } while (!atomic_compare_exchange_weak_explicit(
        &engine->abandoned, &seen, thread_state, memory_order_release,
        memory_order_relaxed));
}

void binadei_thread_states_abandon(struct binadei_thread *thread)
{
    /* Under the lock, so that no pool ends meanwhile. */
    binadei_registry_lock();
    while (thread->thread_states) {
        struct binadei_thread_state *thread_state = thread->thread_states;
        thread->thread_states = thread_state->of_thread;
        thread_state->thread = NULL;
        /* IN: a final scan sees that something came to the abandoned ones. */
        thread_state->engine->abandoned_count++;
        binadei_abandoned_push(thread_state);
        BINADEI_STEP("locked.abandoned");
    }
    binadei_registry_unlock();
}
