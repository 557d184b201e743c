/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "bench/workloads/workload.h"

#define ENTRY(name) &workload_##name,

const struct workload *const workloads[] = {WORKLOADS(ENTRY) NULL};

const struct workload *workload_named(const char *name, size_t length)
{
    for (size_t i = 0; workloads[i]; i++)
        if (strlen(workloads[i]->name) == length &&
            strncmp(workloads[i]->name, name, length) == 0)
            return workloads[i];
    return NULL;
}

uint64_t workload_blocks(const struct workload *workload, size_t size_bytes,
                         unsigned thread_count)
{
    return workload->block_count ? workload->block_count
                                 : workload->blocks(size_bytes, thread_count);
}
