/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/pinned_probe.h"

#include <stdlib.h>

#include "numa/pinned/source.h"

struct pinned_probe {
    struct binadei_context own_context;
    _Atomic uint64_t mark;
    struct binadei_pinned *pinned;
};

static hwloc_topology_t topology(void)
{
    static hwloc_topology_t loaded;
    if (!loaded) {
        (void)hwloc_topology_init(&loaded);
        (void)hwloc_topology_load(loaded);
    }
    return loaded;
}

unsigned pinned_probe_node(void)
{
    return (unsigned)hwloc_bitmap_first(
        hwloc_topology_get_allowed_nodeset(topology()));
}

struct pinned_probe *pinned_probe_create(binade_context context, uint32_t flags,
                                         uint32_t thread_count)
{
    const struct binadei_driver *driver;
    struct pinned_probe *probe = calloc(1, sizeof(*probe));
    struct binadei_pinned_options options = {
        .topology = topology(),
        .flags = flags,
        .thread_max = thread_count,
    };
    binadei_nodeset_add(&options.nodes, pinned_probe_node());
    if (!probe)
        return NULL;
    options.own_context = &probe->own_context;
    if (binadei_driver_open(&driver) == BINADE_OK &&
        binadei_context_init(&probe->own_context, driver, context, &probe->mark,
                             1) == BINADE_OK &&
        binadei_pinned_create(&options, &probe->pinned) == BINADE_OK)
        return probe;
    free(probe);
    return NULL;
}

void pinned_probe_destroy(struct pinned_probe *probe)
{
    binadei_pinned_destroy(probe->pinned);
    free(probe);
}

binade_source pinned_probe_source(struct pinned_probe *probe)
{
    return binadei_pinned_source(probe->pinned);
}

binade_host_stats pinned_probe_stats(struct pinned_probe *probe)
{
    binade_host_stats stats;
    binadei_pinned_stats(probe->pinned, &stats);
    return stats;
}

binade_status pinned_probe_device_address(struct pinned_probe *probe,
                                          const void *address,
                                          binade_devptr *out)
{
    return binadei_pinned_device_address(probe->pinned, address, out);
}

const char *pinned_probe_reason(struct pinned_probe *probe)
{
    static char reason[BINADEI_REASON_BYTES];
    binadei_pinned_reason(probe->pinned, reason, sizeof(reason));
    return reason;
}

binade_status pinned_probe_reserve(struct pinned_probe *probe,
                                   uint64_t size_bytes,
                                   binade_host_progress_fn *report, void *data,
                                   binade_devptr *out)
{
    struct binadei_progress progress = {
        .report = report, .user_data = data, .total_bytes = size_bytes};
    const binade_source source = binadei_pinned_source(probe->pinned);
    binadei_pinned_report_to(&progress);
    binade_status status = source.reserve(source.context, size_bytes, out);
    binadei_pinned_report_to(NULL);
    return status;
}
