/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The maps of one stream: memory that was freed on it and that nobody else may
 * have yet. A map has the three levels of the buddy's words (grains in chunks,
 * chunks in pages, pages in groups of 64), a set bit being a free unit, and a
 * free unit is set in one map only: one of a stream's, or the buddy's own, whose
 * memory is done. Which map a unit is in says who may take it, so splitting and
 * merging need no event.
 *
 *   fresh    freed since the stream's epoch was closed; frees set bits here
 *   ageing   freed before that; becomes done when the epoch's event has passed
 *
 * Bits move from fresh to ageing to done and never back, but for what a claim
 * gives back: that is fresh again. Only the holder of the stream's role (see
 * pool/stream/epoch.h) calls close and drain.
 *
 * A stream's map has memory for a group of pages once the stream has freed
 * there.
 */
#ifndef MOIETY_POOL_HEAP_MAP_H_
#define MOIETY_POOL_HEAP_MAP_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/heap/buddy.h"
#include "pool/heap/units.h"

struct moietyi_maps;

enum moietyi_map_age { MOIETYI_FRESH, MOIETYI_AGEING, MOIETYI_AGES };

/* Empty maps over the offset space of `buddy`, which outlives them; NULL: no
 * memory. */
struct moietyi_maps *moietyi_maps_create(struct moietyi_buddy *buddy);
/* Makes the words for these pages, so that no give there lacks memory; false:
 * there is none. */
bool moietyi_maps_reserve(struct moietyi_maps *maps, moietyi_page first,
                          uint32_t page_count);
/* What is still in them is lost; no other call is under way. NULL is fine. */
void moietyi_maps_destroy(struct moietyi_maps *maps);

/* Sets `grains`, at least one, from `start` on in the fresh map. Any thread. */
enum moietyi_map_give {
    MOIETYI_MAP_GIVEN,
    MOIETYI_MAP_NO_MEMORY, /* nothing was set */
    MOIETYI_MAP_TWICE      /* a word of it says that a part is free already;
                              nothing was set in that word, nor of later pages */
};
enum moietyi_map_give moietyi_maps_give(struct moietyi_maps *maps,
                                        moietyi_grain start, uint64_t grains);

/* Moves what is fresh into the ageing map, which must be empty. Here and below:
 * by the holder of the stream's role; returns the grains that were moved. */
uint64_t moietyi_maps_close(struct moietyi_maps *maps);
/* Gives what is in one map to the buddy: it is done. */
uint64_t moietyi_maps_drain(struct moietyi_maps *maps,
                            enum moietyi_map_age age);
/* Gives what is in one map to the fresh map of `to`, whose stream is ordered
 * behind this one's from now on. What there is no memory for stays. */
uint64_t moietyi_maps_hand(struct moietyi_maps *maps, enum moietyi_map_age age,
                           struct moietyi_maps *to);

/* Grains in one of the maps: never below what is there; exact at rest. 0 for
 * NULL. */
uint64_t moietyi_maps_grains(const struct moietyi_maps *maps,
                             enum moietyi_map_age age);
/* How many grains are in them from `start` on, up to `end`, without a gap; exact
 * at rest. */
uint64_t moietyi_maps_free_from(const struct moietyi_maps *maps,
                                moietyi_grain start, moietyi_grain end);

/* Whom to search for: a stream that has maps, or none, for memory that is
 * done. */
struct moietyi_view {
    struct moietyi_buddy *buddy;
    struct moietyi_maps *maps; /* NULL: done memory only */
    bool is_own_only;          /* the stream's maps, and not what is done */
};

/* Takes up to `what->count` intervals of at most 1 MiB out of single words of
 * the stream's maps, the first that serve; where `is_gathered`, of those pages
 * alone that are somebody's affinity, which have small blocks already. Returns how
 * many; 0 does not mean that there is no such interval. */
uint32_t moietyi_maps_take(struct moietyi_maps *maps,
                           const struct moietyi_take *what, bool is_gathered,
                           moietyi_grain *out);

/* Takes one interval of any length that starts at a multiple of `alignment`
 * grains (a power of two up to a page), put together from all maps of the view,
 * and beginning and ending at any grain: a good fit, which the index finds at
 * once, or, where that has none, the best. */
bool moietyi_view_take(const struct moietyi_view *view, uint64_t grains,
                       uint32_t alignment, moietyi_grain *out);
/* The index alone is asked: false does not mean that there is none. Of the
 * stream's own alone it finds what lies at an end of a run. */
bool moietyi_view_take_good(const struct moietyi_view *view, uint64_t grains,
                            uint32_t alignment, moietyi_grain *out);
/* The words are read: the best fit, lowest first. Up to a page, one that leaves at
 * most a sixteenth over is as good as the best. `is_thorough`: every word,
 * whatever the hints say. */
bool moietyi_view_take_best(const struct moietyi_view *view, uint64_t grains,
                            uint32_t alignment, bool is_thorough,
                            moietyi_grain *out);
/* Takes exactly this interval; false: a part of it is not free there. */
bool moietyi_view_claim(const struct moietyi_view *view, moietyi_grain start,
                        uint64_t grains);

/* How many grains are free in all maps of the view from `start` on, up to `end`;
 * and in front of `end`, down to `start`. Exact while nobody takes or gives. */
uint64_t moietyi_view_free_from(const struct moietyi_view *view,
                                moietyi_grain start, moietyi_grain end);
uint64_t moietyi_view_free_before(const struct moietyi_view *view,
                                  moietyi_grain start, moietyi_grain end);

/* At rest: checks the numbered invariants of `count` streams' maps, all of one
 * buddy. NULL, or which one is broken; `out_at` is then the grain where. */
const char *moietyi_maps_check(const struct moietyi_maps *const *maps,
                               uint32_t count, moietyi_grain *out_at);

#endif
