/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/replay/trace/source.h"

#include <stdlib.h>
#include <string.h>

#include "bench/replay/trace/fields.h"
#include "bench/subjects/subject.h"

/* Of what asks for no bytes: nothing is allocated. */
#define NO_BLOCK UINT32_MAX

static bool is_free(char kind)
{
    return kind == 'f' || kind == 's' || kind == 'w';
}

static uint32_t stream_number(const struct replay_source *source,
                              uint32_t index, uint32_t thread)
{
    switch (source->trace.streams[index]) {
    case REPLAY_HANDLE_ANY:
        return SUBJECT_STREAM_ANY;
    case REPLAY_HANDLE_DONE:
        return SUBJECT_STREAM_DONE;
    case REPLAY_HANDLE_PER_THREAD:
        return source->about.stream_count - source->run_threads + thread;
    default:
        return index;
    }
}

static uint32_t new_block(struct replay_source *source)
{
    if (source->spare_count > 0)
        return source->spare[--source->spare_count];
    return source->next_block++;
}

static void add_alloc(struct replay_source *source,
                      const struct replay_event *event)
{
    if (event->size_bytes == 0) {
        source->block_of_id[event->id] = NO_BLOCK;
        return;
    }
    uint32_t block = new_block(source);
    uint32_t part = (uint32_t)(source->alloc_count++ % source->spread);
    uint32_t thread = event->thread + source->about.thread_count * part;
    uint32_t stream = stream_number(source, event->stream, thread);
    source->block_of_id[event->id] = block;
    source->part_of_block[block] = (uint8_t)part;
    source->ops[source->op_count++] = (struct replay_op){
        .time_ns = event->time_ns,
        .size_bytes = event->size_bytes,
        .block = block,
        .stream = stream < SUBJECT_STREAM_DONE ? stream : 0,
        .thread = thread,
        .is_alloc = true,
    };
}

static void add_free(struct replay_source *source,
                     const struct replay_event *event)
{
    uint32_t block = source->block_of_id[event->id];
    if (block == NO_BLOCK)
        return;
    uint32_t part = source->part_of_block[block];
    uint32_t thread = event->thread + source->about.thread_count * part;
    source->ended[source->ended_count++] = block;
    source->ops[source->op_count++] = (struct replay_op){
        .time_ns = event->time_ns,
        .size_bytes = event->size_bytes,
        .block = block,
        /* What waited for an event is not bound to a stream. */
        .stream = event->kind == 'w'
                      ? SUBJECT_STREAM_ANY
                      : stream_number(source, event->stream, thread),
        .thread = thread,
    };
}

static void add(struct replay_source *source, const struct replay_event *event)
{
    if (event->kind == 'a')
        add_alloc(source, event);
    else if (is_free(event->kind))
        add_free(source, event);
}

static void give_ended_again(struct replay_source *source)
{
    memcpy(source->spare + source->spare_count, source->ended,
           source->ended_count * sizeof(*source->ended));
    source->spare_count += source->ended_count;
    source->ended_count = 0;
}

enum replay_result replay_source_next(struct replay_source *source)
{
    give_ended_again(source);
    source->op_count = 0;
    while (source->op_count < REPLAY_WINDOW_COUNT && !source->is_over) {
        struct replay_event event;
        enum replay_result result = replay_trace_next(&source->trace, &event);
        if (result == REPLAY_WRONG)
            return REPLAY_WRONG;
        source->is_over = result == REPLAY_END;
        if (result == REPLAY_MORE)
            add(source, &event);
    }
    return source->op_count > 0 ? REPLAY_MORE : REPLAY_END;
}

bool replay_source_rewind(struct replay_source *source)
{
    source->is_over = false;
    source->op_count = 0;
    source->spare_count = 0;
    source->ended_count = 0;
    source->next_block = 0;
    source->alloc_count = 0;
    return replay_trace_rewind(&source->trace);
}

/* What the recorded allocator had before the first operation. */
static uint64_t reserved_before(const struct replay_trace *trace)
{
    for (uint32_t i = 0; i < trace->info_count; i++) {
        const char *at = trace->infos[i].text;
        uint64_t bytes;
        if (strcmp(trace->infos[i].key, "reserved_before_bytes") == 0 &&
            replay_take_number(&at, &bytes) && !*at)
            return bytes;
    }
    return SUBJECT_UNKNOWN;
}

/* `now`: since the first operation, where more may be trimmed than had grown.
 */
static void add_reserved(const struct replay_event *event, int64_t *now,
                         int64_t *highest)
{
    if (event->kind == 'g')
        *now += (int64_t)event->size_bytes;
    else if (event->kind == 't')
        *now -= (int64_t)event->size_bytes;
    if (*now > *highest)
        *highest = *now;
}

/* To the end, to know how much of everything there is. */
static bool look(struct replay_source *source)
{
    struct replay_trace *trace = &source->trace;
    struct replay_about *about = &source->about;
    struct replay_event event;
    uint64_t first_ns = UINT64_MAX;
    int64_t reserved = 0;
    int64_t highest = 0;
    enum replay_result result;
    while ((result = replay_trace_next(trace, &event)) == REPLAY_MORE) {
        add_reserved(&event, &reserved, &highest);
        about->call_count += is_free(event.kind) || event.kind == 'a';
        if (first_ns == UINT64_MAX)
            first_ns = event.time_ns;
    }
    for (uint32_t i = 0; i < trace->stream_count; i++) {
        source->has_own_streams |=
            trace->streams[i] == REPLAY_HANDLE_PER_THREAD;
        about->has_any |= trace->streams[i] == REPLAY_HANDLE_ANY;
    }
    about->peak_reserved_bytes = reserved_before(trace);
    if (about->peak_reserved_bytes != SUBJECT_UNKNOWN)
        about->peak_reserved_bytes += (uint64_t)highest;
    about->operation_count = trace->operation_count;
    about->peak_live_bytes = trace->peak_live_bytes;
    about->duration_ns = about->operation_count ? trace->time_ns - first_ns : 0;
    about->thread_count = trace->thread_count ? trace->thread_count : 1;
    about->stream_count = trace->stream_count ? trace->stream_count : 1;
    return result == REPLAY_END;
}

static void deal(struct replay_source *source, uint32_t threads)
{
    struct replay_about *about = &source->about;
    source->spread =
        threads > about->thread_count ? threads / about->thread_count : 1;
    source->run_threads = about->thread_count * source->spread;
    if (source->has_own_streams)
        about->stream_count += source->run_threads;
}

/* What is live, and what a window allocates, has a number. Pages of it that are
 * not used cost nothing. */
static bool make_tables(struct replay_source *source)
{
    source->block_room = REPLAY_LIVE_COUNT_MAX + REPLAY_WINDOW_COUNT;
    source->ops = calloc(REPLAY_WINDOW_COUNT, sizeof(*source->ops));
    source->block_of_id =
        calloc(REPLAY_LIVE_COUNT_MAX, sizeof(*source->block_of_id));
    source->spare = calloc(source->block_room, sizeof(*source->spare));
    source->ended = calloc(REPLAY_WINDOW_COUNT, sizeof(*source->ended));
    source->part_of_block =
        calloc(source->block_room, sizeof(*source->part_of_block));
    if (source->ops && source->block_of_id && source->spare && source->ended &&
        source->part_of_block)
        return true;
    (void)replay_fail(&source->trace.error, 0, "there is no memory to read it");
    return false;
}

bool replay_source_open(struct replay_source *source, const char *path,
                        uint32_t threads)
{
    *source = (struct replay_source){0};
    if (!replay_trace_open(&source->trace, path))
        return false;
    if (!make_tables(source) || !look(source)) {
        replay_source_close(source);
        return false;
    }
    deal(source, threads);
    return true;
}

void replay_source_close(struct replay_source *source)
{
    replay_trace_close(&source->trace);
    free(source->ops);
    free(source->block_of_id);
    free(source->spare);
    free(source->ended);
    free(source->part_of_block);
    source->ops = NULL;
    source->block_of_id = NULL;
    source->spare = NULL;
    source->ended = NULL;
    source->part_of_block = NULL;
}
