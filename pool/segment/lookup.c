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

moiety_status moietyi_lookup_init(struct moietyi_lookup *lookup,
                                  uint32_t page_capacity)
{
    size_t bytes = page_capacity * sizeof(*lookup->page_addresses);
    void *table = moietyi_table_reserve(bytes);
    if (!table)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for the addresses of %u pages",
                            page_capacity);
    lookup->page_addresses = table;
    lookup->page_addresses_bytes = bytes;
    return MOIETY_OK;
}

/* relaxed: either the only writer or the end of the pool. */
static struct moietyi_leaf *own_leaf(const struct moietyi_lookup *lookup,
                                     uint64_t index)
{
    return atomic_load_explicit(&lookup->leaves[index], memory_order_relaxed);
}

void moietyi_lookup_fini(struct moietyi_lookup *lookup)
{
    for (uint32_t i = 0; i < MOIETYI_LEAF_ENTRIES; i++)
        free(own_leaf(lookup, i));
    moietyi_table_release((void *)lookup->page_addresses,
                          lookup->page_addresses_bytes);
}

moiety_status moietyi_lookup_prepare(struct moietyi_lookup *lookup,
                                     moiety_devptr address, uint32_t page_count)
{
    const unsigned order = MOIETYI_PAGE_ORDER + MOIETYI_LEAF_ORDER;
    uint64_t last = address + (uint64_t)page_count * MOIETYI_PAGE_BYTES - 1;
    for (uint64_t i = address >> order; i <= last >> order; i++) {
        if (own_leaf(lookup, i))
            continue;
        struct moietyi_leaf *leaf = calloc(1, sizeof(*leaf));
        if (!leaf)
            return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                "no memory for the lookup of addresses");
        /* SL.release: the zeroes go before the pointer. */
        atomic_store_explicit(&lookup->leaves[i], leaf, memory_order_release);
    }
    return MOIETY_OK;
}

static _Atomic uint32_t *lookup_entry_of(const struct moietyi_lookup *lookup,
                                         moiety_devptr address)
{
    uint64_t index = address >> MOIETYI_PAGE_ORDER;
    return &own_leaf(lookup, index >> MOIETYI_LEAF_ORDER)
                ->page_plus_one[index % MOIETYI_LEAF_ENTRIES];
}

void moietyi_lookup_link(struct moietyi_lookup *lookup, moietyi_page first,
                         moiety_devptr address, uint32_t page_count)
{
    for (uint32_t i = 0; i < page_count; i++)
        atomic_store_explicit(&lookup->page_addresses[first.index + i],
                              address + i * MOIETYI_PAGE_BYTES,
                              memory_order_relaxed); /* see lookup.h */
    /* SE.release: the addresses above go before each entry. */
    for (uint32_t i = 0; i < page_count; i++)
        atomic_store_explicit(
            lookup_entry_of(lookup, address + i * MOIETYI_PAGE_BYTES),
            first.index + i + 1, memory_order_release);
}

void moietyi_lookup_unlink(struct moietyi_lookup *lookup, moietyi_page first,
                           moiety_devptr address, uint32_t page_count)
{
    for (uint32_t i = 0; i < page_count; i++) {
        /* relaxed, both: a zero leads nowhere, so nothing need come with it.
         * Nobody holds a part of these pages. */
        atomic_store_explicit(
            lookup_entry_of(lookup, address + i * MOIETYI_PAGE_BYTES), 0,
            memory_order_relaxed);
        atomic_store_explicit(&lookup->page_addresses[first.index + i], 0,
                              memory_order_relaxed);
    }
}
