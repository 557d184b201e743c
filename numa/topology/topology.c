/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Loads topologies, and keeps the process's. Devices of the operating system
 * and CPUID are left out: for the first, hwloc's plugins would open CUDA and
 * NVML behind the one door to the driver; for the second, it would move the
 * calling thread over all CPUs.
 */
#define _GNU_SOURCE
#include "numa/topology/topology.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numa/topology/state.h"
#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"

#if HWLOC_API_VERSION < 0x00020300
#error "hwloc 2.3 or newer is needed"
#endif

/* Edge NT: publish (release) -> loaded (acquire). NULL until a topology is
 * loaded, written once, never freed. */
static _Atomic(const struct moietyi_topology *) kept;

static const struct moietyi_topology *loaded(void)
{
    /* NT.acquire: all of it must be seen as its maker left it. */
    return atomic_load_explicit(&kept, memory_order_acquire);
}

/* hwloc would fall back to this machine if the variable is of no use. */
static moiety_status choose_source(struct moietyi_topology *topology)
{
    const char *xml = getenv("HWLOC_XMLFILE");
    const char *synthetic = getenv("HWLOC_SYNTHETIC");
    int result = 0;
    if (xml && *xml) {
        (void)snprintf(topology->source, sizeof(topology->source),
                       "HWLOC_XMLFILE=%s", xml);
        result = hwloc_topology_set_xml(topology->hwloc, xml);
    } else if (synthetic && *synthetic) {
        (void)snprintf(topology->source, sizeof(topology->source),
                       "HWLOC_SYNTHETIC=%s", synthetic);
        result = hwloc_topology_set_synthetic(topology->hwloc, synthetic);
    } else {
        (void)snprintf(topology->source, sizeof(topology->source),
                       "this machine");
    }
    if (result == 0)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_INVALID, "%s: hwloc does not accept it: %s",
                        topology->source, strerror_r(errno, (char[64]){0}, 64));
}

static bool configure(hwloc_topology_t hwloc)
{
    /* Loads nodes outside the cpuset too, so that a message can tell them from
     * nodes that do not exist; and all PCI devices: a GPU in a virtual machine
     * need not look like one. */
    bool is_done =
        hwloc_topology_set_flags(hwloc,
                                 HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
        hwloc_topology_set_io_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_ALL) ==
            0 &&
        hwloc_topology_set_type_filter(hwloc, HWLOC_OBJ_OS_DEVICE,
                                       HWLOC_TYPE_FILTER_KEEP_NONE) == 0;
    /* A build of hwloc without it has nothing to leave out. */
    (void)hwloc_topology_set_components(
        hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    return is_done;
}

static moiety_status topology_load(struct moietyi_topology *topology)
{
    if (hwloc_topology_init(&topology->hwloc) != 0)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for a topology");
    if (hwloc_topology_abi_check(topology->hwloc) != 0 ||
        !configure(topology->hwloc)) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "hwloc's version is %#x: 2.3 or newer of the same "
                            "major version is needed",
                            hwloc_get_api_version());
    }
    moiety_status status = choose_source(topology);
    if (status != MOIETY_OK)
        return status;
    if (hwloc_topology_load(topology->hwloc) != 0) {
        return moietyi_fail(
            strncmp(topology->source, "HWLOC", 5) == 0 ? MOIETY_E_INVALID
                                                       : MOIETY_E_UNSUPPORTED,
            "%s: hwloc cannot load the topology: %s", topology->source,
            strerror_r(errno, (char[64]){0}, 64));
    }
    topology->is_this_system =
        hwloc_topology_is_thissystem(topology->hwloc) == 1;
    return moietyi_topology_read(topology);
}

moiety_status moietyi_topology_load(struct moietyi_topology **out)
{
    struct moietyi_topology *topology = calloc(1, sizeof(*topology));
    if (!topology)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for a topology");
    moiety_status status = topology_load(topology);
    if (status == MOIETY_OK)
        *out = topology;
    else
        moietyi_topology_unload(topology);
    return status;
}

void moietyi_topology_unload(struct moietyi_topology *topology)
{
    if (!topology)
        return;
    if (topology->hwloc)
        hwloc_topology_destroy(topology->hwloc);
    free(topology->distances);
    free(topology);
}

/* Makes `topology` the process's, or drops it if another thread was faster. */
static void topology_publish(struct moietyi_topology *topology)
{
    const struct moietyi_topology *nobody = NULL;
    /* NT.release: publishes all of it. On failure the other one is only read
     * later, through loaded(), so relaxed is enough. */
    if (!atomic_compare_exchange_strong_explicit(&kept, &nobody, topology,
                                                 memory_order_release,
                                                 memory_order_relaxed))
        moietyi_topology_unload(topology);
}

moiety_status moietyi_topology_get(const struct moietyi_topology **out)
{
    if (!loaded()) {
        struct moietyi_topology *topology = NULL;
        /* A thread of the parent may have been inside hwloc, with its lock. */
        if (moietyi_is_forked())
            return moietyi_refuse_child();
        int cancel_state = moietyi_cancel_hold();
        moiety_status status = moietyi_topology_load(&topology);
        moietyi_cancel_restore(cancel_state);
        if (status != MOIETY_OK)
            return status;
        topology_publish(topology);
    }
    *out = loaded();
    return MOIETY_OK;
}

hwloc_topology_t moietyi_topology_hwloc(const struct moietyi_topology *topology)
{
    return topology->hwloc;
}

bool moietyi_topology_is_this_system(const struct moietyi_topology *topology)
{
    return topology->is_this_system;
}

const char *moietyi_topology_source(const struct moietyi_topology *topology)
{
    return topology->source;
}

const moietyi_nodeset *
moietyi_topology_nodes(const struct moietyi_topology *topology)
{
    return &topology->nodes;
}

const moietyi_nodeset *
moietyi_topology_allowed(const struct moietyi_topology *topology)
{
    return &topology->allowed;
}

const struct moietyi_node *
moietyi_topology_node(const struct moietyi_topology *topology, unsigned node)
{
    return moietyi_topology_has_node(topology, node) ? &topology->node[node]
                                                     : NULL;
}

bool moietyi_topology_has_node(const struct moietyi_topology *topology,
                               unsigned node)
{
    return moietyi_nodeset_has(&topology->nodes, node);
}

bool moietyi_topology_is_allowed(const struct moietyi_topology *topology,
                                 unsigned node)
{
    return moietyi_nodeset_has(&topology->allowed, node);
}

uint64_t moietyi_topology_node_bytes(const struct moietyi_topology *topology,
                                     unsigned node)
{
    return moietyi_topology_has_node(topology, node)
               ? topology->node[node].bytes
               : 0;
}

uint64_t moietyi_topology_distance(const struct moietyi_topology *topology,
                                   unsigned from, unsigned to)
{
    if (!topology->distances || from >= MOIETYI_NODES_MAX ||
        to >= MOIETYI_NODES_MAX)
        return 0;
    return topology->distances[(size_t)from * MOIETYI_NODES_MAX + to];
}
