/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Device address <-> offset space. Lookups take no lock and run against growth
 * and trim: what they read is never freed before the pool. An address needs
 * two dependent loads, a leaf and its entry; an offset needs one.
 *
 * Progress: grain_of and address_of are wait-free.
 */
#ifndef MOIETY_POOL_SEGMENT_LOOKUP_H_
#define MOIETY_POOL_SEGMENT_LOOKUP_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/status.h"
#include "moiety/types.h"
#include "pool/heap/units.h"

/* A root of 2^14 leaves of 2^14 pages of 2^21 bytes: addresses below 512 TiB,
 * which is what GPUs have (49 bits). */
#define MOIETYI_PAGE_ORDER 21U
#define MOIETYI_LEAF_ORDER 14U
#define MOIETYI_LEAF_ENTRIES (UINT32_C(1) << MOIETYI_LEAF_ORDER)
#define MOIETYI_ADDRESS_END                                                    \
    (UINT64_C(1) << (2 * MOIETYI_LEAF_ORDER + MOIETYI_PAGE_ORDER))

struct moietyi_leaf {
    /* Edge SE: link (release) -> grain_of (acquire). Page index + 1 of the page
     * at this address, 0 where none is. Written under the segments' lock. */
    _Atomic uint32_t page_plus_one[MOIETYI_LEAF_ENTRIES];
};

struct moietyi_lookup {
    /* Edge SL: prepare (release) -> grain_of (acquire). NULL until the first
     * segment comes near; then unchanged to the end. Only the one grower
     * writes. */
    _Atomic(struct moietyi_leaf *) leaves[MOIETYI_LEAF_ENTRIES];

    /* Edge: none; relaxed. Address of each page, 0 where there is no memory.
     * Written under the segments' lock before the page is free for the first
     * time and after it was withdrawn, so that a thread that holds a part of
     * the page got the address over HK; who only looked one up, over SE. */
    _Atomic uint64_t *page_addresses;
    size_t page_addresses_bytes; /* of the map; constant */
};

/* The lookup is zeroed memory. MOIETY_OK or MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_lookup_init(struct moietyi_lookup *lookup,
                                                  uint32_t page_capacity);
void moietyi_lookup_fini(struct moietyi_lookup *lookup);

/* Makes the leaves that `page_count` pages from `address` on need; one thread
 * at a time. Address and end are within MOIETYI_ADDRESS_END. MOIETY_OK or
 * MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_lookup_prepare(
    struct moietyi_lookup *lookup, moiety_devptr address, uint32_t page_count);
/* Makes prepared addresses and pages known as each other's. */
void moietyi_lookup_link(struct moietyi_lookup *lookup, moietyi_page first,
                         moiety_devptr address, uint32_t page_count);
/* Undoes it: a look-up afterwards finds nothing. */
void moietyi_lookup_unlink(struct moietyi_lookup *lookup, moietyi_page first,
                           moiety_devptr address, uint32_t page_count);

/* The grain that `address` is in: its start, if the address is a multiple of
 * a grain. False for an address of no segment, whatever its value. */
static inline bool moietyi_grain_of(const struct moietyi_lookup *lookup,
                                    moiety_devptr address, moietyi_grain *out)
{
    uint64_t index = address >> MOIETYI_PAGE_ORDER;
    if (address >= MOIETYI_ADDRESS_END)
        return false;
    /* SL.acquire: the entries were zeroed before. */
    const struct moietyi_leaf *leaf = atomic_load_explicit(
        &lookup->leaves[index >> MOIETYI_LEAF_ORDER], memory_order_acquire);
    if (!leaf)
        return false;
    /* SE.acquire: the addresses of the segment's pages are known. */
    uint32_t page_plus_one =
        atomic_load_explicit(&leaf->page_plus_one[index % MOIETYI_LEAF_ENTRIES],
                             memory_order_acquire);
    if (!page_plus_one)
        return false;
    *out =
        moietyi_grain_at((uint64_t)(page_plus_one - 1) * MOIETYI_PAGE_GRAINS +
                         address % MOIETYI_PAGE_BYTES / MOIETYI_GRAIN_BYTES);
    return true;
}

/* The address of a grain that the caller holds or has just looked up. */
static inline moiety_devptr
moietyi_address_of(const struct moietyi_lookup *lookup, moietyi_grain grain)
{
    /* relaxed: see page_addresses. */
    return atomic_load_explicit(
               &lookup->page_addresses[moietyi_page_of_grain(grain).index],
               memory_order_relaxed) +
           grain.index % MOIETYI_PAGE_GRAINS * MOIETYI_GRAIN_BYTES;
}

#endif
