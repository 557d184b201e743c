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
    binadei_say(file, "\"");
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\')
            binadei_say(file, "\\u%04x", byte);
        else
            binadei_say(file, "%c", byte);
    }
    binadei_say(file, "\"");
}

static void print_known(FILE *file, const char *name, uint64_t value)
{
    if (value)
        binadei_say(file, ", \"%s\": %" PRIu64, name, value);
    else
        binadei_say(file, ", \"%s\": null", name);
}

static void print_set(FILE *file, const binadei_nodeset *set)
{
    const char *separator = "";
    binadei_say(file, "[");
    for (BINADEI_NODESET_EACH(node, set)) {
        binadei_say(file, "%s%u", separator, node);
        separator = ", ";
    }
    binadei_say(file, "]");
}

static void print_driver(FILE *file, const struct binadei_topo_report *report)
{
    const struct binadei_driver *driver = binadei_driver_opened();
    if (!report->has_driver || !driver) {
        binadei_say(file, "\"driver\": null, \"driver_error\": ");
        print_string(file, report->why_no_driver);
        return;
    }
    binadei_say(file, "\"driver\": {\"path\": ");
    print_string(file, driver->library_path);
    binadei_say(
        file, ", \"is_standin\": %s, \"version\": %d}, \"driver_error\": null",
        driver->is_standin ? "true" : "false", driver->version);
}

static void report_json_print_node(FILE *file,
                                   const struct binadei_topo_report *report,
                                   unsigned node)
{
    const struct binadei_node *it =
        binadei_topology_node(report->topology, node);
    const char *separator = "";
    binadei_say(
        file,
        "{\"node\": %u, \"bytes\": %" PRIu64 ", \"huge_bytes\": %" PRIu64
        ", \"kind\": \"%s\", \"cpus\": %u, \"is_allowed\": %s",
        node, it->bytes, it->huge_bytes, binadei_memory_kind_name(it->kind),
        it->cpu_count, it->is_allowed ? "true" : "false");
    print_known(file, "bandwidth_mib_s", it->bandwidth_mib_s);
    print_known(file, "latency_ns", it->latency_ns);
    binadei_say(file, ", \"near_gpus\": [");
    for (int i = 0; i < report->gpu_count; i++) {
        if (binadei_nodeset_has(&report->gpus[i].near, node)) {
            binadei_say(file, "%s%d", separator, i);
            separator = ", ";
        }
    }
    binadei_say(file, "], \"distances\": {");
    separator = "";
    const binadei_nodeset *nodes = binadei_topology_nodes(report->topology);
    for (BINADEI_NODESET_EACH(to, nodes)) {
        uint64_t distance =
            binadei_topology_distance(report->topology, node, to);
        if (distance == 0)
            continue;
        binadei_say(file, "%s\"%u\": %" PRIu64, separator, to, distance);
        separator = ", ";
    }
    binadei_say(file, "}}");
}

static void report_json_print_gpu(FILE *file,
                                  const struct binadei_topo_gpu *gpu, int index)
{
    binadei_say(file, "{\"gpu\": %d, \"bus_id\": \"%s\", \"name\": ", index,
                gpu->bus_id);
    print_string(file, gpu->caps.device_name);
    binadei_say(file, ", \"near\": ");
    if (gpu->is_near_known)
        print_set(file, &gpu->near);
    else
        binadei_say(file, "null");
    if (gpu->caps.host_numa_node >= 0)
        binadei_say(file, ", \"driver_node\": %d", gpu->caps.host_numa_node);
    else
        binadei_say(file, ", \"driver_node\": null");
    binadei_say(file, ", \"use\": {\"nodes\": ");
    print_set(file, &gpu->use.nodes);
    binadei_say(file, ", \"is_fallback\": %s, \"why\": ",
                gpu->use.is_fallback ? "true" : "false");
    print_string(file, gpu->use.why);
    binadei_say(file, "}}");
}

void binadei_topo_json(FILE *file, const struct binadei_topo_report *report)
{
    const binadei_nodeset *nodes = binadei_topology_nodes(report->topology);
    const char *separator = "";
    binadei_say(file, "{\"source\": ");
    print_string(file, binadei_topology_source(report->topology));
    binadei_say(file, ", \"is_this_system\": %s,\n ",
                binadei_topology_is_this_system(report->topology) ? "true"
                                                                  : "false");
    print_driver(file, report);
    binadei_say(file, ",\n \"nodes\": [");
    for (BINADEI_NODESET_EACH(node, nodes)) {
        binadei_say(file, "%s\n  ", separator);
        report_json_print_node(file, report, node);
        separator = ",";
    }
    binadei_say(file, "],\n \"gpus\": [");
    separator = "";
    for (int i = 0; i < report->gpu_count; i++) {
        binadei_say(file, "%s\n  ", separator);
        report_json_print_gpu(file, &report->gpus[i], i);
        separator = ",";
    }
    binadei_say(file, "]}\n");
}
