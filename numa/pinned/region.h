/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A region: memory of the process on its way to be pinned host memory, and what
 * became of it at each stage. Map, bind, touch and the reading back are done on
 * it one after the other; source.c puts them together.
 */
#ifndef MOIETY_NUMA_PINNED_REGION_H_
#define MOIETY_NUMA_PINNED_REGION_H_

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moiety/host.h"
#include "moiety/status.h"
#include "numa/topology/nodeset.h"

/* The pages that a region is made of. The order is that of attempts, from the
 * end. */
enum moietyi_pages {
    MOIETYI_PAGES_SMALL,       /* the system's smallest */
    MOIETYI_PAGES_TRANSPARENT, /* huge where the kernel finds some */
    MOIETYI_PAGES_2MIB,        /* from hugetlbfs's pool */
    MOIETYI_PAGES_1GIB,
    MOIETYI_PAGES_DRIVER /* whatever cuMemHostAlloc() takes */
};

/* Set aside by the system, and not to be had when these are used up. */
static inline bool moietyi_pages_are_set_aside(enum moietyi_pages pages)
{
    return pages == MOIETYI_PAGES_2MIB || pages == MOIETYI_PAGES_1GIB;
}

#define MOIETYI_REASON_BYTES 256U

/* Where a region's memory is to be. Constant while it is in use. */
struct moietyi_place {
    hwloc_topology_t topology;
    hwloc_nodeset_t nodes;
    hwloc_cpuset_t cpus; /* of these nodes; empty if they have none */
    bool is_interleaved;
    bool is_strict;
};

struct moietyi_region {
    void *base;
    size_t size_bytes;
    moiety_devptr device_address; /* of `base`, once pinned */
    bool is_asked_for; /* the kernel or the driver was, for its pages */
    bool is_pinned;    /* the driver has it */
    enum moietyi_pages pages;
    uint32_t fallbacks;    /* MOIETY_HOST_FELL_ bits */
    uint32_t thread_count; /* most that touched it at once */
    uint64_t stage_ns[MOIETY_HOST_STAGE_COUNT];
    /* In pages of the smallest size; the other pages could not be found out. */
    uint64_t pages_near;
    uint64_t pages_elsewhere;
    char reason[MOIETYI_REASON_BYTES]; /* of the last fallback; "" for none */
};

#endif
