/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/observe/trace/record_queue.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4096U
#define FIRST_RUNS 64U

moiety_history_entry *
moietyi_record_queue_room(struct moietyi_record_queue *queue)
{
    if (queue->count == queue->capacity) {
        size_t capacity =
            queue->capacity ? 2 * queue->capacity : FIRST_CAPACITY;
        moiety_history_entry *entries =
            realloc(queue->entries, capacity * sizeof(*entries));
        if (!entries)
            return NULL;
        queue->entries = entries;
        queue->capacity = capacity;
    }
    return &queue->entries[queue->count];
}

static bool begin_run(struct moietyi_record_queue *queue, uint64_t ticks)
{
    if (queue->run_count == queue->run_capacity) {
        size_t capacity =
            queue->run_capacity ? 2 * queue->run_capacity : FIRST_RUNS;
        struct moietyi_record_run *runs =
            realloc(queue->runs, capacity * sizeof(*runs));
        if (!runs)
            return false;
        queue->runs = runs;
        queue->run_capacity = capacity;
    }
    queue->runs[queue->run_count++] =
        (struct moietyi_record_run){ticks, queue->count, queue->count};
    queue->is_run_open = true;
    return true;
}

bool moietyi_record_queue_append(struct moietyi_record_queue *queue)
{
    const moiety_history_entry *entry = &queue->entries[queue->count];
    /* A call that gives back has its time from its beginning, so it may be
     * behind what it did in between. */
    bool goes_on = queue->is_run_open && entry[-1].time_ns <= entry->time_ns;
    if (!goes_on && !begin_run(queue, entry->time_ns))
        return false;
    queue->runs[queue->run_count - 1].end = ++queue->count;
    return true;
}

/* Lets a run sink to where no earlier one is below it. */
static void sink(struct moietyi_record_queue *queue, size_t at)
{
    struct moietyi_record_run run = queue->runs[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= queue->run_count)
            break;
        if (child + 1 < queue->run_count &&
            queue->runs[child + 1].ticks < queue->runs[child].ticks)
            child++;
        if (run.ticks <= queue->runs[child].ticks)
            break;
        queue->runs[at] = queue->runs[child];
        at = child;
    }
    queue->runs[at] = run;
}

void moietyi_record_queue_begin(struct moietyi_record_queue *queue)
{
    for (size_t i = queue->run_count / 2; i-- > 0;)
        sink(queue, i);
}

moiety_history_entry *
moietyi_record_queue_next(struct moietyi_record_queue *queue, uint64_t limit)
{
    struct moietyi_record_run *first = queue->runs;
    if (!queue->run_count || first->ticks >= limit)
        return NULL;
    moiety_history_entry *entry = &queue->entries[first->at++];
    if (first->at == first->end)
        *first = queue->runs[--queue->run_count];
    else
        first->ticks = entry[1].time_ns;
    if (queue->run_count)
        sink(queue, 0);
    return entry;
}

static int record_queue_compare(const void *left, const void *right)
{
    const struct moietyi_record_run *a = left;
    const struct moietyi_record_run *b = right;
    return (a->at > b->at) - (a->at < b->at);
}

void moietyi_record_queue_end(struct moietyi_record_queue *queue)
{
    /* In the order of their places, so that none goes over another. */
    if (queue->run_count)
        qsort(queue->runs, queue->run_count, sizeof(*queue->runs),
              record_queue_compare);
    queue->count = 0;
    for (size_t i = 0; i < queue->run_count; i++) {
        struct moietyi_record_run *run = &queue->runs[i];
        size_t length = run->end - run->at;
        memmove(queue->entries + queue->count, queue->entries + run->at,
                length * sizeof(*queue->entries));
        run->at = queue->count;
        queue->count += length;
        run->end = queue->count;
    }
    queue->is_run_open = false;
}

void moietyi_record_queue_fini(struct moietyi_record_queue *queue)
{
    free(queue->entries);
    free(queue->runs);
}
