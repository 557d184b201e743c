/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Measures a loop in batches, and finds the middle of numbers.
 */
#ifndef MOIETY_BENCH_HOST_BATCHES_H_
#define MOIETY_BENCH_HOST_BATCHES_H_

#include <stdbool.h>
#include <stdint.h>

#define HOST_BATCHES_MAX 201U

/* Does so many turns and tells what they took, which may be less than went by.
 * False: something failed, and moiety_last_error_message() says what. */
typedef bool host_loop(void *context, uint64_t turn_count, uint64_t *out_ns);

struct host_sample {
    unsigned count;
    double values[HOST_BATCHES_MAX];
};

struct host_spread {
    double median, least, most;
};

/* Leaves out what there is no room for. */
void host_sample_add(struct host_sample *sample, double value);

/* Sorts the sample. All 0 when it is empty. */
struct host_spread host_sample_spread(struct host_sample *sample);

struct host_batches {
    struct host_spread ns; /* a turn */
    unsigned batch_count;
    uint64_t turn_count;
};

/* For about `cell_ns`, but 5 batches at least, each of `turns_min` or more,
 * after turns that warm up. */
bool host_batches_measure(host_loop *loop, void *context, uint64_t turns_min,
                          uint64_t cell_ns, struct host_batches *out);

#endif
