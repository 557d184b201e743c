/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is free, a byte a grain: the plainest answer there is, and slow. It
 * knows which requests a buddy must be able to serve from what is free.
 */
#ifndef MOIETY_TESTS_BUDDY_BYTE_MAP_H_
#define MOIETY_TESTS_BUDDY_BYTE_MAP_H_

#include <stdbool.h>
#include <stdint.h>

enum byte_map_state {
    BYTE_MAP_ABSENT = 0, /* not added, or withdrawn */
    BYTE_MAP_FREE = 1,
    BYTE_MAP_HELD = 2,
};

struct byte_map {
    uint8_t *states;
    uint64_t grains;
    uint64_t free_grains;
};

/* Everything absent. False: no memory. */
bool byte_map_init(struct byte_map *map, uint32_t pages);
void byte_map_fini(struct byte_map *map);

bool byte_map_is(const struct byte_map *map, uint64_t start, uint64_t grains,
                 enum byte_map_state state);
void byte_map_set(struct byte_map *map, uint64_t start, uint64_t grains,
                  enum byte_map_state state);

/* Whether an interval fits, as the buddy takes it: up to a chunk of grains inside one chunk, a larger
 * or more aligned one in whole free chunks of one page. */
bool byte_map_has_place(const struct byte_map *map, uint32_t grains,
                        uint32_t alignment);

/* Whether one fits anywhere. */
bool byte_map_has_room(const struct byte_map *map, uint32_t grains,
                       uint32_t alignment);

#endif
