/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Finds the NUMA nodes near a PCI device. hwloc attaches a device to the
 * smallest part of the machine that has its CPUs. If the kernel does not know
 * that part, it is the whole machine, which says nothing unless there is only
 * one node.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "numa/topology/state.h"
#include "pool/base/failure.h"

struct pci_address {
    unsigned domain, bus, device, function;
};

moietyi_nodeset
moietyi_topology_best_of(const struct moietyi_topology *topology,
                         const moietyi_nodeset *among)
{
    moietyi_nodeset best = {{0}};
    enum moietyi_memory_kind kind = MOIETYI_MEMORY_DEVICE;
    for (MOIETYI_NODESET_EACH(node, among)) {
        const struct moietyi_node *it = &topology->node[node];
        if (it->bytes == 0 || it->kind > kind ||
            it->kind == MOIETYI_MEMORY_DEVICE)
            continue;
        if (it->kind < kind)
            best = (moietyi_nodeset){{0}};
        kind = it->kind;
        moietyi_nodeset_add(&best, node);
    }
    return best;
}

/* The best of `part`, or all of `part` if no node of it has memory. */
static moietyi_nodeset best_or_all(const struct moietyi_topology *topology,
                                   const moietyi_nodeset *part)
{
    moietyi_nodeset best = moietyi_topology_best_of(topology, part);
    return moietyi_nodeset_is_empty(&best)
               ? moietyi_nodeset_both(part, &topology->nodes)
               : best;
}

/* The nodes of the smallest part around `object` that has any. */
static moietyi_nodeset nodes_around(const struct moietyi_topology *topology,
                                    hwloc_obj_t object)
{
    moietyi_nodeset part = {{0}};
    for (; object && moietyi_nodeset_is_empty(&part); object = object->parent)
        part = moietyi_nodeset_of_hwloc(object->nodeset);
    return best_or_all(topology, &part);
}

static moiety_status parse_address(const char *text, struct pci_address *out)
{
    int used = 0;
    size_t length = strlen(text);
    if (strspn(text, "0123456789abcdefABCDEF:.") == length &&
        sscanf(text, "%8x:%2x:%2x.%1x%n", &out->domain, &out->bus, &out->device,
               &out->function, &used) == 4 &&
        (size_t)used == length && out->device < 32 && out->function < 8)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_INVALID,
                        "PCI address '%.40s': accepted is "
                        "domain:bus:device.function, as 0000:21:00.0",
                        text);
}

static hwloc_obj_t near_find_device(hwloc_topology_t hwloc,
                                    const struct pci_address *address)
{
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_PCI_DEVICE,
                                                object)) != NULL) {
        const struct hwloc_pcidev_attr_s *pci = &object->attr->pcidev;
        if (pci->domain == address->domain && pci->bus == address->bus &&
            pci->dev == address->device && pci->func == address->function)
            return hwloc_get_non_io_ancestor_obj(hwloc, object);
    }
    return NULL;
}

/* hwloc asks for a device's CPUs, which a node without CPUs does not have, and
 * leaves out domains of more than 16 bits: the kernel's own word. */
static moietyi_nodeset kernel_says(const struct moietyi_topology *topology,
                                   const struct pci_address *address)
{
    char path[96];
    int node = -1;
    moietyi_nodeset set = {{0}};
    (void)snprintf(
        path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/numa_node",
        address->domain, address->bus, address->device, address->function);
    FILE *file = topology->is_this_system ? fopen(path, "re") : NULL;
    if (!file)
        return set;
    if (fscanf(file, "%9d", &node) == 1 && node >= 0)
        moietyi_nodeset_add(&set, (unsigned)node);
    (void)fclose(file);
    return best_or_all(topology, &set);
}

moiety_status moietyi_topology_near_pci(const struct moietyi_topology *topology,
                                        const char *bus_id,
                                        moietyi_nodeset *out, bool *out_known)
{
    struct pci_address address;
    moiety_status status = parse_address(bus_id, &address);
    if (status != MOIETY_OK)
        return status;
    moietyi_nodeset all = moietyi_topology_best_of(topology, &topology->nodes);
    hwloc_obj_t around = near_find_device(topology->hwloc, &address);
    moietyi_nodeset near = nodes_around(topology, around);
    bool is_said = around && !moietyi_nodeset_is_equal(&near, &all);
    if (!is_said)
        near = kernel_says(topology, &address);
    if (moietyi_nodeset_is_empty(&near) && moietyi_nodeset_count(&all) == 1)
        near = all; /* nothing else is nearer, wherever the device is */
    *out = near;
    *out_known = !moietyi_nodeset_is_empty(&near);
    return MOIETY_OK;
}

moietyi_nodeset
moietyi_topology_near_cpu(const struct moietyi_topology *topology, unsigned cpu)
{
    return nodes_around(topology,
                        hwloc_get_pu_obj_by_os_index(topology->hwloc, cpu));
}

moiety_status
moietyi_topology_caller_node(const struct moietyi_topology *topology,
                             unsigned *out)
{
    int cpu = sched_getcpu();
    moietyi_nodeset near = {{0}};
    if (cpu >= 0)
        near = moietyi_topology_near_cpu(topology, (unsigned)cpu);
    if (moietyi_nodeset_is_empty(&near)) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the node of the calling thread is not known: it "
                            "runs on CPU %d, which is not in the topology (%s)",
                            cpu, topology->source);
    }
    *out = moietyi_nodeset_first(&near);
    return MOIETY_OK;
}
