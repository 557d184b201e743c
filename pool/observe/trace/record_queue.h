/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Entries of a history that are on their way into a trace: in runs, each of them
 * one ring's and in the order of its times, that are merged as they are written.
 * For one thread at a time.
 */
#ifndef MOIETY_POOL_OBSERVE_TRACE_RECORD_QUEUE_H_
#define MOIETY_POOL_OBSERVE_TRACE_RECORD_QUEUE_H_

#include <stdbool.h>
#include <stddef.h>

#include "moiety/history.h"

struct moietyi_record_run {
    uint64_t ticks; /* of the first */
    size_t at;
    size_t end;
};

/* All zeroes: it is empty. */
struct moietyi_record_queue {
    moiety_history_entry *entries; /* time_ns is in ticks */
    size_t count;
    size_t capacity;
    struct moietyi_record_run *runs; /* a heap while it is merged */
    size_t run_count;
    size_t run_capacity;
    bool is_run_open; /* the last run takes entries */
};

/* The next entries are of another ring. */
static inline void moietyi_record_queue_part(struct moietyi_record_queue *queue)
{
    queue->is_run_open = false;
}

/* Where the next entry is to be put; NULL: no memory. */
moiety_history_entry *
moietyi_record_queue_room(struct moietyi_record_queue *queue);
/* It was put there. False: no memory, and it was not. */
bool moietyi_record_queue_append(struct moietyi_record_queue *queue);

/* Between these two nothing is appended. The earliest entry that is before the
 * limit, or NULL. It stays where it is until the end. */
void moietyi_record_queue_begin(struct moietyi_record_queue *queue);
moiety_history_entry *
moietyi_record_queue_next(struct moietyi_record_queue *queue, uint64_t limit);
void moietyi_record_queue_end(struct moietyi_record_queue *queue);

void moietyi_record_queue_fini(struct moietyi_record_queue *queue);

#endif
