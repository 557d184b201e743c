/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What was never freed: at rest, every metadata byte that is set.
 */
#include "pool/core/body.h"

static void leaks_note(binade_leaks *leaks, binade_devptr address,
                       uint64_t grains)
{
    uint32_t room = sizeof(leaks->addresses) / sizeof(leaks->addresses[0]);
    leaks->block_count++;
    leaks->bytes += grains * BINADEI_GRAIN_BYTES;
    if (leaks->address_count < room)
        leaks->addresses[leaks->address_count++] = address;
}

static void find_in(const struct binadei_pool_body *body,
                    const struct binadei_segment_info *info,
                    binade_leaks *leaks)
{
    const uint64_t end = (uint64_t)info->page_count * BINADEI_PAGE_GRAINS;
    uint64_t start = (uint64_t)info->first.index * BINADEI_PAGE_GRAINS;
    for (uint64_t grain = 0; grain < end; grain++) {
        binade_devptr address = info->address + grain * BINADEI_GRAIN_BYTES;
        struct binadei_block block;
        if (!binadei_buddy_class(body->buddy, binadei_grain_at(start + grain)))
            continue;
        if (binadei_block_at(body->engine, address, &block) != BINADE_OK)
            continue;
        leaks_note(leaks, address, block.grains);
        grain += block.grains - 1;
    }
}

void binadei_leaks_find(const struct binadei_pool_body *body, binade_leaks *out)
{
    struct binadei_segment_info info;
    binadei_page from = {0};
    while (binadei_segments_walk(body->segments, from, &info)) {
        find_in(body, &info, out);
        from.index = info.first.index + info.page_count;
    }
}
