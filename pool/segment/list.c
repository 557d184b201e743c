/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The list of segments, the look-up beside it, and who grows.
 */
#include "pool/base/failure.h"
#include "pool/segment/state.h"

void moietyi_await_grower(struct moietyi_segments *segments)
{
    while (segments->is_growing)
        pthread_cond_wait(&segments->grown, &segments->lock);
}

void moietyi_grower_begin(struct moietyi_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    moietyi_await_grower(segments);
    segments->is_growing = true;
    pthread_mutex_unlock(&segments->lock);
}

void moietyi_let_others_grow(struct moietyi_segments *segments)
{
    segments->is_growing = false;
    pthread_cond_broadcast(&segments->grown);
}

void moietyi_grower_end(struct moietyi_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    moietyi_let_others_grow(segments);
    pthread_mutex_unlock(&segments->lock);
}

void moietyi_segment_insert(struct moietyi_segment **list,
                            struct moietyi_segment *fresh)
{
    while (*list && (*list)->info.first.index < fresh->info.first.index)
        list = &(*list)->next;
    fresh->next = *list;
    *list = fresh;
}

static moiety_status cover_pages(struct moietyi_segments *segments,
                                 const struct moietyi_segment_info *info)
{
    if (moietyi_space_cover(segments->space, info->first, info->page_count))
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "no memory for the tables of a segment");
}

static moiety_status list_segment(struct moietyi_segments *segments,
                                  struct moietyi_segment *fresh)
{
    struct moietyi_segment_info *info = &fresh->info;
    moiety_status status = cover_pages(segments, info);
    if (status != MOIETY_OK)
        return status;
    segments->listed_bytes += info->memory_bytes;
    uint64_t reserved = moietyi_segments_reserved_bytes(segments);
    if (reserved > segments->peak_bytes)
        segments->peak_bytes = reserved;
    moietyi_segment_insert(&segments->listed, fresh);
    moietyi_lookup_link(&segments->lookup, info->first, info->address,
                        info->page_count);
    return MOIETY_OK;
}

struct moietyi_segment *
moietyi_segment_unlist(struct moietyi_segments *segments,
                       struct moietyi_segment **at)
{
    struct moietyi_segment *segment = *at;
    *at = segment->next;
    if (segment->is_empty)
        segments->empty_bytes -= segment->info.memory_bytes;
    else
        segments->listed_bytes -= segment->info.memory_bytes;
    /* All its pages were the pool's, or are nobody's. */
    segment->is_held = false;
    moietyi_lookup_unlink(&segments->lookup, segment->info.first,
                          segment->info.address, segment->info.page_count);
    return segment;
}

moiety_status moietyi_segment_publish(struct moietyi_segments *segments,
                                      struct moietyi_segment *segment,
                                      struct moietyi_heap *own)
{
    const struct moietyi_segment_info *info = &segment->info;
    moietyi_grain start =
        moietyi_grain_at((uint64_t)info->first.index * MOIETYI_PAGE_GRAINS);
    moiety_status status = list_segment(segments, segment);
    if (status != MOIETY_OK)
        return status;
    if (segment->is_held)
        return MOIETY_OK;
    /* Neither call fails: the pages are covered. */
    if (own)
        (void)moietyi_heap_give(
            own, start, (uint64_t)info->page_count * MOIETYI_PAGE_GRAINS);
    else
        (void)moietyi_space_add(segments->space, info->first, info->page_count);
    return MOIETY_OK;
}
