/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What was served, and how long it took: of a thread in one phase, or summed.
 */
#ifndef MOIETY_BENCH_SERVER_TALLY_H_
#define MOIETY_BENCH_SERVER_TALLY_H_

#include <stdint.h>

#include "bench/base/histogram.h"

struct server_counts {
    uint64_t requests;
    uint64_t handed_over; /* blocks freed by another thread */
    uint64_t checked_bytes;
    uint64_t wrong_bytes;
    uint64_t allocs;
    uint64_t frees;
    uint64_t alloc_ns;   /* in all of these, the clock's own time left out */
    uint64_t serving_ns; /* of the threads, waiting for the device included */
};

struct server_tally {
    struct server_counts counts;
    struct histogram latency; /* of requests */
};

/* Single calls of the subject, the clock's own time left out. */
struct server_calls {
    struct histogram allocs;
    struct histogram frees;
};

void server_counts_add(struct server_counts *into,
                       const struct server_counts *from);

void server_tally_merge(struct server_tally *into,
                        const struct server_tally *from);

void server_calls_merge(struct server_calls *into,
                        const struct server_calls *from);

#endif
