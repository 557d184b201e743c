/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/heaps/places.h"

#include <stdlib.h>
#include <string.h>

bool places_init(struct places *places, uint64_t grains)
{
    places->grains = grains;
    places->now = calloc(grains, 1);
    places->read = calloc(grains, 1);
    return places->now && places->read;
}

void places_fini(struct places *places)
{
    free(places->now);
    free(places->read);
}

static bool read_age(struct places *places, const struct moietyi_heap *heap,
                     uint32_t age, uint8_t place)
{
    for (unsigned bin = 0; bin < MOIETYI_BINS; bin++) {
        moietyi_extent_id id = heap->bins[age].heads[bin];
        for (; id; id = moietyi_extent_of(heap->space, id)->next) {
            uint64_t start = moietyi_start_of(heap->space, id);
            uint64_t grains = moietyi_grains_of(heap->space, id);
            if (start > places->grains || grains > places->grains - start ||
                !places_are(places->read, start, grains, PLACE_NONE))
                return false;
            memset(&places->read[start], place, grains);
        }
    }
    return true;
}

bool places_read(struct places *places, const struct moietyi_space *space,
                 struct moietyi_heap *const heap[STREAMS])
{
    memset(places->read, PLACE_NONE, places->grains);
    bool is_right = read_age(places, space->done, 0, PLACE_DONE);
    for (unsigned i = 0; i < STREAMS && is_right; i++) {
        if (!heap[i])
            continue;
        uint32_t fresh = moietyi_fresh_of(heap[i]);
        is_right =
            read_age(places, heap[i], fresh, place_of(i, MOIETYI_FRESH)) &&
            read_age(places, heap[i], fresh ^ 1, place_of(i, MOIETYI_AGEING));
    }
    return is_right;
}

uint64_t places_difference(const struct places *places)
{
    uint64_t at = 0;
    if (memcmp(places->now, places->read, places->grains) == 0)
        return places->grains;
    while (places->now[at] == places->read[at])
        at++;
    return at;
}

uint64_t places_count(const struct places *places, uint8_t place)
{
    uint64_t grains = 0;
    for (uint64_t i = 0; i < places->grains; i++)
        grains += places->now[i] == place;
    return grains;
}

void places_move(struct places *places, uint8_t from, uint8_t to)
{
    for (uint64_t i = 0; i < places->grains; i++)
        if (places->now[i] == from)
            places->now[i] = to;
}

bool places_are(const uint8_t *bytes, uint64_t start, uint64_t grains,
                uint8_t place)
{
    for (uint64_t i = start; i < start + grains; i++)
        if (bytes[i] != place)
            return false;
    return true;
}

struct run places_run(const struct places *places, const uint8_t *bytes,
                      uint64_t grain)
{
    struct run run = {grain, grain};
    while (run.start && bytes[run.start - 1] == bytes[grain])
        run.start--;
    while (run.end < places->grains && bytes[run.end] == bytes[grain])
        run.end++;
    return run;
}

bool place_is_seen(const struct seen *seen, uint8_t place)
{
    if (place == PLACE_DONE)
        return !seen->view.is_own_only || seen->stream == STREAMS;
    return seen->stream < STREAMS && place >= place_of(seen->stream, 0) &&
           place < place_of(seen->stream + 1, 0);
}

bool places_are_seen(const struct places *places, const struct seen *seen,
                     uint64_t start, uint64_t grains)
{
    for (uint64_t i = start; i < start + grains; i++)
        if (!place_is_seen(seen, places->now[i]))
            return false;
    return true;
}

struct run places_stretch(const struct places *places, const struct seen *seen,
                          uint64_t grain)
{
    struct run run = {grain, grain};
    if (!place_is_seen(seen, places->now[grain]))
        return run;
    while (run.start && place_is_seen(seen, places->now[run.start - 1]))
        run.start--;
    while (run.end < places->grains &&
           place_is_seen(seen, places->now[run.end]))
        run.end++;
    return run;
}

static bool has_room(struct run run, uint64_t grains, uint64_t alignment)
{
    uint64_t start = (run.start + alignment - 1) / alignment * alignment;
    return start < run.end && run.end - start >= grains;
}

struct best places_best(const struct places *places, const struct seen *seen,
                        uint64_t grains, uint64_t alignment)
{
    struct best best = {0, 0};
    unsigned in_bin[MOIETYI_BINS] = {0};
    struct run run = {0, 0};
    for (; run.start < places->grains; run.start = run.end) {
        run = places_run(places, places->now, run.start);
        uint64_t length = run.end - run.start;
        if (!place_is_seen(seen, places->now[run.start]))
            continue;
        in_bin[moietyi_bin_of(length)]++;
        if (has_room(run, grains, alignment) &&
            (!best.grains || length < best.grains))
            best.grains = length;
    }
    best.rivals = best.grains ? in_bin[moietyi_bin_of(best.grains)] : 0;
    return best;
}

uint64_t places_best_stretch(const struct places *places,
                             const struct seen *seen, uint64_t grains,
                             uint64_t alignment)
{
    uint64_t best = 0;
    for (uint64_t at = 0; at < places->grains; at++) {
        if (!place_is_seen(seen, places->now[at]))
            continue;
        struct run run = places_stretch(places, seen, at);
        if (has_room(run, grains, alignment) &&
            (!best || run.end - run.start < best))
            best = run.end - run.start;
        at = run.end;
    }
    return best;
}

uint64_t places_cut(const struct places *places, struct run run,
                    uint64_t grains, uint64_t alignment)
{
    bool is_free_before = run.start && places->now[run.start - 1] != PLACE_NONE;
    bool is_free_behind =
        run.end < places->grains && places->now[run.end] != PLACE_NONE;
    uint64_t last = (run.end - grains) / alignment * alignment;
    if (run.end - run.start - grains <= PLACES_LEFT_MOST * grains &&
        is_free_before && !is_free_behind && last >= run.start)
        return last;
    return (run.start + alignment - 1) / alignment * alignment;
}

uint64_t places_longest(const struct places *places, bool is_pages)
{
    uint64_t most = 0;
    struct run run = {0, 0};
    for (; run.start < places->grains; run.start = run.end) {
        run = places_run(places, places->now, run.start);
        uint64_t length = run.end - run.start;
        if (is_pages) {
            uint64_t first =
                (run.start + MOIETYI_PAGE_GRAINS - 1) / MOIETYI_PAGE_GRAINS;
            uint64_t end = run.end / MOIETYI_PAGE_GRAINS;
            length = end > first ? end - first : 0;
        }
        if (places->now[run.start] == PLACE_DONE && length > most)
            most = length;
    }
    return most;
}
