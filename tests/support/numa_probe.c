/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/numa_probe.h"

#include <stdio.h>
#include <string.h>

#include "numa/topology/policy.h"
#include "numa/topology/topology.h"
#include "pool/base/failure.h"

static const struct moietyi_topology *real(const struct numa_probe *topology)
{
    return (const struct moietyi_topology *)topology;
}

moiety_status numa_probe_load(struct numa_probe **out)
{
    return moietyi_topology_load((struct moietyi_topology **)out);
}

void numa_probe_unload(struct numa_probe *topology)
{
    moietyi_topology_unload((struct moietyi_topology *)topology);
}

moiety_status numa_probe_get(const struct numa_probe **out)
{
    return moietyi_topology_get((const struct moietyi_topology **)out);
}

const char *numa_probe_message(void)
{
    return moietyi_failure_message();
}

const char *numa_probe_source(const struct numa_probe *topology)
{
    return moietyi_topology_source(real(topology));
}

bool numa_probe_is_this_system(const struct numa_probe *topology)
{
    return moietyi_topology_is_this_system(real(topology));
}

void numa_probe_nodes(const struct numa_probe *topology, char *out)
{
    (void)moietyi_nodeset_text(moietyi_topology_nodes(real(topology)), out);
}

void numa_probe_allowed(const struct numa_probe *topology, char *out)
{
    (void)moietyi_nodeset_text(moietyi_topology_allowed(real(topology)), out);
}

const char *numa_probe_kind(const struct numa_probe *topology, unsigned node)
{
    const struct moietyi_node *it = moietyi_topology_node(real(topology), node);
    return it ? moietyi_memory_kind_name(it->kind) : "";
}

uint64_t numa_probe_bytes(const struct numa_probe *topology, unsigned node)
{
    return moietyi_topology_node_bytes(real(topology), node);
}

unsigned numa_probe_cpus(const struct numa_probe *topology, unsigned node)
{
    const struct moietyi_node *it = moietyi_topology_node(real(topology), node);
    return it ? it->cpu_count : 0;
}

uint64_t numa_probe_latency_ns(const struct numa_probe *topology, unsigned node)
{
    const struct moietyi_node *it = moietyi_topology_node(real(topology), node);
    return it ? it->latency_ns : 0;
}

uint64_t numa_probe_distance(const struct numa_probe *topology, unsigned from,
                             unsigned to)
{
    return moietyi_topology_distance(real(topology), from, to);
}

moiety_status numa_probe_near_pci(const struct numa_probe *topology,
                                  const char *bus_id, char *out,
                                  bool *out_known)
{
    moietyi_nodeset near = {{0}};
    moiety_status status =
        moietyi_topology_near_pci(real(topology), bus_id, &near, out_known);
    (void)moietyi_nodeset_text(&near, out);
    return status;
}

void numa_probe_near_cpu(const struct numa_probe *topology, unsigned cpu,
                         char *out)
{
    moietyi_nodeset near = moietyi_topology_near_cpu(real(topology), cpu);
    (void)moietyi_nodeset_text(&near, out);
}

moiety_status numa_probe_caller_node(const struct numa_probe *topology,
                                     unsigned *out)
{
    return moietyi_topology_caller_node(real(topology), out);
}

moiety_status numa_probe_place(const struct numa_probe *topology,
                               const struct numa_probe_request *request,
                               struct numa_probe_placement *out)
{
    struct moietyi_placement placement = {.why = ""};
    struct moietyi_placement_request it = {
        .policy = (enum moietyi_policy)request->policy,
        .is_strict = request->is_strict,
        .caller_node = request->caller_node,
    };
    if (*request->nodes)
        (void)moietyi_nodeset_parse(request->nodes, ',', &it.nodes);
    if (request->driver_nodes)
        (void)moietyi_nodeset_parse(request->driver_nodes, ',',
                                    &it.driver_nodes);
    (void)snprintf(it.bus_id, sizeof(it.bus_id), "%s", request->bus_id);
    moiety_status status = moietyi_place(real(topology), &it, &placement);
    (void)moietyi_nodeset_text(&placement.nodes, out->nodes);
    out->is_strict = placement.is_strict;
    out->is_interleaved = placement.is_interleaved;
    out->is_fallback = placement.is_fallback;
    out->why = placement.why;
    return status;
}

moiety_status numa_probe_read_policy(const char *text, char *out)
{
    char nodes[MOIETYI_NODESET_TEXT_BYTES];
    struct moietyi_placement_request it = {.policy = (enum moietyi_policy)9};
    moietyi_nodeset_add(&it.nodes, 7);
    moiety_status status = moietyi_policy_read(text, strlen(text), &it);
    (void)snprintf(out, NUMA_PROBE_TEXT_BYTES, "%d %s", (int)it.policy,
                   moietyi_nodeset_text(&it.nodes, nodes));
    return status;
}

bool numa_probe_nodeset(const char *text, char separator, char *out)
{
    moietyi_nodeset set = {{0}};
    if (moietyi_nodeset_parse(text, separator, &set) == 0)
        return false;
    (void)moietyi_nodeset_text(&set, out);
    return true;
}
