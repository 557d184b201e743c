/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/ipc/held.h"

#include <stdlib.h>

#define FIRST_BUCKETS ((size_t)64)
#define GRAIN_BYTES 512U

static size_t held_bucket_of(moiety_devptr address, size_t bucket_count)
{
    uint64_t mixed = address / GRAIN_BYTES * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(mixed >> 32) & (bucket_count - 1);
}

static bool held_is_within(const struct moietyi_held *held, moiety_devptr first,
                           moiety_devptr end)
{
    return held->address >= first && held->address < end;
}

void moietyi_held_fini(struct moietyi_held_table *table)
{
    moietyi_held_forget(table, 0, ~(moiety_devptr)0);
    free(table->buckets);
}

struct moietyi_held *moietyi_held_find(const struct moietyi_held_table *table,
                                       moiety_devptr address)
{
    if (!table->count)
        return NULL;
    struct moietyi_held *held =
        table->buckets[held_bucket_of(address, table->bucket_count)];
    while (held && held->address != address)
        held = held->next;
    return held;
}

static void held_put(struct moietyi_held **buckets, size_t bucket_count,
                     struct moietyi_held *held)
{
    struct moietyi_held **at =
        &buckets[held_bucket_of(held->address, bucket_count)];
    held->next = *at;
    *at = held;
}

static bool held_grow(struct moietyi_held_table *table)
{
    size_t bucket_count =
        table->bucket_count ? 2 * table->bucket_count : FIRST_BUCKETS;
    struct moietyi_held **buckets =
        calloc(bucket_count, sizeof(struct moietyi_held *));
    if (!buckets)
        return false;
    for (size_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i]) {
            struct moietyi_held *held = table->buckets[i];
            table->buckets[i] = held->next;
            held_put(buckets, bucket_count, held);
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = bucket_count;
    return true;
}

bool moietyi_held_add(struct moietyi_held_table *table, moiety_devptr address)
{
    if (table->count == table->bucket_count && !held_grow(table))
        return false;
    struct moietyi_held *held = calloc(1, sizeof(*held));
    if (!held)
        return false;
    held->address = address;
    held_put(table->buckets, table->bucket_count, held);
    table->count++;
    return true;
}

/* All from `first` to `end`, or the freed ones of them. */
static struct moietyi_held *held_take(struct moietyi_held_table *table,
                                      moiety_devptr first, moiety_devptr end,
                                      bool is_freed_only)
{
    struct moietyi_held *chain = NULL;
    for (size_t i = 0; i < table->bucket_count; i++) {
        struct moietyi_held **at = &table->buckets[i];
        while (*at) {
            struct moietyi_held *held = *at;
            if (!held_is_within(held, first, end) ||
                (is_freed_only && !held->is_freed)) {
                at = &held->next;
                continue;
            }
            *at = held->next;
            held->next = chain;
            chain = held;
            table->count--;
        }
    }
    return chain;
}

struct moietyi_held *moietyi_held_take_freed(struct moietyi_held_table *table,
                                             moiety_devptr first,
                                             moiety_devptr end)
{
    return held_take(table, first, end, true);
}

void moietyi_held_return(struct moietyi_held_table *table,
                         struct moietyi_held *chain)
{
    while (chain) {
        struct moietyi_held *held = chain;
        chain = held->next;
        held_put(table->buckets, table->bucket_count, held);
        table->count++;
    }
}

void moietyi_held_forget(struct moietyi_held_table *table, moiety_devptr first,
                         moiety_devptr end)
{
    struct moietyi_held *chain = held_take(table, first, end, false);
    while (chain) {
        struct moietyi_held *held = chain;
        chain = held->next;
        free(held);
    }
}
