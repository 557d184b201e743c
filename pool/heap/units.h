/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The three units in which offsets are counted, each a type of its own so that
 * the compiler refuses to mix them.
 *
 *   grain   512 B    64 grains  = 1 chunk   least unit of any interval
 *   chunk   32 KiB   64 chunks  = 1 page    notes one length
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
#define MOIETYI_PAGE_BYTES ((size_t)2 << 20)

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

#endif
