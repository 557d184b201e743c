/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Quantiles of a histogram against those of the sorted durations themselves.
 */
#include "bench/base/histogram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 10000U

static struct histogram histogram;
static struct histogram other;
static uint64_t durations_ps[COUNT];
static int failures;

static void expect_near(const char *what, double actual_ns, double wanted_ns)
{
    if (fabs(actual_ns - wanted_ns) <= wanted_ns * 0.008)
        return;
    printf("FAILED: %s is %f, not %f\n", what, actual_ns, wanted_ns);
    failures++;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Every part of the range: durations from 1 ps to 17 s, as likely as their
 * doubles, added to two histograms that are then merged. */
static void check_random(void)
{
    uint64_t state = 88172645463325252U;
    for (uint32_t i = 0; i < COUNT; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        durations_ps[i] = (state >> 20 >> state % 44) + 1;
        histogram_add(i % 2 ? &histogram : &other, durations_ps[i]);
    }
    histogram_merge(&histogram, &other);
    qsort(durations_ps, COUNT, sizeof(*durations_ps), compare);
    for (uint32_t rank = 1; rank <= COUNT; rank++) {
        double part = (rank - 0.5) / (double)COUNT;
        expect_near("a quantile", histogram_quantile_ns(&histogram, part),
                    (double)durations_ps[rank - 1] / 1000);
    }
    if (histogram.total != COUNT) {
        printf("FAILED: %llu are counted, not %u\n",
               (unsigned long long)histogram.total, COUNT);
        failures++;
    }
}

static void check_few(void)
{
    static struct histogram few;
    expect_near("of none the median", histogram_quantile_ns(&few, 0.5), 0);
    histogram_add(&few, 5000);
    expect_near("of one the median", histogram_quantile_ns(&few, 0.5), 5);
    expect_near("of one the 99.9 %", histogram_quantile_ns(&few, 0.999), 5);
    histogram_add(&few, 9000);
    histogram_add(&few, 7000);
    expect_near("of three the median", histogram_quantile_ns(&few, 0.5), 7);
    expect_near("of three the 99.9 %", histogram_quantile_ns(&few, 0.999), 9);
    /* Longer than any bucket: counted in the last. */
    histogram_add(&few, UINT64_MAX);
    expect_near("the most", histogram_quantile_ns(&few, 1), 0x1p44 / 1000);
}

int main(void)
{
    check_random();
    check_few();
    return failures != 0;
}
