/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the subjects that are a bare buddy share: an offset space without memory
 * behind it, and the sizes that a pool on top would ask them for.
 */
#ifndef BINADE_BENCH_SUBJECTS_ARENA_H_
#define BINADE_BENCH_SUBJECTS_ARENA_H_

#include <stddef.h>
#include <stdint.h>

#define ARENA_GRAIN_BYTES ((size_t)512)
#define ARENA_CHUNK_GRAINS 64U
/* Largest interval in grains; above it come runs of chunks. */
#define ARENA_INTERVAL_GRAINS_MAX 2048U

/* Pages of 2 MiB: room for the largest workload, 2 GiB a thread, twice over. */
static inline uint32_t arena_pages(unsigned thread_count)
{
    return (thread_count > 8 ? thread_count : 8) * UINT32_C(2048);
}

/* Rounded up to one of eight sizes per doubling up to 1 MiB, above that to
 * whole chunks. */
static inline uint64_t arena_grains(size_t size_bytes)
{
    uint64_t grains = (size_bytes + ARENA_GRAIN_BYTES - 1) / ARENA_GRAIN_BYTES;
    if (grains <= 8)
        return grains ? grains : 1;
    uint64_t step = ARENA_CHUNK_GRAINS;
    if (grains <= ARENA_INTERVAL_GRAINS_MAX)
        step = UINT64_C(1) << (60 - __builtin_clzll(grains - 1));
    return (grains + step - 1) / step * step;
}

/* A grain as the address that a subject hands out, where 0 is none. */
static inline uint64_t arena_address(uint64_t grain)
{
    return (grain + 1) * ARENA_GRAIN_BYTES;
}

static inline uint64_t arena_grain(uint64_t address)
{
    return address / ARENA_GRAIN_BYTES - 1;
}

#endif
