/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is measured: an allocator behind one small table, so that every workload
 * runs against every one of them. One process runs one subject; `start` and
 * `stop` are called once, alone. All of them are called through pointers, so
 * that none has the advantage of being inlined.
 */
#ifndef BINADE_BENCH_SUBJECTS_SUBJECT_H_
#define BINADE_BENCH_SUBJECTS_SUBJECT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct subject {
    const char *name;
    const char *description;
    bool has_streams;     /* keeps the order of streams itself */
    bool has_host_memory; /* gives out memory of the host */
    bool has_driver;      /* needs a CUDA driver */
    /* Blocks of all threads together beyond which setting up a workload takes
     * longer than measuring it; 0: no such limit. */
    uint64_t blocks_max;

    /* NULL, or why this subject cannot run here. Threads and streams are
     * numbered from 0, and there will be no more of them than this. */
    const char *(*start)(unsigned thread_count, unsigned stream_count);
    /* Called on each thread before it allocates; NULL: nothing to do. */
    bool (*attach)(unsigned thread);
    /* What free() takes, or 0 when there is no memory. No two threads of one
     * number run at once. */
    uint64_t (*alloc)(unsigned thread, size_t size_bytes, unsigned stream);
    void (*free)(unsigned thread, uint64_t address, size_t size_bytes,
                 unsigned stream);
    /* Called behind each alloc() that succeeded, with what it returned, and
     * each free(), with address 0, outside of what is timed; NULL: nothing is
     * to be done there. */
    void (*follow)(unsigned thread, unsigned stream, uint64_t address,
                   size_t size_bytes);
    /* Allocations until now that a cache of the subject's served, and those
     * that none did; called while no thread allocates. NULL: it has none. */
    void (*count)(uint64_t *out_hits, uint64_t *out_misses);
    void (*stop)(void);
};

/* The subjects in the order in which they are listed; NULL ends them. */
extern const struct subject *const subjects[];

const struct subject *subject_named(const char *name);

extern const struct subject subject_binade;
extern const struct subject subject_binade_sized;
extern const struct subject subject_binade_nocache;
#define VARIANT(variant, what, setting, alloc_fn, free_fn)                     \
    extern const struct subject subject_binade_##variant;
#include "bench/subjects/binade_variants.inc"
#undef VARIANT
extern const struct subject subject_null;
extern const struct subject subject_core;
extern const struct subject subject_mutex;
extern const struct subject subject_cuda_malloc;
extern const struct subject subject_cuda_async;
extern const struct subject subject_torch;
extern const struct subject subject_mimalloc;
extern const struct subject subject_malloc;

#endif
