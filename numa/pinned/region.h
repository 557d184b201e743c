/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A region: memory of the process on its way to be pinned host memory, and what
 * became of it at each stage. Map, bind, touch and the reading back are done on
 * it one after the other; source.c puts them together.
 */
#ifndef BINADE_NUMA_PINNED_REGION_H_
#define BINADE_NUMA_PINNED_REGION_H_

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "binade/host.h"
#include "binade/status.h"
#include "numa/topology/nodeset.h"

/* The pages that a region is made of. The order is that of attempts, from the
 * end. */
enum binadei_pages {
    BINADEI_PAGES_SMALL,       /* the system's smallest */
    BINADEI_PAGES_TRANSPARENT, /* huge where the kernel finds some */
    BINADEI_PAGES_2MIB,        /* from hugetlbfs's pool */
    BINADEI_PAGES_1GIB,
    BINADEI_PAGES_DRIVER /* whatever cuMemHostAlloc() takes */
};

/* Set aside by the system, and not to be had when these are used up. */
static inline bool binadei_pages_are_set_aside(enum binadei_pages pages)
{
    return pages == BINADEI_PAGES_2MIB || pages == BINADEI_PAGES_1GIB;
}

#define BINADEI_REASON_BYTES 256U

/* Where a region's memory is to be. Constant while it is in use. */
struct binadei_place {
    hwloc_topology_t topology;
    hwloc_nodeset_t nodes;
    hwloc_cpuset_t cpus; /* of these nodes; empty if they have none */
    bool is_interleaved;
    bool is_strict;
};

/* To be told how far a growth is; NULL where nobody asks. */
struct binadei_progress {
    binade_host_progress_fn *report;
    void *user_data;
    uint64_t done_bytes;  /* of this call's earlier regions */
    uint64_t total_bytes; /* of this call */
    uint32_t thread_count;
};

struct binadei_region {
    void *base;
    size_t size_bytes;
    binade_devptr device_address; /* of `base`, once pinned */
    bool is_pinned;               /* the driver has it */
    enum binadei_pages pages;
    uint32_t fallbacks;    /* BINADE_HOST_FELL_ bits */
    uint32_t thread_count; /* most that touched it at once */
    uint64_t stage_ns[BINADE_HOST_STAGE_COUNT];
    /* In pages of the smallest size; the rest of what was asked could not be
     * found out. */
    uint64_t pages_near;
    uint64_t pages_elsewhere;
    char reason[BINADEI_REASON_BYTES]; /* of the last fallback; "" for none */
};

#endif
