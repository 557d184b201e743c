/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The owner of a block writes its record, without a lock. Segments and the
 * streams' work, which change rarely, are written under one.
 */
#include "tests/oom/oracle/judge/history_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void history_require(bool condition, const char *what)
{
    if (condition)
        return;
    (void)fprintf(stderr, "the history: %s\n", what);
    abort();
}

void *history_array_add(struct history_array *array, size_t item_bytes)
{
    if (array->count == array->capacity) {
        array->capacity = array->capacity ? 2 * array->capacity : 16;
        array->items = realloc(array->items, array->capacity * item_bytes);
        history_require(array->items != NULL, "no memory");
    }
    return (char *)array->items + item_bytes * array->count++;
}

struct history *history_create(size_t block_capacity)
{
    struct history *history = calloc(1, sizeof(*history));
    if (!history)
        return NULL;
    (void)pthread_mutex_init(&history->lock, NULL);
    history->capacity = block_capacity;
    history->blocks = calloc(block_capacity, sizeof(*history->blocks));
    history->ranges = calloc(block_capacity, sizeof(*history->ranges));
    if (history->blocks && history->ranges)
        return history;
    history_destroy(history);
    return NULL;
}

void history_destroy(struct history *history)
{
    if (!history)
        return;
    for (unsigned i = 0; i < HISTORY_STREAMS; i++)
        free(history->busy[i].items);
    free(history->segments.items);
    free(history->blocks);
    free(history->ranges);
    free(history->ranges_and_segments);
    free(history->places);
    free(history->present.items);
    free(history->spread.items);
    free(history->taken.items);
    (void)pthread_mutex_destroy(&history->lock);
    free(history);
}

struct history_block *history_add_block(struct history *history,
                                        uint64_t address, uint64_t size_bytes,
                                        struct history_span alloc)
{
    size_t index = atomic_fetch_add(&history->count, 1);
    if (index >= history->capacity)
        return NULL;
    struct history_block *block = &history->blocks[index];
    *block = (struct history_block){
        .address = address,
        .size_bytes = size_bytes,
        .alloc = alloc,
        .freed = {.call = {HISTORY_NEVER, HISTORY_NEVER}},
        .segment = HISTORY_NO_SEGMENT,
    };
    return block;
}

void history_begin_busy(struct history *history, uint32_t stream, uint64_t at)
{
    pthread_mutex_lock(&history->lock);
    struct history_span *span =
        history_array_add(&history->busy[stream], sizeof(*span));
    *span = (struct history_span){at, HISTORY_NEVER};
    pthread_mutex_unlock(&history->lock);
}

void history_end_busy(struct history *history, uint32_t stream, uint64_t at)
{
    pthread_mutex_lock(&history->lock);
    struct history_array *busy = &history->busy[stream];
    struct history_span *spans = busy->items;
    history_require(busy->count && spans[busy->count - 1].end == HISTORY_NEVER,
                    "the stream is not busy");
    spans[busy->count - 1].end = at;
    pthread_mutex_unlock(&history->lock);
}

/* Lock held. */
static struct history_piece *add_piece(struct history *history,
                                       uint64_t address, uint64_t size_bytes,
                                       uint64_t at)
{
    struct history_piece *piece =
        history_array_add(&history->segments, sizeof(*piece));
    *piece = (struct history_piece){
        .address = address,
        .size_bytes = size_bytes,
        .life = {at, HISTORY_NEVER},
        .from = HISTORY_NO_SEGMENT,
    };
    if (history->segments.count == 1 || address < history->base)
        history->base = address;
    return piece;
}

/* The last that was at the address, which is there if `is_there`, and otherwise was
 * removed; lock held. */
static size_t find_piece(const struct history *history, uint64_t address,
                         bool is_there)
{
    const struct history_piece *pieces = history->segments.items;
    size_t i = history->segments.count;
    while (i && !(pieces[i - 1].address == address &&
                  (pieces[i - 1].life.end == HISTORY_NEVER) == is_there))
        i--;
    history_require(i != 0, "the pool gives back what it has not got");
    return i - 1;
}

void history_add_segment(struct history *history, uint64_t address,
                         uint64_t size_bytes, uint64_t at)
{
    pthread_mutex_lock(&history->lock);
    (void)add_piece(history, address, size_bytes, at);
    pthread_mutex_unlock(&history->lock);
}

void history_remove_segment(struct history *history, uint64_t address,
                            uint64_t at)
{
    pthread_mutex_lock(&history->lock);
    struct history_piece *pieces = history->segments.items;
    pieces[find_piece(history, address, true)].life.end = at;
    pthread_mutex_unlock(&history->lock);
}

void history_move_segment(struct history *history, uint64_t from_address,
                          uint64_t address, uint32_t stream, uint64_t at)
{
    pthread_mutex_lock(&history->lock);
    size_t from = find_piece(history, from_address, false);
    const struct history_piece *pieces = history->segments.items;
    struct history_piece *piece =
        add_piece(history, address, pieces[from].size_bytes, at);
    piece->from = from;
    piece->mover = stream;
    pthread_mutex_unlock(&history->lock);
}

/* Whether the block lies there, and the segment was still there when somebody
 * began to free it. Of several that were at the address, one after the other,
 * the first that does is the block's. */
static bool holds(const struct history_piece *piece,
                  const struct history_block *block)
{
    /* Addresses below wrap around. */
    return block->address - piece->address < piece->size_bytes &&
           piece->life.end >= block->freed.call.begin;
}

static const struct history_piece *segment_of(const struct history *history,
                                              struct history_block *block)
{
    const struct history_piece *pieces = history->segments.items;
    size_t count = history->segments.count;
    if (block->segment == HISTORY_NO_SEGMENT)
        for (size_t i = 0; i < count && block->segment == HISTORY_NO_SEGMENT;
             i++)
            if (holds(&pieces[i], block))
                block->segment = i;
    history_require(block->segment != HISTORY_NO_SEGMENT,
                    "a block lies in no segment");
    return &pieces[block->segment];
}

/* The first time that the stream was busy and came to an end after `deadline`;
 * NULL: it was idle from then on. */
static const struct history_span *busy_after(const struct history_array *busy,
                                             uint64_t deadline)
{
    const struct history_span *spans = busy->items;
    size_t low = 0;
    size_t high = busy->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans[middle].end > deadline)
            high = middle;
        else
            low = middle + 1;
    }
    return low < busy->count ? &spans[low] : NULL;
}

bool history_is_pending(const struct history *history, uint64_t streams,
                        const struct history_failure *failure,
                        const struct history_rules *rules)
{
    uint64_t deadline = failure->call.begin + rules->wait_ns;
    for (uint64_t left = streams; left; left &= left - 1) {
        const struct history_span *span =
            busy_after(&history->busy[__builtin_ctzll(left)], deadline);
        if (span && span->begin <= failure->call.end)
            return true;
    }
    return false;
}

static void add_range(struct history *history, struct history_block *block,
                      bool is_usable)
{
    (void)segment_of(history, block);
    history->ranges[history->range_count++] = (struct fits_range){
        .address = block->address,
        .size_bytes = block->size_bytes,
        .segment = block->segment,
        .is_usable = is_usable,
    };
}

size_t history_block_count(const struct history *history)
{
    size_t count = atomic_load(&history->count);
    return count < history->capacity ? count : history->capacity;
}

/* Blocks that were in use at some moment of the call. */
static void add_live(struct history *history,
                     const struct history_failure *failure)
{
    size_t count = history_block_count(history);
    for (size_t i = 0; i < count; i++) {
        struct history_block *block = &history->blocks[i];
        if (block->alloc.begin <= failure->call.end &&
            block->freed.call.end >= failure->call.begin)
            add_range(history, block, false);
    }
}

/* Blocks that were freed before, and that the pool may not use yet. If it has
 * given their segment back, it might. */
static void add_pending(struct history *history,
                        const struct history_failure *failure,
                        const struct history_rules *rules)
{
    size_t count = history_block_count(history);
    for (size_t i = 0; i < count; i++) {
        struct history_block *block = &history->blocks[i];
        const struct history_free *freed = &block->freed;
        if (freed->call.end >= failure->call.begin ||
            !history_is_pending(history, freed->streams, failure, rules) ||
            segment_of(history, block)->life.end <= failure->call.end)
            continue;
        add_range(history, block,
                  freed->own_stream == failure->stream &&
                      freed->own_stream != HISTORY_NO_STREAM);
    }
}

/* What the pool had for part of the call only may have come too late for it, or
 * gone too early. */
static bool is_passing(const struct history_piece *piece,
                       const struct history_span *call)
{
    return piece->life.begin > call->begin || piece->life.end < call->end;
}

static void copy_segments(struct history *history,
                          const struct history_span *call)
{
    const struct history_piece *pieces = history->segments.items;
    size_t count = history->segments.count;
    free(history->places);
    history->places = calloc(count + 1, sizeof(*history->places));
    history_require(history->places != NULL, "no memory");
    for (size_t i = 0; i < count; i++)
        history->places[i] = (struct fits_segment){
            .address = pieces[i].address,
            .size_bytes = pieces[i].size_bytes,
            .is_passing = is_passing(&pieces[i], call),
        };
}

static struct fits_answer ask(const struct history *history,
                              const struct history_failure *failure,
                              const struct history_rules *rules)
{
    const struct fits_case question = {
        .limit_bytes = rules->limit_bytes,
        .needed_bytes = failure->needed_bytes,
        .segments = history->places,
        .ranges = history->ranges,
        .range_count = history->range_count,
    };
    return fits(&question);
}

static bool may_device_work(const struct history *history,
                            const struct history_failure *failure,
                            const struct history_rules *rules)
{
    uint64_t deadline = failure->call.begin + rules->wait_ns;
    bool may = rules->wait_ns == 0;
    for (unsigned i = 0; i < HISTORY_STREAMS && !may; i++) {
        const struct history_span *span =
            busy_after(&history->busy[i], deadline);
        may = span && span->begin <= failure->call.end;
    }
    return may;
}

/* No segment goes back, but each may be used as it is. */
static void add_segments(struct history *history)
{
    free(history->ranges_and_segments);
    history->ranges_and_segments =
        calloc(history->range_count + history->segments.count + 1,
               sizeof(*history->ranges));
    history_require(history->ranges_and_segments != NULL, "no memory");
    memcpy(history->ranges_and_segments, history->ranges,
           history->range_count * sizeof(*history->ranges));
    for (size_t i = 0; i < history->segments.count; i++)
        history->ranges_and_segments[history->range_count + i] =
            (struct fits_range){.address = history->places[i].address,
                                .segment = i,
                                .is_usable = true};
}

static bool fits_without_growing(struct history *history,
                                 const struct history_failure *failure,
                                 const struct history_rules *rules)
{
    add_segments(history);
    const struct fits_case question = {
        .limit_bytes = rules->limit_bytes,
        .needed_bytes = failure->needed_bytes,
        .segments = history->places,
        .ranges = history->ranges_and_segments,
        .range_count = history->range_count + history->segments.count,
    };
    return fits(&question).is_fitting;
}

/* Memory that is mapped goes back at any time, so there is nothing to excuse but what
 * is pending. */
static enum history_verdict judge_mapped(struct history *history,
                                         const struct history_failure *failure,
                                         const struct history_rules *rules,
                                         struct fits_answer *out)
{
    enum history_verdict verdict = HISTORY_TRUE;
    struct fits_answer answer =
        history_ask_mapped(history, failure, rules, HISTORY_LIVE);
    if (answer.is_fitting) {
        answer =
            history_ask_mapped(history, failure, rules, HISTORY_AND_PENDING);
        verdict = HISTORY_EXCUSED;
    }
    if (answer.is_fitting) {
        struct fits_answer beside =
            history_ask_mapped(history, failure, rules, HISTORY_AND_PLACES);
        verdict = beside.is_fitting ? HISTORY_FALSE : HISTORY_BY_PLACE;
    }
    if (out)
        *out = answer;
    return verdict;
}

enum history_verdict history_judge(struct history *history,
                                   const struct history_failure *failure,
                                   const struct history_rules *rules,
                                   struct fits_answer *out)
{
    enum history_verdict verdict = HISTORY_TRUE;
    if (rules->is_mapped)
        return judge_mapped(history, failure, rules, out);
    copy_segments(history, &failure->call);
    history->range_count = 0;
    add_live(history, failure);
    struct fits_answer answer = ask(history, failure, rules);
    if (answer.is_fitting) {
        add_pending(history, failure, rules);
        answer = ask(history, failure, rules);
        verdict = answer.is_fitting ? HISTORY_FALSE : HISTORY_EXCUSED;
    }
    if (verdict == HISTORY_FALSE && failure->is_held_up &&
        may_device_work(history, failure, rules) &&
        !fits_without_growing(history, failure, rules))
        verdict = HISTORY_EXCUSED;
    if (out)
        *out = answer;
    return verdict;
}

uint64_t history_needed_bytes(uint64_t size_bytes, uint64_t said_bytes)
{
    const uint64_t grain = FITS_GRAIN_BYTES;
    uint64_t least = (size_bytes + grain - 1) / grain * grain;
    uint64_t most = size_bytes <= UINT64_C(1) << 20
                        ? least + size_bytes / 8 + grain
                        : least + (UINT64_C(32) << 10);
    if (said_bytes < least)
        return least;
    return said_bytes < most ? said_bytes : most;
}
