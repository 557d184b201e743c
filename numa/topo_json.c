/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The report as one JSON object. What is not known is null.
 */
#include <inttypes.h>
#include <stdio.h>

#include "numa/topo.h"
#include "pool/driver/driver_table.h"

/* Bytes that JSON does not take as they are, and those beyond ASCII, which need
 * not be UTF-8, are escaped one by one. */
static void print_string(const char *text)
{
    (void)putchar('"');
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\')
            printf("\\u%04x", byte);
        else
            (void)putchar(byte);
    }
    (void)putchar('"');
}

static void print_known(const char *name, uint64_t value)
{
    if (value)
        printf(", \"%s\": %" PRIu64, name, value);
    else
        printf(", \"%s\": null", name);
}

static void print_set(const binadei_nodeset *set)
{
    const char *separator = "";
    printf("[");
    for (BINADEI_NODESET_EACH(node, set)) {
        printf("%s%u", separator, node);
        separator = ", ";
    }
    printf("]");
}

static void print_driver(const struct topo_report *report)
{
    const struct binadei_driver *driver = binadei_driver_opened();
    if (!report->has_driver || !driver) {
        printf("\"driver\": null, \"driver_error\": ");
        print_string(report->why_no_driver);
        return;
    }
    printf("\"driver\": {\"path\": ");
    print_string(driver->library_path);
    printf(", \"is_standin\": %s, \"version\": %d}, \"driver_error\": null",
           driver->is_standin ? "true" : "false", driver->version);
}

static void print_node(const struct topo_report *report, unsigned node)
{
    const struct binadei_node *it =
        binadei_topology_node(report->topology, node);
    const char *separator = "";
    printf("{\"node\": %u, \"bytes\": %" PRIu64 ", \"huge_bytes\": %" PRIu64
           ", \"kind\": \"%s\", \"cpus\": %u, \"is_allowed\": %s",
           node, it->bytes, it->huge_bytes, binadei_memory_kind_name(it->kind),
           it->cpu_count, it->is_allowed ? "true" : "false");
    print_known("bandwidth_mib_s", it->bandwidth_mib_s);
    print_known("latency_ns", it->latency_ns);
    printf(", \"near_gpus\": [");
    for (int i = 0; i < report->gpu_count; i++) {
        if (binadei_nodeset_has(&report->gpus[i].near, node)) {
            printf("%s%d", separator, i);
            separator = ", ";
        }
    }
    printf("], \"distances\": {");
    separator = "";
    const binadei_nodeset *nodes = binadei_topology_nodes(report->topology);
    for (BINADEI_NODESET_EACH(to, nodes)) {
        uint64_t distance =
            binadei_topology_distance(report->topology, node, to);
        if (distance == 0)
            continue;
        printf("%s\"%u\": %" PRIu64, separator, to, distance);
        separator = ", ";
    }
    printf("}}");
}

static void print_gpu(const struct topo_gpu *gpu, int index)
{
    printf("{\"gpu\": %d, \"bus_id\": \"%s\", \"name\": ", index, gpu->bus_id);
    print_string(gpu->caps.device_name);
    printf(", \"near\": ");
    if (gpu->is_near_known)
        print_set(&gpu->near);
    else
        printf("null");
    if (gpu->caps.host_numa_node >= 0)
        printf(", \"driver_node\": %d", gpu->caps.host_numa_node);
    else
        printf(", \"driver_node\": null");
    printf(", \"use\": {\"nodes\": ");
    print_set(&gpu->use.nodes);
    printf(", \"is_fallback\": %s, \"why\": ",
           gpu->use.is_fallback ? "true" : "false");
    print_string(gpu->use.why);
    printf("}}");
}

void topo_print_json(const struct topo_report *report)
{
    const binadei_nodeset *nodes = binadei_topology_nodes(report->topology);
    const char *separator = "";
    printf("{\"source\": ");
    print_string(binadei_topology_source(report->topology));
    printf(", \"is_this_system\": %s,\n ",
           binadei_topology_is_this_system(report->topology) ? "true"
                                                             : "false");
    print_driver(report);
    printf(",\n \"nodes\": [");
    for (BINADEI_NODESET_EACH(node, nodes)) {
        printf("%s\n  ", separator);
        print_node(report, node);
        separator = ",";
    }
    printf("],\n \"gpus\": [");
    separator = "";
    for (int i = 0; i < report->gpu_count; i++) {
        printf("%s\n  ", separator);
        print_gpu(&report->gpus[i], i);
        separator = ",";
    }
    printf("]}\n");
}
