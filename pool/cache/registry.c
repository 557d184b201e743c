/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Members and their caches, and who still knows whom.
 */
#define _DEFAULT_SOURCE
#include "pool/cache/registry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/base/step.h"
#include "pool/cache/leave.h"
#include "pool/ring/ring.h"
#include "pool/stream/slot.h"

/* With fewer caches than this a member looks through them all. */
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
static struct binadei_member *find_member(struct binadei_thread *thread,
                                          const struct binadei_engine *engine)
{
    struct binadei_member *member = thread->members;
    while (member && member->engine != engine)
        member = member->of_thread;
    return member;
}

static bool begin_history(struct binadei_member *member)
{
    binadei_registry_lock();
    member->history = binadei_history_reuse(member->engine->history);
    binadei_registry_unlock();
    member->history = binadei_history_begin(member->engine->history,
                                            member->history, member->thread_id);
    return member->history != NULL;
}

static void end_history(struct binadei_member *member)
{
    if (!member->history)
        return;
    binadei_registry_lock();
    binadei_history_end(member->engine->history, member->history);
    binadei_registry_unlock();
}

static struct binadei_member *make_member(struct binadei_thread *thread,
                                          struct binadei_engine *engine)
{
    struct binadei_member *member = calloc(1, sizeof(*member));
    if (!member)
        return NULL;
    member->engine = engine;
    member->thread = thread;
    member->thread_id = (uint32_t)syscall(SYS_gettid);
    member->is_new = true;
    if (engine->history && !begin_history(member)) {
        free(member);
        return NULL;
    }
    member->done = binadei_cache_make(member, engine->streams.done);
    if (!member->done) {
        end_history(member);
        free(member);
        return NULL;
    }
    binadei_registry_lock();
    BINADEI_STEP("locked.member");
    if (thread->left_oom.pool == engine->pool)
        member->oom = thread->left_oom;
    member->of_thread = thread->members;
    thread->members = member;
    member->of_pool = engine->members;
    engine->members = member;
    /* relaxed: advice. */
    atomic_fetch_add_explicit(&engine->member_count, 1, memory_order_relaxed);
    binadei_registry_unlock();
    return member;
}

struct binadei_member *binadei_member_of(struct binadei_thread *thread,
                                         struct binadei_engine *engine)
{
    binadei_registry_lock();
    struct binadei_member *member = find_member(thread, engine);
    binadei_registry_unlock();
    return member ? member : make_member(thread, engine);
}

/* Slots are numbered from 0 up. */
static struct binadei_cache **
registry_bucket_of(const struct binadei_member *member,
                   const struct binadei_slot *slot)
{
    return &member->cache_buckets[slot->index % member->cache_bucket_count];
}

struct binadei_cache *binadei_cache_find(const struct binadei_member *member,
                                         const struct binadei_slot *slot)
{
    struct binadei_cache *cache = member->cache_buckets
                                      ? *registry_bucket_of(member, slot)
                                      : member->caches;
    while (cache && cache->slot != slot)
        cache = member->cache_buckets ? cache->next_in_bucket : cache->next;
    return cache;
}

/* As many buckets as there are caches, and more; without memory for them the
 * ways are longer. */
static void widen_buckets(struct binadei_member *member)
{
    uint32_t count = member->cache_bucket_count ? 2 * member->cache_bucket_count
                                                : 2 * FIRST_BUCKETS;
    struct binadei_cache **buckets =
        calloc(count, sizeof(struct binadei_cache *));
    if (!buckets)
        return;
    free(member->cache_buckets);
    member->cache_buckets = buckets;
    member->cache_bucket_count = count;
    for (struct binadei_cache *cache = member->caches; cache;
         cache = cache->next) {
        struct binadei_cache **at = registry_bucket_of(member, cache->slot);
        cache->next_in_bucket = *at;
        *at = cache;
    }
}

/* The cache is the first of the member's. */
static void enter_bucket(struct binadei_member *member,
                         struct binadei_cache *cache)
{
    bool is_due = ++member->cache_count > member->cache_bucket_count &&
                  member->cache_count >= FIRST_BUCKETS;
    if (member->cache_buckets) {
        struct binadei_cache **at = registry_bucket_of(member, cache->slot);
        cache->next_in_bucket = *at;
        *at = cache;
    }
    if (is_due)
        widen_buckets(member);
}

static void leave_bucket(struct binadei_member *member,
                         const struct binadei_cache *cache)
{
    member->cache_count--;
    if (!member->cache_buckets)
        return;
    struct binadei_cache **at = registry_bucket_of(member, cache->slot);
    while (*at != cache)
        at = &(*at)->next_in_bucket;
    *at = cache->next_in_bucket;
}

struct binadei_cache *binadei_cache_make(struct binadei_member *member,
                                         struct binadei_slot *slot)
{
    struct binadei_cache *cache =
        aligned_alloc(alignof(struct binadei_cache), sizeof(*cache));
    if (!cache)
        return NULL;
    memset(cache, 0, sizeof(*cache));
    cache->member = member;
    cache->slot = slot;
    binadei_registry_lock();
    cache->next = member->caches;
    member->caches = cache;
    binadei_registry_unlock();
    enter_bucket(member, cache);
    return cache;
}

static void registry_add(struct binadei_member *member,
                         enum binadei_count which,
                         const binadei_counter *counter, uint64_t times)
{
    binadei_count(member, which, binadei_count_read(counter) * times);
}

/* What the cache counted becomes the member's. */
static void fold(const struct binadei_cache *cache)
{
    struct binadei_member *member = cache->member;
    for (uint32_t i = 0; i < BINADEI_CLASSES; i++) {
        const struct binadei_magazine *magazine = &cache->magazines[i];
        uint64_t bytes = binadei_class_is_small(i) ? binadei_class_bytes(i) : 0;
        registry_add(member, BINADEI_COUNT_ALLOCS, &magazine->alloc_count, 1);
        registry_add(member, BINADEI_COUNT_FREES, &magazine->free_count, 1);
        registry_add(member, BINADEI_COUNT_ALLOC_BYTES, &magazine->alloc_count,
                     bytes);
        registry_add(member, BINADEI_COUNT_FREE_BYTES, &magazine->free_count,
                     bytes);
        registry_add(member, BINADEI_COUNT_REQUESTED_BYTES,
                     &magazine->requested_bytes, 1);
    }
    registry_add(member, BINADEI_COUNT_ALLOC_BYTES, &cache->uneven_alloc_bytes,
                 1);
    registry_add(member, BINADEI_COUNT_FREE_BYTES, &cache->uneven_free_bytes,
                 1);
}

static void free_cache(struct binadei_cache *cache)
{
    for (uint32_t i = 0; i < BINADEI_CLASSES; i++)
        free(cache->magazines[i].entries);
    free(cache);
}

bool binadei_cache_try_drop(struct binadei_cache *cache)
{
    struct binadei_member *member = cache->member;
    if (pthread_mutex_trylock(&lock) != 0)
        return false;
    struct binadei_cache **at = &member->caches;
    while (*at != cache)
        at = &(*at)->next;
    *at = cache->next;
    fold(cache);
    binadei_registry_unlock();
    leave_bucket(member, cache);
    if (member->hand == cache)
        member->hand = NULL;
    if (cache->slot->kind >= BINADEI_SLOT_STREAM)
        binadei_slot_unuse(cache->slot);
    free_cache(cache);
    return true;
}

bool binadei_member_try_drop(struct binadei_member *member)
{
    struct binadei_engine *engine = member->engine;
    binadei_spares_leave(member);
    if (pthread_mutex_trylock(&lock) != 0)
        return false;
    struct binadei_member **at = &engine->members;
    while (*at != member)
        at = &(*at)->of_pool;
    *at = member->of_pool;
    /* relaxed: advice. */
    atomic_fetch_sub_explicit(&engine->member_count, 1, memory_order_relaxed);
    for (unsigned i = 0; i < BINADEI_COUNTS; i++)
        engine->gone[i] += binadei_count_read(&member->counts[i]);
    /* IN.seq_cst: what its operations moved is seen whole. */
    engine->gone_operations +=
        atomic_load_explicit(&member->operation, memory_order_seq_cst);
    if (member->history)
        binadei_history_end(engine->history, member->history);
    binadei_registry_unlock();
    free(member->cache_buckets);
    free(member);
    return true;
}

void binadei_member_unlink(struct binadei_member *member)
{
    struct binadei_member **at = &member->thread->members;
    while (*at != member)
        at = &(*at)->of_thread;
    *at = member->of_thread;
    member->thread = NULL;
}

/* A member that no thread knows any more; NULL: there is none. */
static struct binadei_member *pop_member(struct binadei_engine *engine)
{
    binadei_registry_lock();
    struct binadei_member *member = engine->members;
    if (member) {
        engine->members = member->of_pool;
        if (member->thread)
            binadei_member_unlink(member);
    }
    binadei_registry_unlock();
    return member;
}

void binadei_members_destroy(struct binadei_engine *engine)
{
    struct binadei_member *member;
    while ((member = pop_member(engine))) {
        while (member->caches) {
            struct binadei_cache *cache = member->caches;
            member->caches = cache->next;
            free_cache(cache);
        }
        binadei_bundles_free(member->bundles);
        free(member->cache_buckets);
        free(member);
    }
}

void binadei_orphan_push(struct binadei_member *member)
{
    struct binadei_engine *engine = member->engine;
    /* relaxed: compared and stored. */
    struct binadei_member *seen =
        atomic_load_explicit(&engine->orphans, memory_order_relaxed);
    do {
        member->orphan = seen;
        /* OR.release: all that the thread left behind. */
    } while (!atomic_compare_exchange_weak_explicit(
        &engine->orphans, &seen, member, memory_order_release,
        memory_order_relaxed));
}

void binadei_members_abandon(struct binadei_thread *thread)
{
    /* Under the lock, so that no pool ends meanwhile. */
    binadei_registry_lock();
    while (thread->members) {
        struct binadei_member *member = thread->members;
        thread->members = member->of_thread;
        member->thread = NULL;
        /* IN: a last look sees that something came to the orphans. */
        member->engine->abandoned_members++;
        binadei_orphan_push(member);
        BINADEI_STEP("locked.orphan");
    }
    binadei_registry_unlock();
}
