/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Mapped memory, for the files of this folder only: the places that handles are
 * put at, and their moves.
 */
#ifndef MOIETY_POOL_SEGMENT_MAPPED_H_
#define MOIETY_POOL_SEGMENT_MAPPED_H_

#include "pool/segment/mapper.h"
#include "pool/segment/state.h"

static inline uint64_t moietyi_grain_of_page(uint32_t page)
{
    return (uint64_t)page * MOIETYI_PAGE_GRAINS;
}

static inline uint32_t moietyi_pages_of_grains(uint64_t grains)
{
    return (uint32_t)((grains + MOIETYI_PAGE_GRAINS - 1) / MOIETYI_PAGE_GRAINS);
}

static inline uint64_t
moietyi_needed_grains(const struct moietyi_extension *extension)
{
    return (extension->needed_bytes + MOIETYI_GRAIN_BYTES - 1) /
           MOIETYI_GRAIN_BYTES;
}

/* Where memory goes, and what is free beside it. */
struct moietyi_place {
    uint32_t first;     /* pages without memory */
    uint32_t pages;     /* that are missing */
    uint32_t room;      /* from `first` on */
    uint64_t run_start; /* grains: the run that all of it is to become */
    uint64_t run_end;
};

/* place.c: where the fewest pages are missing; lock held. No pages: there is
 * no such place. */
struct moietyi_place
moietyi_place_find(const struct moietyi_segments *segments,
                   const struct moietyi_extension *extension);

/* extend.c; by the grower, no lock held: the same, once places that handles left
 * were unmapped if there is none before. MOIETY_OK, or what an exhausted offset
 * space is called. */
MOIETY_MUST_USE moiety_status moietyi_find_place(
    struct moietyi_segments *segments,
    const struct moietyi_extension *extension, struct moietyi_place *out);

/* Places that a step of a growth unmaps: they take no memory, and each takes the
 * driver 30 us. */
#define MOIETYI_UNMAPS_MOST 8U

/* move.c; by the grower, no lock held. */

/* Puts a handle that is in no heap at a page, and into the pool: done memory, or
 * that of `own`. After a failure it is where it was; if it cannot be unmapped at the
 * page, that is a place that it left. */
MOIETY_MUST_USE moiety_status moietyi_handle_put(
    struct moietyi_segments *segments, struct moietyi_segment *segment,
    uint32_t page, struct moietyi_heap *own);
/* What may move: what is done, and the stream's own memory if an event will tell
 * when its work is over, and half of all addresses are not waited for already. */
struct moietyi_view
moietyi_movable_view(struct moietyi_segments *segments,
                     const struct moietyi_extension *extension);
/* Moves that a pool may make at once. A growth ends what it has begun, on credit. */
#define MOIETYI_MOVES_AT_ONCE 1024
/* Whether handles move where new ones are to be had: the pool has moves left, or the
 * program has taken so much since that one more costs little beside it. */
bool moietyi_may_move(struct moietyi_segments *segments,
                      const struct moietyi_view *view);
/* Of the pages that are missing, as many as handles that are free have; the last may
 * have more of them, if there is room. Returns the pages that are still missing. */
uint32_t moietyi_move_to(struct moietyi_segments *segments,
                         const struct moietyi_extension *extension,
                         const struct moietyi_view *view,
                         const struct moietyi_place *place);

#endif
