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

static moiety_status read_gpu(const struct moietyi_driver *driver,
                              const struct moietyi_topology *topology,
                              int index, struct moietyi_topo_gpu *out)
{
    struct moietyi_placement_request request = {.policy =
                                                    MOIETYI_POLICY_NEAREST};
    moiety_status status = moietyi_driver_probe(driver, index, &out->caps);
    if (status != MOIETY_OK)
        return status;
    moietyi_placement_ask(&out->caps, &request);
    (void)snprintf(out->bus_id, sizeof(out->bus_id), "%s", request.bus_id);
    status = moietyi_topology_near_pci(topology, out->bus_id, &out->near,
                                       &out->is_near_known);
    if (status != MOIETY_OK)
        return status;
    return moietyi_place(topology, &request, &out->use);
}

static moiety_status read_gpus(const struct moietyi_driver *driver,
                               struct moietyi_topo_report *out)
{
    int count = 0;
    moiety_status status = MOIETYI_CALL(driver, cuDeviceGetCount, (&count));
    if (status != MOIETY_OK || count <= 0)
        return status;
    out->gpus = calloc((size_t)count, sizeof(*out->gpus));
    if (!out->gpus)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for %d devices",
                            count);
    for (; status == MOIETY_OK && out->gpu_count < count; out->gpu_count++)
        status = read_gpu(driver, out->topology, out->gpu_count,
                          &out->gpus[out->gpu_count]);
    return status;
}

moiety_status moietyi_topo_report_make(struct moietyi_topo_report *out)
{
    const struct moietyi_driver *driver = NULL;
    *out = (struct moietyi_topo_report){.has_driver = false};
    moiety_status status = moietyi_topology_get(&out->topology);
    if (status != MOIETY_OK)
        return status;
    if (moietyi_driver_open(&driver) != MOIETY_OK) {
        (void)snprintf(out->why_no_driver, sizeof(out->why_no_driver), "%s",
                       moietyi_failure_message());
        return MOIETY_OK;
    }
    out->has_driver = true;
    return read_gpus(driver, out);
}

void moietyi_say(FILE *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(file, format, arguments);
    va_end(arguments);
}

void moietyi_topo_report_free(struct moietyi_topo_report *report)
{
    free(report->gpus);
    *report = (struct moietyi_topo_report){.has_driver = false};
}
