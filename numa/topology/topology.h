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
#ifndef BINADE_NUMA_TOPOLOGY_TOPOLOGY_H_
#define BINADE_NUMA_TOPOLOGY_TOPOLOGY_H_

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include "binade/status.h"
#include "numa/topology/nodeset.h"

struct binadei_topology;

/* What a node's memory is good for, best first: who may choose takes the nodes
 * of the first kind that there is, and never DEVICE. */
enum binadei_memory_kind {
    BINADEI_MEMORY_DRAM = 0,    /* the ordinary memory of some CPUs */
    BINADEI_MEMORY_HBM = 1,     /* faster, scarcer, beside DRAM */
    BINADEI_MEMORY_CPULESS = 2, /* no CPUs of its own; no more is known */
    BINADEI_MEMORY_SLOW = 3,    /* behind CXL, or persistent */
    BINADEI_MEMORY_DEVICE = 4,  /* a GPU's, shown as a node */
};

struct binadei_node {
    uint64_t bytes;           /* 0: none, or not known */
    uint64_t huge_bytes;      /* of it in the kernel's pools of huge pages */
    uint64_t bandwidth_mib_s; /* from the CPUs next to it; 0: not known */
    uint64_t latency_ns;      /* likewise */
    unsigned cpu_count;       /* its own, used or not; 0 but for DRAM */
    enum binadei_memory_kind kind;
    bool is_there;
    bool is_allowed; /* this process may have memory there */
};

/* The topology of this process, loaded by the first caller; it lives as long as
 * the process. Threads that come together may each load one, and one of them is
 * kept: there is no lock. BINADE_OK, what binadei_topology_load() says, or
 * BINADE_E_FORKED in a child whose parent had opened the driver, but had loaded
 * no topology. */
BINADE_MUST_USE binade_status
binadei_topology_get(const struct binadei_topology **out);

/* Loads a topology of the caller's own. BINADE_OK, BINADE_E_NO_HOST_MEMORY,
 * BINADE_E_INVALID for a HWLOC_XMLFILE or HWLOC_SYNTHETIC that is not one, or
 * BINADE_E_UNSUPPORTED when hwloc cannot tell or shows no node. */
BINADE_MUST_USE binade_status
binadei_topology_load(struct binadei_topology **out);
/* NULL is allowed. */
void binadei_topology_unload(struct binadei_topology *topology);

/* For binding and looking up; not to be changed. */
hwloc_topology_t
binadei_topology_hwloc(const struct binadei_topology *topology);

/* Whether it is the machine that we run on. If not, hwloc's bindings succeed
 * and do nothing. */
bool binadei_topology_is_this_system(const struct binadei_topology *topology);
/* "this machine", "HWLOC_XMLFILE=..."; lives as long as the topology. */
const char *binadei_topology_source(const struct binadei_topology *topology);

/* All nodes there are, and those that this process may use: its cpuset. */
const binadei_nodeset *
binadei_topology_nodes(const struct binadei_topology *topology);
const binadei_nodeset *
binadei_topology_allowed(const struct binadei_topology *topology);

/* NULL if there is no such node. */
const struct binadei_node *
binadei_topology_node(const struct binadei_topology *topology, unsigned node);
bool binadei_topology_has_node(const struct binadei_topology *topology,
                               unsigned node);
bool binadei_topology_is_allowed(const struct binadei_topology *topology,
                                 unsigned node);
uint64_t binadei_topology_node_bytes(const struct binadei_topology *topology,
                                     unsigned node);

/* How far the memory of `to` is from `from`, in the firmware's unit: 10 is
 * local. 0: not known. */
uint64_t binadei_topology_distance(const struct binadei_topology *topology,
                                   unsigned from, unsigned to);

/* Those of `among` that have memory and are of the best kind among them; a
 * device's own memory is never chosen. */
binadei_nodeset
binadei_topology_best_of(const struct binadei_topology *topology,
                         const binadei_nodeset *among);

/* The nodes next to the PCI device `bus_id` ("0000:21:00.0"), the best of them,
 * whether allowed or not; with sub-NUMA clustering there are several. If none
 * has memory, they are the ones without, and of use to tell what is close.
 * `*out_known` is false, and the set empty, if hwloc does not know the device,
 * or that it is anywhere in particular; but where there is but one such node,
 * it is near any device. BINADE_OK, or BINADE_E_INVALID if `bus_id` is no
 * PCI address. */
BINADE_MUST_USE binade_status binadei_topology_near_pci(
    const struct binadei_topology *topology, const char *bus_id,
    binadei_nodeset *out, bool *out_known);

/* The nodes next to a CPU, likewise; empty if there is no such CPU. */
binadei_nodeset
binadei_topology_near_cpu(const struct binadei_topology *topology,
                          unsigned cpu);
/* The node next to the CPU that the calling thread runs on; a moment later it
 * may run on another. BINADE_OK, or BINADE_E_UNSUPPORTED if the topology does
 * not know that CPU. */
BINADE_MUST_USE binade_status binadei_topology_caller_node(
    const struct binadei_topology *topology, unsigned *out);

const char *binadei_memory_kind_name(enum binadei_memory_kind kind);

#endif
