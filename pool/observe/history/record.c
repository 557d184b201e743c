/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of recording: arguments, and the names of files.
 */
#include "moiety/trace.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/cache/cache.h"
#include "pool/cache/gate.h"
#include "pool/config/conf.h"
#include "pool/config/options.h"
#include "pool/observe/history/record.h"
#include "pool/observe/trace/recorder.h"
#include "pool/ring/ring.h"

#define ENDING ".mtrace"
#define ENDING_LENGTH (sizeof(ENDING) - 1)
/* Of a number with its dot. */
#define NUMBER_BYTES 24U

/* Edge: none; relaxed: so that names differ. Pools that MOIETY_CONF has
 * recorded. */
static atomic_uint recorded_count;

/* Where "%p" stands for the process, or the end of `before` bytes. */
static struct moietyi_word find_process(struct moietyi_word word, size_t before)
{
    for (size_t i = 0; i + 1 < before; i++)
        if (word.text[i] == '%' && word.text[i + 1] == 'p')
            return (struct moietyi_word){word.text + i, 2};
    return (struct moietyi_word){word.text + before, 0};
}

/* "FILE.mtrace", "FILE.2.mtrace", "FILE.3.mtrace": one for each pool. */
static char *record_name_of(struct moietyi_word word, unsigned number)
{
    size_t room = word.length + 2 * (size_t)NUMBER_BYTES;
    char *name = malloc(room);
    char text[NUMBER_BYTES] = "";
    char process_text[NUMBER_BYTES];
    size_t before = word.length;
    if (!name)
        return NULL;
    if (number > 1)
        (void)snprintf(text, sizeof(text), ".%u", number);
    (void)snprintf(process_text, sizeof(process_text), "%ld", (long)getpid());
    if (word.length > ENDING_LENGTH &&
        memcmp(word.text + word.length - ENDING_LENGTH, ENDING,
               ENDING_LENGTH) == 0)
        before -= ENDING_LENGTH;
    struct moietyi_word process = find_process(word, before);
    (void)snprintf(
        name, room, "%.*s%.*s%.*s%s%.*s", (int)(process.text - word.text),
        word.text, process.length ? (int)strlen(process_text) : 0, process_text,
        (int)(before - (size_t)(process.text - word.text) - process.length),
        process.text + process.length, text, (int)(word.length - before),
        word.text + before);
    return name;
}

moiety_status moietyi_record_open(const char *conf,
                                  struct moietyi_trace_file **out)
{
    struct moietyi_word word;
    if (!moietyi_options_record(conf, &word))
        return MOIETY_OK;
    unsigned number =
        1 + atomic_fetch_add_explicit(&recorded_count, 1, memory_order_relaxed);
    char *name = record_name_of(word, number);
    if (!name)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for a pool");
    moiety_status status = moietyi_trace_open(name, out);
    free(name);
    return status;
}

static void say(void)
{
    moietyi_log_or_print(MOIETY_LOG_ERROR, "%s", moietyi_failure_message());
}

void moietyi_record_begin(struct moietyi_history *history,
                          struct moietyi_trace_file *file)
{
    if (file && moietyi_recorder_start(history, file) != MOIETY_OK) {
        say();
        moietyi_trace_free(file);
    }
}

void moietyi_record_leave(struct moietyi_trace_file *file)
{
    if (file)
        moietyi_trace_end(file);
    moietyi_trace_free(file);
}

void moietyi_record_end(struct moietyi_history *history)
{
    struct moietyi_trace_sums sums;
    uint64_t lost;
    if (history && moietyi_recorder_stop(history, &sums, &lost) != MOIETY_OK)
        say();
}

static moiety_status refuse_without(void)
{
    return moietyi_fail(MOIETY_E_UNSUPPORTED,
                        "the pool keeps no history: it was made without "
                        "history_entries");
}

/* A file is emptied only for a call that can record to it. */
static moiety_status open_for(struct moietyi_history *history, const char *path,
                              struct moietyi_trace_file **out)
{
    struct moietyi_trace_sums sums;
    uint64_t lost;
    if (!history)
        return refuse_without();
    if (moietyi_recorder_sums(history, false, &sums, &lost))
        return moietyi_fail(MOIETY_E_IN_USE, "the pool is recorded already");
    return moietyi_trace_open(path, out);
}

moiety_status moiety_trace_start(moiety_pool *pool, const char *path)
{
    struct moietyi_call call;
    struct moietyi_trace_file *file = NULL;
    if (!path || !*path)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_trace_start: path is NULL or empty");
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    /* Nothing is moved, and others may be waited for. */
    moietyi_slow_path_end(call.thread_state);
    struct moietyi_history *history = call.engine->history;
    status = open_for(history, path, &file);
    if (status == MOIETY_OK)
        status = moietyi_recorder_start(history, file);
    if (status != MOIETY_OK)
        moietyi_trace_free(file);
    moietyi_call_leave(&call);
    return status;
}

static moiety_status record_check(const char *function,
                                  const moiety_trace_summary *out)
{
    if (!out || out->struct_size >= sizeof(*out))
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_INVALID,
                        "%s: struct_size is %u, must be %zu or more", function,
                        (unsigned)out->struct_size, sizeof(*out));
}

static void record_fill(const struct moietyi_trace_sums *sums, uint64_t lost,
                        moiety_trace_summary *out)
{
    if (!out)
        return;
    *out = (moiety_trace_summary){
        .struct_size = (uint32_t)sizeof(*out),
        .status = sums->status,
        .system_error = sums->system_error,
        .operation_count = sums->operation_count,
        .byte_count = sums->byte_count,
        .lost_count = lost,
    };
}

static moiety_status refuse_idle(void)
{
    return moietyi_fail(MOIETY_E_INVALID, "the pool is not recorded");
}

moiety_status moiety_trace_stop(moiety_pool *pool, moiety_trace_summary *out)
{
    struct moietyi_call call;
    struct moietyi_trace_sums sums = {.status = MOIETY_E_UNSUPPORTED};
    uint64_t lost = 0;
    moiety_status status = record_check("moiety_trace_stop", out);
    if (status == MOIETY_OK)
        status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    moietyi_slow_path_end(call.thread_state);
    if (call.engine->history)
        status = moietyi_recorder_stop(call.engine->history, &sums, &lost);
    moietyi_call_leave(&call);
    if (sums.status == MOIETY_E_UNSUPPORTED)
        return refuse_idle();
    record_fill(&sums, lost, out);
    return status;
}

moiety_status moiety_trace_flush(moiety_pool *pool, moiety_trace_summary *out)
{
    struct moietyi_call call;
    struct moietyi_trace_sums sums;
    uint64_t lost = 0;
    moiety_status status = record_check("moiety_trace_flush", out);
    if (status == MOIETY_OK)
        status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    moietyi_slow_path_end(call.thread_state);
    if (call.engine->history &&
        moietyi_recorder_sums(call.engine->history, true, &sums, &lost))
        record_fill(&sums, lost, out);
    else
        status = refuse_idle();
    moietyi_call_leave(&call);
    return status;
}
