/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/stress/map.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/truth/kit.h"

#define SHOWN_MAX 8

void map_init(struct map *map, uint64_t base, uint64_t size_bytes)
{
    uint64_t grains = size_bytes / MAP_GRAIN_BYTES;
    map->base = base;
    map->size_bytes = size_bytes;
    map->words = calloc(grains / 64, sizeof(*map->words));
    map->owners = calloc(grains, sizeof(*map->owners));
    kit_require(map->words && map->owners, "calloc");
}

void map_fini(struct map *map)
{
    free((void *)map->words);
    free((void *)map->owners);
}

/* The bits from `first` on that are in the same word, `count` at most. */
static uint64_t bits_of(uint64_t first, uint64_t count, uint64_t *out_count)
{
    uint64_t start = first % 64;
    *out_count = count < 64 - start ? count : 64 - start;
    return (*out_count == 64 ? ~UINT64_C(0) : (UINT64_C(1) << *out_count) - 1)
           << start;
}

static void report(struct map *map, uint64_t address, size_t size_bytes,
                   uint32_t owner, uint32_t other)
{
    if (atomic_fetch_add(&map->overlaps, 1) < SHOWN_MAX)
        printf("OVERLAP: 0x%" PRIx64 " + %zu, got by thread %" PRIu32
               ", is in use; the last to get a block there: thread %" PRIu32
               "\n",
               address, size_bytes, owner, other);
}

/* The owner of the block that a grain is in: of the nearest start below. */
static uint32_t owner_near(const struct map *map, uint64_t grain)
{
    while (grain &&
           !atomic_load_explicit(&map->owners[grain], memory_order_relaxed))
        grain--;
    return atomic_load_explicit(&map->owners[grain], memory_order_relaxed);
}

void map_claim(struct map *map, uint64_t address, size_t size_bytes,
               uint32_t owner)
{
    uint64_t first = (address - map->base) / MAP_GRAIN_BYTES;
    uint64_t grains = (size_bytes + MAP_GRAIN_BYTES - 1) / MAP_GRAIN_BYTES;
    if (address < map->base || address % MAP_GRAIN_BYTES ||
        first + grains > map->size_bytes / MAP_GRAIN_BYTES) {
        report(map, address, size_bytes, owner, 0);
        return;
    }
    uint64_t done;
    for (uint64_t i = 0; i < grains; i += done) {
        uint64_t bits = bits_of(first + i, grains - i, &done);
        uint64_t before = atomic_fetch_or_explicit(
            &map->words[(first + i) / 64], bits, memory_order_relaxed);
        if (before & bits) {
            report(map, address, size_bytes, owner,
                   owner_near(map, first + i + done - 1));
            return;
        }
    }
    atomic_store_explicit(&map->owners[first], owner, memory_order_relaxed);
}

void map_release(struct map *map, uint64_t address, size_t size_bytes)
{
    uint64_t first = (address - map->base) / MAP_GRAIN_BYTES;
    uint64_t grains = (size_bytes + MAP_GRAIN_BYTES - 1) / MAP_GRAIN_BYTES;
    uint64_t done;
    for (uint64_t i = 0; i < grains; i += done)
        atomic_fetch_and_explicit(&map->words[(first + i) / 64],
                                  ~bits_of(first + i, grains - i, &done),
                                  memory_order_relaxed);
}

bool map_is_empty(const struct map *map)
{
    for (uint64_t i = 0; i < map->size_bytes / MAP_GRAIN_BYTES / 64; i++)
        if (atomic_load_explicit(&map->words[i], memory_order_relaxed))
            return false;
    return true;
}
