/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A topology's inside. Written while it is loaded, by one thread, and then only
 * read.
 */
#ifndef MOIETY_NUMA_TOPOLOGY_STATE_H_
#define MOIETY_NUMA_TOPOLOGY_STATE_H_

#include "numa/topology/topology.h"

struct moietyi_topology {
    hwloc_topology_t hwloc;
    bool is_this_system;
    char source[256]; /* for people */
    moietyi_nodeset nodes;
    moietyi_nodeset allowed;
    moietyi_nodeset with_cpus; /* by the kernel's word; empty: not asked */
    struct moietyi_node node[MOIETYI_NODES_MAX];
    /* Row `from`, column `to`; NULL: not known. */
    uint64_t *distances;
};

/* Reads the nodes out of the loaded `topology->hwloc`, and how far they are from
 * each other. MOIETY_OK, MOIETY_E_NO_HOST_MEMORY, or MOIETY_E_UNSUPPORTED when
 * none is there that may be used. */
MOIETY_MUST_USE moiety_status
moietyi_topology_read(struct moietyi_topology *topology);

/* hwloc's set as ours; nodes beyond ours are left out. */
moietyi_nodeset moietyi_nodeset_of_hwloc(hwloc_const_nodeset_t from);

#endif
