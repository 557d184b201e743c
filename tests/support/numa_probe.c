/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/numa_probe.h"

#include <stdio.h>
#include <string.h>

#include "numa/topology/policy.h"
#include "numa/topology/topology.h"
#include "pool/base/failure.h"

static const struct binadei_topology *real(const struct numa_probe *topology)
{
    return (const struct binadei_topology *)topology;
}

binade_status numa_probe_load(struct numa_probe **out)
{
    return binadei_topology_load((struct binadei_topology **)out);
}

void numa_probe_unload(struct numa_probe *topology)
{
    binadei_topology_unload((struct binadei_topology *)topology);
}

binade_status numa_probe_get(const struct numa_probe **out)
{
    return binadei_topology_get((const struct binadei_topology **)out);
}

const char *numa_probe_message(void)
{
    return binadei_failure_message();
}

const char *numa_probe_source(const struct numa_probe *topology)
{
    return binadei_topology_source(real(topology));
}

bool numa_probe_is_this_system(const struct numa_probe *topology)
{
    return binadei_topology_is_this_system(real(topology));
}

void numa_probe_nodes(const struct numa_probe *topology, char *out)
{
    (void)binadei_nodeset_text(binadei_topology_nodes(real(topology)), out);
}

void numa_probe_allowed(const struct numa_probe *topology, char *out)
{
    (void)binadei_nodeset_text(binadei_topology_allowed(real(topology)), out);
}

const char *numa_probe_kind(const struct numa_probe *topology, unsigned node)
{
    const struct binadei_node *it = binadei_topology_node(real(topology), node);
    return it ? binadei_memory_kind_name(it->kind) : "";
}

uint64_t numa_probe_bytes(const struct numa_probe *topology, unsigned node)
{
    return binadei_topology_node_bytes(real(topology), node);
}

unsigned numa_probe_cpus(const struct numa_probe *topology, unsigned node)
{
    const struct binadei_node *it = binadei_topology_node(real(topology), node);
    return it ? it->cpu_count : 0;
}

uint64_t numa_probe_latency_ns(const struct numa_probe *topology, unsigned node)
{
    const struct binadei_node *it = binadei_topology_node(real(topology), node);
    return it ? it->latency_ns : 0;
}

uint64_t numa_probe_distance(const struct numa_probe *topology, unsigned from,
                             unsigned to)
{
    return binadei_topology_distance(real(topology), from, to);
}

binade_status numa_probe_near_pci(const struct numa_probe *topology,
                                  const char *bus_id, char *out,
                                  bool *out_known)
{
    binadei_nodeset near = {{0}};
    binade_status status =
        binadei_topology_near_pci(real(topology), bus_id, &near, out_known);
    (void)binadei_nodeset_text(&near, out);
    return status;
}

void numa_probe_near_cpu(const struct numa_probe *topology, unsigned cpu,
                         char *out)
{
    binadei_nodeset near = binadei_topology_near_cpu(real(topology), cpu);
    (void)binadei_nodeset_text(&near, out);
}

binade_status numa_probe_caller_node(const struct numa_probe *topology,
                                     unsigned *out)
{
    return binadei_topology_caller_node(real(topology), out);
}

binade_status numa_probe_place(const struct numa_probe *topology,
                               const struct numa_probe_request *request,
                               struct numa_probe_placement *out)
{
    struct binadei_placement placement = {.why = ""};
    struct binadei_placement_request it = {
        .policy = (enum binadei_policy)request->policy,
        .is_strict = request->is_strict,
        .caller_node = request->caller_node,
    };
    if (*request->nodes)
        (void)binadei_nodeset_parse(request->nodes, ',', &it.nodes);
    (void)snprintf(it.bus_id, sizeof(it.bus_id), "%s", request->bus_id);
    binade_status status = binadei_place(real(topology), &it, &placement);
    (void)binadei_nodeset_text(&placement.nodes, out->nodes);
    out->is_strict = placement.is_strict;
    out->is_interleaved = placement.is_interleaved;
    out->is_fallback = placement.is_fallback;
    out->why = placement.why;
    return status;
}

binade_status numa_probe_read_policy(const char *text, char *out)
{
    char nodes[BINADEI_NODESET_TEXT_BYTES];
    struct binadei_placement_request it = {.policy = (enum binadei_policy)9};
    binadei_nodeset_add(&it.nodes, 7);
    binade_status status = binadei_policy_read(text, strlen(text), &it);
    (void)snprintf(out, NUMA_PROBE_TEXT_BYTES, "%d %s", (int)it.policy,
                   binadei_nodeset_text(&it.nodes, nodes));
    return status;
}

bool numa_probe_nodeset(const char *text, char separator, char *out)
{
    binadei_nodeset set = {{0}};
    if (binadei_nodeset_parse(text, separator, &set) == 0)
        return false;
    (void)binadei_nodeset_text(&set, out);
    return true;
}
