/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which memory is in use, kept beside the pool: a bit per grain, set by the
 * thread that gets a block and cleared before it is freed. A bit that is set
 * already belongs to somebody else.
 */
#ifndef MOIETY_TESTS_STRESS_MAP_H_
#define MOIETY_TESTS_STRESS_MAP_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_GRAIN_BYTES 512

struct map {
    uint64_t base; /* address of the first grain */
    uint64_t size_bytes;
    /* Relaxed, all of it: the order between one owner and the next has to come
     * from the pool. */
    _Atomic uint64_t *words;
    _Atomic uint32_t *owners; /* of each grain that starts a block */
    _Atomic uint64_t overlaps;
};

void map_init(struct map *map, uint64_t base, uint64_t size_bytes);
void map_fini(struct map *map);

/* Makes [address, address + size_bytes) belong to `owner`. A block that is not
 * wholly in the map, or meets another, counts as an overlap and is printed. */
void map_claim(struct map *map, uint64_t address, size_t size_bytes,
               uint32_t owner);

void map_release(struct map *map, uint64_t address, size_t size_bytes);

/* Whether nothing belongs to anyone. */
bool map_is_empty(const struct map *map);

#endif
