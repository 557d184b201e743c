/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Size classes. A block has exactly the grains that were asked for. Up to
 * 32 KiB a class is one number of grains, and its blocks are all alike. Above, a
 * block is a run, and a class is a bucket of lengths within 12.5 % of each other,
 * eight per doubling, up to 128 MiB; longer runs have no class and are not
 * cached.
 *
 * With g = grains - 1, a small class is g. A bucket is 8 s + (g >> s), behind the
 * small ones, with s = floor(log2 g) - 3: lengths of which g differs in its lowest
 * s bits only.
 */
#ifndef BINADE_POOL_CACHE_CLASSES_H_
#define BINADE_POOL_CACHE_CLASSES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/buddy/buddy.h"
#include "pool/buddy/units.h"

#define BINADEI_SMALL_CLASSES 64U /* 512 B to 32 KiB */
#define BINADEI_HIT_CLASSES 104U  /* to 1 MiB: what hits serve */
#define BINADEI_CLASSES 160U      /* to 128 MiB */
#define BINADEI_CLASS_WORDS ((BINADEI_CLASSES + 63) / 64)

#define BINADEI_SMALL_GRAINS BINADEI_SMALL_CLASSES
#define BINADEI_HIT_GRAINS 2048U
/* What the formula of buckets gives for the first of them, less its class. */
#define BINADEI_BUCKETS_FROM (BINADEI_SMALL_CLASSES - 32U)

_Static_assert(BINADEI_SMALL_GRAINS >= BINADEI_CHUNK_GRAINS,
               "two runs may start in one chunk, which notes one length");

/* The metadata byte of a block's first grain: class + 1 of a small one,
 * BINADEI_BYTE_RUN of a run; a block with something to look up besides has the
 * SPECIAL bit. 0: no block starts here. */
#define BINADEI_BYTE_RUN (BINADEI_SMALL_CLASSES + 1)
#define BINADEI_BYTE_SPECIAL 0x80U

/* Of a block of at most BINADEI_SMALL_GRAINS. */
static inline uint32_t binadei_small_class_of(uint64_t grains_less_one)
{
    return (uint32_t)grains_less_one;
}

/* Bits of a run's grains less one in which it may differ from others of its
 * bucket. */
static inline unsigned binadei_bucket_shift(uint64_t grains_less_one)
{
    return (63U - (unsigned)__builtin_clzll(grains_less_one)) - 3U;
}

/* Of a longer one, of at most 2^18 grains. */
static inline uint32_t binadei_bucket_of(uint64_t grains_less_one)
{
    unsigned shift = binadei_bucket_shift(grains_less_one);
    return BINADEI_BUCKETS_FROM + 8 * shift +
           (uint32_t)(grains_less_one >> shift);
}

/* How many grains a run is shorter than the longest of its bucket. */
static inline uint64_t binadei_shortfall(uint64_t grains_less_one)
{
    unsigned shift = binadei_bucket_shift(grains_less_one);
    return ~grains_less_one & ((UINT64_C(1) << shift) - 1);
}

/* Grains of a small class; of a bucket, those of the longest run. */
static inline uint64_t binadei_class_grains(uint32_t class_index)
{
    if (class_index < BINADEI_SMALL_CLASSES)
        return class_index + 1;
    unsigned shift = (class_index - BINADEI_BUCKETS_FROM) / 8 - 1;
    return (uint64_t)(class_index - BINADEI_BUCKETS_FROM - 8 * shift + 1)
           << shift;
}

static inline size_t binadei_class_bytes(uint32_t class_index)
{
    return binadei_class_grains(class_index) * BINADEI_GRAIN_BYTES;
}

/* Of any run: BINADEI_CLASSES where it is not cached. */
static inline uint32_t binadei_run_class_of(uint64_t grains)
{
    return grains > binadei_class_grains(BINADEI_CLASSES - 1)
               ? BINADEI_CLASSES
               : binadei_bucket_of(grains - 1);
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
    struct binadei_size size = {0, 0, less_one + 1};
    if (less_one < BINADEI_SMALL_GRAINS) {
        size.class_index = binadei_small_class_of(less_one);
        return size;
    }
    size.chunks = (uint32_t)(less_one / BINADEI_CHUNK_GRAINS + 1);
    size.class_index = binadei_run_class_of(size.grains);
    return size;
}

#endif
