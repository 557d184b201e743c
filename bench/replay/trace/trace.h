/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reads a trace (docs/dev/trace-format.md) in its plain form, an event at a
 * time, and refuses all that is said there. Memory is for what is live and for
 * names. Ids are to be small, as `trace convert` makes them.
 */
#ifndef MOIETY_BENCH_REPLAY_TRACE_TRACE_H_
#define MOIETY_BENCH_REPLAY_TRACE_TRACE_H_

#include "bench/replay/trace/lines.h"

#define REPLAY_NAME_COUNT_MAX (1U << 16)
#define REPLAY_INFO_COUNT_MAX (1U << 10)
#define REPLAY_LIVE_COUNT_MAX (1U << 20)
#define REPLAY_KEY_BYTES_MAX 64U
#define REPLAY_TEXT_BYTES_MAX 200U

/* A line of an operation. What its kind has not is 0. */
struct replay_event {
    uint64_t time_ns; /* since the trace's start */
    uint64_t size_bytes;
    uint32_t id;     /* below REPLAY_LIVE_COUNT_MAX */
    uint32_t thread; /* indices of names */
    uint32_t stream;
    char kind; /* its letter */
};

struct replay_info {
    char key[REPLAY_KEY_BYTES_MAX + 1];
    char text[REPLAY_TEXT_BYTES_MAX + 1];
};

/* An allocation that is live or not. */
struct replay_living {
    uint64_t size_bytes;
    bool is_live;
    bool is_requested; /* its free was requested */
};

struct replay_trace {
    struct replay_lines lines;
    struct replay_error error;
    struct replay_info *infos;
    uint64_t *streams; /* CUDA's handles */
    struct replay_living *living;
    uint32_t info_count;
    uint32_t thread_count;
    uint32_t stream_count;
    uint32_t tag_count;
    uint32_t living_room;
    uint32_t live_count;
    uint64_t live_bytes;
    uint64_t peak_live_bytes;
    uint64_t operation_count;
    uint64_t time_ns;
};

/* CUDA's handles that are words in a trace. */
#define REPLAY_HANDLE_NULL UINT64_C(0)
#define REPLAY_HANDLE_LEGACY UINT64_C(1)
#define REPLAY_HANDLE_PER_THREAD UINT64_C(2)
#define REPLAY_HANDLE_DONE (UINT64_MAX - 1)
#define REPLAY_HANDLE_ANY UINT64_MAX

/* False: `error` says why; nothing is to be closed. */
bool replay_trace_open(struct replay_trace *trace, const char *path);
/* The counts are those of what was read so far. */
enum replay_result replay_trace_next(struct replay_trace *trace,
                                     struct replay_event *out);
/* Begins again, with all counts. */
bool replay_trace_rewind(struct replay_trace *trace);
/* Says on standard error what is wrong. */
void replay_trace_complain(const struct replay_trace *trace, const char *path);
void replay_trace_close(struct replay_trace *trace);

#endif
