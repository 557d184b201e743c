/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/host/batches.h"

#include "bench/base/clock.h"
#include "bench/base/numbers.h"

#define BATCHES_MIN 5U
/* Batches that the time of a cell is for. */
#define BATCHES_AIM 50U
#define TURNS_MAX (UINT64_C(1) << 24)

void host_sample_add(struct host_sample *sample, double value)
{
    if (sample->count < HOST_BATCHES_MAX)
        sample->values[sample->count++] = value;
}

struct host_spread host_sample_spread(struct host_sample *sample)
{
    unsigned count = sample->count;
    const double *values = sample->values;
    if (count == 0)
        return (struct host_spread){0};
    numbers_sort(sample->values, count);
    return (struct host_spread){
        .median = numbers_median(values, count),
        .least = values[0],
        .most = values[count - 1],
    };
}

/* Doubles the turns until they take a batch's share of the cell, by what goes
 * by. */
static bool calibrate(host_loop *loop, void *context, uint64_t cell_ns,
                      uint64_t *in_out_turns)
{
    uint64_t turns = *in_out_turns;
    for (;; turns *= 2) {
        uint64_t counted_ns;
        uint64_t begun_ns = clock_now_ns();
        if (!loop(context, turns, &counted_ns))
            return false;
        if (clock_now_ns() - begun_ns >= cell_ns / BATCHES_AIM / 2 ||
            turns >= TURNS_MAX)
            break;
    }
    *in_out_turns = turns;
    return true;
}

bool host_batches_measure(host_loop *loop, void *context, uint64_t turns_min,
                          uint64_t cell_ns, struct host_batches *out)
{
    struct host_sample sample = {0};
    uint64_t turns = turns_min;
    if (!calibrate(loop, context, cell_ns, &turns))
        return false;
    uint64_t end_ns = clock_now_ns() + cell_ns;
    while (sample.count < BATCHES_MIN ||
           (sample.count < HOST_BATCHES_MAX && clock_now_ns() < end_ns)) {
        uint64_t ns;
        if (!loop(context, turns, &ns))
            return false;
        host_sample_add(&sample, (double)ns / (double)turns);
    }
    *out = (struct host_batches){
        .ns = host_sample_spread(&sample),
        .batch_count = sample.count,
        .turn_count = sample.count * turns,
    };
    return true;
}
