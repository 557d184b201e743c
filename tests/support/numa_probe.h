/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Lets tests in C++ ask numa/topology/topology.h and numa/topology/policy.h,
 * whose headers are C only; sets of nodes are texts, "0-3,6" or "none". Calls
 * and reads; asserts nothing.
 */
#ifndef MOIETY_TESTS_SUPPORT_NUMA_PROBE_H_
#define MOIETY_TESTS_SUPPORT_NUMA_PROBE_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NUMA_PROBE_TEXT_BYTES 1024

struct numa_probe; /* a topology */

moiety_status numa_probe_load(struct numa_probe **out);
void numa_probe_unload(struct numa_probe *topology);
/* The process's; never unloaded. */
moiety_status numa_probe_get(const struct numa_probe **out);
const char *numa_probe_message(void);

const char *numa_probe_source(const struct numa_probe *topology);
bool numa_probe_is_this_system(const struct numa_probe *topology);
void numa_probe_nodes(const struct numa_probe *topology, char *out);
void numa_probe_allowed(const struct numa_probe *topology, char *out);
/* "" if there is no such node. */
const char *numa_probe_kind(const struct numa_probe *topology, unsigned node);
uint64_t numa_probe_bytes(const struct numa_probe *topology, unsigned node);
unsigned numa_probe_cpus(const struct numa_probe *topology, unsigned node);
uint64_t numa_probe_latency_ns(const struct numa_probe *topology,
                               unsigned node);
uint64_t numa_probe_distance(const struct numa_probe *topology, unsigned from,
                             unsigned to);
moiety_status numa_probe_near_pci(const struct numa_probe *topology,
                                  const char *bus_id, char *out,
                                  bool *out_known);
void numa_probe_near_cpu(const struct numa_probe *topology, unsigned cpu,
                         char *out);
moiety_status numa_probe_caller_node(const struct numa_probe *topology,
                                     unsigned *out);

struct numa_probe_request {
    int policy; /* 0 nearest, 1 caller, 2 explicit, 3 interleave */
    bool is_strict;
    const char *nodes; /* "": none */
    const char *bus_id;
    unsigned caller_node;
    const char *driver_nodes; /* NULL: none */
};

struct numa_probe_placement {
    char nodes[NUMA_PROBE_TEXT_BYTES];
    bool is_strict, is_interleaved, is_fallback;
    const char *why;
};

moiety_status numa_probe_place(const struct numa_probe *topology,
                               const struct numa_probe_request *request,
                               struct numa_probe_placement *out);

/* "POLICY NODES" of what is read, as numbers of numa_probe_request and a list;
 * starts from policy 9 with node 7. */
moiety_status numa_probe_read_policy(const char *text, char *out);

/* A list of nodes there and back; false if it is none. */
bool numa_probe_nodeset(const char *text, char separator, char *out);

#ifdef __cplusplus
}
#endif

#endif
