/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The blocks of a checked pool by address, and the queues that they are on.
 * Lookups of addresses that are no block's are for messages: they may be slow.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/checked/state.h"

static struct moietyi_block_record **
checked_table_bucket_of(struct moietyi_checked *checked, moiety_devptr address)
{
    uint64_t mixed =
        address / MOIETYI_GRAIN_BYTES * UINT64_C(0x9E3779B97F4A7C15);
    return &checked->buckets[(mixed >> 32) % MOIETYI_BLOCK_RECORD_BUCKETS];
}

struct moietyi_block_record *
moietyi_block_record_find(struct moietyi_checked *checked,
                          moiety_devptr address)
{
    struct moietyi_block_record *record =
        *checked_table_bucket_of(checked, address);
    while (record && record->address != address)
        record = record->next_in_bucket;
    return record;
}

static bool is_around(const struct moietyi_block_record *record,
                      moiety_devptr address)
{
    return address >= record->base &&
           address - record->base < record->base_bytes;
}

struct moietyi_block_record *
moietyi_block_record_around(struct moietyi_checked *checked,
                            moiety_devptr address)
{
    struct moietyi_block_record *found = NULL;
    for (unsigned i = 0; i < MOIETYI_BLOCK_RECORD_BUCKETS; i++) {
        struct moietyi_block_record *record = checked->buckets[i];
        for (; record; record = record->next_in_bucket)
            if (is_around(record, address) &&
                (!found || found->state == MOIETYI_BLOCK_GONE))
                found = record;
    }
    return found;
}

static void unlink_record(struct moietyi_checked *checked,
                          struct moietyi_block_record *record)
{
    struct moietyi_block_record **at =
        checked_table_bucket_of(checked, record->address);
    while (*at != record)
        at = &(*at)->next_in_bucket;
    *at = record->next_in_bucket;
}

static void checked_table_forget(struct moietyi_checked *checked,
                                 struct moietyi_block_record *record)
{
    moietyi_queue_remove(&checked->history, record);
    unlink_record(checked, record);
    free(record);
}

void moietyi_block_record_insert(struct moietyi_checked *checked,
                                 struct moietyi_block_record *record)
{
    struct moietyi_block_record *before =
        moietyi_block_record_find(checked, record->address);
    /* Only memory of a block that is gone can be given out again, or of one
     * that is going just now: its mover frees that. */
    if (before && before->state == MOIETYI_BLOCK_GONE) {
        checked_table_forget(checked, before);
    } else if (before) {
        unlink_record(checked, before);
        before->is_replaced = true;
    }
    struct moietyi_block_record **bucket =
        checked_table_bucket_of(checked, record->address);
    record->next_in_bucket = *bucket;
    *bucket = record;
}

void moietyi_block_record_remember(struct moietyi_checked *checked,
                                   struct moietyi_block_record *record)
{
    record->state = MOIETYI_BLOCK_GONE;
    moietyi_queue_append(&checked->history, record);
    if (checked->history.count > MOIETYI_HISTORY_BLOCKS)
        checked_table_forget(checked, checked->history.first);
}

void moietyi_block_record_set_freed(struct moietyi_checked *checked,
                                    struct moietyi_block_record *record,
                                    const struct moietyi_call_site *site)
{
    record->is_freed = true;
    record->freed = *site;
    checked->counts.live_blocks--;
    checked->counts.live_bytes -= record->size_bytes;
}

void moietyi_block_record_unset_freed(struct moietyi_checked *checked,
                                      struct moietyi_block_record *record)
{
    record->is_freed = false;
    checked->counts.live_blocks++;
    checked->counts.live_bytes += record->size_bytes;
}

void moietyi_block_record_count_free(struct moietyi_checked *checked,
                                     struct moietyi_block_record *record)
{
    record->free_sequence = ++checked->free_count;
    checked->free_bytes += record->size_bytes;
    checked->moving_count++;
}

static void count_in(struct moietyi_block_record_queue *queue,
                     const struct moietyi_block_record *record)
{
    queue->count++;
    queue->bytes += record->base_bytes;
}

void moietyi_queue_append(struct moietyi_block_record_queue *queue,
                          struct moietyi_block_record *record)
{
    record->next = NULL;
    record->previous = queue->last;
    if (queue->last)
        queue->last->next = record;
    else
        queue->first = record;
    queue->last = record;
    count_in(queue, record);
}

void moietyi_queue_remove(struct moietyi_block_record_queue *queue,
                          struct moietyi_block_record *record)
{
    if (record->previous)
        record->previous->next = record->next;
    else
        queue->first = record->next;
    if (record->next)
        record->next->previous = record->previous;
    else
        queue->last = record->previous;
    record->next = NULL;
    record->previous = NULL;
    queue->count--;
    queue->bytes -= record->base_bytes;
}

void moietyi_block_record_show(const struct moietyi_block_record *record,
                               struct moietyi_block_record *out)
{
    out->address = record->address;
    out->size_bytes = record->size_bytes;
    out->sequence = record->sequence;
    memcpy(out->tenant_name, record->tenant_name, sizeof(out->tenant_name));
    out->allocated = record->allocated;
    out->is_freed = record->is_freed;
    out->freed = record->freed;
}

void moietyi_block_record_clear(struct moietyi_checked *checked)
{
    for (unsigned i = 0; i < MOIETYI_BLOCK_RECORD_BUCKETS; i++) {
        while (checked->buckets[i]) {
            struct moietyi_block_record *record = checked->buckets[i];
            checked->buckets[i] = record->next_in_bucket;
            free(record);
        }
    }
}

void moietyi_quarantine_add_unissued(struct moietyi_checked *checked,
                                     struct moietyi_block_record *unissued)
{
    pthread_mutex_lock(&checked->lock);
    unissued->state = MOIETYI_BLOCK_HELD;
    moietyi_queue_append(&checked->held, unissued);
    pthread_mutex_unlock(&checked->lock);
}

uint64_t moietyi_checked_sequence(struct moietyi_checked *checked)
{
    pthread_mutex_lock(&checked->lock);
    uint64_t sequence = checked->sequence;
    pthread_mutex_unlock(&checked->lock);
    return sequence;
}

static const struct moietyi_block_record *
find_live(const struct moietyi_block_record *record, uint64_t sequence)
{
    while (record &&
           (record->state != MOIETYI_BLOCK_LIVE || record->sequence > sequence))
        record = record->next_in_bucket;
    return record;
}

moiety_devptr moietyi_checked_live(struct moietyi_checked *checked,
                                   uint64_t sequence, uint32_t *bucket)
{
    const struct moietyi_block_record *found = NULL;
    pthread_mutex_lock(&checked->lock);
    for (; *bucket < MOIETYI_BLOCK_RECORD_BUCKETS; ++*bucket) {
        found = find_live(checked->buckets[*bucket], sequence);
        if (found)
            break;
    }
    moiety_devptr address = found ? found->address : 0;
    pthread_mutex_unlock(&checked->lock);
    return address;
}
