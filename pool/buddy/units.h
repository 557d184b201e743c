/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The three units in which the buddy counts, each a type of its own so that
 * the compiler refuses to mix them. A word of 64 bits holds the free units of
 * one unit of the level above: one word is six binary orders.
 *
 *   grain   512 B    64 grains  = 1 chunk   least unit of any interval
 *   chunk   32 KiB   64 chunks  = 1 page    least unit of a run's tail
 *   page    2 MiB    flat                   what segments are made of
 *
 * All are indices into the pool's offset space, which starts at 0 and which
 * only pool/segment maps to addresses.
 */
#ifndef BINADE_POOL_BUDDY_UNITS_H_
#define BINADE_POOL_BUDDY_UNITS_H_

#include <stddef.h>
#include <stdint.h>

#define BINADEI_GRAIN_BYTES ((size_t)512)
#define BINADEI_CHUNK_BYTES ((size_t)32 << 10)
#define BINADEI_PAGE_BYTES ((size_t)2 << 20)

#define BINADEI_WORD_BITS 64U
#define BINADEI_CHUNK_GRAINS 64U
#define BINADEI_PAGE_CHUNKS 64U
#define BINADEI_PAGE_GRAINS 4096U

/* 128 TiB: more than a process can address. */
#define BINADEI_PAGES_MAX (UINT32_C(1) << 26)

typedef struct {
    uint64_t index;
} binadei_grain;

typedef struct {
    uint64_t index;
} binadei_chunk;

typedef struct {
    uint32_t index;
} binadei_page;

static inline binadei_grain binadei_grain_at(uint64_t index)
{
    return (binadei_grain){index};
}

static inline binadei_chunk binadei_chunk_of_grain(binadei_grain grain)
{
    return (binadei_chunk){grain.index / BINADEI_CHUNK_GRAINS};
}

static inline binadei_page binadei_page_of_grain(binadei_grain grain)
{
    return (binadei_page){(uint32_t)(grain.index / BINADEI_PAGE_GRAINS)};
}

static inline binadei_page binadei_page_of_chunk(binadei_chunk chunk)
{
    return (binadei_page){(uint32_t)(chunk.index / BINADEI_PAGE_CHUNKS)};
}

static inline binadei_chunk binadei_chunk_in_page(binadei_page page,
                                                  unsigned bit)
{
    return (binadei_chunk){(uint64_t)page.index * BINADEI_PAGE_CHUNKS + bit};
}

static inline binadei_grain binadei_grain_in_chunk(binadei_chunk chunk,
                                                   unsigned bit)
{
    return (binadei_grain){chunk.index * BINADEI_CHUNK_GRAINS + bit};
}

/* Bit of a unit in the word of its parent. */
static inline unsigned binadei_grain_bit(binadei_grain grain)
{
    return (unsigned)(grain.index % BINADEI_CHUNK_GRAINS);
}

static inline unsigned binadei_chunk_bit(binadei_chunk chunk)
{
    return (unsigned)(chunk.index % BINADEI_PAGE_CHUNKS);
}

static inline uint64_t binadei_grains_of_bytes(size_t size_bytes)
{
    return size_bytes / BINADEI_GRAIN_BYTES +
           (size_bytes % BINADEI_GRAIN_BYTES != 0);
}

static inline size_t binadei_bytes_of_grain(binadei_grain grain)
{
    return grain.index * BINADEI_GRAIN_BYTES;
}

#endif
