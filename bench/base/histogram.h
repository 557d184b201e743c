/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How often which duration was seen, to within 0.8 %: 128 buckets per doubling
 * of picoseconds. Adding one costs a few instructions and no memory beyond.
 */
#ifndef MOIETY_BENCH_BASE_HISTOGRAM_H_
#define MOIETY_BENCH_BASE_HISTOGRAM_H_

#include <stdint.h>

#define HISTOGRAM_SUB_ORDER 7U
#define HISTOGRAM_SUB_COUNT (1U << HISTOGRAM_SUB_ORDER)
/* Up to 2^44 ps, 17 s; what is longer counts as that. */
#define HISTOGRAM_ORDER_MAX 44U
#define HISTOGRAM_BUCKETS                                                      \
    ((HISTOGRAM_ORDER_MAX - HISTOGRAM_SUB_ORDER + 1) * HISTOGRAM_SUB_COUNT)

struct histogram {
    uint64_t total;
    uint64_t sum_ps;
    uint32_t count[HISTOGRAM_BUCKETS];
};

static inline uint32_t histogram_bucket(uint64_t ps)
{
    if (ps < HISTOGRAM_SUB_COUNT)
        return (uint32_t)ps;
    uint32_t order = 63U - (uint32_t)__builtin_clzll(ps);
    if (order >= HISTOGRAM_ORDER_MAX)
        return HISTOGRAM_BUCKETS - 1;
    uint32_t shift = order - HISTOGRAM_SUB_ORDER;
    return shift * HISTOGRAM_SUB_COUNT + (uint32_t)(ps >> shift);
}

static inline void histogram_add(struct histogram *histogram, uint64_t ps)
{
    histogram->total++;
    histogram->sum_ps += ps;
    histogram->count[histogram_bucket(ps)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from);

/* The least duration that is counted in this bucket; where those of the bucket
 * before end. */
uint64_t histogram_begin_ps(uint32_t bucket);

/* The least duration that this part (0 to 1) of all does not exceed, in
 * nanoseconds: the middle of its bucket. 0 when there is none. */
double histogram_quantile_ns(const struct histogram *histogram, double part);

#endif
