/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/server/tally.h"

void server_counts_add(struct server_counts *into,
                       const struct server_counts *from)
{
    into->requests += from->requests;
    into->handed_over += from->handed_over;
    into->checked_bytes += from->checked_bytes;
    into->wrong_bytes += from->wrong_bytes;
    into->allocs += from->allocs;
    into->frees += from->frees;
    into->alloc_ns += from->alloc_ns;
    into->serving_ns += from->serving_ns;
}

void server_tally_merge(struct server_tally *into,
                        const struct server_tally *from)
{
    server_counts_add(&into->counts, &from->counts);
    histogram_merge(&into->latency, &from->latency);
}

void server_calls_merge(struct server_calls *into,
                        const struct server_calls *from)
{
    histogram_merge(&into->allocs, &from->allocs);
    histogram_merge(&into->frees, &from->frees);
}
