/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is done to a subject. A workload is called in batches; the harness
 * times each of them. The header of each workload's file says what it imitates
 * and what it does not show.
 */
#ifndef MOIETY_BENCH_WORKLOADS_WORKLOAD_H_
#define MOIETY_BENCH_WORKLOADS_WORKLOAD_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/workloads/worker.h"

#define WORKLOAD_SIZES_MAX 2

struct workload {
    const char *name;
    const char *description;
    /* Its own sizes, the largest of a mix each; 0 ends them. None: --size. */
    size_t sizes_bytes[WORKLOAD_SIZES_MAX];
    /* Streams that every thread goes over, which takes a subject that keeps
     * their order itself; 0: each thread has one of its own. */
    unsigned stream_count;
    bool needs_pairs; /* an even number of threads */
    bool is_extra;    /* run only when it is named */

    /* Blocks that one thread sets up or holds at most; 0: what `blocks` says. */
    uint64_t block_count;
    uint64_t (*blocks)(size_t size_bytes, unsigned thread_count);
    /* State of all threads, made before they start and released after they
     * ended. NULL pointers: there is none; `begin` returns NULL when there is
     * no memory. */
    void *(*begin)(unsigned thread_count);
    void (*end)(void *shared);
    /* On each thread: fills the subject to begin with. False: no memory. */
    bool (*start)(struct worker *worker);
    /* Some operations, an operation being an allocation and a free; returns
     * how many, 0 if this thread's are counted by another. */
    uint32_t (*batch)(struct worker *worker);
    /* On each thread, after all have ended their last batch: frees all. Also
     * after a failed start. */
    void (*finish)(struct worker *worker);
};

/* All workloads, in the order in which they are listed. */
#define WORKLOADS(X)                                                           \
    X(pair)                                                                    \
    X(mixed)                                                                   \
    X(burst64)                                                                 \
    X(burst4096)                                                               \
    X(prodcons)                                                                \
    X(holes4096)                                                               \
    X(holes16384)                                                              \
    X(holes65536)                                                              \
    X(linux_scalability)                                                       \
    X(threadtest)                                                              \
    X(occupancy)                                                               \
    X(larson)                                                                  \
    X(rmm_random)                                                              \
    X(streams)                                                                 \
    X(streams1)                                                                \
    X(streams1000)                                                             \
    X(occupancy100)                                                            \
    X(occupancy1000)                                                           \
    X(occupancy10000)                                                          \
    X(occupancy100000)                                                         \
    X(occupancy1000000)                                                        \
    X(pair100)                                                                 \
    X(pair1000)                                                                \
    X(pair10000)                                                               \
    X(pair100000)                                                              \
    X(pair1000000)

/* NULL ends them. */
extern const struct workload *const workloads[];

uint64_t workload_blocks(const struct workload *workload, size_t size_bytes,
                         unsigned thread_count);

const struct workload *workload_named(const char *name, size_t length);

#define WORKLOAD_DECLARE(name) extern const struct workload workload_##name;
WORKLOADS(WORKLOAD_DECLARE)
#undef WORKLOAD_DECLARE

#endif
