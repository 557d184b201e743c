/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * From an address inside a block to the block. Metadata has a byte where a
 * block starts and zeroes behind it. A small block lies within a page; a run
 * starts on one, so further back only pages' first bytes can be its start.
 *
 * The caller holds the block, so what is read of it stays. Where no block is,
 * others write what is read; then the answer is INVALID or a block that the
 * caller does not own, as for binade_free().
 */
#include "pool/base/failure.h"
#include "pool/ipc/state.h"

/* The nearest grain at or before `grain` where a block starts; `first` where
 * none does. */
static binadei_grain start_before(const struct binadei_buddy *buddy,
                                  binadei_grain grain, binadei_grain first)
{
    const _Atomic uint8_t *classes = binadei_buddy_classes(buddy);
    uint64_t at = grain.index;
    while (at % BINADEI_PAGE_GRAINS &&
           /* relaxed: the holder owns the byte. */
           !atomic_load_explicit(&classes[at], memory_order_relaxed))
        at--;
    while (at > first.index &&
           /* relaxed: as above. */
           !atomic_load_explicit(&classes[at], memory_order_relaxed))
        at -= BINADEI_PAGE_GRAINS;
    return binadei_grain_at(at);
}

static binade_status block_refuse(binade_devptr address)
{
    return binadei_fail(BINADE_E_INVALID, "address 0x%llx is in no live block",
                        address);
}

binade_status binadei_block_around(const struct binadei_engine *engine,
                                   const struct binadei_segment_info *segment,
                                   binade_devptr address,
                                   struct binadei_block *out,
                                   binade_devptr *out_start)
{
    uint64_t first = (uint64_t)segment->first.index * BINADEI_PAGE_GRAINS;
    uint64_t index = first + (address - segment->address) / BINADEI_GRAIN_BYTES;
    binadei_grain start =
        start_before(engine->streams.buddy, binadei_grain_at(index),
                     binadei_grain_at(first));
    binade_devptr start_address =
        segment->address + (start.index - first) * BINADEI_GRAIN_BYTES;
    if (binadei_block_at(engine, start_address, out) != BINADE_OK ||
        index - start.index >= out->grains)
        return block_refuse(address);
    *out_start = start_address;
    return BINADE_OK;
}
