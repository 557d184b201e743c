/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A topology's inside. Written while it is loaded, by one thread, and then only
 * read.
 */
#ifndef BINADE_NUMA_TOPOLOGY_STATE_H_
#define BINADE_NUMA_TOPOLOGY_STATE_H_

#include "numa/topology/topology.h"

struct binadei_topology {
    hwloc_topology_t hwloc;
    bool is_this_system;
    char source[256]; /* for people */
    binadei_nodeset nodes;
    binadei_nodeset allowed;
    binadei_nodeset with_cpus; /* by the kernel's word; empty: not asked */
    struct binadei_node node[BINADEI_NODES_MAX];
    /* Row `from`, column `to`; NULL: not known. */
    uint64_t *distances;
};

/* Reads the nodes out of the loaded `topology->hwloc`, and how far they are from
 * each other. BINADE_OK, BINADE_E_NO_HOST_MEMORY, or BINADE_E_UNSUPPORTED when
 * none is there that may be used. */
BINADE_MUST_USE binade_status
binadei_topology_read(struct binadei_topology *topology);

/* hwloc's set as ours; nodes beyond ours are left out. */
binadei_nodeset binadei_nodeset_of_hwloc(hwloc_const_nodeset_t from);

#endif
