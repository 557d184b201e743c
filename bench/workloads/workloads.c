/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "bench/workloads/workload.h"

const struct workload *const workloads[] = {
    &workload_pair,
    &workload_mixed,
    &workload_burst64,
    &workload_burst4096,
    &workload_prodcons,
    &workload_holes4096,
    &workload_holes16384,
    &workload_holes65536,
    &workload_linux_scalability,
    &workload_threadtest,
    &workload_occupancy,
    &workload_larson,
    &workload_rmm_random,
    &workload_streams,
    &workload_streams1,
    &workload_streams1000,
    &workload_occupancy100,
    &workload_occupancy1000,
    &workload_occupancy10000,
    &workload_occupancy100000,
    &workload_occupancy1000000,
    &workload_pair100,
    &workload_pair1000,
    &workload_pair10000,
    &workload_pair100000,
    &workload_pair1000000,
    NULL,
};

const struct workload *workload_named(const char *name)
{
    for (size_t i = 0; workloads[i]; i++)
        if (strcmp(workloads[i]->name, name) == 0)
            return workloads[i];
    return NULL;
}
