/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A runway: address space for a whole reserve, mapped, kept from children and bound
 * once, whose pages a crew touches in order ahead of the caller. The caller takes
 * piece after piece, of which each is registered alone and is then a region like any
 * other (docs/dev/adr/0046-runway.md). All of it is the thread's that opened it.
 */
#ifndef MOIETY_NUMA_PINNED_RUNWAY_H_
#define MOIETY_NUMA_PINNED_RUNWAY_H_

#include "numa/pinned/pin_region.h"
#include "numa/pinned/prefault.h"

struct moietyi_runway {
    struct moietyi_region whole; /* no base: it is closed */
    const struct moietyi_place *place;
    struct moietyi_touching touching;
    size_t taken_bytes;   /* from the start: regions have them */
    size_t granted_bytes; /* that the crew may touch */
};

/* Maps and binds `size_bytes` of `pages` and starts the workers, which may touch
 * nothing yet. MOIETY_OK, or as moietyi_map_region(). It stays where it is. */
MOIETY_MUST_USE moiety_status moietyi_runway_open(
    struct moietyi_runway *runway, const struct moietyi_pin_request *request,
    enum moietyi_pages pages, size_t size_bytes);
/* Ends the workers, and unmaps what was not taken. A closed one stays closed. */
void moietyi_runway_close(struct moietyi_runway *runway);

/* Whether it is open and has so much left. */
bool moietyi_runway_has(const struct moietyi_runway *runway, size_t size_bytes);
/* Waits until the next `size_bytes`, which it has, are touched. If pages that are set
 * aside are used up, it closes the runway and returns MOIETY_OK: other pages may do.
 * MOIETY_E_NO_PINNED_MEMORY or MOIETY_E_INTERRUPTED: it goes on with what is touched,
 * if asked for less. */
MOIETY_MUST_USE moiety_status
moietyi_runway_await(struct moietyi_runway *runway, size_t size_bytes,
                     struct moietyi_progress *progress);
/* Gives the region, of which only the size is set, the next piece. As above, and
 * MOIETY_E_UNSUPPORTED for a runway that has closed itself. */
MOIETY_MUST_USE moiety_status moietyi_runway_take(
    struct moietyi_runway *runway, struct moietyi_progress *progress,
    struct moietyi_region *region);
/* Takes the last piece back, of so many bytes, which is not pinned. */
void moietyi_runway_put_back(struct moietyi_runway *runway, size_t size_bytes);

#endif
