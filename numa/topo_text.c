/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The report for people; docs/numa.md explains it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "numa/topo.h"
#include "pool/driver/driver_table.h"

#define GIB ((double)(UINT64_C(1) << 30))

static void print_sources(const struct topo_report *report)
{
    const struct binadei_driver *driver = binadei_driver_opened();
    bool is_here = binadei_topology_is_this_system(report->topology);
    printf("topology: %s%s\n", binadei_topology_source(report->topology),
           is_here ? "" : " (not this machine: nothing can be bound on it)");
    if (report->has_driver && driver) {
        printf("driver: %s%s, CUDA %d.%d\n", driver->library_path,
               driver->is_standin ? " (stand-in)" : "", driver->version / 1000,
               driver->version % 1000 / 10);
    } else {
        printf("driver: none, so no GPU is shown: %s\n", report->why_no_driver);
    }
}

static void print_node(const struct topo_report *report, unsigned node)
{
    const struct binadei_node *it =
        binadei_topology_node(report->topology, node);
    bool has_gpu = false;
    printf("  node %-3u %9.1f GiB  %-7s  %3u CPUs", node,
           (double)it->bytes / GIB, binadei_memory_kind_name(it->kind),
           it->cpu_count);
    if (it->huge_bytes)
        printf("  %" PRIu64 " MiB of huge pages", it->huge_bytes >> 20);
    if (it->bandwidth_mib_s)
        printf("  %" PRIu64 " MiB/s", it->bandwidth_mib_s);
    if (it->latency_ns)
        printf("  %" PRIu64 " ns", it->latency_ns);
    if (!it->is_allowed)
        printf("  not allowed for this process");
    for (int i = 0; i < report->gpu_count; i++) {
        if (!binadei_nodeset_has(&report->gpus[i].near, node))
            continue;
        printf("%s%d", has_gpu ? "," : "  near GPU ", i);
        has_gpu = true;
    }
    printf("%s\n", has_gpu || !report->has_driver ? "" : "  no GPU near");
}

static void print_distances(const struct binadei_topology *topology)
{
    const binadei_nodeset *nodes = binadei_topology_nodes(topology);
    unsigned first = binadei_nodeset_first(nodes);
    if (binadei_topology_distance(topology, first, first) == 0)
        return;
    printf("distances (10: local)\n  from \\ to");
    for (BINADEI_NODESET_EACH(to, nodes))
        printf(" %4u", to);
    printf("\n");
    for (BINADEI_NODESET_EACH(from, nodes)) {
        printf("  %9u", from);
        for (BINADEI_NODESET_EACH(to, nodes))
            printf(" %4" PRIu64, binadei_topology_distance(topology, from, to));
        printf("\n");
    }
}

static void print_gpu(const struct topo_gpu *gpu, int index)
{
    char text[BINADEI_NODESET_TEXT_BYTES];
    printf("  GPU %-3d  %s  %s\n", index, gpu->bus_id, gpu->caps.device_name);
    printf("           near it: %s",
           gpu->is_near_known ? binadei_nodeset_text(&gpu->near, text)
                              : "not known");
    if (gpu->caps.host_numa_node >= 0)
        printf(" (the driver says %d)", gpu->caps.host_numa_node);
    printf("\n           pinned memory for it: %s, %s\n",
           binadei_nodeset_text(&gpu->use.nodes, text), gpu->use.why);
}

void topo_print_text(const struct topo_report *report)
{
    const binadei_nodeset *nodes = binadei_topology_nodes(report->topology);
    print_sources(report);
    printf("nodes\n");
    for (BINADEI_NODESET_EACH(node, nodes))
        print_node(report, node);
    print_distances(report->topology);
    if (report->has_driver)
        printf(report->gpu_count ? "GPUs\n" : "GPUs: none\n");
    for (int i = 0; i < report->gpu_count; i++)
        print_gpu(&report->gpus[i], i);
}
