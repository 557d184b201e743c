/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Size classes: buckets of lengths within 12.5 % of each other, eight per
 * doubling, up to 1 MiB; longer blocks have no class and are not cached. Up to
 * 8 KiB a class is one length. Of the others a block may be *short*: shorter than
 * the longest of its class, by its *shortfall*.
 *
 * With g = grains - 1 and s = max(0, floor(log2 g) - 3), the class is
 * 8 s + (g >> s): continuous, and its longest are (g >> s) + 1, shifted by s.
 */
#ifndef MOIETY_POOL_HEAP_CLASSES_H_
#define MOIETY_POOL_HEAP_CLASSES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/heap/space.h"
#include "pool/heap/units.h"

#define MOIETYI_CLASSES 72U /* 512 B to 1 MiB */
#define MOIETYI_CLASS_GRAINS_MAX 2048U
/* Of a bit for each. */
#define MOIETYI_CLASS_WORDS ((MOIETYI_CLASSES + 63U) / 64U)

/* The metadata byte of a block's first grain: class + 1 of a block that is not
 * short; MOIETYI_BYTE_SHORT and the grains of a short one below a chunk;
 * MOIETYI_BYTE_RUN of all others. The length of those is noted for the chunk in
 * which they start: they are longer than a chunk, so only one starts in each.
 * The SPECIAL bit says that another table has more about the block. 0: no block
 * starts here. */
#define MOIETYI_BYTE_SHORT 56U
#define MOIETYI_BYTE_RUN (MOIETYI_BYTE_SHORT + 64U)
#define MOIETYI_BYTE_SPECIAL 0x80U

_Static_assert(MOIETYI_BYTE_SHORT + 17 > MOIETYI_CLASSES &&
                   MOIETYI_BYTE_RUN < MOIETYI_BYTE_SPECIAL,
               "two kinds of block have the same byte");
_Static_assert(MOIETYI_CHUNK_GRAINS == 64,
               "two runs may start in one chunk, which notes one length");

/* `grains_less_one` is below 2^18. */
static inline uint32_t moietyi_class_of(uint64_t grains_less_one)
{
    /* 15 keeps the shift at 0 for the first sixteen, which are exact. */
    unsigned highest =
        63U - (unsigned)__builtin_clzll(grains_less_one | UINT64_C(15));
    unsigned shift = highest - 3;
    return 8 * shift + (uint32_t)(grains_less_one >> shift);
}

/* Grains of the longest block of a class. */
static inline uint64_t moietyi_class_grains(uint32_t class_index)
{
    if (class_index < 16)
        return class_index + 1;
    unsigned shift = class_index / 8 - 1;
    return (uint64_t)(class_index - 8 * shift + 1) << shift;
}

static inline size_t moietyi_class_bytes(uint32_t class_index)
{
    return moietyi_class_grains(class_index) * MOIETYI_GRAIN_BYTES;
}

/* MOIETYI_CLASSES: blocks of this length are not cached. */
static inline uint32_t moietyi_class_of_grains(uint64_t grains)
{
    return grains > MOIETYI_CLASS_GRAINS_MAX ? MOIETYI_CLASSES
                                             : moietyi_class_of(grains - 1);
}

/* By how many grains a block is shorter than the longest of its class: less than
 * 2^8. */
static inline uint64_t moietyi_shortfall(uint64_t grains_less_one)
{
    unsigned highest =
        63U - (unsigned)__builtin_clzll(grains_less_one | UINT64_C(15));
    return ~grains_less_one & ((UINT64_C(1) << (highest - 3)) - 1);
}

static inline uint8_t moietyi_byte_of(uint32_t class_index, uint64_t grains)
{
    if (class_index < MOIETYI_CLASSES &&
        grains == moietyi_class_grains(class_index))
        return (uint8_t)(class_index + 1);
    return (uint8_t)(grains < MOIETYI_CHUNK_GRAINS ? MOIETYI_BYTE_SHORT + grains
                                                   : MOIETYI_BYTE_RUN);
}

/* What the byte alone says, without the SPECIAL bit; nothing for
 * MOIETYI_BYTE_RUN. */
static inline uint64_t moietyi_grains_of_byte(uint8_t byte)
{
    return byte > MOIETYI_CLASSES ? byte - MOIETYI_BYTE_SHORT
                                  : moietyi_class_grains(byte - 1U);
}

/* The grains that a request becomes: enough for its bytes. */
struct moietyi_size {
    uint32_t class_index; /* MOIETYI_CLASSES: not cached */
    uint64_t grains;
};

/* `size_bytes` is not 0, and at most 2^44. */
static inline struct moietyi_size moietyi_size_of_bytes(size_t size_bytes)
{
    uint64_t grains = (size_bytes - 1) / MOIETYI_GRAIN_BYTES + 1;
    return (struct moietyi_size){moietyi_class_of_grains(grains), grains};
}

/* The same, but not short where there is a class. */
static inline struct moietyi_size moietyi_full_size_of_bytes(size_t size_bytes)
{
    struct moietyi_size size = moietyi_size_of_bytes(size_bytes);
    if (size.class_index < MOIETYI_CLASSES)
        size.grains = moietyi_class_grains(size.class_index);
    return size;
}

#endif
