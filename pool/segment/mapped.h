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

/* Where memory goes, and the free memory next to it. */
struct moietyi_place {
    uint32_t first;     /* pages without memory */
    uint32_t pages;     /* that are missing */
    uint32_t room;      /* from `first` on */
    uint64_t run_start; /* grains: the run that all of it is to become */
    uint64_t run_end;
};

/* place.c: the place with the fewest missing pages; lock held. No pages: there
 * is no place. */
struct moietyi_place
moietyi_place_find(const struct moietyi_segments *segments,
                   const struct moietyi_extension *extension);

/* extend.c; by the grower, no lock held: the same, and if there is none, again
 * after places that handles left were unmapped. MOIETY_OK, or the status of an
 * exhausted offset space. */
MOIETY_MUST_USE moiety_status moietyi_find_place(
    struct moietyi_segments *segments,
    const struct moietyi_extension *extension, struct moietyi_place *out);

/* Places that one step of a growth unmaps: they take no memory, and each takes
 * the driver 30 us. */
#define MOIETYI_UNMAPS_MOST 8U

/* move.c; by the grower, no lock held. */

/* Maps a handle that is in no heap at a page, and adds it to the pool: as done
 * memory, or as memory of `own`. After a failure it is where it was; if it
 * cannot be unmapped at the page, the page becomes a place that it left. */
MOIETY_MUST_USE moiety_status moietyi_handle_put(
    struct moietyi_segments *segments, struct moietyi_segment *segment,
    uint32_t page, struct moietyi_heap *own);
/* The memory that may move: done memory; and the stream's own, if an event will
 * show when its work is over, and at most half of all addresses wait
 * already. */
struct moietyi_view
moietyi_movable_view(struct moietyi_segments *segments,
                     const struct moietyi_extension *extension);
/* Moves that a pool may make at once. A growth that has begun is finished on
 * credit. */
#define MOIETYI_MOVES_AT_ONCE 1024
/* Whether handles move although new ones can be made: the pool has moves left,
 * or the program has taken so many blocks since that one more move costs
 * little. */
bool moietyi_may_move(struct moietyi_segments *segments,
                      const struct moietyi_view *view);
/* Moves free handles to the missing pages; the last handle may have more pages,
 * if there is room. Returns the pages that are still missing. */
uint32_t moietyi_move_to(struct moietyi_segments *segments,
                         const struct moietyi_extension *extension,
                         const struct moietyi_view *view,
                         const struct moietyi_place *place);

#endif
