/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Handles that a holder has whole (docs/adr/0028-held-handles.md). Their pages are
 * covered in the buddy and in no map, so neither a move nor a trim can claim them.
 * While one is away, its place stays listed: addresses are found, and nothing else
 * is put there.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/segment/mapped.h"

/* --- a new one --- */

/* With a page on each side, so that no two of a holder ever touch and a block
 * never crosses from one to the next. */
static struct binadei_place held_find(struct binadei_segments *segments,
                                      uint32_t page_count)
{
    const struct binadei_extension extension = {
        .needed_bytes = (page_count + UINT64_C(2)) * BINADEI_PAGE_BYTES};
    pthread_mutex_lock(&segments->lock);
    struct binadei_place place = binadei_place_find(segments, &extension);
    pthread_mutex_unlock(&segments->lock);
    place.first++;
    return place;
}

static binade_status held_find_place(struct binadei_segments *segments,
                                     uint32_t page_count, uint64_t passed_epoch,
                                     uint32_t *out)
{
    binade_status status = binadei_reserve_addresses(segments, page_count + 2);
    if (status != BINADE_OK)
        return status;
    struct binadei_place place = held_find(segments, page_count);
    if (!place.pages) {
        (void)binadei_unmap_left(segments, passed_epoch, UINT32_MAX);
        place = held_find(segments, page_count);
    }
    if (!place.pages) {
        return binadei_fail(binadei_source_exhausted(segments),
                            "the pool's addresses have no room for %u pages in "
                            "a row",
                            page_count + 2);
    }
    *out = place.first;
    return BINADE_OK;
}

static binade_status held_create(struct binadei_segments *segments,
                                 uint32_t page_count, uint32_t at)
{
    struct binadei_segment *segment;
    binade_status status = binadei_source_create(
        segments, (uint64_t)page_count * BINADEI_PAGE_BYTES, &segment);
    if (status != BINADE_OK)
        return status;
    segment->is_held = true;
    status = binadei_handle_put(segments, segment, at, NULL);
    if (status != BINADE_OK)
        (void)binadei_source_release(segments, segment);
    return status;
}

static bool held_try_begin(struct binadei_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    bool is_free = !segments->is_growing;
    segments->is_growing = true;
    pthread_mutex_unlock(&segments->lock);
    return is_free;
}

binade_status binadei_segments_hold(struct binadei_segments *segments,
                                    uint32_t page_count, uint64_t passed_epoch,
                                    bool may_wait, binadei_page *out)
{
    uint32_t at = 0;
    if (page_count > segments->page_capacity - 2 ||
        segments->page_capacity < 2) {
        return binadei_fail(BINADE_E_TOO_LARGE,
                            "%u pages in a row are more than the pool has "
                            "addresses for",
                            page_count);
    }
    if (may_wait)
        binadei_grower_begin(segments);
    else if (!held_try_begin(segments))
        return binadei_fail(BINADE_E_BUSY, "another thread grows the pool");
    binade_status status =
        held_find_place(segments, page_count, passed_epoch, &at);
    if (status == BINADE_OK)
        status = held_create(segments, page_count, at);
    binadei_grower_end(segments);
    if (status == BINADE_OK)
        *out = (binadei_page){at};
    return status;
}

/* --- away, and back --- */

/* Those of a call, and a ghost record of each: for memory that has lost its place
 * and that the driver does not take back. */
struct held_work {
    struct binadei_segment **all;
    struct binadei_segment **ghosts;
    uint32_t count;
};

static void held_work_end(struct held_work *work)
{
    for (uint32_t i = 0; work->ghosts && i < work->count; i++)
        free(work->ghosts[i]);
    free(work->ghosts);
    free(work->all);
}

/* Lock held. */
static struct binadei_segment *
held_segment_at(const struct binadei_segments *segments, binadei_page first)
{
    struct binadei_segment *at = segments->listed;
    while (at->info.first.index != first.index)
        at = at->next;
    return at;
}

/* By the grower. */
static binade_status held_work_begin(struct binadei_segments *segments,
                                     const struct binadei_handles *held,
                                     struct held_work *out)
{
    size_t count = held->count ? held->count : 1;
    *out = (struct held_work){
        .all = calloc(count, sizeof(struct binadei_segment *)),
        .ghosts = calloc(count, sizeof(struct binadei_segment *)),
        .count = held->count};
    bool is_made = out->all && out->ghosts;
    for (uint32_t i = 0; i < held->count && is_made; i++)
        is_made = (out->ghosts[i] = calloc(1, sizeof(struct binadei_segment)));
    if (!is_made) {
        held_work_end(out);
        (void)binadei_fail(BINADE_E_NO_HOST_MEMORY,
                           "no memory for the records of segments");
        return BINADE_E_NO_HOST_MEMORY;
    }
    pthread_mutex_lock(&segments->lock);
    for (uint32_t i = 0; i < held->count; i++)
        out->all[i] = held_segment_at(segments, held->firsts[i]);
    pthread_mutex_unlock(&segments->lock);
    return BINADE_OK;
}

/* From then on nobody can pin one. False: somebody has. */
static bool held_set_away(struct binadei_segments *segments,
                          const struct held_work *work)
{
    bool is_pinned = false;
    pthread_mutex_lock(&segments->lock);
    for (uint32_t i = 0; i < work->count; i++)
        is_pinned |= work->all[i]->pin_count != 0;
    for (uint32_t i = 0; i < work->count && !is_pinned; i++)
        work->all[i]->is_away = true;
    pthread_mutex_unlock(&segments->lock);
    for (uint32_t i = 0; i < work->count && !is_pinned; i++)
        binadei_segment_retract(segments, work->all[i]);
    return !is_pinned;
}

static void held_set_back(struct binadei_segments *segments,
                          const struct held_work *work)
{
    /* With another id: what was registered is stale. */
    for (uint32_t i = 0; i < work->count; i++)
        binadei_segment_announce(segments, work->all[i]);
    pthread_mutex_lock(&segments->lock);
    for (uint32_t i = 0; i < work->count; i++)
        work->all[i]->is_away = false;
    pthread_mutex_unlock(&segments->lock);
}

static binade_status held_map(struct binadei_segments *segments,
                              struct binadei_segment *segment)
{
    const struct binadei_mapper *mapper = segments->mapper;
    const struct binadei_segment_info *info = &segment->info;
    binade_status status =
        mapper->map(mapper->context, info->address, info->memory_bytes,
                    segment->handle, segments->peers);
    segment->is_mapped = status == BINADE_OK;
    return status;
}

/* The handle goes, and counts until the driver has it. */
static void held_empty(struct binadei_segments *segments,
                       const struct held_work *work, uint32_t i)
{
    struct binadei_segment *segment = work->all[i];
    struct binadei_segment *ghost = work->ghosts[i];
    uint64_t bytes = segment->info.memory_bytes;
    work->ghosts[i] = NULL;
    *ghost = *segment;
    pthread_mutex_lock(&segments->lock);
    segment->is_empty = true;
    segments->listed_bytes -= bytes;
    segments->empty_bytes += bytes;
    pthread_mutex_unlock(&segments->lock);
    (void)binadei_source_release(segments, ghost);
}

static binade_status held_vacate(struct binadei_segments *segments,
                                 const struct held_work *work,
                                 bool *out_are_away)
{
    binade_status status = BINADE_OK;
    uint32_t i = 0;
    for (; i < work->count && status == BINADE_OK; i++)
        status = binadei_source_unmap(segments, work->all[i]);
    *out_are_away = status == BINADE_OK;
    if (status == BINADE_OK) {
        for (i = 0; i < work->count; i++)
            if (!work->all[i]->is_empty)
                held_empty(segments, work, i);
        return status;
    }
    /* No handle has gone, so contents come back with the mapping. */
    while (i-- > 0)
        if (!work->all[i]->is_mapped &&
            held_map(segments, work->all[i]) != BINADE_OK)
            *out_are_away = true;
    if (!*out_are_away)
        held_set_back(segments, work);
    return status;
}

binade_status binadei_segments_vacate(struct binadei_segments *segments,
                                      const struct binadei_handles *held,
                                      bool *out_are_away)
{
    struct held_work work;
    *out_are_away = false;
    binadei_grower_begin(segments);
    binade_status status = held_work_begin(segments, held, &work);
    if (status == BINADE_OK) {
        status = held_set_away(segments, &work)
                     ? held_vacate(segments, &work, out_are_away)
                     : binadei_fail(BINADE_E_BUSY,
                                    "the memory is held: it was exported, or "
                                    "registered by binade_segment_hold()");
        held_work_end(&work);
    }
    binadei_grower_end(segments);
    return status;
}

static binade_status held_fill_one(struct binadei_segments *segments,
                                   struct binadei_segment *segment,
                                   bool *out_is_fresh)
{
    *out_is_fresh = false;
    if (!segment->is_empty)
        return BINADE_OK;
    binade_status status = binadei_source_refill(segments, segment);
    if (status != BINADE_OK)
        return status;
    *out_is_fresh = true;
    pthread_mutex_lock(&segments->lock);
    uint64_t reserved_bytes = binadei_segments_reserved_bytes(segments);
    segment->is_empty = false;
    segments->empty_bytes -= segment->info.memory_bytes;
    segments->listed_bytes += segment->info.memory_bytes;
    if (reserved_bytes > segments->peak_bytes)
        segments->peak_bytes = reserved_bytes;
    pthread_mutex_unlock(&segments->lock);
    return BINADE_OK;
}

/* `fresh` says which have got memory. */
static binade_status held_refill(struct binadei_segments *segments,
                                 const struct held_work *work, bool *fresh)
{
    binade_status status = BINADE_OK;
    for (uint32_t i = 0; i < work->count && status == BINADE_OK; i++)
        status = held_fill_one(segments, work->all[i], &fresh[i]);
    for (uint32_t i = 0; i < work->count && status == BINADE_OK; i++)
        if (!work->all[i]->is_mapped)
            status = held_map(segments, work->all[i]);
    if (status == BINADE_OK) {
        held_set_back(segments, work);
        return status;
    }
    /* What cannot be unmapped keeps its memory, which the next try finds. */
    for (uint32_t i = 0; i < work->count; i++)
        if (fresh[i] &&
            binadei_source_unmap(segments, work->all[i]) == BINADE_OK)
            held_empty(segments, work, i);
    return status;
}

binade_status binadei_segments_refill(struct binadei_segments *segments,
                                      const struct binadei_handles *held)
{
    struct held_work work;
    bool *fresh = calloc(held->count ? held->count : 1, sizeof(*fresh));
    if (!fresh)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory for the records of segments");
    binadei_grower_begin(segments);
    binade_status status = held_work_begin(segments, held, &work);
    if (status == BINADE_OK) {
        status = held_refill(segments, &work, fresh);
        held_work_end(&work);
    }
    binadei_grower_end(segments);
    free(fresh);
    return status;
}

void binadei_segments_drop(struct binadei_segments *segments,
                           const struct binadei_handles *held)
{
    binadei_grower_begin(segments);
    for (uint32_t i = 0; i < held->count; i++) {
        pthread_mutex_lock(&segments->lock);
        struct binadei_segment **at = &segments->listed;
        while ((*at)->info.first.index != held->firsts[i].index)
            at = &(*at)->next;
        struct binadei_segment *segment = binadei_segment_unlist(segments, at);
        segments->trim_count++;
        pthread_mutex_unlock(&segments->lock);
        binadei_segment_retract(segments, segment);
        (void)binadei_source_release(segments, segment);
    }
    binadei_grower_end(segments);
}
