/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/buddy/byte_map.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_GRAINS 64U
#define PAGE_GRAINS 4096U

bool byte_map_init(struct byte_map *map, uint32_t pages)
{
    map->grains = (uint64_t)pages * PAGE_GRAINS;
    map->free_grains = 0;
    map->states = calloc(map->grains, 1);
    return map->states != NULL;
}

void byte_map_fini(struct byte_map *map)
{
    free(map->states);
}

bool byte_map_is(const struct byte_map *map, uint64_t start, uint64_t grains,
                 enum byte_map_state state)
{
    if (start > map->grains || grains > map->grains - start)
        return false;
    for (uint64_t grain = start; grain < start + grains; grain++)
        if (map->states[grain] != state)
            return false;
    return true;
}

void byte_map_set(struct byte_map *map, uint64_t start, uint64_t grains,
                  enum byte_map_state state)
{
    for (uint64_t grain = start; grain < start + grains; grain++) {
        map->free_grains -= map->states[grain] == BYTE_MAP_FREE;
        map->free_grains += state == BYTE_MAP_FREE;
    }
    memset(&map->states[start], (int)state, grains);
}

/* A free interval in one of the blocks of `room` grains, whose start is a
 * multiple of `step` from the start of the block. */
static bool has_interval(const struct byte_map *map, uint32_t grains,
                         uint32_t step, uint32_t room)
{
    for (uint64_t block = 0; block < map->grains; block += room)
        for (uint32_t at = 0; at + grains <= room; at += step)
            if (byte_map_is(map, block + at, grains, BYTE_MAP_FREE))
                return true;
    return false;
}

bool byte_map_has_place(const struct byte_map *map, uint32_t grains,
                        uint32_t alignment)
{
    if (grains <= CHUNK_GRAINS && alignment < CHUNK_GRAINS)
        return has_interval(map, grains, alignment, CHUNK_GRAINS);
    uint32_t whole = (grains + CHUNK_GRAINS - 1) / CHUNK_GRAINS * CHUNK_GRAINS;
    uint32_t step = alignment > CHUNK_GRAINS ? alignment : CHUNK_GRAINS;
    return has_interval(map, whole, step, PAGE_GRAINS);
}

bool byte_map_has_room(const struct byte_map *map, uint32_t grains,
                       uint32_t alignment)
{
    uint64_t start = 0; /* of what is free up to `at`, aligned */
    for (uint64_t at = 0; at < map->grains; at++) {
        if (map->states[at] != BYTE_MAP_FREE)
            start = (at + alignment) / alignment * alignment;
        else if (at + 1 >= start + grains)
            return true;
    }
    return false;
}
