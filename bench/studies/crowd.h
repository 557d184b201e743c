/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads that have used many streams and rest, and one that works meanwhile.
 */
#ifndef MOIETY_BENCH_STUDIES_CROWD_H_
#define MOIETY_BENCH_STUDIES_CROWD_H_

#include <stdint.h>

#include <moiety/stats.h>

#include "bench/subjects/subject.h"

struct crowd_job {
    uint32_t thread_count;
    uint32_t stream_count; /* all threads use all of them */
    uint32_t pairs;        /* of each thread on each stream */
    uint64_t size_bytes;
    uint32_t work_pairs; /* of the thread that works, which are timed */
    uint64_t seed;
};

/* Of the thread that works. */
struct crowd_work {
    double mean_ns; /* of a pair */
    double hits;    /* allocations that its cache served, of all: 0 to 1 */
    uint64_t failed;
};

struct crowd_found {
    struct crowd_work before; /* the crowd comes */
    struct crowd_work beside; /* it, while it rests */
    struct crowd_work after;  /* it has ended */
    moiety_stats coming;      /* before any of it has used the pool */
    moiety_stats resting;
    uint64_t host_bytes; /* that its pairs took */
    uint64_t end_ns;     /* until all of it has ended */
    uint64_t failed;     /* its allocations */
};

/* A subject of Moiety's has started, for so many threads and streams. NULL, or
 * why it could not be done. */
const char *crowd_run(const struct subject *subject,
                      const struct crowd_job *job, struct crowd_found *out);

#endif
