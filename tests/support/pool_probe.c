/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/pool_probe.h"

#include "pool/cache/handle.h"
#include "pool/cache/state.h"

unsigned pool_probe_member_count(const binade_pool *pool)
{
    unsigned count = 0;
    for (const struct binadei_member *member = pool->engine->members; member;
         member = member->of_pool)
        count++;
    return count;
}

/* The length of a chain whose members are linked by `next`. */
#define LENGTH(type, first, next)                                              \
    __extension__({                                                            \
        unsigned counted = 0;                                                  \
        for (const struct type *one = (first); one; one = one->next)           \
            counted++;                                                         \
        counted;                                                               \
    })

unsigned pool_probe_longest_use_chain(const binade_pool *pool)
{
    const struct binadei_use_table *table = &pool->engine->uses;
    unsigned longest = 0;
    for (uint32_t i = 0; i < table->bucket_count; i++) {
        unsigned length = LENGTH(binadei_use, table->buckets[i], next);
        longest = length > longest ? length : longest;
    }
    return longest;
}

static unsigned longest_of_member(const struct binadei_member *member)
{
    unsigned longest = 0;
    if (!member->cache_buckets)
        return LENGTH(binadei_cache, member->caches, next);
    for (uint32_t i = 0; i < member->cache_bucket_count; i++) {
        unsigned length =
            LENGTH(binadei_cache, member->cache_buckets[i], next_in_bucket);
        longest = length > longest ? length : longest;
    }
    return longest;
}

unsigned pool_probe_longest_cache_chain(const binade_pool *pool)
{
    unsigned longest = 0;
    for (const struct binadei_member *member = pool->engine->members; member;
         member = member->of_pool) {
        unsigned length = longest_of_member(member);
        longest = length > longest ? length : longest;
    }
    return longest;
}

unsigned pool_probe_longest_slot_chain(const binade_pool *pool)
{
    unsigned longest = 0;
    for (unsigned i = 0; i < BINADEI_SLOT_BUCKETS; i++) {
        unsigned length = LENGTH(binadei_slot, pool->engine->streams.buckets[i],
                                 next_in_bucket);
        longest = length > longest ? length : longest;
    }
    return longest;
}

unsigned pool_probe_slot_count(const binade_pool *pool)
{
    return atomic_load_explicit(&pool->engine->streams.slot_count,
                                memory_order_relaxed);
}
