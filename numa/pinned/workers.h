/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A crew: threads on the CPUs of some nodes that work through a stretch of
 * memory piece by piece, while the caller waits and reports how far they are.
 */
#ifndef MOIETY_NUMA_PINNED_WORKERS_H_
#define MOIETY_NUMA_PINNED_WORKERS_H_

#include "numa/pinned/region.h"

/* Called by the crew's threads with pieces that do not overlap, `size_bytes`
 * long but for the last; false stops the crew. */
typedef bool moietyi_workers_fn(void *job, char *from, size_t size_bytes);

struct moietyi_workers_options {
    moietyi_workers_fn *work;
    void *job;
    const struct moietyi_place *place;
    uint32_t thread_max; /* at least 1 */
    /* NULL, or a function that the caller's thread calls as work proceeds. */
    const struct moietyi_progress *progress;
};

/* Works through the region. If no thread can be started, the caller works
 * itself, and a region with fewer threads than planned gets the bit
 * MOIETY_HOST_FELL_TO_FEWER_THREADS. False: `work` returned it; work that other
 * threads had begun is over. */
bool moietyi_workers_run(const struct moietyi_workers_options *options,
                         struct moietyi_region *region);

#endif
