/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/pinned_probe.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "numa/pinned/source.h"
#include "numa/pinned/workers.h"

struct pinned_probe {
    struct moietyi_context own_context;
    _Atomic uint64_t mark;
    struct moietyi_pinned *pinned;
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

struct pinned_probe *pinned_probe_create(moiety_context context, uint32_t flags,
                                         uint32_t thread_count)
{
    const struct moietyi_driver *driver;
    struct pinned_probe *probe = calloc(1, sizeof(*probe));
    struct moietyi_pinned_options options = {
        .topology = topology(),
        .flags = flags,
        .thread_max = thread_count,
    };
    moietyi_nodeset_add(&options.nodes, pinned_probe_node());
    if (!probe)
        return NULL;
    options.own_context = &probe->own_context;
    if (moietyi_driver_open(&driver) == MOIETY_OK &&
        moietyi_context_init(&probe->own_context, driver, context, &probe->mark,
                             1) == MOIETY_OK &&
        moietyi_pinned_create(&options, &probe->pinned) == MOIETY_OK)
        return probe;
    free(probe);
    return NULL;
}

void pinned_probe_destroy(struct pinned_probe *probe)
{
    moietyi_pinned_destroy(probe->pinned);
    free(probe);
}

moiety_source pinned_probe_source(struct pinned_probe *probe)
{
    return moietyi_pinned_source(probe->pinned);
}

moiety_host_stats pinned_probe_stats(struct pinned_probe *probe)
{
    moiety_host_stats stats;
    moietyi_pinned_stats(probe->pinned, &stats);
    return stats;
}

moiety_status pinned_probe_device_address(struct pinned_probe *probe,
                                          const void *address,
                                          moiety_devptr *out)
{
    return moietyi_pinned_device_address(probe->pinned, address, out);
}

const char *pinned_probe_reason(struct pinned_probe *probe)
{
    static char reason[MOIETYI_REASON_BYTES];
    moietyi_pinned_reason(probe->pinned, reason, sizeof(reason));
    return reason;
}

/* Edge: none; relaxed, read when no crew is left. `job` is the sum. */
static bool note_chunk(void *job, char *from, size_t size_bytes)
{
    (void)from;
    atomic_fetch_add_explicit((_Atomic uint64_t *)job, size_bytes,
                              memory_order_relaxed);
    return true;
}

uint64_t pinned_probe_crew_bytes(uint64_t size_bytes, uint64_t granted_bytes)
{
    _Atomic uint64_t sum = 0;
    struct moietyi_workers workers;
    struct moietyi_progress progress = {.report = NULL};
    const struct moietyi_place place = {.topology = topology(),
                                        .cpus = hwloc_bitmap_alloc()};
    struct moietyi_region region = {.base = malloc(size_bytes),
                                    .size_bytes = size_bytes};
    const struct moietyi_workers_options options = {.work = note_chunk,
                                                    .job = &sum,
                                                    .place = &place,
                                                    .progress = &progress,
                                                    .thread_max = 1};
    moietyi_progress_begin(&progress, NULL);
    moietyi_workers_begin(&workers, &options, &region);
    moietyi_workers_grant(&workers, granted_bytes);
    (void)moietyi_workers_await(&workers, granted_bytes, &progress, false);
    moietyi_workers_end(&workers);
    free(region.base);
    hwloc_bitmap_free(place.cpus);
    return sum;
}

moiety_status pinned_probe_reserve(struct pinned_probe *probe,
                                   uint64_t size_bytes,
                                   moiety_host_progress_fn *report, void *data,
                                   moiety_devptr *out)
{
    struct moietyi_reserve reserve = {.progress = {.report = report,
                                                   .user_data = data,
                                                   .total_bytes = size_bytes}};
    const moiety_source source = moietyi_pinned_source(probe->pinned);
    moiety_status status =
        moietyi_pinned_reserve_begin(probe->pinned, &reserve, size_bytes);
    if (status != MOIETY_OK)
        return status;
    status = source.reserve(source.context, size_bytes, out);
    moietyi_pinned_reserve_end(&reserve);
    return status;
}
