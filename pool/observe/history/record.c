/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of recording: arguments, and the names of files.
 */
#include "binade/record.h"

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

#define ENDING ".btrace"
#define ENDING_LENGTH (sizeof(ENDING) - 1)
/* Of a number with its dot. */
#define NUMBER_BYTES 24U

/* Edge: none; relaxed: so that names differ. Pools that BINADE_CONF has
 * recorded. */
static atomic_uint recorded_count;

/* Where "%p" stands for the process, or the end of `before` bytes. */
static struct binadei_word find_process(struct binadei_word word, size_t before)
{
    for (size_t i = 0; i + 1 < before; i++)
        if (word.text[i] == '%' && word.text[i + 1] == 'p')
            return (struct binadei_word){word.text + i, 2};
    return (struct binadei_word){word.text + before, 0};
}

/* "FILE.btrace", "FILE.2.btrace", "FILE.3.btrace": one for each pool. */
static char *record_name_of(struct binadei_word word, unsigned number)
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
    struct binadei_word process = find_process(word, before);
    (void)snprintf(
        name, room, "%.*s%.*s%.*s%s%.*s", (int)(process.text - word.text),
        word.text, process.length ? (int)strlen(process_text) : 0, process_text,
        (int)(before - (size_t)(process.text - word.text) - process.length),
        process.text + process.length, text, (int)(word.length - before),
        word.text + before);
    return name;
}

binade_status binadei_record_open(const char *conf,
                                  struct binadei_trace_file **out)
{
    struct binadei_word word;
    if (!binadei_options_record(conf, &word))
        return BINADE_OK;
    unsigned number =
        1 + atomic_fetch_add_explicit(&recorded_count, 1, memory_order_relaxed);
    char *name = record_name_of(word, number);
    if (!name)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY, "no memory for a pool");
    binade_status status = binadei_trace_open(name, out);
    free(name);
    return status;
}

static void say(void)
{
    binadei_log_or_print(BINADE_LOG_ERROR, "%s", binadei_failure_message());
}

void binadei_record_begin(struct binadei_history *history,
                          struct binadei_trace_file *file)
{
    if (file && binadei_recorder_start(history, file) != BINADE_OK) {
        say();
        binadei_trace_free(file);
    }
}

void binadei_record_leave(struct binadei_trace_file *file)
{
    if (file)
        binadei_trace_end(file);
    binadei_trace_free(file);
}

void binadei_record_end(struct binadei_history *history)
{
    struct binadei_trace_sums sums;
    uint64_t lost;
    if (history && binadei_recorder_stop(history, &sums, &lost) != BINADE_OK)
        say();
}

static binade_status refuse_without(void)
{
    return binadei_fail(BINADE_E_UNSUPPORTED,
                        "the pool keeps no history: it was made without "
                        "history_entries");
}

/* A file is emptied only for a call that can record to it. */
static binade_status open_for(struct binadei_history *history, const char *path,
                              struct binadei_trace_file **out)
{
    struct binadei_trace_sums sums;
    uint64_t lost;
    if (!history)
        return refuse_without();
    if (binadei_recorder_sums(history, false, &sums, &lost))
        return binadei_fail(BINADE_E_BUSY, "the pool is recorded already");
    return binadei_trace_open(path, out);
}

binade_status binade_record_start(binade_pool *pool, const char *path)
{
    struct binadei_call call;
    struct binadei_trace_file *file = NULL;
    if (!path || !*path)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_record_start: path is NULL or empty");
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    /* Nothing is moved, and others may be waited for. */
    binadei_slow_path_end(call.thread_state);
    struct binadei_history *history = call.engine->history;
    status = open_for(history, path, &file);
    if (status == BINADE_OK)
        status = binadei_recorder_start(history, file);
    if (status != BINADE_OK)
        binadei_trace_free(file);
    binadei_call_leave(&call);
    return status;
}

static binade_status record_check(const char *function,
                                  const binade_record_summary *out)
{
    if (!out || out->struct_size >= sizeof(*out))
        return BINADE_OK;
    return binadei_fail(BINADE_E_INVALID,
                        "%s: struct_size is %u, must be %zu or more", function,
                        (unsigned)out->struct_size, sizeof(*out));
}

static void record_fill(const struct binadei_trace_sums *sums, uint64_t lost,
                        binade_record_summary *out)
{
    if (!out)
        return;
    *out = (binade_record_summary){
        .struct_size = (uint32_t)sizeof(*out),
        .status = sums->status,
        .system_error = sums->system_error,
        .operation_count = sums->operation_count,
        .byte_count = sums->byte_count,
        .lost_count = lost,
    };
}

static binade_status refuse_idle(void)
{
    return binadei_fail(BINADE_E_INVALID, "the pool is not recorded");
}

binade_status binade_record_stop(binade_pool *pool, binade_record_summary *out)
{
    struct binadei_call call;
    struct binadei_trace_sums sums = {.status = BINADE_E_UNSUPPORTED};
    uint64_t lost = 0;
    binade_status status = record_check("binade_record_stop", out);
    if (status == BINADE_OK)
        status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    binadei_slow_path_end(call.thread_state);
    if (call.engine->history)
        status = binadei_recorder_stop(call.engine->history, &sums, &lost);
    binadei_call_leave(&call);
    if (sums.status == BINADE_E_UNSUPPORTED)
        return refuse_idle();
    record_fill(&sums, lost, out);
    return status;
}

binade_status binade_record_flush(binade_pool *pool, binade_record_summary *out)
{
    struct binadei_call call;
    struct binadei_trace_sums sums;
    uint64_t lost = 0;
    binade_status status = record_check("binade_record_flush", out);
    if (status == BINADE_OK)
        status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    binadei_slow_path_end(call.thread_state);
    if (call.engine->history &&
        binadei_recorder_sums(call.engine->history, true, &sums, &lost))
        record_fill(&sums, lost, out);
    else
        status = refuse_idle();
    binadei_call_leave(&call);
    return status;
}
