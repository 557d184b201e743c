/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The entries of magazines and bundles: a block's address, of which the lowest
 * nine bits are free. In a small class they are the block's shortfall, so that a
 * hit compares lengths without a look at another line. Longer runs have their
 * length looked up.
 */
#ifndef BINADE_POOL_CACHE_ENTRY_H_
#define BINADE_POOL_CACHE_ENTRY_H_

#include "binade/types.h"
#include "pool/buddy/classes.h"

#define BINADEI_ENTRY_MASK ((binade_devptr)BINADEI_GRAIN_BYTES - 1)

static inline binade_devptr
binadei_entry_of(uint32_t class_index, uint64_t grains, binade_devptr address)
{
    return binadei_class_is_small(class_index)
               ? address | binadei_shortfall(grains - 1)
               : address;
}

static inline binade_devptr binadei_entry_address(binade_devptr entry)
{
    return entry & ~BINADEI_ENTRY_MASK;
}

static inline uint64_t binadei_entry_shortfall(binade_devptr entry)
{
    return entry & BINADEI_ENTRY_MASK;
}

#endif
