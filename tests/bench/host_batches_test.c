/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The middle of samples, and how batches are made of loops that say what they
 * take.
 */
#include "bench/host/batches.h"

#include <stdio.h>

static int failures;

static void expect(const char *what, bool is_so)
{
    if (is_so)
        return;
    printf("FAILED: %s\n", what);
    failures++;
}

static struct host_spread spread_of(unsigned count, const double *values)
{
    struct host_sample sample = {0};
    for (unsigned i = 0; i < count; i++)
        host_sample_add(&sample, values[i]);
    return host_sample_spread(&sample);
}

static bool is(struct host_spread spread, double median, double least,
               double most)
{
    return spread.median == median && spread.least == least &&
           spread.most == most;
}

static void check_samples(void)
{
    const double values[] = {30, 10, 20, 50};
    struct host_sample sample = {0};
    expect("an odd number", is(spread_of(3, values), 20, 10, 30));
    expect("an even number", is(spread_of(4, values), 25, 10, 50));
    expect("one", is(spread_of(1, values), 30, 30, 30));
    expect("none", is(spread_of(0, values), 0, 0, 0));
    for (unsigned i = 0; i < HOST_BATCHES_MAX + 7; i++)
        host_sample_add(&sample, i);
    expect("no more than there is room for", sample.count == HOST_BATCHES_MAX);
}

/* Takes 7 ns a turn, it says, and fails once `left` turns are done. */
struct work {
    uint64_t done, left;
    uint64_t fewest; /* turns that were asked for */
};

static bool work(void *context, uint64_t turn_count, uint64_t *out_ns)
{
    struct work *work = context;
    if (turn_count < work->fewest)
        work->fewest = turn_count;
    work->done += turn_count;
    *out_ns = 7 * turn_count;
    return work->done <= work->left;
}

static void check_batches(void)
{
    struct work endless = {.left = UINT64_MAX, .fewest = UINT64_MAX};
    struct host_batches batches;
    expect("it succeeds", host_batches_measure(work, &endless, 8, 0, &batches));
    expect("a turn's share of what the loop says", is(batches.ns, 7, 7, 7));
    expect("five batches whatever the time", batches.batch_count == 5);
    expect("as many turns as were asked for", endless.fewest == 8);
    expect("turns that count, without those that warm up",
           batches.turn_count == 5 * 8 && endless.done == 6 * 8);
}

static void check_failures(void)
{
    struct host_batches batches;
    for (uint64_t left = 0; left < 6; left++) {
        struct work short_work = {.left = left, .fewest = UINT64_MAX};
        expect("a loop that fails is noticed",
               !host_batches_measure(work, &short_work, 1, 0, &batches));
        expect("and is not called again", short_work.done == left + 1);
    }
}

int main(void)
{
    check_samples();
    check_batches();
    check_failures();
    return failures ? 1 : 0;
}
