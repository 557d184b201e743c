/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * First touch, by which pages come to be where they were bound to; and the
 * question to the kernel where they are.
 */
#ifndef MOIETY_NUMA_PINNED_PREFAULT_H_
#define MOIETY_NUMA_PINNED_PREFAULT_H_

#include <stdatomic.h>

#include "numa/pinned/progress.h"
#include "numa/pinned/region.h"
#include "numa/pinned/workers.h"

/* A region whose pages get memory in order; stays where it is while a crew works on
 * it. */
struct moietyi_touching {
    struct moietyi_workers workers;
    const struct moietyi_place *place;
    enum moietyi_pages pages;
    size_t size_bytes;
    size_t page_bytes;
    /* An errno. Edge: none; relaxed, read when the crew has told of a failure. */
    atomic_int refusal;
};

/* As moietyi_workers_begin(): nothing is granted yet. */
void moietyi_touch_begin(struct moietyi_touching *touching,
                         struct moietyi_region *region,
                         const struct moietyi_place *place, uint32_t thread_max,
                         const struct moietyi_progress *progress);
/* Waits until all pages before `end_bytes` are there, as moietyi_workers_await().
 * MOIETY_OK; MOIETY_E_NO_PINNED_MEMORY when the kernel has none: some pages may be
 * there then; MOIETY_E_INTERRUPTED. */
MOIETY_MUST_USE moiety_status
moietyi_touch_await(struct moietyi_touching *touching, size_t end_bytes,
                    struct moietyi_progress *progress, bool reports_work);

/* Gives every page of the region memory; the same statuses. */
MOIETY_MUST_USE moiety_status moietyi_prefault(
    struct moietyi_region *region, const struct moietyi_place *place,
    uint32_t thread_max, struct moietyi_progress *progress);

/* Asks the kernel for one page in `step`, and for all if one of these is not near,
 * and counts in `pages_near` and `pages_elsewhere` what they stand for. If the
 * kernel does not report a page, that is in neither, and the region gets the bit
 * MOIETY_HOST_FELL_TO_UNVERIFIED. */
void moietyi_read_back(struct moietyi_region *region,
                       const struct moietyi_place *place, size_t step);

#endif
