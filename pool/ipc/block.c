/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * From an address inside a block to the block. Metadata has a byte where a
 * block starts and zeroes behind it. A small block lies within a page; a run
 * starts on one, so further back only pages' first bytes can be its start.
 *
 * The caller holds the block, so what is read of it stays. Where no block is,
 * others write what is read; then the answer is INVALID or a block that the
 * caller does not own, as for moiety_free().
 */
#include "pool/base/failure.h"
#include "pool/ipc/state.h"

/* The nearest grain at or before `grain` where a block starts; `first` where
 * none does. */
static moietyi_grain start_before(const struct moietyi_space *space,
                                  moietyi_grain grain, moietyi_grain first)
{
    const _Atomic uint8_t *classes = moietyi_space_classes(space);
    uint64_t at = grain.index;
    while (at % MOIETYI_PAGE_GRAINS &&
           /* relaxed: the holder owns the byte. */
           !atomic_load_explicit(&classes[at], memory_order_relaxed))
        at--;
    while (at > first.index &&
           /* relaxed: as above. */
           !atomic_load_explicit(&classes[at], memory_order_relaxed))
        at -= MOIETYI_PAGE_GRAINS;
    return moietyi_grain_at(at);
}

static moiety_status block_refuse(moiety_devptr address)
{
    return moietyi_fail(MOIETY_E_INVALID, "address 0x%llx is in no live block",
                        address);
}

moiety_status moietyi_block_around(const struct moietyi_engine *engine,
                                   const struct moietyi_segment_info *segment,
                                   moiety_devptr address,
                                   struct moietyi_block *out,
                                   moiety_devptr *out_start)
{
    uint64_t first = (uint64_t)segment->first.index * MOIETYI_PAGE_GRAINS;
    uint64_t index = first + (address - segment->address) / MOIETYI_GRAIN_BYTES;
    moietyi_grain start =
        start_before(engine->streams.space, moietyi_grain_at(index),
                     moietyi_grain_at(first));
    moiety_devptr start_address =
        segment->address + (start.index - first) * MOIETYI_GRAIN_BYTES;
    if (moietyi_block_at(engine, start_address, out) != MOIETY_OK ||
        index - start.index >= out->grains)
        return block_refuse(address);
    *out_start = start_address;
    return MOIETY_OK;
}
