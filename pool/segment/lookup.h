/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Device address <-> offset space. Lookups take no lock and run against growth
 * and trim: what they read is never freed before the pool. An address needs
 * two dependent loads, a leaf and its entry; an offset needs one.
 *
 * Progress: grain_of and address_of are wait-free.
 */
#ifndef BINADE_POOL_SEGMENT_LOOKUP_H_
#define BINADE_POOL_SEGMENT_LOOKUP_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "binade/status.h"
#include "binade/types.h"
#include "pool/buddy/units.h"

/* A root of 2^14 leaves of 2^14 pages of 2^21 bytes: addresses below 512 TiB,
 * which is what GPUs have (49 bits). */
#define BINADEI_PAGE_ORDER 21U
#define BINADEI_LEAF_ORDER 14U
#define BINADEI_LEAF_ENTRIES (UINT32_C(1) << BINADEI_LEAF_ORDER)
#define BINADEI_ADDRESS_END                                                    \
    (UINT64_C(1) << (2 * BINADEI_LEAF_ORDER + BINADEI_PAGE_ORDER))

struct binadei_leaf {
    /* Edge SE: link (release) -> grain_of (acquire). Page index + 1 of the page
     * at this address, 0 where none is. Written under the segments' lock. */
    _Atomic uint32_t page_plus_one[BINADEI_LEAF_ENTRIES];
};

struct binadei_lookup {
    /* Edge SL: prepare (release) -> grain_of (acquire). NULL until the first
     * segment comes near; then unchanged to the end. Only the one grower
     * writes. */
    _Atomic(struct binadei_leaf *) leaves[BINADEI_LEAF_ENTRIES];

    /* Edge: none; relaxed. Address of each page, 0 where there is no memory.
     * Written under the segments' lock before the page is free for the first
     * time and after it was withdrawn, so that a thread that holds a part of
     * the page got the address over the buddy's BW; who only looked one up,
     * over SE. */
    _Atomic uint64_t *page_addresses;
    size_t page_addresses_bytes; /* of the map; constant */
};

/* The lookup is zeroed memory. BINADE_OK or BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_lookup_init(struct binadei_lookup *lookup,
                                                  uint32_t page_capacity);
void binadei_lookup_fini(struct binadei_lookup *lookup);

/* Makes the leaves that `page_count` pages from `address` on need; one thread
 * at a time. Address and end are within BINADEI_ADDRESS_END. BINADE_OK or
 * BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_lookup_prepare(
    struct binadei_lookup *lookup, binade_devptr address, uint32_t page_count);
/* Makes prepared addresses and pages known as each other's. */
void binadei_lookup_link(struct binadei_lookup *lookup, binadei_page first,
                         binade_devptr address, uint32_t page_count);
/* Undoes it: a look-up afterwards finds nothing. */
void binadei_lookup_unlink(struct binadei_lookup *lookup, binadei_page first,
                           binade_devptr address, uint32_t page_count);

/* The grain that `address` is in: its start, if the address is a multiple of
 * a grain. False for an address of no segment, whatever its value. */
static inline bool binadei_grain_of(const struct binadei_lookup *lookup,
                                    binade_devptr address, binadei_grain *out)
{
    uint64_t index = address >> BINADEI_PAGE_ORDER;
    if (address >= BINADEI_ADDRESS_END)
        return false;
    /* SL.acquire: the entries were zeroed before. */
    const struct binadei_leaf *leaf = atomic_load_explicit(
        &lookup->leaves[index >> BINADEI_LEAF_ORDER], memory_order_acquire);
    if (!leaf)
        return false;
    /* SE.acquire: the addresses of the segment's pages are known. */
    uint32_t page_plus_one =
        atomic_load_explicit(&leaf->page_plus_one[index % BINADEI_LEAF_ENTRIES],
                             memory_order_acquire);
    if (!page_plus_one)
        return false;
    *out =
        binadei_grain_at((uint64_t)(page_plus_one - 1) * BINADEI_PAGE_GRAINS +
                         address % BINADEI_PAGE_BYTES / BINADEI_GRAIN_BYTES);
    return true;
}

/* The address of a grain that the caller holds or has just looked up. */
static inline binade_devptr
binadei_address_of(const struct binadei_lookup *lookup, binadei_grain grain)
{
    /* relaxed: see page_addresses. */
    return atomic_load_explicit(
               &lookup->page_addresses[binadei_page_of_grain(grain).index],
               memory_order_relaxed) +
           grain.index % BINADEI_PAGE_GRAINS * BINADEI_GRAIN_BYTES;
}

#endif
