/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/replay/trace/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/replay/trace/fields.h"

#define SIZE_BYTES_MAX (UINT64_C(1) << 48)
#define LIVE_BYTES_MAX (UINT64_C(1) << 60)
#define TIME_NS_MAX (UINT64_MAX >> 1)

/* What follows the thread: i id, z size, Z any size, s stream, g a tag that may
 * be missing. */
static const struct form {
    char letter;
    const char *fields;
} forms[] = {
    {'a', "izsg"}, {'f', "is"}, {'s', "is"},  {'w', "i"},
    {'q', "is"},   {'u', "is"}, {'x', "i"},   {'r', "s"},
    {'g', "zs"},   {'t', "zs"}, {'o', "Zsg"},
};

static const char *fields_of(char letter)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (forms[i].letter == letter)
            return forms[i].fields;
    return NULL;
}

__attribute__((format(printf, 2, 3))) static bool
refuse(struct replay_trace *trace, const char *format, ...)
{
    char text[REPLAY_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)replay_fail(&trace->error, trace->lines.number, "%s", text);
    return false;
}

/* The allocation of an id, whose table doubles; NULL: there is no memory. */
static struct replay_living *living_of(struct replay_trace *trace, uint32_t id)
{
    uint32_t room = trace->living_room ? trace->living_room : 64;
    while (room <= id)
        room *= 2;
    if (room > trace->living_room) {
        struct replay_living *larger =
            realloc(trace->living, room * sizeof(*larger));
        if (!larger)
            return NULL;
        memset(larger + trace->living_room, 0,
               (room - trace->living_room) * sizeof(*larger));
        trace->living = larger;
        trace->living_room = room;
    }
    return &trace->living[id];
}

static bool alloc_lives(struct replay_trace *trace,
                        const struct replay_event *event)
{
    struct replay_living *one = living_of(trace, event->id);
    if (!one)
        return refuse(trace, "there is no memory to read it");
    if (one->is_live)
        return refuse(trace, "%" PRIu32 " is allocated, but it was not freed",
                      event->id);
    if (trace->live_bytes + event->size_bytes > LIVE_BYTES_MAX)
        return refuse(trace, "more than %" PRIu64 " bytes are live",
                      LIVE_BYTES_MAX);
    *one = (struct replay_living){event->size_bytes, true, false};
    trace->live_count++;
    trace->live_bytes += event->size_bytes;
    if (trace->live_bytes > trace->peak_live_bytes)
        trace->peak_live_bytes = trace->live_bytes;
    return true;
}

static bool use_lives(struct replay_trace *trace, struct replay_event *event)
{
    struct replay_living *one =
        event->id < trace->living_room ? &trace->living[event->id] : NULL;
    if (!one || !one->is_live)
        return refuse(trace, "%c of %" PRIu32 ", which is not allocated",
                      event->kind, event->id);
    if (strchr("fsw", event->kind)) {
        event->size_bytes = one->size_bytes;
        trace->live_count--;
        trace->live_bytes -= one->size_bytes;
        *one = (struct replay_living){0};
        return true;
    }
    if (one->is_requested)
        return refuse(trace,
                      "%c of %" PRIu32 ", of which a free was requested before",
                      event->kind, event->id);
    one->is_requested = event->kind == 'q';
    return true;
}

static bool set_index(struct replay_trace *trace, const char *what,
                      uint64_t index, uint32_t count, uint32_t *out)
{
    if (index >= count)
        return refuse(trace, "the %s %" PRIu64 " was not defined before", what,
                      index);
    *out = (uint32_t)index;
    return true;
}

static bool set_id(struct replay_trace *trace, uint64_t id, uint32_t *out)
{
    if (id >= REPLAY_LIVE_COUNT_MAX)
        return refuse(trace,
                      "the id %" PRIu64 " is not below %u: `moiety trace "
                      "convert` makes ids small",
                      id, REPLAY_LIVE_COUNT_MAX);
    *out = (uint32_t)id;
    return true;
}

static bool set_size(struct replay_trace *trace, uint64_t size_bytes,
                     uint64_t *out)
{
    if (size_bytes > SIZE_BYTES_MAX)
        return refuse(trace, "the size, %" PRIu64 " bytes, is above 2^48",
                      size_bytes);
    *out = size_bytes;
    return true;
}

static bool set_field(struct replay_trace *trace, char field, uint64_t number,
                      struct replay_event *out)
{
    uint32_t tag;
    switch (field) {
    case 'i':
        return set_id(trace, number, &out->id);
    case 'z':
        return set_size(trace, number, &out->size_bytes);
    case 's':
        return set_index(trace, "stream", number, trace->stream_count,
                         &out->stream);
    case 'g':
        return set_index(trace, "tag", number, trace->tag_count, &tag);
    default: /* what failed for any size */
        out->size_bytes = number;
        return true;
    }
}

/* All numbers are read before any is looked at. */
static uint32_t take_numbers(const char *at, const char *fields, uint64_t *out)
{
    uint32_t wanted = (uint32_t)strlen(fields);
    uint32_t count = 0;
    for (; count < wanted && *at; count++)
        if (!replay_take_space(&at) || !replay_take_number(&at, &out[count]))
            return 0;
    if (*at)
        return 0;
    bool is_whole =
        count == wanted || (count + 1 == wanted && fields[wanted - 1] == 'g');
    return is_whole ? count : 0;
}

static bool set_time(struct replay_trace *trace, uint64_t since_ns,
                     struct replay_event *out)
{
    if (since_ns > TIME_NS_MAX - trace->time_ns)
        return refuse(trace, "the time is above 2^63 ns");
    trace->time_ns += since_ns;
    out->time_ns = trace->time_ns;
    return true;
}

static bool read_operation(struct replay_trace *trace, const char *line,
                           const char *own, struct replay_event *out)
{
    /* Every kind begins with the time and the thread. */
    char fields[8] = "nt";
    uint64_t numbers[8];
    (void)strcat(fields, own);
    uint32_t count = take_numbers(line + 1, fields, numbers);
    if (count == 0)
        return refuse(trace, "'%.60s' is no line of an operation", line);
    *out = (struct replay_event){.kind = line[0]};
    if (!set_time(trace, numbers[0], out) ||
        !set_index(trace, "thread", numbers[1], trace->thread_count,
                   &out->thread))
        return false;
    for (uint32_t i = 2; i < count; i++)
        if (!set_field(trace, fields[i], numbers[i], out))
            return false;
    trace->operation_count++;
    if (line[0] == 'a')
        return alloc_lives(trace, out);
    return own[0] != 'i' || use_lives(trace, out);
}

static bool is_key(const char *text, size_t length)
{
    return length > 0 && length <= REPLAY_KEY_BYTES_MAX && *text >= 'a' &&
           *text <= 'z' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") >= length;
}

static bool read_info(struct replay_trace *trace, const char *line)
{
    const char *key = line + 2;
    size_t length = strcspn(key, " ");
    const char *text = key + length + 1;
    if (line[1] != ' ' || !is_key(key, length) || !key[length] ||
        !replay_is_text(text, strlen(text)))
        return refuse(trace, "'%.60s' is not of the form I KEY TEXT", line);
    if (trace->info_count == REPLAY_INFO_COUNT_MAX)
        return refuse(trace, "more than %u I lines", REPLAY_INFO_COUNT_MAX);
    struct replay_info *info = &trace->infos[trace->info_count];
    (void)snprintf(info->key, sizeof(info->key), "%.*s", (int)length, key);
    (void)snprintf(info->text, sizeof(info->text), "%s", text);
    for (uint32_t i = 0; i < trace->info_count; i++)
        if (strcmp(trace->infos[i].key, info->key) == 0)
            return refuse(trace, "a second I line for %s", info->key);
    trace->info_count++;
    return true;
}

static bool set_name(struct replay_trace *trace, const char *line,
                     const char *name, uint32_t index)
{
    uint64_t handle = 0;
    if (line[0] != 'S')
        return true;
    if (!replay_is_stream(name, &handle))
        return refuse(trace,
                      "the stream '%.60s' is neither 0x and hexadecimal "
                      "digits nor a word for one",
                      name);
    trace->streams[index] = handle;
    return true;
}

static bool read_definition(struct replay_trace *trace, const char *line,
                            uint32_t *count)
{
    const char *at = line + 1;
    uint64_t index = 0;
    if (!replay_take_space(&at) || !replay_take_number(&at, &index) ||
        !replay_take_space(&at) || !replay_is_text(at, strlen(at)))
        return refuse(trace, "'%.60s' is not of the form %c INDEX NAME", line,
                      line[0]);
    if (index != *count)
        return refuse(trace, "%" PRIu64 " is defined where %" PRIu32 " is next",
                      index, *count);
    if (index == REPLAY_NAME_COUNT_MAX)
        return refuse(trace, "more than %u %c lines", REPLAY_NAME_COUNT_MAX,
                      line[0]);
    if (!set_name(trace, line, at, *count))
        return false;
    (*count)++;
    return true;
}

static bool define(struct replay_trace *trace, const char *line)
{
    switch (line[0]) {
    case 'I':
        return read_info(trace, line);
    case 'T':
        return read_definition(trace, line, &trace->thread_count);
    case 'S':
        return read_definition(trace, line, &trace->stream_count);
    case 'G':
        return read_definition(trace, line, &trace->tag_count);
    default:
        return refuse(trace, "'%.60s' is no line of a trace", line);
    }
}

static bool read_end(struct replay_trace *trace, const char *line)
{
    const char *at = line + 1;
    uint64_t count;
    if (!replay_take_space(&at) || !replay_take_number(&at, &count) || *at)
        return refuse(trace, "'%.60s' is not of the form E OPERATIONS", line);
    if (count != trace->operation_count)
        return refuse(trace,
                      "%" PRIu64 " operations were read, the end says %" PRIu64,
                      trace->operation_count, count);
    return true;
}

static enum replay_result expect_nothing(struct replay_trace *trace)
{
    char *line;
    size_t length;
    enum replay_result result =
        replay_lines_next(&trace->lines, &line, &length, &trace->error);
    if (result == REPLAY_MORE)
        (void)refuse(trace, "lines follow the end");
    return result == REPLAY_END ? REPLAY_END : REPLAY_WRONG;
}

enum replay_result replay_trace_next(struct replay_trace *trace,
                                     struct replay_event *out)
{
    for (;;) {
        char *line;
        size_t length;
        enum replay_result result =
            replay_lines_next(&trace->lines, &line, &length, &trace->error);
        if (result == REPLAY_END)
            return replay_fail(&trace->error, trace->lines.number + 1,
                               "there is no E line: the file is cut off");
        if (result == REPLAY_WRONG)
            return REPLAY_WRONG;
        const char *fields = *line ? fields_of(*line) : NULL;
        if (fields)
            return read_operation(trace, line, fields, out) ? REPLAY_MORE
                                                            : REPLAY_WRONG;
        if (*line == 'E')
            return read_end(trace, line) ? expect_nothing(trace) : REPLAY_WRONG;
        if (!define(trace, line))
            return REPLAY_WRONG;
    }
}

static bool expect_first_line(struct replay_trace *trace)
{
    char *line;
    size_t length;
    enum replay_result result =
        replay_lines_next(&trace->lines, &line, &length, &trace->error);
    if (result == REPLAY_WRONG)
        return false;
    if (result == REPLAY_END) {
        (void)replay_fail(&trace->error, 1, "the file is empty");
        return false;
    }
    if (strcmp(line, "moiety-trace 1") == 0)
        return true;
    if (strncmp(line, "moiety-trace ", 13) == 0)
        return refuse(trace, "'%.60s': this reader knows version 1", line);
    if (strncmp(line, "\x1f\x8b", 2) == 0)
        return refuse(trace, "it is compressed: gunzip it first");
    return refuse(trace, "'%.60s' begins no trace", line);
}

static bool make_tables(struct replay_trace *trace)
{
    trace->infos = calloc(REPLAY_INFO_COUNT_MAX, sizeof(*trace->infos));
    trace->streams = calloc(REPLAY_NAME_COUNT_MAX, sizeof(*trace->streams));
    if (trace->infos && trace->streams)
        return true;
    (void)replay_fail(&trace->error, 0, "there is no memory to read it");
    return false;
}

bool replay_trace_open(struct replay_trace *trace, const char *path)
{
    *trace = (struct replay_trace){.lines.file = -1};
    if (replay_lines_open(&trace->lines, path, &trace->error) &&
        make_tables(trace) && expect_first_line(trace))
        return true;
    replay_trace_close(trace);
    return false;
}

bool replay_trace_rewind(struct replay_trace *trace)
{
    if (trace->living)
        memset(trace->living, 0, trace->living_room * sizeof(*trace->living));
    trace->info_count = 0;
    trace->thread_count = 0;
    trace->stream_count = 0;
    trace->tag_count = 0;
    trace->live_count = 0;
    trace->live_bytes = 0;
    trace->peak_live_bytes = 0;
    trace->operation_count = 0;
    trace->time_ns = 0;
    return replay_lines_rewind(&trace->lines, &trace->error) &&
           expect_first_line(trace);
}

void replay_trace_complain(const struct replay_trace *trace, const char *path)
{
    const struct replay_error *error = &trace->error;
    if (error->line)
        (void)fprintf(stderr, "replay: %s, line %" PRIu64 ": %s\n", path,
                      error->line, error->text);
    else
        (void)fprintf(stderr, "replay: %s: %s\n", path, error->text);
}

void replay_trace_close(struct replay_trace *trace)
{
    replay_lines_close(&trace->lines);
    free(trace->infos);
    free(trace->streams);
    free(trace->living);
    trace->infos = NULL;
    trace->streams = NULL;
    trace->living = NULL;
}
