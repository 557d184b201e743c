/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is measured: an allocator behind one small table, so that every workload
 * and every trace runs on every one of them. One process runs one subject at a
 * time; `start` and `stop` are called alone, and `start` again after `stop`,
 * with another limit. All of them are called through pointers, so that none has
 * the advantage of being inlined.
 */
#ifndef MOIETY_BENCH_SUBJECTS_SUBJECT_H_
#define MOIETY_BENCH_SUBJECTS_SUBJECT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a trace frees a block on beside a stream's number. */
#define SUBJECT_STREAM_ANY UINT32_MAX        /* work of any stream may use it */
#define SUBJECT_STREAM_DONE (UINT32_MAX - 1) /* nothing uses it any more */

/* A number that a subject cannot tell. */
#define SUBJECT_UNKNOWN UINT64_MAX

struct subject_setup {
    /* Threads and streams are numbered from 0, and there are no more. */
    uint32_t thread_count;
    uint32_t stream_count;
    /* Bytes that the subject may have of its driver at a time; 0: all. */
    uint64_t limit_bytes;
    /* Also of a subject that has no use for them: work is queued on them. */
    bool needs_streams;
    /* Some calls of the trace name no stream. */
    bool has_any;
};

/* Bytes at one moment; each may be SUBJECT_UNKNOWN. */
struct subject_memory {
    uint64_t handed_bytes;   /* in blocks, as they were rounded */
    uint64_t cached_bytes;   /* freed, in caches */
    uint64_t retiring_bytes; /* freed, until work is over */
    uint64_t reserved_bytes; /* had of the driver */
    /* Since `start`: calls that take memory of the driver or return it. */
    uint64_t driver_calls;
};

struct subject {
    const char *name;
    const char *description;
    bool needs_driver; /* else it is offsets, or host memory */
    /* For workloads. */
    bool has_streams;     /* keeps the order of streams itself */
    bool has_host_memory; /* gives out memory of the host */
    /* Blocks of all threads together beyond which setting up a workload takes
     * longer than measuring it; 0: no such limit. */
    uint64_t blocks_max;
    /* For traces. */
    bool has_limit;     /* it can be limited; start() is not asked otherwise */
    bool waits_to_free; /* each free waits for all work of the device */
    bool keeps_any;     /* what is freed on SUBJECT_STREAM_ANY serves again when
                         * all work is over */

    /* NULL, or why this subject cannot run here. */
    const char *(*start)(const struct subject_setup *setup);
    /* Called on each thread before it allocates; NULL: nothing to do. */
    bool (*attach)(uint32_t thread);
    /* What free() takes, or 0 when there is no memory. `stream` is a number:
     * an allocation that named no stream is made on stream 0. No two threads of
     * one number run at once. */
    uint64_t (*alloc)(uint32_t thread, size_t size_bytes, uint32_t stream);
    /* `stream`: a number; of a trace, SUBJECT_STREAM_ANY or SUBJECT_STREAM_DONE,
     * too. Any thread may free what another one allocated. */
    void (*free)(uint32_t thread, uint64_t address, size_t size_bytes,
                 uint32_t stream);
    /* Called behind each alloc() that succeeded, with what it returned, and
     * each free(), with address 0, outside of what is timed; NULL: nothing is
     * to be done there. */
    void (*follow)(uint32_t thread, uint32_t stream, uint64_t address,
                   size_t size_bytes);
    /* Allocations until now that a cache of the subject's served, and those
     * that none did; called while no thread allocates. NULL: it has none. */
    void (*count)(uint64_t *out_hits, uint64_t *out_misses);
    /* What `measure` says of it, where that costs much more; or NULL. */
    uint64_t (*reserved_bytes)(void);
    /* Called while no thread is inside of the subject. NULL: no trace is
     * replayed on it. */
    void (*measure)(struct subject_memory *out);
    /* Calls `take` with every piece of memory that it has of the driver, while
     * no thread is inside of it. NULL: it cannot tell. */
    void (*each_segment)(void (*take)(void *context, uint64_t address,
                                      uint64_t size_bytes),
                         void *context);
    void (*stop)(void);
};

/* What workloads run on, in the order in which it is listed. */
#define WORKLOAD_SUBJECTS(X)                                                   \
    X(workload_moiety)                                                         \
    X(workload_moiety_sized)                                                   \
    X(workload_moiety_nocache)                                                 \
    X(workload_moiety_mapped)                                                  \
    X(core)                                                                    \
    X(offsets_mutex)                                                           \
    X(workload_cuda_async)                                                     \
    X(workload_cuda_malloc)                                                    \
    X(torch)                                                                   \
    X(rmm_pool)                                                                \
    X(rmm_arena)                                                               \
    X(mimalloc)                                                                \
    X(malloc)                                                                  \
    X(null)                                                                    \
    X(workload_moiety_history)                                                 \
    X(workload_moiety_tenant)

/* What traces are replayed on. Names on command lines are those of the tables:
 * both have a "moiety", which differ in what they can do. */
#define REPLAY_SUBJECTS(X)                                                     \
    X(moiety)                                                                  \
    X(moiety_nocache)                                                          \
    X(moiety_mapped)                                                           \
    X(best_fit)                                                                \
    X(best_fit_expandable)                                                     \
    X(mutex)                                                                   \
    X(pow2_buddy)                                                              \
    X(cuda_malloc)                                                             \
    X(cuda_async)                                                              \
    X(torch)                                                                   \
    X(rmm_pool)                                                                \
    X(rmm_arena)

/* Some of a table, each once at most. */
#define SUBJECTS_MAX 64U
struct subject_list {
    const struct subject *const *table;
    const struct subject *subjects[SUBJECTS_MAX];
    uint32_t count;
};

/* NULL ends each. */
extern const struct subject *const workload_subjects[];
extern const struct subject *const replay_subjects[];

/* One of a list, by a name of so many bytes; NULL: there is none. */
const struct subject *subject_named(const struct subject *const *list,
                                    const char *name, size_t length);

/* Adds one to a `struct subject_list`. False: it has it, or there is none of
 * that name. */
bool subject_list_take(const char *name, size_t length, void *list);

/* Adds all of its table. */
void subject_list_take_all(struct subject_list *list);

#endif
