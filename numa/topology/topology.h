/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What hwloc knows of the machine, as far as the placement of pinned memory
 * needs it: nodes, which of them this process may use, and the nodes near a PCI
 * device. All of it is read when a topology is loaded and never changes, so any
 * thread may ask at any time without a lock, and so may the child of a fork.
 *
 * Nodes are named by the operating system's index. A topology need not be this
 * machine's: HWLOC_XMLFILE and HWLOC_SYNTHETIC name others, for decisions only.
 */
#ifndef MOIETY_NUMA_TOPOLOGY_TOPOLOGY_H_
#define MOIETY_NUMA_TOPOLOGY_TOPOLOGY_H_

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/status.h"
#include "numa/topology/nodeset.h"

struct moietyi_topology;

/* The kind of a node's memory, best first: a choice takes the nodes of the
 * first kind that exists, and never DEVICE. */
enum moietyi_memory_kind {
    MOIETYI_MEMORY_DRAM = 0,    /* the ordinary memory of some CPUs */
    MOIETYI_MEMORY_HBM = 1,     /* faster, scarcer, beside DRAM */
    MOIETYI_MEMORY_CPULESS = 2, /* no CPUs of its own; no more is known */
    MOIETYI_MEMORY_SLOW = 3,    /* behind CXL, or persistent */
    MOIETYI_MEMORY_DEVICE = 4,  /* a GPU's, shown as a node */
};

struct moietyi_node {
    uint64_t bytes;           /* 0: none, or not known */
    uint64_t huge_bytes;      /* of it in the kernel's pools of huge pages */
    uint64_t bandwidth_mib_s; /* from the CPUs next to it; 0: not known */
    uint64_t latency_ns;      /* likewise */
    unsigned cpu_count;       /* its own, used or not; 0 but for DRAM */
    enum moietyi_memory_kind kind;
    bool is_there;
    bool is_allowed; /* this process may have memory there */
};

/* The topology of this process, loaded by the first caller; it lives as long as
 * the process. Threads that come together may each load one, and one of them is
 * kept: there is no lock. MOIETY_OK, what moietyi_topology_load() says, or
 * MOIETY_E_FORKED in a child whose parent had opened the driver, but had loaded
 * no topology. */
MOIETY_MUST_USE moiety_status
moietyi_topology_get(const struct moietyi_topology **out);

/* Loads a topology of the caller's own. MOIETY_OK, MOIETY_E_NO_HOST_MEMORY,
 * MOIETY_E_INVALID for a HWLOC_XMLFILE or HWLOC_SYNTHETIC that is not one, or
 * MOIETY_E_UNSUPPORTED when hwloc cannot tell or shows no node. */
MOIETY_MUST_USE moiety_status
moietyi_topology_load(struct moietyi_topology **out);
/* NULL is allowed. */
void moietyi_topology_unload(struct moietyi_topology *topology);

/* For binding and looking up; not to be changed. */
hwloc_topology_t
moietyi_topology_hwloc(const struct moietyi_topology *topology);

/* Whether it is the machine that we run on. If not, hwloc's bindings succeed
 * and do nothing. */
bool moietyi_topology_is_this_system(const struct moietyi_topology *topology);
/* "this machine", "HWLOC_XMLFILE=..."; lives as long as the topology. */
const char *moietyi_topology_source(const struct moietyi_topology *topology);

/* All nodes there are, and those that this process may use: its cpuset. */
const moietyi_nodeset *
moietyi_topology_nodes(const struct moietyi_topology *topology);
const moietyi_nodeset *
moietyi_topology_allowed(const struct moietyi_topology *topology);

/* NULL if there is no such node. */
const struct moietyi_node *
moietyi_topology_node(const struct moietyi_topology *topology, unsigned node);
bool moietyi_topology_has_node(const struct moietyi_topology *topology,
                               unsigned node);
bool moietyi_topology_is_allowed(const struct moietyi_topology *topology,
                                 unsigned node);
uint64_t moietyi_topology_node_bytes(const struct moietyi_topology *topology,
                                     unsigned node);

/* The distance of `to`'s memory from `from`, in the firmware's unit: 10 is
 * local. 0: unknown. */
uint64_t moietyi_topology_distance(const struct moietyi_topology *topology,
                                   unsigned from, unsigned to);

/* Those of `among` that have memory and are of the best kind among them; a
 * device's own memory is never chosen. */
moietyi_nodeset
moietyi_topology_best_of(const struct moietyi_topology *topology,
                         const moietyi_nodeset *among);

/* The best nodes next to the PCI device `bus_id` ("0000:21:00.0"), whether
 * allowed or not; with sub-NUMA clustering there are several. If none has
 * memory, the nodes without memory, which still show what is close. If hwloc
 * does not know the device or its place, `*out_known` is false and the set
 * empty; but if there is only one such node, it is near any device. MOIETY_OK,
 * or MOIETY_E_INVALID if `bus_id` is no PCI address. */
MOIETY_MUST_USE moiety_status moietyi_topology_near_pci(
    const struct moietyi_topology *topology, const char *bus_id,
    moietyi_nodeset *out, bool *out_known);

/* The nodes next to a CPU, likewise; empty if there is no such CPU. */
moietyi_nodeset
moietyi_topology_near_cpu(const struct moietyi_topology *topology,
                          unsigned cpu);
/* The node next to the CPU that the calling thread runs on; a moment later it
 * may run on another. MOIETY_OK, or MOIETY_E_UNSUPPORTED if the topology does
 * not know that CPU. */
MOIETY_MUST_USE moiety_status moietyi_topology_caller_node(
    const struct moietyi_topology *topology, unsigned *out);

const char *moietyi_memory_kind_name(enum moietyi_memory_kind kind);

#endif
