/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Reads nodes out of hwloc. What kind of memory a node has is said by hwloc
 * where the machine tells; else it follows from the CPUs, and from bandwidth or
 * latency beside the DRAM of the same CPUs.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numa/topology/state.h"
#include "pool/base/failure.h"

moietyi_nodeset moietyi_nodeset_of_hwloc(hwloc_const_nodeset_t from)
{
    moietyi_nodeset set = {{0}};
    for (unsigned node = 0; node < MOIETYI_NODES_MAX; node++)
        if (hwloc_bitmap_isset(from, node))
            moietyi_nodeset_add(&set, node);
    return set;
}

const char *moietyi_memory_kind_name(enum moietyi_memory_kind kind)
{
    static const char *const names[] = {"dram", "hbm", "cpuless", "slow",
                                        "device"};
    return (size_t)kind < sizeof(names) / sizeof(names[0]) ? names[kind]
                                                           : "unknown";
}

/* Maps the subtype names of hwloc's versions; false if there is none. */
static bool said_kind(hwloc_obj_t object, enum moietyi_memory_kind *out)
{
    static const struct {
        const char *prefix;
        enum moietyi_memory_kind kind;
    } rows[] = {
        {"DRAM", MOIETYI_MEMORY_DRAM},  {"HBM", MOIETYI_MEMORY_HBM},
        {"MCDRAM", MOIETYI_MEMORY_HBM}, {"CXL", MOIETYI_MEMORY_SLOW},
        {"NVM", MOIETYI_MEMORY_SLOW},   {"SPM", MOIETYI_MEMORY_CPULESS},
        {"GPU", MOIETYI_MEMORY_DEVICE},
    };
    for (size_t i = 0; object->subtype && i < sizeof(rows) / sizeof(rows[0]);
         i++) {
        if (strncmp(object->subtype, rows[i].prefix, strlen(rows[i].prefix)) ==
            0) {
            *out = rows[i].kind;
            return true;
        }
    }
    return false;
}

/* Whether the CPUs that hwloc shows for `object` are those of `other`: hwloc
 * gives a node without CPUs those of the nodes that it is next to. Where the
 * kernel was not asked, the first of two is taken for theirs, as it counts nodes
 * with CPUs first. */
static bool borrows(const struct moietyi_topology *topology, hwloc_obj_t object,
                    hwloc_obj_t other)
{
    enum moietyi_memory_kind kind = MOIETYI_MEMORY_DRAM;
    (void)said_kind(other, &kind);
    if (other == object || kind != MOIETYI_MEMORY_DRAM ||
        other->attr->numanode.local_memory == 0 ||
        hwloc_bitmap_iszero(other->cpuset) ||
        !hwloc_bitmap_isincluded(other->cpuset, object->cpuset))
        return false;
    if (topology->is_this_system &&
        !moietyi_nodeset_is_empty(&topology->with_cpus))
        return moietyi_nodeset_has(&topology->with_cpus, other->os_index) &&
               !moietyi_nodeset_has(&topology->with_cpus, object->os_index);
    return !hwloc_bitmap_isequal(other->cpuset, object->cpuset) ||
           other->os_index < object->os_index;
}

/* The first node whose CPUs `object` borrows; NULL if it has its own, or none. */
static hwloc_obj_t nodes_home_of(const struct moietyi_topology *topology,
                                 hwloc_obj_t object)
{
    hwloc_obj_t other = NULL;
    hwloc_obj_t home = NULL;
    while ((other = hwloc_get_next_obj_by_type(
                topology->hwloc, HWLOC_OBJ_NUMANODE, other)) != NULL)
        if (borrows(topology, object, other) &&
            (!home || other->os_index < home->os_index))
            home = other;
    return home;
}

/* Of a node without CPUs, beside its home. */
static enum moietyi_memory_kind guess_kind(const struct moietyi_node *node,
                                           const struct moietyi_node *home)
{
    if (node->bandwidth_mib_s && home->bandwidth_mib_s &&
        node->bandwidth_mib_s != home->bandwidth_mib_s)
        return node->bandwidth_mib_s > home->bandwidth_mib_s
                   ? MOIETYI_MEMORY_HBM
                   : MOIETYI_MEMORY_SLOW;
    if (home->latency_ns && node->latency_ns > home->latency_ns)
        return MOIETYI_MEMORY_SLOW;
    return MOIETYI_MEMORY_CPULESS;
}

static uint64_t nodes_attribute(hwloc_topology_t hwloc,
                                hwloc_memattr_id_t which, hwloc_obj_t object)
{
    struct hwloc_location from;
    hwloc_uint64_t value = 0;
    if (hwloc_memattr_get_best_initiator(hwloc, which, object, 0, &from,
                                         &value) != 0)
        return 0;
    return value;
}

/* All but the kind. */
static void read_node(const struct moietyi_topology *topology,
                      hwloc_obj_t object, struct moietyi_node *out)
{
    out->bytes = object->attr->numanode.local_memory;
    /* The first are the ordinary ones. */
    for (unsigned i = 1; i < object->attr->numanode.page_types_len; i++)
        out->huge_bytes += object->attr->numanode.page_types[i].size *
                           object->attr->numanode.page_types[i].count;
    out->bandwidth_mib_s =
        nodes_attribute(topology->hwloc, HWLOC_MEMATTR_ID_BANDWIDTH, object);
    out->latency_ns =
        nodes_attribute(topology->hwloc, HWLOC_MEMATTR_ID_LATENCY, object);
}

static void read_kind(const struct moietyi_topology *topology,
                      hwloc_obj_t object, struct moietyi_node *out)
{
    hwloc_obj_t home = nodes_home_of(topology, object);
    int cpu_count = hwloc_bitmap_weight(object->cpuset);
    if (!said_kind(object, &out->kind)) {
        if (home && home->os_index < MOIETYI_NODES_MAX)
            out->kind = guess_kind(out, &topology->node[home->os_index]);
        else
            out->kind =
                cpu_count > 0 ? MOIETYI_MEMORY_DRAM : MOIETYI_MEMORY_CPULESS;
    }
    if (out->kind == MOIETYI_MEMORY_DRAM && !home && cpu_count > 0)
        out->cpu_count = (unsigned)cpu_count;
}

/* Reads the list of nodes that follows `prefix` in a line of a file of the
 * kernel's. Empty if there is none. */
static moietyi_nodeset read_list(const char *path, const char *prefix)
{
    char line[4096];
    size_t length = strlen(prefix);
    moietyi_nodeset set = {{0}};
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, prefix, length) != 0)
            continue;
        if (moietyi_nodeset_parse(line + length, ',', &set) == 0)
            set = (moietyi_nodeset){{0}};
        break;
    }
    if (file)
        (void)fclose(file);
    return set;
}

/* The kernel's own lists: nodes with CPUs, and nodes that this process may use.
 * They hold also if hwloc cannot see the control groups, as in some
 * containers. */
static void ask_kernel(struct moietyi_topology *topology)
{
    moietyi_nodeset allowed =
        read_list("/proc/self/status", "Mems_allowed_list:\t");
    if (!moietyi_nodeset_is_empty(&allowed))
        topology->allowed = moietyi_nodeset_both(&topology->allowed, &allowed);
    topology->with_cpus = read_list("/sys/devices/system/node/has_cpu", "");
}

static moiety_status read_distances(struct moietyi_topology *topology)
{
    struct hwloc_distances_s *found = NULL;
    unsigned count = 1;
    if (hwloc_distances_get_by_type(topology->hwloc, HWLOC_OBJ_NUMANODE, &count,
                                    &found, HWLOC_DISTANCES_KIND_MEANS_LATENCY,
                                    0) != 0 ||
        count == 0)
        return MOIETY_OK;
    topology->distances = calloc((size_t)MOIETYI_NODES_MAX * MOIETYI_NODES_MAX,
                                 sizeof(*topology->distances));
    for (unsigned i = 0; topology->distances && i < found->nbobjs; i++) {
        for (unsigned j = 0; j < found->nbobjs; j++) {
            unsigned from = found->objs[i]->os_index;
            unsigned to = found->objs[j]->os_index;
            if (from < MOIETYI_NODES_MAX && to < MOIETYI_NODES_MAX)
                topology->distances[(size_t)from * MOIETYI_NODES_MAX + to] =
                    found->values[(size_t)i * found->nbobjs + j];
        }
    }
    hwloc_distances_release(topology->hwloc, found);
    return topology->distances ? MOIETY_OK
                               : moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                              "no memory for the distances of "
                                              "NUMA nodes");
}

static void read_nodes(struct moietyi_topology *topology, bool is_kind)
{
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(
                topology->hwloc, HWLOC_OBJ_NUMANODE, object)) != NULL) {
        if (object->os_index >= MOIETYI_NODES_MAX)
            continue;
        struct moietyi_node *node = &topology->node[object->os_index];
        if (is_kind)
            read_kind(topology, object, node);
        else
            read_node(topology, object, node);
    }
}

moiety_status moietyi_topology_read(struct moietyi_topology *topology)
{
    /* The complete set also has nodes that an XML file left out because they
     * were not allowed where it was made. */
    topology->nodes = moietyi_nodeset_of_hwloc(
        hwloc_topology_get_complete_nodeset(topology->hwloc));
    topology->allowed = moietyi_nodeset_of_hwloc(
        hwloc_topology_get_allowed_nodeset(topology->hwloc));
    if (topology->is_this_system)
        ask_kernel(topology);
    for (MOIETYI_NODESET_EACH(node, &topology->nodes)) {
        topology->node[node].is_there = true;
        topology->node[node].is_allowed =
            moietyi_nodeset_has(&topology->allowed, node);
    }
    read_nodes(topology, false);
    read_nodes(topology, true); /* each beside the numbers of others */
    if (moietyi_nodeset_is_empty(&topology->allowed)) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "%s: hwloc shows no NUMA node below %u that this "
                            "process may use",
                            topology->source, MOIETYI_NODES_MAX);
    }
    return read_distances(topology);
}
