/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What growth and trim write of the lookup. Leaves come with the first segment
 * near them and stay.
 */
#include "pool/segment/lookup.h"

#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/base/table.h"

binade_status binadei_lookup_init(struct binadei_lookup *lookup,
                                  uint32_t page_capacity)
{
    size_t bytes = page_capacity * sizeof(*lookup->page_addresses);
    void *table = binadei_table_reserve(bytes);
    if (!table)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory for the addresses of %u pages",
                            page_capacity);
    lookup->page_addresses = table;
    lookup->page_addresses_bytes = bytes;
    return BINADE_OK;
}

/* relaxed: either the only writer or the end of the pool. */
static struct binadei_leaf *own_leaf(const struct binadei_lookup *lookup,
                                     uint64_t index)
{
    return atomic_load_explicit(&lookup->leaves[index], memory_order_relaxed);
}

void binadei_lookup_fini(struct binadei_lookup *lookup)
{
    for (uint32_t i = 0; i < BINADEI_LEAF_ENTRIES; i++)
        free(own_leaf(lookup, i));
    binadei_table_release((void *)lookup->page_addresses,
                          lookup->page_addresses_bytes);
}

binade_status binadei_lookup_prepare(struct binadei_lookup *lookup,
                                     binade_devptr address, uint32_t page_count)
{
    const unsigned order = BINADEI_PAGE_ORDER + BINADEI_LEAF_ORDER;
    uint64_t last = address + (uint64_t)page_count * BINADEI_PAGE_BYTES - 1;
    for (uint64_t i = address >> order; i <= last >> order; i++) {
        if (own_leaf(lookup, i))
            continue;
        struct binadei_leaf *leaf = calloc(1, sizeof(*leaf));
        if (!leaf)
            return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                                "no memory for the lookup of addresses");
        /* SL.release: the zeroes go before the pointer. */
        atomic_store_explicit(&lookup->leaves[i], leaf, memory_order_release);
    }
    return BINADE_OK;
}

static _Atomic uint32_t *lookup_entry_of(const struct binadei_lookup *lookup,
                                         binade_devptr address)
{
    uint64_t index = address >> BINADEI_PAGE_ORDER;
    return &own_leaf(lookup, index >> BINADEI_LEAF_ORDER)
                ->page_plus_one[index % BINADEI_LEAF_ENTRIES];
}

void binadei_lookup_link(struct binadei_lookup *lookup, binadei_page first,
                         binade_devptr address, uint32_t page_count)
{
    for (uint32_t i = 0; i < page_count; i++)
        atomic_store_explicit(&lookup->page_addresses[first.index + i],
                              address + i * BINADEI_PAGE_BYTES,
                              memory_order_relaxed); /* see lookup.h */
    /* SE.release: the addresses above go before each entry. */
    for (uint32_t i = 0; i < page_count; i++)
        atomic_store_explicit(
            lookup_entry_of(lookup, address + i * BINADEI_PAGE_BYTES),
            first.index + i + 1, memory_order_release);
}

void binadei_lookup_unlink(struct binadei_lookup *lookup, binadei_page first,
                           binade_devptr address, uint32_t page_count)
{
    for (uint32_t i = 0; i < page_count; i++) {
        /* relaxed, both: a zero leads nowhere, so nothing need come with it.
         * Nobody holds a part of these pages. */
        atomic_store_explicit(
            lookup_entry_of(lookup, address + i * BINADEI_PAGE_BYTES), 0,
            memory_order_relaxed);
        atomic_store_explicit(&lookup->page_addresses[first.index + i], 0,
                              memory_order_relaxed);
    }
}
