/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/base/histogram.h"

#include <math.h>

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->total += from->total;
    into->sum_ps += from->sum_ps;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->count[i] += from->count[i];
}

/* The first 2 * SUB_COUNT buckets are one picosecond wide each. */
uint64_t histogram_begin_ps(uint32_t bucket)
{
    if (bucket < 2 * HISTOGRAM_SUB_COUNT)
        return bucket;
    uint32_t shift = bucket / HISTOGRAM_SUB_COUNT - 1;
    return (uint64_t)(bucket % HISTOGRAM_SUB_COUNT + HISTOGRAM_SUB_COUNT)
           << shift;
}

static double middle_ps(uint32_t bucket)
{
    uint64_t begin_ps = histogram_begin_ps(bucket);
    if (bucket < 2 * HISTOGRAM_SUB_COUNT)
        return (double)begin_ps;
    uint64_t end_ps = histogram_begin_ps(bucket + 1);
    return (double)begin_ps + (double)(end_ps - begin_ps) / 2;
}

double histogram_quantile_ns(const struct histogram *histogram, double part)
{
    if (histogram->total == 0)
        return 0;
    uint64_t rank = (uint64_t)ceil(part * (double)histogram->total);
    uint64_t seen = 0;
    uint32_t bucket = 0;
    for (; bucket < HISTOGRAM_BUCKETS - 1; bucket++) {
        seen += histogram->count[bucket];
        if (seen >= rank && seen > 0)
            break;
    }
    return middle_ps(bucket) / 1000;
}
