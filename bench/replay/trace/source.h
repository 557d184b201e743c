/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A trace as it is replayed: allocations and frees, a window of them at a time,
 * so that a trace of any length takes the same memory. A block has a number
 * which no other has in the same window, where a trace gives an id again and
 * again: so a thread can wait for the block that another one allocates.
 */
#ifndef MOIETY_BENCH_REPLAY_TRACE_SOURCE_H_
#define MOIETY_BENCH_REPLAY_TRACE_SOURCE_H_

#include "bench/replay/trace/trace.h"

#define REPLAY_WINDOW_COUNT (1U << 18)
#define REPLAY_THREADS_MAX 256U

/* `stream`: a number of the subject's, or SUBJECT_STREAM_ANY or _DONE. */
struct replay_op {
    uint64_t time_ns;
    uint64_t size_bytes;
    uint32_t block;
    uint32_t stream;
    uint32_t thread;
    bool is_alloc;
};

/* What a trace is, after it was read once. */
struct replay_about {
    uint64_t operation_count; /* lines of operations, of all kinds */
    uint64_t call_count;      /* allocations and frees that are replayed */
    uint64_t peak_live_bytes;
    /* What the recorded allocator had of its driver; SUBJECT_UNKNOWN: the trace
     * does not tell. */
    uint64_t peak_reserved_bytes;
    uint64_t duration_ns;
    uint32_t thread_count; /* of the trace, at least 1 */
    uint32_t stream_count; /* of the subject, at least 1 */
    bool has_any;          /* some calls name no stream */
};

struct replay_source {
    struct replay_trace trace;
    struct replay_about about;
    struct replay_op *ops; /* the window */
    uint32_t op_count;
    uint32_t block_room; /* blocks have numbers below this one */
    uint32_t run_threads;
    uint32_t spread; /* threads for each thread of the trace */
    bool has_own_streams;
    bool is_over;
    /* Below, what the blocks' numbers are made of. */
    uint32_t *block_of_id;
    uint32_t *spare; /* numbers that may be given again */
    uint32_t *ended; /* in this window */
    uint8_t *part_of_block;
    uint32_t spare_count;
    uint32_t ended_count;
    uint32_t next_block;
    uint64_t alloc_count;
};

/* Of who replays in order by threads that take turns: of a trace with more than a
 * subject takes, several are one. */
static inline uint32_t replay_turn_threads(const struct replay_source *source)
{
    return source->run_threads < REPLAY_THREADS_MAX ? source->run_threads
                                                    : REPLAY_THREADS_MAX;
}

/* Reads the whole trace once. `threads` 0: as many as it has; else its blocks
 * are dealt in turn to so many, as far as each thread of the trace can have the
 * same number of them. False: `source->trace.error` says why. The first window
 * follows replay_source_rewind(). */
bool replay_source_open(struct replay_source *source, const char *path,
                        uint32_t threads);

/* The next window; the blocks of the one before that were freed are given
 * again, and their numbers stand in `ended`. */
enum replay_result replay_source_next(struct replay_source *source);

bool replay_source_rewind(struct replay_source *source);
void replay_source_close(struct replay_source *source);

#endif
