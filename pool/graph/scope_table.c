/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The blocks that scopes keep, by address, and for each scope in two lists:
 * those that are in use, and those that were freed.
 */
#include <stdlib.h>

#include "pool/graph/scopes.h"

#define FIRST_BUCKETS 64U

static size_t scope_table_bucket_of(moiety_devptr address, size_t bucket_count)
{
    uint64_t mixed =
        address / MOIETYI_GRAIN_BYTES * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(mixed >> 32) & (bucket_count - 1);
}

struct moietyi_scope_block **
moietyi_scope_block_at(const struct moietyi_scopes *scopes,
                       moiety_devptr address)
{
    struct moietyi_scope_block **at =
        &scopes->buckets[scope_table_bucket_of(address, scopes->bucket_count)];
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    return at;
}

static void scope_table_rehash(struct moietyi_scopes *scopes,
                               struct moietyi_scope_block **buckets,
                               size_t bucket_count)
{
    for (size_t i = 0; i < scopes->bucket_count; i++) {
        while (scopes->buckets[i]) {
            struct moietyi_scope_block *block = scopes->buckets[i];
            size_t to = scope_table_bucket_of(block->address, bucket_count);
            scopes->buckets[i] = block->next;
            block->next = buckets[to];
            buckets[to] = block;
        }
    }
}

bool moietyi_scopes_reserve(struct moietyi_scopes *scopes)
{
    /* relaxed: the lock is held. */
    size_t count =
        atomic_load_explicit(&scopes->block_count, memory_order_relaxed);
    if (scopes->bucket_count && count < scopes->bucket_count)
        return true;
    size_t bucket_count =
        scopes->bucket_count ? 2 * scopes->bucket_count : FIRST_BUCKETS;
    struct moietyi_scope_block **buckets =
        calloc(bucket_count, sizeof(struct moietyi_scope_block *));
    /* Longer chains will do. */
    if (!buckets)
        return scopes->bucket_count != 0;
    scope_table_rehash(scopes, buckets, bucket_count);
    free(scopes->buckets);
    scopes->buckets = buckets;
    scopes->bucket_count = bucket_count;
    return true;
}

/* Lock held, as for the next three. */
static struct moietyi_scope_block **
scope_table_list_of(struct moietyi_scope *scope,
                    const struct moietyi_scope_block *block)
{
    return block->is_freed ? &scope->freed : &scope->live;
}

static void scope_table_list(struct moietyi_scope *scope,
                             struct moietyi_scope_block *block)
{
    struct moietyi_scope_block **first = scope_table_list_of(scope, block);
    block->previous_listed = NULL;
    block->next_listed = *first;
    if (*first)
        (*first)->previous_listed = block;
    *first = block;
}

static void scope_table_unlist(struct moietyi_scope *scope,
                               const struct moietyi_scope_block *block)
{
    if (block->previous_listed)
        block->previous_listed->next_listed = block->next_listed;
    else
        *scope_table_list_of(scope, block) = block->next_listed;
    if (block->next_listed)
        block->next_listed->previous_listed = block->previous_listed;
}

void moietyi_scope_block_set_freed(struct moietyi_scope_block *block,
                                   bool is_freed)
{
    scope_table_unlist(block->scope, block);
    block->is_freed = is_freed;
    scope_table_list(block->scope, block);
}

void moietyi_scope_block_add(struct moietyi_scopes *scopes,
                             struct moietyi_scope *scope,
                             struct moietyi_scope_block *block)
{
    struct moietyi_scope_block **at =
        moietyi_scope_block_at(scopes, block->address);
    block->next = *at;
    *at = block;
    block->scope = scope;
    scope_table_list(scope, block);
    /* relaxed: the lock is held. */
    atomic_fetch_add_explicit(&scopes->block_count, 1, memory_order_relaxed);
    (void)moietyi_scopes_reserve(scopes);
}

void moietyi_scope_block_remove(struct moietyi_scopes *scopes,
                                struct moietyi_scope *scope,
                                struct moietyi_scope_block *block)
{
    *moietyi_scope_block_at(scopes, block->address) = block->next;
    scope_table_unlist(scope, block);
    /* relaxed: the lock is held. */
    atomic_fetch_sub_explicit(&scopes->block_count, 1, memory_order_relaxed);
}

void moietyi_scope_hand_all(struct moietyi_scopes *scopes,
                            struct moietyi_scope *scope,
                            struct moietyi_scope *other)
{
    struct moietyi_scope_block *block;
    while ((block = scope->freed ? scope->freed : scope->live)) {
        moietyi_scope_block_remove(scopes, scope, block);
        block->is_reusable = false;
        moietyi_scope_block_add(scopes, other, block);
    }
}

static void add_to(struct moietyi_exported_list *list,
                   const struct moietyi_scope_block *block)
{
    for (; block; block = block->next_listed) {
        if (list->count < list->capacity)
            list->blocks[list->count] =
                (struct moietyi_exported){block->address, block->is_freed};
        list->count++;
    }
}

void moietyi_scopes_list(struct moietyi_scopes *scopes,
                         struct moietyi_exported_list *out)
{
    pthread_mutex_lock(&scopes->lock);
    for (const struct moietyi_scope *scope = scopes->first; scope;
         scope = scope->next) {
        add_to(out, scope->live);
        add_to(out, scope->freed);
    }
    pthread_mutex_unlock(&scopes->lock);
}
