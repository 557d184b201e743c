/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs in the guest: what the kernel does with memory that hwloc has bound,
 * read back page by page, and what hwloc makes of the guest's devices. It
 * knows nothing of the library, whose own program is checked against the same
 * cases.
 *
 *   placement bind NODE|BUS_ID BYTES strict|preferred|unbound [huge]
 *   placement device BUS_ID
 *   placement nodes
 *
 * Each prints one line. Exit status 1: it could not be done.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <hwloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/numa_vm/pages.h"

static int failed(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    return 1;
}

static hwloc_topology_t load(void)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) ||
        hwloc_topology_set_io_types_filter(topology,
                                           HWLOC_TYPE_FILTER_KEEP_ALL) ||
        hwloc_topology_load(topology)) {
        (void)failed("hwloc");
        exit(1);
    }
    return topology;
}

static int bind_to(hwloc_topology_t topology, void *area, size_t size_bytes,
                   unsigned node, bool is_strict)
{
    hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
    int flags = HWLOC_MEMBIND_BYNODESET;
    if (is_strict)
        flags |= HWLOC_MEMBIND_STRICT;
    hwloc_bitmap_only(nodes, node);
    int result = hwloc_set_area_membind(topology, area, size_bytes, nodes,
                                        HWLOC_MEMBIND_BIND, flags);
    hwloc_bitmap_free(nodes);
    return result;
}

/* -1 when it is next to none: the ancestor of a device on the root bus is the
 * whole machine. */
static int node_near(hwloc_topology_t topology, const char *bus_id)
{
    hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology, bus_id);
    if (!device) {
        printf("no device %s\n", bus_id);
        exit(1);
    }
    hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, device);
    return place == hwloc_get_root_obj(topology)
               ? -1
               : hwloc_bitmap_first(place->nodeset);
}

/* The node itself, or the bus id of the device that it is next to. */
static unsigned node_of(hwloc_topology_t topology, const char *text)
{
    if (!strchr(text, ':'))
        return (unsigned)strtoul(text, NULL, 10);
    int node = node_near(topology, text);
    if (node < 0) {
        puts("near no node");
        exit(1);
    }
    return (unsigned)node;
}

/* Maps, binds before the first touch, touches, reads back. */
static int show_bound(char **arguments)
{
    hwloc_topology_t topology = load();
    unsigned node = node_of(topology, arguments[0]);
    size_t size_bytes = strtoull(arguments[1], NULL, 10);
    bool is_strict = strcmp(arguments[2], "strict") == 0;
    bool is_huge = arguments[3] && strcmp(arguments[3], "huge") == 0;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (is_huge ? MAP_HUGETLB : 0);
    char *area = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (area == MAP_FAILED)
        return failed("mmap");
    if (strcmp(arguments[2], "unbound") != 0 &&
        bind_to(topology, area, size_bytes, node, is_strict))
        return failed("bind");
    memset(area, 1, size_bytes);
    struct page_count count;
    if (!pages_count(area, size_bytes, &count))
        return failed("move_pages");
    pages_print(&count);
    hwloc_topology_destroy(topology);
    return 0;
}

static int show_device(const char *bus_id)
{
    hwloc_topology_t topology = load();
    int node = node_near(topology, bus_id);
    if (node < 0)
        puts("near no node");
    else
        printf("near node %d\n", node);
    hwloc_topology_destroy(topology);
    return 0;
}

static int show_nodes(void)
{
    hwloc_topology_t topology = load();
    hwloc_obj_t node = NULL;
    while (
        (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)))
        printf("%snode %u: %d CPUs", node->logical_index ? ", " : "",
               node->os_index, hwloc_bitmap_weight(node->cpuset));
    puts("");
    hwloc_topology_destroy(topology);
    return 0;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "bind") == 0 && (argc == 5 || argc == 6))
        return show_bound(argv + 2);
    if (strcmp(command, "device") == 0 && argc == 3)
        return show_device(argv[2]);
    if (strcmp(command, "nodes") == 0 && argc == 2)
        return show_nodes();
    puts("usage: placement bind NODE|BUS_ID BYTES "
         "strict|preferred|unbound [huge] | device BUS_ID | nodes");
    return 1;
}
