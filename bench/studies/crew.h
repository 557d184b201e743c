/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads that allocate and free, each on a stream and a processor of its own,
 * at once. A pair is a free and an allocation.
 */
#ifndef MOIETY_BENCH_STUDIES_CREW_H_
#define MOIETY_BENCH_STUDIES_CREW_H_

#include <stdbool.h>
#include <stdint.h>

#include "bench/subjects/subject.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CREW_THREADS_MAX 256U

struct crew_job {
    uint32_t thread_count;
    /* Blocks that each thread has; one place after the other, at random, loses
     * its block and gets another. */
    uint32_t places;
    /* 0: sizes are of 256 B to 2 MiB, each doubling as likely as another. */
    uint64_t size_bytes;
    uint32_t warm_pairs; /* of each thread, before all start together */
    uint32_t pairs;      /* of each thread, which are timed */
    uint64_t seed;
    /* Also find out what is live at a time. All threads write one counter for
     * it, so that the times are worth nothing. */
    bool counts_live;
};

struct crew_found {
    double mean_ns;    /* of a pair, the threads' mean; without what queues */
    double slowest_ns; /* of a pair, the slowest thread's */
    uint64_t failed;   /* allocations, also warm ones */
    uint64_t mean_live_bytes;
    uint64_t peak_live_bytes;
};

/* The subject has started, for so many threads and streams. NULL, or why it
 * could not be done. */
const char *crew_run(const struct subject *subject, const struct crew_job *job,
                     struct crew_found *out);

#ifdef __cplusplus
}
#endif

#endif
