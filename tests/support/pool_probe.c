/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/pool_probe.h"

#include "pool/cache/handle.h"
#include "pool/cache/state.h"

unsigned pool_probe_thread_state_count(const moiety_pool *pool)
{
    unsigned count = 0;
    for (const struct moietyi_thread_state *thread_state =
             pool->engine->thread_states;
         thread_state; thread_state = thread_state->of_pool)
        count++;
    return count;
}

/* The length of a chain whose thread states are linked by `next`. */
#define LENGTH(type, first, next)                                              \
    __extension__({                                                            \
        unsigned counted = 0;                                                  \
        for (const struct type *one = (first); one; one = one->next)           \
            counted++;                                                         \
        counted;                                                               \
    })

unsigned pool_probe_longest_use_chain(const moiety_pool *pool)
{
    const struct moietyi_use_table *table = &pool->engine->uses;
    unsigned longest = 0;
    for (uint32_t i = 0; i < table->bucket_count; i++) {
        unsigned length = LENGTH(moietyi_use, table->buckets[i], next);
        longest = length > longest ? length : longest;
    }
    return longest;
}

static unsigned
longest_of_thread_state(const struct moietyi_thread_state *thread_state)
{
    unsigned longest = 0;
    if (!thread_state->cache_buckets)
        return LENGTH(moietyi_cache, thread_state->caches, next);
    for (uint32_t i = 0; i < thread_state->cache_bucket_count; i++) {
        unsigned length = LENGTH(moietyi_cache, thread_state->cache_buckets[i],
                                 next_in_bucket);
        longest = length > longest ? length : longest;
    }
    return longest;
}

unsigned pool_probe_longest_cache_chain(const moiety_pool *pool)
{
    unsigned longest = 0;
    for (const struct moietyi_thread_state *thread_state =
             pool->engine->thread_states;
         thread_state; thread_state = thread_state->of_pool) {
        unsigned length = longest_of_thread_state(thread_state);
        longest = length > longest ? length : longest;
    }
    return longest;
}

unsigned pool_probe_longest_stream_state_chain(const moiety_pool *pool)
{
    unsigned longest = 0;
    for (unsigned i = 0; i < MOIETYI_STREAM_STATE_BUCKETS; i++) {
        unsigned length =
            LENGTH(moietyi_stream_state, pool->engine->streams.buckets[i],
                   next_in_bucket);
        longest = length > longest ? length : longest;
    }
    return longest;
}

unsigned pool_probe_stream_state_count(const moiety_pool *pool)
{
    return atomic_load_explicit(&pool->engine->streams.stream_state_count,
                                memory_order_relaxed);
}
