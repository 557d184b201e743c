/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Size classes: eight per doubling. Up to 1 MiB a class is a size, in grains,
 * and blocks of it are all alike. Above, blocks are runs of any number of
 * grains, and a class is a bucket of lengths within 12.5 % of each other, up to
 * 128 MiB; longer runs have no class and are not cached.
 *
 * With g = grains - 1 and s = max(0, floor(log2 g) - 3), the class is
 * 8 s + (g >> s): continuous, and its sizes are (g >> s) + 1, shifted by s.
 */
#ifndef BINADE_POOL_CACHE_CLASSES_H_
#define BINADE_POOL_CACHE_CLASSES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/buddy/buddy.h"
#include "pool/buddy/units.h"

#define BINADEI_SMALL_CLASSES 72U /* 512 B to 1 MiB */
#define BINADEI_CLASSES 128U      /* to 128 MiB */
#define BINADEI_SMALL_BYTES_MAX ((size_t)1 << 20)

/* The metadata byte of a block's first grain: class + 1 of a small one,
 * BINADEI_BYTE_RUN of a run; a block with something to look up besides has the
 * SPECIAL bit. 0: no block starts here. */
#define BINADEI_BYTE_RUN (BINADEI_SMALL_CLASSES + 1)
#define BINADEI_BYTE_SPECIAL 0x80U

/* `grains_less_one` is below 2^18. */
static inline uint32_t binadei_class_of(uint64_t grains_less_one)
{
    /* 15 keeps the shift at 0 for the first sixteen, which are exact. */
    unsigned highest =
        63U - (unsigned)__builtin_clzll(grains_less_one | UINT64_C(15));
    unsigned shift = highest - 3;
    return 8 * shift + (uint32_t)(grains_less_one >> shift);
}

/* Grains of a small class; of a bucket of runs, those of the longest. */
static inline uint64_t binadei_class_grains(uint32_t class_index)
{
    if (class_index < 16)
        return class_index + 1;
    unsigned shift = class_index / 8 - 1;
    return (uint64_t)(class_index - 8 * shift + 1) << shift;
}

static inline size_t binadei_class_bytes(uint32_t class_index)
{
    return binadei_class_grains(class_index) * BINADEI_GRAIN_BYTES;
}

/* What a request becomes. */
struct binadei_size {
    uint32_t class_index; /* BINADEI_CLASSES: not cached */
    uint32_t chunks;      /* of a run, the last in part; 0: small */
    uint64_t grains;
};

/* `size_bytes` is not 0, and at most 2^44. */
static inline struct binadei_size binadei_size_of_bytes(size_t size_bytes)
{
    uint64_t less_one = (size_bytes - 1) / BINADEI_GRAIN_BYTES;
    struct binadei_size size = {0, 0, 0};
    if (size_bytes <= BINADEI_SMALL_BYTES_MAX) {
        size.class_index = binadei_class_of(less_one);
        size.grains = binadei_class_grains(size.class_index);
        return size;
    }
    size.chunks = (uint32_t)(less_one / BINADEI_CHUNK_GRAINS + 1);
    size.grains = less_one + 1;
    size.class_index = size.grains > binadei_class_grains(BINADEI_CLASSES - 1)
                           ? BINADEI_CLASSES
                           : binadei_class_of(size.grains - 1);
    return size;
}

#endif
