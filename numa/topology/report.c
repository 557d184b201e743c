/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "numa/topology/report.h"
#include "pool/base/failure.h"
#include "pool/driver/driver_table.h"
#include "pool/driver/probe.h"

static binade_status read_gpu(const struct binadei_driver *driver,
                              const struct binadei_topology *topology,
                              int index, struct binadei_topo_gpu *out)
{
    struct binadei_placement_request request = {.policy =
                                                    BINADEI_POLICY_NEAREST};
    binade_status status = binadei_driver_probe(driver, index, &out->caps);
    if (status != BINADE_OK)
        return status;
    binadei_bus_id_of(&out->caps, out->bus_id);
    status = binadei_topology_near_pci(topology, out->bus_id, &out->near,
                                       &out->is_near_known);
    if (status != BINADE_OK)
        return status;
    (void)snprintf(request.bus_id, sizeof(request.bus_id), "%s", out->bus_id);
    return binadei_place(topology, &request, &out->use);
}

static binade_status read_gpus(const struct binadei_driver *driver,
                               struct binadei_topo_report *out)
{
    int count = 0;
    binade_status status = BINADEI_CALL(driver, cuDeviceGetCount, (&count));
    if (status != BINADE_OK || count <= 0)
        return status;
    out->gpus = calloc((size_t)count, sizeof(*out->gpus));
    if (!out->gpus)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY, "no memory for %d devices",
                            count);
    for (; status == BINADE_OK && out->gpu_count < count; out->gpu_count++)
        status = read_gpu(driver, out->topology, out->gpu_count,
                          &out->gpus[out->gpu_count]);
    return status;
}

binade_status binadei_topo_report_make(struct binadei_topo_report *out)
{
    const struct binadei_driver *driver = NULL;
    *out = (struct binadei_topo_report){.has_driver = false};
    binade_status status = binadei_topology_get(&out->topology);
    if (status != BINADE_OK)
        return status;
    if (binadei_driver_open(&driver) != BINADE_OK) {
        (void)snprintf(out->why_no_driver, sizeof(out->why_no_driver), "%s",
                       binadei_failure_message());
        return BINADE_OK;
    }
    out->has_driver = true;
    return read_gpus(driver, out);
}

void binadei_say(FILE *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(file, format, arguments);
    va_end(arguments);
}

void binadei_topo_report_free(struct binadei_topo_report *report)
{
    free(report->gpus);
    *report = (struct binadei_topo_report){.has_driver = false};
}
