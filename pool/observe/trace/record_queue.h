/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Entries of a history that are on their way into a trace: in runs, each of them
 * one ring's and in the order of its times, that are merged as they are written.
 * For one thread at a time.
 */
#ifndef BINADE_POOL_OBSERVE_TRACE_RECORD_QUEUE_H_
#define BINADE_POOL_OBSERVE_TRACE_RECORD_QUEUE_H_

#include <stdbool.h>
#include <stddef.h>

#include "binade/history.h"

struct binadei_record_run {
    uint64_t ticks; /* of the first */
    size_t at;
    size_t end;
};

/* All zeroes: it is empty. */
struct binadei_record_queue {
    binade_history_entry *entries; /* time_ns is in ticks */
    size_t count;
    size_t capacity;
    struct binadei_record_run *runs; /* a heap while it is merged */
    size_t run_count;
    size_t run_capacity;
    bool is_run_open; /* the last run takes entries */
};

/* What is appended next is of another ring. */
static inline void binadei_record_queue_part(struct binadei_record_queue *queue)
{
    queue->is_run_open = false;
}

/* Where the next entry is to be put; NULL: no memory. */
binade_history_entry *
binadei_record_queue_room(struct binadei_record_queue *queue);
/* It was put there. False: no memory, and it was not. */
bool binadei_record_queue_append(struct binadei_record_queue *queue);

/* Between these two nothing is appended. The earliest entry that is before the
 * limit, or NULL. It stays where it is until the end. */
void binadei_record_queue_begin(struct binadei_record_queue *queue);
binade_history_entry *
binadei_record_queue_next(struct binadei_record_queue *queue, uint64_t limit);
void binadei_record_queue_end(struct binadei_record_queue *queue);

void binadei_record_queue_fini(struct binadei_record_queue *queue);

#endif
