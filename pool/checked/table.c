/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The blocks of a checked pool by address, and the queues that they are on.
 * Lookups of addresses that are no block's are for messages: they may be slow.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/checked/state.h"

static struct binadei_watch **
checked_table_bucket_of(struct binadei_checked *checked, binade_devptr address)
{
    uint64_t mixed =
        address / BINADEI_GRAIN_BYTES * UINT64_C(0x9E3779B97F4A7C15);
    return &checked->buckets[(mixed >> 32) % BINADEI_WATCH_BUCKETS];
}

struct binadei_watch *binadei_watch_find(struct binadei_checked *checked,
                                         binade_devptr address)
{
    struct binadei_watch *watch = *checked_table_bucket_of(checked, address);
    while (watch && watch->address != address)
        watch = watch->next_in_bucket;
    return watch;
}

static bool is_around(const struct binadei_watch *watch, binade_devptr address)
{
    return address >= watch->base && address - watch->base < watch->base_bytes;
}

struct binadei_watch *binadei_watch_around(struct binadei_checked *checked,
                                           binade_devptr address)
{
    struct binadei_watch *found = NULL;
    for (unsigned i = 0; i < BINADEI_WATCH_BUCKETS; i++) {
        struct binadei_watch *watch = checked->buckets[i];
        for (; watch; watch = watch->next_in_bucket)
            if (is_around(watch, address) &&
                (!found || found->state == BINADEI_WATCH_GONE))
                found = watch;
    }
    return found;
}

static void unlink_watch(struct binadei_checked *checked,
                         struct binadei_watch *watch)
{
    struct binadei_watch **at =
        checked_table_bucket_of(checked, watch->address);
    while (*at != watch)
        at = &(*at)->next_in_bucket;
    *at = watch->next_in_bucket;
}

static void checked_table_forget(struct binadei_checked *checked,
                                 struct binadei_watch *watch)
{
    binadei_queue_remove(&checked->history, watch);
    unlink_watch(checked, watch);
    free(watch);
}

void binadei_watch_insert(struct binadei_checked *checked,
                          struct binadei_watch *watch)
{
    struct binadei_watch *before = binadei_watch_find(checked, watch->address);
    /* Only memory of a block that is gone can be given out again, or of one
     * that is going just now: its mover frees that. */
    if (before && before->state == BINADEI_WATCH_GONE) {
        checked_table_forget(checked, before);
    } else if (before) {
        unlink_watch(checked, before);
        before->is_replaced = true;
    }
    struct binadei_watch **bucket =
        checked_table_bucket_of(checked, watch->address);
    watch->next_in_bucket = *bucket;
    *bucket = watch;
}

void binadei_watch_remember(struct binadei_checked *checked,
                            struct binadei_watch *watch)
{
    watch->state = BINADEI_WATCH_GONE;
    binadei_queue_append(&checked->history, watch);
    if (checked->history.count > BINADEI_HISTORY_BLOCKS)
        checked_table_forget(checked, checked->history.first);
}

void binadei_watch_set_freed(struct binadei_checked *checked,
                             struct binadei_watch *watch,
                             const struct binadei_site *site)
{
    watch->is_freed = true;
    watch->freed = *site;
    checked->counts.live_blocks--;
    checked->counts.live_bytes -= watch->size_bytes;
}

void binadei_watch_unset_freed(struct binadei_checked *checked,
                               struct binadei_watch *watch)
{
    watch->is_freed = false;
    checked->counts.live_blocks++;
    checked->counts.live_bytes += watch->size_bytes;
}

void binadei_watch_count_free(struct binadei_checked *checked,
                              struct binadei_watch *watch)
{
    watch->free_sequence = ++checked->free_count;
    checked->free_bytes += watch->size_bytes;
    checked->moving_count++;
}

static void count_in(struct binadei_watch_queue *queue,
                     const struct binadei_watch *watch)
{
    queue->count++;
    queue->bytes += watch->base_bytes;
}

void binadei_queue_append(struct binadei_watch_queue *queue,
                          struct binadei_watch *watch)
{
    watch->next = NULL;
    watch->previous = queue->last;
    if (queue->last)
        queue->last->next = watch;
    else
        queue->first = watch;
    queue->last = watch;
    count_in(queue, watch);
}

void binadei_queue_remove(struct binadei_watch_queue *queue,
                          struct binadei_watch *watch)
{
    if (watch->previous)
        watch->previous->next = watch->next;
    else
        queue->first = watch->next;
    if (watch->next)
        watch->next->previous = watch->previous;
    else
        queue->last = watch->previous;
    watch->next = NULL;
    watch->previous = NULL;
    queue->count--;
    queue->bytes -= watch->base_bytes;
}

void binadei_watch_show(const struct binadei_watch *watch,
                        struct binadei_watch *out)
{
    out->address = watch->address;
    out->size_bytes = watch->size_bytes;
    out->sequence = watch->sequence;
    memcpy(out->tenant_name, watch->tenant_name, sizeof(out->tenant_name));
    out->allocated = watch->allocated;
    out->is_freed = watch->is_freed;
    out->freed = watch->freed;
}

void binadei_watch_clear(struct binadei_checked *checked)
{
    for (unsigned i = 0; i < BINADEI_WATCH_BUCKETS; i++) {
        while (checked->buckets[i]) {
            struct binadei_watch *watch = checked->buckets[i];
            checked->buckets[i] = watch->next_in_bucket;
            free(watch);
        }
    }
}

void binadei_shelf_add_stray(struct binadei_checked *checked,
                             struct binadei_watch *stray)
{
    pthread_mutex_lock(&checked->lock);
    stray->state = BINADEI_WATCH_HELD;
    binadei_queue_append(&checked->held, stray);
    pthread_mutex_unlock(&checked->lock);
}
