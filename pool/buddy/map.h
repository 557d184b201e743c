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
#ifndef BINADE_POOL_BUDDY_MAP_H_
#define BINADE_POOL_BUDDY_MAP_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/buddy/buddy.h"
#include "pool/buddy/units.h"

struct binadei_maps;

enum binadei_map_age { BINADEI_FRESH, BINADEI_AGEING, BINADEI_AGES };

/* Empty maps over the offset space of `buddy`, which outlives them; NULL: no
 * memory. */
struct binadei_maps *binadei_maps_create(struct binadei_buddy *buddy);
/* Makes the words for these pages, so that no give there lacks memory; false:
 * there is none. */
bool binadei_maps_reserve(struct binadei_maps *maps, binadei_page first,
                          uint32_t page_count);
/* What is still in them is lost; no other call is under way. NULL is fine. */
void binadei_maps_destroy(struct binadei_maps *maps);

/* Sets `grains`, at least one, from `start` on in the fresh map. Any thread. */
enum binadei_map_give {
    BINADEI_MAP_GIVEN,
    BINADEI_MAP_NO_MEMORY, /* nothing was set */
    BINADEI_MAP_TWICE      /* a word of it says that a part is free already;
                              nothing was set in that word, nor of later pages */
};
enum binadei_map_give binadei_maps_give(struct binadei_maps *maps,
                                        binadei_grain start, uint64_t grains);

/* Moves what is fresh into the ageing map, which must be empty. Here and below:
 * by the holder of the stream's role; returns the grains that were moved. */
uint64_t binadei_maps_close(struct binadei_maps *maps);
/* Gives what is in one map to the buddy: it is done. */
uint64_t binadei_maps_drain(struct binadei_maps *maps,
                            enum binadei_map_age age);
/* Gives what is in one map to the fresh map of `to`, whose stream is ordered
 * behind this one's from now on. What there is no memory for stays. */
uint64_t binadei_maps_hand(struct binadei_maps *maps, enum binadei_map_age age,
                           struct binadei_maps *to);

/* Grains in one of the maps: never below what is there; exact at rest. 0 for
 * NULL. */
uint64_t binadei_maps_grains(const struct binadei_maps *maps,
                             enum binadei_map_age age);
/* How many grains are in them from `start` on, up to `end`, without a gap; exact
 * at rest. */
uint64_t binadei_maps_free_from(const struct binadei_maps *maps,
                                binadei_grain start, binadei_grain end);

/* Whom to search for: a stream that has maps, or none, for memory that is
 * done. */
struct binadei_view {
    struct binadei_buddy *buddy;
    struct binadei_maps *maps; /* NULL: done memory only */
    bool is_own_only;          /* the stream's maps, and not what is done */
};

/* Takes up to `what->count` intervals of at most 1 MiB out of single words of
 * the stream's maps, the first that serve; where `is_gathered`, of those pages
 * alone that are somebody's affinity, which have small blocks already. Returns how
 * many; 0 does not mean that there is no such interval. */
uint32_t binadei_maps_take(struct binadei_maps *maps,
                           const struct binadei_take *what, bool is_gathered,
                           binadei_grain *out);

/* Takes one interval of any length that starts at a multiple of `alignment`
 * grains (a power of two up to a page), put together from all maps of the view,
 * and beginning and ending at any grain: a good fit, which the index finds at
 * once, or, where that has none, the best. */
bool binadei_view_take(const struct binadei_view *view, uint64_t grains,
                       uint32_t alignment, binadei_grain *out);
/* The index alone is asked: false does not mean that there is none. Of the
 * stream's own alone it finds what lies at an end of a run. */
bool binadei_view_take_good(const struct binadei_view *view, uint64_t grains,
                            uint32_t alignment, binadei_grain *out);
/* The words are read: the best fit, lowest first. Up to a page, one that leaves at
 * most a sixteenth over is as good as the best. `is_thorough`: every word,
 * whatever the hints say. */
bool binadei_view_take_best(const struct binadei_view *view, uint64_t grains,
                            uint32_t alignment, bool is_thorough,
                            binadei_grain *out);
/* Takes exactly this interval; false: a part of it is not free there. */
bool binadei_view_claim(const struct binadei_view *view, binadei_grain start,
                        uint64_t grains);

/* How many grains are free in all maps of the view from `start` on, up to `end`;
 * and in front of `end`, down to `start`. Exact while nobody takes or gives. */
uint64_t binadei_view_free_from(const struct binadei_view *view,
                                binadei_grain start, binadei_grain end);
uint64_t binadei_view_free_before(const struct binadei_view *view,
                                  binadei_grain start, binadei_grain end);

/* At rest: checks the numbered invariants of `count` streams' maps, all of one
 * buddy. NULL, or which one is broken; `out_at` is then the grain where. */
const char *binadei_maps_check(const struct binadei_maps *const *maps,
                               uint32_t count, binadei_grain *out_at);

#endif
