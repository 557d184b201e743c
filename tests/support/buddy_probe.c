/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/buddy_probe.h"

#include "pool/heap/buddy.h"
#include "pool/heap/map.h"

_Static_assert(PROBE_PAGE_GRAINS == MOIETYI_PAGE_GRAINS, "as many");

int buddy_probe_create(uint32_t page_capacity, struct moietyi_buddy **out)
{
    return (int)moietyi_buddy_create(page_capacity, out);
}

void buddy_probe_destroy(struct moietyi_buddy *buddy)
{
    moietyi_buddy_destroy(buddy);
}

bool buddy_probe_take(struct moietyi_buddy *buddy, uint32_t grains,
                      uint64_t *out_start)
{
    const struct moietyi_view view = {.buddy = buddy};
    moietyi_grain out;
    if (!moietyi_view_take(&view, grains, 1, &out))
        return false;
    *out_start = out.index;
    return true;
}

bool buddy_probe_take_pages(struct moietyi_buddy *buddy, uint64_t pages,
                            uint64_t *out_start)
{
    const struct moietyi_view view = {.buddy = buddy};
    moietyi_grain out;
    if (!moietyi_view_take(&view, pages * MOIETYI_PAGE_GRAINS,
                           MOIETYI_PAGE_GRAINS, &out))
        return false;
    *out_start = out.index;
    return true;
}

bool buddy_probe_give(struct moietyi_buddy *buddy, uint64_t start,
                      uint64_t grains)
{
    return moietyi_buddy_give(buddy, moietyi_grain_at(start), grains);
}

uint64_t buddy_probe_free_from(const struct moietyi_buddy *buddy,
                               uint64_t start, uint64_t end)
{
    return moietyi_buddy_free_from(buddy, moietyi_grain_at(start),
                                   moietyi_grain_at(end));
}

uint32_t buddy_probe_longest_page_run(const struct moietyi_buddy *buddy)
{
    return moietyi_buddy_longest_page_run(buddy);
}

const char *buddy_probe_check(const struct moietyi_buddy *buddy,
                              uint64_t *out_at)
{
    moietyi_grain at = {0};
    const char *broken = moietyi_buddy_check(buddy, &at);
    *out_at = at.index;
    return broken;
}

struct moietyi_maps *map_probe_create(struct moietyi_buddy *buddy)
{
    return moietyi_maps_create(buddy);
}

void map_probe_destroy(struct moietyi_maps *maps)
{
    moietyi_maps_destroy(maps);
}

bool map_probe_give(struct moietyi_maps *maps, uint64_t start, uint64_t grains)
{
    return moietyi_maps_give(maps, moietyi_grain_at(start), grains);
}

void map_probe_close(struct moietyi_maps *maps)
{
    (void)moietyi_maps_close(maps);
}

void map_probe_drain(struct moietyi_maps *maps)
{
    (void)moietyi_maps_drain(maps, MOIETYI_AGEING);
}

uint64_t map_probe_free_from(const struct moietyi_maps *maps, uint64_t start,
                             uint64_t end)
{
    return moietyi_maps_free_from(maps, moietyi_grain_at(start),
                                  moietyi_grain_at(end));
}

static struct moietyi_view view_of_probe(const struct map_probe_view *view)
{
    return (struct moietyi_view){.buddy = view->buddy,
                                 .maps = view->maps,
                                 .is_own_only = view->is_own_only};
}

bool map_probe_view_take(const struct map_probe_view *view, uint64_t grains,
                         uint64_t *out_start)
{
    const struct moietyi_view own = view_of_probe(view);
    moietyi_grain out;
    if (!moietyi_view_take_best(&own, grains, 1, &out))
        return false;
    *out_start = out.index;
    return true;
}

bool map_probe_view_claim(const struct map_probe_view *view, uint64_t start,
                          uint64_t grains)
{
    const struct moietyi_view own = view_of_probe(view);
    return moietyi_view_claim(&own, moietyi_grain_at(start), grains);
}

const char *map_probe_check(const struct moietyi_maps *const *maps,
                            uint32_t count, uint64_t *out_at)
{
    moietyi_grain at = {0};
    const char *broken = moietyi_maps_check(maps, count, &at);
    *out_at = at.index;
    return broken;
}
