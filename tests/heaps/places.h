/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which heap each grain is in, a byte a grain: the plainest answer there is. An
 * extent is a run of equal bytes, so what a search of the heaps must find is
 * found here by reading all of them.
 */
#ifndef MOIETY_TESTS_HEAPS_PLACES_H_
#define MOIETY_TESTS_HEAPS_PLACES_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/heap/state.h"

#define STREAMS 3U

enum place {
    PLACE_NONE, /* held, or no memory at all */
    PLACE_DONE,
    PLACE_OWN, /* both ages of each stream */
    PLACES = PLACE_OWN + MOIETYI_AGES * STREAMS
};

struct run {
    uint64_t start;
    uint64_t end; /* as start: there is none */
};

struct places {
    uint64_t grains;
    uint8_t *now;  /* what must be so */
    uint8_t *read; /* what the heaps say */
};

/* A view, and its stream; STREAMS: none. */
struct seen {
    struct moietyi_view view;
    unsigned stream;
};

/* The best single extent of a view, by the bytes. */
/* Up to so many times what is taken, what is left of an extent is kept beside other
 * free memory. */
#define PLACES_LEFT_MOST 8U

struct best {
    uint64_t grains; /* 0: none has room */
    unsigned rivals; /* extents in its bin, of all heaps of the view */
};

static inline uint8_t place_of(unsigned stream, enum moietyi_age age)
{
    return (uint8_t)(PLACE_OWN + MOIETYI_AGES * stream + (unsigned)age);
}

/* All PLACE_NONE. False: no memory. */
bool places_init(struct places *places, uint64_t grains);
void places_fini(struct places *places);

/* Reads all heaps into `read`. False: two extents have the same grain. */
bool places_read(struct places *places, const struct moietyi_space *space,
                 struct moietyi_heap *const heap[STREAMS]);
/* The first grain of which the heaps said anything else; places->grains: none. */
uint64_t places_difference(const struct places *places);

uint64_t places_count(const struct places *places, uint8_t place);
void places_move(struct places *places, uint8_t from, uint8_t to);
bool places_are(const uint8_t *bytes, uint64_t start, uint64_t grains,
                uint8_t place);

/* The extent that a grain is in. */
struct run places_run(const struct places *places, const uint8_t *bytes,
                      uint64_t grain);
/* What the view has without a gap around a grain. */
struct run places_stretch(const struct places *places, const struct seen *seen,
                          uint64_t grain);

bool place_is_seen(const struct seen *seen, uint8_t place);
bool places_are_seen(const struct places *places, const struct seen *seen,
                     uint64_t start, uint64_t grains);
struct best places_best(const struct places *places, const struct seen *seen,
                        uint64_t grains, uint64_t alignment);
/* The shortest stretch with room; 0: none. */
uint64_t places_best_stretch(const struct places *places,
                             const struct seen *seen, uint64_t grains,
                             uint64_t alignment);
/* Where an interval is cut out of an extent. */
uint64_t places_cut(const struct places *places, struct run run,
                    uint64_t grains, uint64_t alignment);
/* Most whole pages, or grains, in an extent of what is done. */
uint64_t places_longest(const struct places *places, bool is_pages);

#endif
