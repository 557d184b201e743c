/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a trace is replayed on: an allocator behind one small table. One process
 * runs one subject at a time; `start` and `stop` are called alone, and `start`
 * again after `stop`, with another limit. All of them are called through
 * pointers, so that none has the advantage of being inlined.
 */
#ifndef BINADE_BENCH_SUBJECTS_REPLAY_SUBJECT_H_
#define BINADE_BENCH_SUBJECTS_REPLAY_SUBJECT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a block can be freed on beside a stream's number. */
#define REPLAY_STREAM_ANY UINT32_MAX        /* work of any stream may use it */
#define REPLAY_STREAM_DONE (UINT32_MAX - 1) /* nothing uses it any more */

/* A number that a subject cannot tell. */
#define REPLAY_UNKNOWN UINT64_MAX

struct replay_setup {
    /* Threads and streams are numbered from 0, and there are no more. */
    uint32_t thread_count;
    uint32_t stream_count;
    /* Bytes that the subject may have of its driver at a time; 0: all. */
    uint64_t limit_bytes;
    /* Also of a subject that has no use for them: work is queued on them. */
    bool needs_streams;
};

/* Bytes at one moment; each may be REPLAY_UNKNOWN. */
struct replay_memory {
    uint64_t handed_bytes;   /* in blocks, as they were rounded */
    uint64_t cached_bytes;   /* freed, in caches */
    uint64_t retiring_bytes; /* freed, until work is over */
    uint64_t reserved_bytes; /* had of the driver */
    /* Since `start`: calls that take memory of the driver or return it. */
    uint64_t driver_calls;
};

struct replay_subject {
    const char *name;
    const char *description;
    bool needs_driver;  /* else it is offsets, without memory behind them */
    bool has_limit;     /* it can be limited; start() is not asked otherwise */
    bool waits_to_free; /* each free waits for all work of the device */

    /* NULL, or why this subject cannot run here. */
    const char *(*start)(const struct replay_setup *setup);
    /* Called on each thread before it allocates; NULL: nothing to do. */
    bool (*attach)(uint32_t thread);
    /* What free() takes, or 0 when there is no memory. `stream` is a number:
     * an allocation that named no stream is made on stream 0. */
    uint64_t (*alloc)(uint32_t thread, size_t size_bytes, uint32_t stream);
    /* `stream`: a number, REPLAY_STREAM_ANY or REPLAY_STREAM_DONE. Any thread
     * may free what another one allocated. */
    void (*free)(uint32_t thread, uint64_t address, size_t size_bytes,
                 uint32_t stream);
    /* Called behind each alloc() that succeeded, with what it returned, and
     * each free(), with address 0, outside of what is timed; NULL: nothing is
     * to be done there. */
    void (*follow)(uint32_t thread, uint32_t stream, uint64_t address,
                   size_t size_bytes);
    /* What `measure` says of it, where that costs much more; or NULL. */
    uint64_t (*reserved_bytes)(void);
    /* Called while no thread is inside of the subject. */
    void (*measure)(struct replay_memory *out);
    /* Calls `take` with every piece of memory that it has of the driver, while
     * no thread is inside of it. NULL: it cannot tell. */
    void (*each_segment)(void (*take)(void *context, uint64_t address,
                                      uint64_t size_bytes),
                         void *context);
    void (*stop)(void);
};

/* The subjects in the order in which they are listed; NULL ends them. */
extern const struct replay_subject *const replay_subjects[];

/* By a name of so many bytes; NULL: there is none. */
const struct replay_subject *replay_subject_named(const char *name,
                                                  size_t length);

#endif
