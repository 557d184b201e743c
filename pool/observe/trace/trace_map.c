/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/observe/trace/trace_map.h"

#include <stdlib.h>

#define FIRST_ORDER 10U

static uint64_t trace_map_home_of(uint64_t key, uint32_t order)
{
    /* Addresses are multiples of a power of two; the golden ratio spreads
     * them. */
    return (key * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - order);
}

/* The key's place, or the free one where it would be. */
static uint64_t trace_map_probe(const struct moietyi_trace_map *map,
                                uint64_t key)
{
    uint64_t mask = (UINT64_C(1) << map->order) - 1;
    uint64_t at = trace_map_home_of(key, map->order);
    while (map->places[at].is_used && map->places[at].key != key)
        at = (at + 1) & mask;
    return at;
}

static bool trace_map_grow(struct moietyi_trace_map *map)
{
    struct moietyi_trace_map larger = {
        .order = map->places ? map->order + 1 : FIRST_ORDER,
        .count = map->count,
    };
    larger.places = calloc((size_t)1 << larger.order, sizeof(*larger.places));
    if (!larger.places)
        return false;
    for (uint64_t i = 0; map->places && i < UINT64_C(1) << map->order; i++)
        if (map->places[i].is_used)
            larger.places[trace_map_probe(&larger, map->places[i].key)] =
                map->places[i];
    free(map->places);
    *map = larger;
    return true;
}

uint32_t *moietyi_trace_map_find(const struct moietyi_trace_map *map,
                                 uint64_t key)
{
    if (!map->places)
        return NULL;
    struct moietyi_trace_place *place = &map->places[trace_map_probe(map, key)];
    return place->is_used ? &place->value : NULL;
}

bool moietyi_trace_map_add(struct moietyi_trace_map *map, uint64_t key,
                           uint32_t value)
{
    if ((!map->places || map->count >= UINT64_C(1) << (map->order - 1)) &&
        !trace_map_grow(map))
        return false;
    map->places[trace_map_probe(map, key)] =
        (struct moietyi_trace_place){key, value, true};
    map->count++;
    return true;
}

void moietyi_trace_map_remove(struct moietyi_trace_map *map, uint64_t key)
{
    uint64_t mask = (UINT64_C(1) << map->order) - 1;
    uint64_t hole = trace_map_probe(map, key);
    map->count--;
    /* Entries that were put behind it because it was there move up. */
    for (uint64_t at = (hole + 1) & mask; map->places[at].is_used;
         at = (at + 1) & mask) {
        uint64_t home = trace_map_home_of(map->places[at].key, map->order);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->places[hole] = map->places[at];
            hole = at;
        }
    }
    map->places[hole].is_used = false;
}

void moietyi_trace_map_fini(struct moietyi_trace_map *map)
{
    free(map->places);
    *map = (struct moietyi_trace_map){NULL, 0, 0};
}
