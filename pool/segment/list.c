/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The list of segments, the look-up beside it, and who grows.
 */
#include "pool/base/failure.h"
#include "pool/segment/state.h"

void binadei_await_grower(struct binadei_segments *segments)
{
    while (segments->is_growing)
        pthread_cond_wait(&segments->grown, &segments->lock);
}

void binadei_grower_begin(struct binadei_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    binadei_await_grower(segments);
    segments->is_growing = true;
    pthread_mutex_unlock(&segments->lock);
}

void binadei_let_others_grow(struct binadei_segments *segments)
{
    segments->is_growing = false;
    pthread_cond_broadcast(&segments->grown);
}

void binadei_grower_end(struct binadei_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    binadei_let_others_grow(segments);
    pthread_mutex_unlock(&segments->lock);
}

void binadei_segment_insert(struct binadei_segment **list,
                            struct binadei_segment *fresh)
{
    while (*list && (*list)->info.first.index < fresh->info.first.index)
        list = &(*list)->next;
    fresh->next = *list;
    *list = fresh;
}

static binade_status reserve_maps(struct binadei_segments *segments,
                                  const struct binadei_segment_info *info)
{
    if (!segments->maps ||
        binadei_maps_reserve(segments->maps, info->first, info->page_count))
        return BINADE_OK;
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory for the maps of a segment");
}

static binade_status list_segment(struct binadei_segments *segments,
                                  struct binadei_segment *fresh)
{
    struct binadei_segment_info *info = &fresh->info;
    binade_status status = reserve_maps(segments, info);
    if (status != BINADE_OK)
        return status;
    segments->listed_bytes += info->memory_bytes;
    uint64_t reserved = binadei_segments_reserved_bytes(segments);
    if (reserved > segments->peak_bytes)
        segments->peak_bytes = reserved;
    binadei_segment_insert(&segments->listed, fresh);
    binadei_lookup_link(&segments->lookup, info->first, info->address,
                        info->page_count);
    return BINADE_OK;
}

struct binadei_segment *
binadei_segment_unlist(struct binadei_segments *segments,
                       struct binadei_segment **at)
{
    struct binadei_segment *segment = *at;
    *at = segment->next;
    if (segment->is_empty)
        segments->empty_bytes -= segment->info.memory_bytes;
    else
        segments->listed_bytes -= segment->info.memory_bytes;
    /* All its pages were the pool's, or are nobody's. */
    segment->is_held = false;
    binadei_lookup_unlink(&segments->lookup, segment->info.first,
                          segment->info.address, segment->info.page_count);
    return segment;
}

binade_status binadei_segment_publish(struct binadei_segments *segments,
                                      struct binadei_segment *segment,
                                      struct binadei_maps *own)
{
    const struct binadei_segment_info *info = &segment->info;
    binadei_grain start =
        binadei_grain_at((uint64_t)info->first.index * BINADEI_PAGE_GRAINS);
    if (own && !binadei_maps_reserve(own, info->first, info->page_count))
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory for a stream's maps");
    binade_status status = list_segment(segments, segment);
    if (status != BINADE_OK)
        return status;
    if (segment->is_held) {
        binadei_buddy_cover(segments->buddy, info->first, info->page_count);
        return BINADE_OK;
    }
    if (!own) {
        binadei_buddy_add(segments->buddy, info->first, info->page_count);
        return BINADE_OK;
    }
    binadei_buddy_cover(segments->buddy, info->first, info->page_count);
    (void)binadei_maps_give(own, start,
                            (uint64_t)info->page_count * BINADEI_PAGE_GRAINS);
    return BINADE_OK;
}
