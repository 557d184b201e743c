/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Handles that a holder has whole (docs/dev/adr/0028-held-handles.md). Their
 * pages are covered in the space and in no heap, so neither a move nor a trim
 * can claim them. While one is away, its place stays listed: addresses are
 * found, and nothing else is put there.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/segment/mapped.h"

/* --- a new one --- */

/* With a page on each side, so that no two of a holder ever touch and a block
 * never crosses from one to the next. */
static struct moietyi_place held_find(struct moietyi_segments *segments,
                                      uint32_t page_count)
{
    const struct moietyi_extension extension = {
        .needed_bytes = (page_count + UINT64_C(2)) * MOIETYI_PAGE_BYTES};
    pthread_mutex_lock(&segments->lock);
    struct moietyi_place place = moietyi_place_find(segments, &extension);
    pthread_mutex_unlock(&segments->lock);
    place.first++;
    return place;
}

static moiety_status held_find_place(struct moietyi_segments *segments,
                                     uint32_t page_count, uint64_t passed_epoch,
                                     uint32_t *out)
{
    moiety_status status = moietyi_reserve_addresses(segments, page_count + 2);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_place place = held_find(segments, page_count);
    if (!place.pages) {
        (void)moietyi_unmap_left(segments, passed_epoch, UINT32_MAX);
        place = held_find(segments, page_count);
    }
    if (!place.pages) {
        return moietyi_fail(moietyi_source_exhausted(segments),
                            "the pool's addresses have no room for %u pages in "
                            "a row",
                            page_count + 2);
    }
    *out = place.first;
    return MOIETY_OK;
}

static moiety_status held_create(struct moietyi_segments *segments,
                                 uint32_t page_count, uint32_t at)
{
    struct moietyi_segment *segment;
    moiety_status status = moietyi_source_create(
        segments, (uint64_t)page_count * MOIETYI_PAGE_BYTES, &segment);
    if (status != MOIETY_OK)
        return status;
    segment->is_held = true;
    status = moietyi_handle_put(segments, segment, at, NULL);
    if (status != MOIETY_OK)
        (void)moietyi_source_release(segments, segment);
    return status;
}

static bool held_try_begin(struct moietyi_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    bool is_free = !segments->is_growing;
    segments->is_growing = true;
    pthread_mutex_unlock(&segments->lock);
    return is_free;
}

moiety_status moietyi_segments_hold(struct moietyi_segments *segments,
                                    uint32_t page_count, uint64_t passed_epoch,
                                    bool may_wait, moietyi_page *out)
{
    uint32_t at = 0;
    if (page_count > segments->page_capacity - 2 ||
        segments->page_capacity < 2) {
        return moietyi_fail(MOIETY_E_TOO_LARGE,
                            "%u pages in a row are more than the pool has "
                            "addresses for",
                            page_count);
    }
    if (may_wait)
        moietyi_grower_begin(segments);
    else if (!held_try_begin(segments))
        return moietyi_fail(MOIETY_E_BUSY, "another thread grows the pool");
    moiety_status status =
        held_find_place(segments, page_count, passed_epoch, &at);
    if (status == MOIETY_OK)
        status = held_create(segments, page_count, at);
    moietyi_grower_end(segments);
    if (status == MOIETY_OK)
        *out = (moietyi_page){at};
    return status;
}

/* --- away, and back --- */

/* Those of a call, and a ghost record of each: for memory that has lost its place
 * and that the driver does not take back. */
struct held_work {
    struct moietyi_segment **all;
    struct moietyi_segment **ghosts;
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
static struct moietyi_segment *
held_segment_at(const struct moietyi_segments *segments, moietyi_page first)
{
    return moietyi_segment_from(segments, first.index);
}

/* By the grower. */
static moiety_status held_work_begin(struct moietyi_segments *segments,
                                     const struct moietyi_handles *held,
                                     struct held_work *out)
{
    size_t count = held->count ? held->count : 1;
    *out = (struct held_work){
        .all = calloc(count, sizeof(struct moietyi_segment *)),
        .ghosts = calloc(count, sizeof(struct moietyi_segment *)),
        .count = held->count};
    bool is_made = out->all && out->ghosts;
    for (uint32_t i = 0; i < held->count && is_made; i++)
        is_made = (out->ghosts[i] = calloc(1, sizeof(struct moietyi_segment)));
    if (!is_made) {
        held_work_end(out);
        (void)moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                           "no memory for the records of segments");
        return MOIETY_E_NO_HOST_MEMORY;
    }
    pthread_mutex_lock(&segments->lock);
    for (uint32_t i = 0; i < held->count; i++)
        out->all[i] = held_segment_at(segments, held->firsts[i]);
    pthread_mutex_unlock(&segments->lock);
    return MOIETY_OK;
}

/* From then on nobody can pin one. False: somebody has. */
static bool held_set_away(struct moietyi_segments *segments,
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
        moietyi_segment_retract(segments, work->all[i]);
    return !is_pinned;
}

/* By the grower. */
static struct moietyi_segment *held_find_one(struct moietyi_segments *segments,
                                             moietyi_page first)
{
    pthread_mutex_lock(&segments->lock);
    struct moietyi_segment *segment = held_segment_at(segments, first);
    pthread_mutex_unlock(&segments->lock);
    return segment;
}

/* By the grower. It takes no memory, so it cannot fail. */
static void held_set_back(struct moietyi_segments *segments,
                          const struct moietyi_handles *held)
{
    /* With another id: what was registered is stale. */
    for (uint32_t i = 0; i < held->count; i++) {
        struct moietyi_segment *segment =
            held_find_one(segments, held->firsts[i]);
        moietyi_segment_announce(segments, segment);
    }
    pthread_mutex_lock(&segments->lock);
    for (uint32_t i = 0; i < held->count; i++)
        held_segment_at(segments, held->firsts[i])->is_away = false;
    pthread_mutex_unlock(&segments->lock);
}

static moiety_status held_map(struct moietyi_segments *segments,
                              struct moietyi_segment *segment)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    const struct moietyi_segment_info *info = &segment->info;
    return mapper->map(mapper->context, info->address, info->memory_bytes,
                       segment->handle, segments->peers, &segment->is_mapped);
}

/* The handle goes, and counts until the driver has it. */
static void held_empty(struct moietyi_segments *segments,
                       struct moietyi_segment *segment,
                       struct moietyi_segment *ghost)
{
    uint64_t bytes = segment->info.memory_bytes;
    *ghost = *segment;
    pthread_mutex_lock(&segments->lock);
    segment->is_empty = true;
    segments->listed_bytes -= bytes;
    segments->empty_bytes += bytes;
    pthread_mutex_unlock(&segments->lock);
    (void)moietyi_source_release(segments, ghost);
}

/* What cannot be unmapped keeps its memory, which the next refill finds. */
static void held_try_empty(struct moietyi_segments *segments,
                           const struct held_work *work, uint32_t i)
{
    struct moietyi_segment *segment = work->all[i];
    struct moietyi_segment *ghost = work->ghosts[i];
    if (segment->is_empty ||
        moietyi_source_unmap(segments, segment) != MOIETY_OK)
        return;
    work->ghosts[i] = NULL;
    held_empty(segments, segment, ghost);
}

static moiety_status held_vacate(struct moietyi_segments *segments,
                                 const struct moietyi_handles *held,
                                 const struct held_work *work,
                                 bool *out_are_away)
{
    moiety_status status = MOIETY_OK;
    uint32_t i = 0;
    for (; i < work->count && status == MOIETY_OK; i++)
        status = moietyi_source_unmap(segments, work->all[i]);
    *out_are_away = status == MOIETY_OK;
    if (status == MOIETY_OK) {
        for (i = 0; i < work->count; i++)
            held_try_empty(segments, work, i);
        return status;
    }
    /* No handle has gone, so contents come back with the mapping. */
    while (i-- > 0)
        if (!work->all[i]->is_mapped &&
            held_map(segments, work->all[i]) != MOIETY_OK)
            *out_are_away = true;
    if (!*out_are_away)
        held_set_back(segments, held);
    return status;
}

moiety_status moietyi_segments_vacate(struct moietyi_segments *segments,
                                      const struct moietyi_handles *held,
                                      bool *out_are_away)
{
    struct held_work work;
    *out_are_away = false;
    moietyi_grower_begin(segments);
    moiety_status status = held_work_begin(segments, held, &work);
    if (status == MOIETY_OK) {
        status = held_set_away(segments, &work)
                     ? held_vacate(segments, held, &work, out_are_away)
                     : moietyi_fail(MOIETY_E_BUSY,
                                    "the memory is held: it was exported, or "
                                    "registered by moiety_segment_hold()");
        held_work_end(&work);
    }
    moietyi_grower_end(segments);
    return status;
}

static moiety_status held_fill_one(struct moietyi_segments *segments,
                                   struct moietyi_segment *segment,
                                   bool *out_is_fresh)
{
    *out_is_fresh = false;
    if (!segment->is_empty)
        return MOIETY_OK;
    moiety_status status = moietyi_source_refill(segments, segment);
    if (status != MOIETY_OK)
        return status;
    *out_is_fresh = true;
    pthread_mutex_lock(&segments->lock);
    uint64_t reserved_bytes = moietyi_segments_reserved_bytes(segments);
    segment->is_empty = false;
    segments->empty_bytes -= segment->info.memory_bytes;
    segments->listed_bytes += segment->info.memory_bytes;
    if (reserved_bytes > segments->peak_bytes)
        segments->peak_bytes = reserved_bytes;
    pthread_mutex_unlock(&segments->lock);
    return MOIETY_OK;
}

/* `fresh` says which have got memory. */
static moiety_status held_refill(struct moietyi_segments *segments,
                                 const struct held_work *work, bool *fresh)
{
    moiety_status status = MOIETY_OK;
    for (uint32_t i = 0; i < work->count && status == MOIETY_OK; i++)
        status = held_fill_one(segments, work->all[i], &fresh[i]);
    /* Also one that is mapped, and may not be open to the device. */
    for (uint32_t i = 0; i < work->count && status == MOIETY_OK; i++)
        status = held_map(segments, work->all[i]);
    for (uint32_t i = 0; i < work->count && status != MOIETY_OK; i++)
        if (fresh[i])
            held_try_empty(segments, work, i);
    return status;
}

moiety_status moietyi_segments_refill(struct moietyi_segments *segments,
                                      const struct moietyi_handles *held)
{
    struct held_work work;
    bool *fresh = calloc(held->count ? held->count : 1, sizeof(*fresh));
    if (!fresh)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for the records of segments");
    moietyi_grower_begin(segments);
    moiety_status status = held_work_begin(segments, held, &work);
    if (status == MOIETY_OK) {
        status = held_refill(segments, &work, fresh);
        held_work_end(&work);
    }
    moietyi_grower_end(segments);
    free(fresh);
    return status;
}

void moietyi_segments_restore(struct moietyi_segments *segments,
                              const struct moietyi_handles *held)
{
    moietyi_grower_begin(segments);
    held_set_back(segments, held);
    moietyi_grower_end(segments);
}

void moietyi_segments_empty(struct moietyi_segments *segments,
                            const struct moietyi_handles *held)
{
    struct held_work work;
    moietyi_grower_begin(segments);
    if (held_work_begin(segments, held, &work) == MOIETY_OK) {
        for (uint32_t i = 0; i < work.count; i++)
            held_try_empty(segments, &work, i);
        held_work_end(&work);
    }
    moietyi_grower_end(segments);
}

bool moietyi_segments_have_room(struct moietyi_segments *segments,
                                const struct moietyi_handles *held)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    uint64_t missing_bytes = 0;
    uint64_t free_bytes;
    pthread_mutex_lock(&segments->lock);
    for (uint32_t i = 0; i < held->count; i++) {
        const struct moietyi_segment *segment =
            held_segment_at(segments, held->firsts[i]);
        missing_bytes += segment->is_empty ? segment->info.memory_bytes : 0;
    }
    pthread_mutex_unlock(&segments->lock);
    return missing_bytes <=
               moietyi_bytes_below(segments, moietyi_limit(segments)) &&
           (mapper->look_free(mapper->context, &free_bytes) != MOIETY_OK ||
            missing_bytes <= free_bytes);
}

void moietyi_segments_drop(struct moietyi_segments *segments,
                           const struct moietyi_handles *held)
{
    moietyi_grower_begin(segments);
    for (uint32_t i = 0; i < held->count; i++) {
        pthread_mutex_lock(&segments->lock);
        struct moietyi_segment *segment =
            held_segment_at(segments, held->firsts[i]);
        moietyi_segment_unlist(segments, segment);
        segments->trim_count++;
        pthread_mutex_unlock(&segments->lock);
        moietyi_segment_retract(segments, segment);
        (void)moietyi_source_release(segments, segment);
    }
    moietyi_grower_end(segments);
}
