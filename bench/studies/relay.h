/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads that hand memory from one stream to another: each has two streams and
 * some blocks of its own. In a round it queues work on the stream that has the
 * blocks, frees them there and allocates as many for the other stream at once.
 */
#ifndef MOIETY_BENCH_STUDIES_RELAY_H_
#define MOIETY_BENCH_STUDIES_RELAY_H_

#include <stdbool.h>
#include <stdint.h>

#include "bench/base/histogram.h"
#include "bench/subjects/subject.h"

#define RELAY_THREADS_MAX 256U
#define RELAY_STREAMS 2U /* of a thread */

struct relay_job {
    uint32_t thread_count;
    uint32_t rounds; /* of each thread */
    uint32_t blocks; /* of each thread */
    uint64_t size_bytes;
    /* 0: none. Else all of it is allocated before, so that a stream gets what
     * the other one freed, or nothing. */
    uint64_t limit_bytes;
    /* How long a thread asks again after an allocation that failed, and how
     * long it is busy in between. */
    uint64_t patience_ns;
    uint64_t between_ns;
    uint64_t pause_ns; /* between the frees of a round and its allocations */
    bool has_work;     /* queueing work queues some */
};

struct relay_found {
    struct histogram took;   /* of rounds: first free to last allocation */
    uint64_t asked;          /* allocations for the other stream */
    uint64_t failed;         /* blocks that the other stream did not get */
    uint64_t blocks;         /* that there are at a time */
    uint64_t reserved_bytes; /* in the end; may be SUBJECT_UNKNOWN */
    double work_ns;          /* of what a round queues; 0: nothing */
};

/* The subject has started, for so many threads and RELAY_STREAMS streams each.
 * NULL, or why it could not be done. */
const char *relay_run(const struct subject *subject,
                      const struct relay_job *job, struct relay_found *out);

#endif
