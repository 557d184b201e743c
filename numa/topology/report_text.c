/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The report for people; docs/numa.md explains it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "numa/topology/report.h"
#include "pool/driver/driver_table.h"

#define GIB ((double)(UINT64_C(1) << 30))

static void print_sources(FILE *file, const struct moietyi_topo_report *report)
{
    const struct moietyi_driver *driver = moietyi_driver_opened();
    bool is_here = moietyi_topology_is_this_system(report->topology);
    moietyi_say(
        file, "topology: %s%s\n", moietyi_topology_source(report->topology),
        is_here ? "" : " (not this machine: nothing can be bound on it)");
    if (report->has_driver && driver) {
        moietyi_say(file, "driver: %s%s, CUDA %d.%d\n", driver->library_path,
                    driver->is_standin ? " (stand-in)" : "",
                    driver->version / 1000, driver->version % 1000 / 10);
    } else {
        moietyi_say(file, "driver: none, so no GPU is shown: %s\n",
                    report->why_no_driver);
    }
}

static void report_text_print_node(FILE *file,
                                   const struct moietyi_topo_report *report,
                                   unsigned node)
{
    const struct moietyi_node *it =
        moietyi_topology_node(report->topology, node);
    bool has_gpu = false;
    moietyi_say(file, "  node %-3u %9.1f GiB  %-7s  %3u CPUs", node,
                (double)it->bytes / GIB, moietyi_memory_kind_name(it->kind),
                it->cpu_count);
    if (it->huge_bytes)
        moietyi_say(file, "  %" PRIu64 " MiB of huge pages",
                    it->huge_bytes >> 20);
    if (it->bandwidth_mib_s)
        moietyi_say(file, "  %" PRIu64 " MiB/s", it->bandwidth_mib_s);
    if (it->latency_ns)
        moietyi_say(file, "  %" PRIu64 " ns", it->latency_ns);
    if (!it->is_allowed)
        moietyi_say(file, "  not allowed for this process");
    for (int i = 0; i < report->gpu_count; i++) {
        if (!moietyi_nodeset_has(&report->gpus[i].near, node))
            continue;
        moietyi_say(file, "%s%d", has_gpu ? "," : "  near GPU ", i);
        has_gpu = true;
    }
    moietyi_say(file, "%s\n",
                has_gpu || !report->has_driver ? "" : "  no GPU near");
}

static void print_distances(FILE *file, const struct moietyi_topology *topology)
{
    const moietyi_nodeset *nodes = moietyi_topology_nodes(topology);
    unsigned first = moietyi_nodeset_first(nodes);
    if (moietyi_topology_distance(topology, first, first) == 0)
        return;
    moietyi_say(file, "distances (10: local)\n  from \\ to");
    for (MOIETYI_NODESET_EACH(to, nodes))
        moietyi_say(file, " %4u", to);
    moietyi_say(file, "\n");
    for (MOIETYI_NODESET_EACH(from, nodes)) {
        moietyi_say(file, "  %9u", from);
        for (MOIETYI_NODESET_EACH(to, nodes))
            moietyi_say(file, " %4" PRIu64,
                        moietyi_topology_distance(topology, from, to));
        moietyi_say(file, "\n");
    }
}

static void report_text_print_gpu(FILE *file,
                                  const struct moietyi_topo_gpu *gpu, int index)
{
    char text[MOIETYI_NODESET_TEXT_BYTES];
    moietyi_say(file, "  GPU %-3d  %s  %s\n", index, gpu->bus_id,
                gpu->caps.device_name);
    moietyi_say(file, "           near it: %s",
                gpu->is_near_known ? moietyi_nodeset_text(&gpu->near, text)
                                   : "not known");
    if (gpu->caps.host_numa_node >= 0)
        moietyi_say(file, " (the driver says %d)", gpu->caps.host_numa_node);
    moietyi_say(file, "\n           pinned memory for it: %s, %s\n",
                moietyi_nodeset_text(&gpu->use.nodes, text), gpu->use.why);
}

void moietyi_topo_text(FILE *file, const struct moietyi_topo_report *report)
{
    const moietyi_nodeset *nodes = moietyi_topology_nodes(report->topology);
    print_sources(file, report);
    moietyi_say(file, "nodes\n");
    for (MOIETYI_NODESET_EACH(node, nodes))
        report_text_print_node(file, report, node);
    print_distances(file, report->topology);
    if (report->has_driver)
        moietyi_say(file, report->gpu_count ? "GPUs\n" : "GPUs: none\n");
    for (int i = 0; i < report->gpu_count; i++)
        report_text_print_gpu(file, &report->gpus[i], i);
}
