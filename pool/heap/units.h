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
#ifndef MOIETY_POOL_HEAP_UNITS_H_
#define MOIETY_POOL_HEAP_UNITS_H_

#include <stddef.h>
#include <stdint.h>

#define MOIETYI_GRAIN_BYTES ((size_t)512)
#define MOIETYI_CHUNK_BYTES ((size_t)32 << 10)
#define MOIETYI_PAGE_BYTES ((size_t)2 << 20)

#define MOIETYI_WORD_BITS 64U
#define MOIETYI_CHUNK_GRAINS 64U
#define MOIETYI_PAGE_CHUNKS 64U
#define MOIETYI_PAGE_GRAINS 4096U

/* 128 TiB: more than a process can address. */
#define MOIETYI_PAGES_MAX (UINT32_C(1) << 26)

typedef struct {
    uint64_t index;
} moietyi_grain;

typedef struct {
    uint64_t index;
} moietyi_chunk;

typedef struct {
    uint32_t index;
} moietyi_page;

static inline moietyi_grain moietyi_grain_at(uint64_t index)
{
    return (moietyi_grain){index};
}

static inline moietyi_chunk moietyi_chunk_of_grain(moietyi_grain grain)
{
    return (moietyi_chunk){grain.index / MOIETYI_CHUNK_GRAINS};
}

static inline moietyi_page moietyi_page_of_grain(moietyi_grain grain)
{
    return (moietyi_page){(uint32_t)(grain.index / MOIETYI_PAGE_GRAINS)};
}

static inline moietyi_page moietyi_page_of_chunk(moietyi_chunk chunk)
{
    return (moietyi_page){(uint32_t)(chunk.index / MOIETYI_PAGE_CHUNKS)};
}

static inline moietyi_chunk moietyi_chunk_in_page(moietyi_page page,
                                                  unsigned bit)
{
    return (moietyi_chunk){(uint64_t)page.index * MOIETYI_PAGE_CHUNKS + bit};
}

static inline moietyi_grain moietyi_grain_in_chunk(moietyi_chunk chunk,
                                                   unsigned bit)
{
    return (moietyi_grain){chunk.index * MOIETYI_CHUNK_GRAINS + bit};
}

/* Bit of a unit in the word of its parent. */
static inline unsigned moietyi_grain_bit(moietyi_grain grain)
{
    return (unsigned)(grain.index % MOIETYI_CHUNK_GRAINS);
}

static inline unsigned moietyi_chunk_bit(moietyi_chunk chunk)
{
    return (unsigned)(chunk.index % MOIETYI_PAGE_CHUNKS);
}

static inline uint64_t moietyi_grains_of_bytes(size_t size_bytes)
{
    return size_bytes / MOIETYI_GRAIN_BYTES +
           (size_bytes % MOIETYI_GRAIN_BYTES != 0);
}

static inline size_t moietyi_bytes_of_grain(moietyi_grain grain)
{
    return grain.index * MOIETYI_GRAIN_BYTES;
}

#endif
