/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The entries of a magazine: a block's address, of which the lowest nine bits
 * are free. An entry of a bucket that hits look into has there how many grains
 * the run is shorter than the longest of the bucket, so that a hit compares
 * lengths without a look at another line. Of longer runs the length is looked
 * up.
 */
#ifndef BINADE_POOL_CACHE_ENTRY_H_
#define BINADE_POOL_CACHE_ENTRY_H_

#include "binade/types.h"
#include "pool/cache/classes.h"

#define BINADEI_ENTRY_MASK ((binade_devptr)BINADEI_GRAIN_BYTES - 1)

/* Whether entries of the class have more than the address. */
static inline bool binadei_class_has_entries(uint32_t class_index)
{
    return class_index >= BINADEI_SMALL_CLASSES &&
           class_index < BINADEI_HIT_CLASSES;
}

static inline binade_devptr
binadei_entry_of(uint32_t class_index, uint64_t grains, binade_devptr address)
{
    return binadei_class_has_entries(class_index)
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
