/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The report as one JSON object. What is not known is null.
 */
#include <inttypes.h>
#include <stdio.h>

#include "numa/topology/report.h"
#include "pool/driver/driver_table.h"

/* Bytes that JSON does not take as they are, and those beyond ASCII, which need
 * not be UTF-8, are escaped one by one. */
static void print_string(FILE *file, const char *text)
{
    moietyi_say(file, "\"");
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\')
            moietyi_say(file, "\\u%04x", byte);
        else
            moietyi_say(file, "%c", byte);
    }
    moietyi_say(file, "\"");
}

static void print_known(FILE *file, const char *name, uint64_t value)
{
    if (value)
        moietyi_say(file, ", \"%s\": %" PRIu64, name, value);
    else
        moietyi_say(file, ", \"%s\": null", name);
}

static void print_set(FILE *file, const moietyi_nodeset *set)
{
    const char *separator = "";
    moietyi_say(file, "[");
    for (MOIETYI_NODESET_EACH(node, set)) {
        moietyi_say(file, "%s%u", separator, node);
        separator = ", ";
    }
    moietyi_say(file, "]");
}

static void print_driver(FILE *file, const struct moietyi_topo_report *report)
{
    const struct moietyi_driver *driver = moietyi_driver_opened();
    if (!report->has_driver || !driver) {
        moietyi_say(file, "\"driver\": null, \"driver_error\": ");
        print_string(file, report->why_no_driver);
        return;
    }
    moietyi_say(file, "\"driver\": {\"path\": ");
    print_string(file, driver->library_path);
    moietyi_say(
        file, ", \"is_standin\": %s, \"version\": %d}, \"driver_error\": null",
        driver->is_standin ? "true" : "false", driver->version);
}

static void report_json_print_node(FILE *file,
                                   const struct moietyi_topo_report *report,
                                   unsigned node)
{
    const struct moietyi_node *it =
        moietyi_topology_node(report->topology, node);
    const char *separator = "";
    moietyi_say(
        file,
        "{\"node\": %u, \"bytes\": %" PRIu64 ", \"huge_bytes\": %" PRIu64
        ", \"kind\": \"%s\", \"cpus\": %u, \"is_allowed\": %s",
        node, it->bytes, it->huge_bytes, moietyi_memory_kind_name(it->kind),
        it->cpu_count, it->is_allowed ? "true" : "false");
    print_known(file, "bandwidth_mib_s", it->bandwidth_mib_s);
    print_known(file, "latency_ns", it->latency_ns);
    moietyi_say(file, ", \"near_gpus\": [");
    for (int i = 0; i < report->gpu_count; i++) {
        if (moietyi_nodeset_has(&report->gpus[i].near, node)) {
            moietyi_say(file, "%s%d", separator, i);
            separator = ", ";
        }
    }
    moietyi_say(file, "], \"distances\": {");
    separator = "";
    const moietyi_nodeset *nodes = moietyi_topology_nodes(report->topology);
    for (MOIETYI_NODESET_EACH(to, nodes)) {
        uint64_t distance =
            moietyi_topology_distance(report->topology, node, to);
        if (distance == 0)
            continue;
        moietyi_say(file, "%s\"%u\": %" PRIu64, separator, to, distance);
        separator = ", ";
    }
    moietyi_say(file, "}}");
}

static void report_json_print_gpu(FILE *file,
                                  const struct moietyi_topo_gpu *gpu, int index)
{
    moietyi_say(file, "{\"gpu\": %d, \"bus_id\": \"%s\", \"name\": ", index,
                gpu->bus_id);
    print_string(file, gpu->caps.device_name);
    moietyi_say(file, ", \"near\": ");
    if (gpu->is_near_known)
        print_set(file, &gpu->near);
    else
        moietyi_say(file, "null");
    if (gpu->caps.host_numa_node >= 0)
        moietyi_say(file, ", \"driver_node\": %d", gpu->caps.host_numa_node);
    else
        moietyi_say(file, ", \"driver_node\": null");
    moietyi_say(file, ", \"use\": {\"nodes\": ");
    print_set(file, &gpu->use.nodes);
    moietyi_say(file, ", \"is_fallback\": %s, \"why\": ",
                gpu->use.is_fallback ? "true" : "false");
    print_string(file, gpu->use.why);
    moietyi_say(file, "}}");
}

void moietyi_topo_json(FILE *file, const struct moietyi_topo_report *report)
{
    const moietyi_nodeset *nodes = moietyi_topology_nodes(report->topology);
    const char *separator = "";
    moietyi_say(file, "{\"source\": ");
    print_string(file, moietyi_topology_source(report->topology));
    moietyi_say(file, ", \"is_this_system\": %s,\n ",
                moietyi_topology_is_this_system(report->topology) ? "true"
                                                                  : "false");
    print_driver(file, report);
    moietyi_say(file, ",\n \"nodes\": [");
    for (MOIETYI_NODESET_EACH(node, nodes)) {
        moietyi_say(file, "%s\n  ", separator);
        report_json_print_node(file, report, node);
        separator = ",";
    }
    moietyi_say(file, "],\n \"gpus\": [");
    separator = "";
    for (int i = 0; i < report->gpu_count; i++) {
        moietyi_say(file, "%s\n  ", separator);
        report_json_print_gpu(file, &report->gpus[i], i);
        separator = ",";
    }
    moietyi_say(file, "]}\n");
}
