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

/* With a page on each side, so that two handles of a holder never touch and no
 * block crosses from one to the next. */
static moiety_status held_find_place(struct moietyi_segments *segments,
                                     uint32_t page_count, uint64_t passed_epoch,
                                     uint32_t *out)
{
    const struct moietyi_extension extension = {
        .needed_bytes = (page_count + UINT64_C(2)) * MOIETYI_PAGE_BYTES,
        .passed_epoch = passed_epoch};
    struct moietyi_place place;
    moiety_status status = moietyi_find_place(segments, &extension, &place);
    if (status == MOIETY_OK)
        *out = place.first + 1;
    return status;
}

static moiety_status held_spare(struct moietyi_segment *segment)
{
    if (!segment->spare)
        segment->spare = calloc(1, sizeof(*segment->spare));
    return segment->spare ? MOIETY_OK
                          : moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                         "no memory for the record of a "
                                         "segment");
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
    status = held_spare(segment);
    if (status == MOIETY_OK)
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
    if (page_count > segments->page_capacity - 2) {
        return moietyi_fail(MOIETY_E_TOO_LARGE,
                            "%u pages in a row are more than the pool has "
                            "addresses for",
                            page_count);
    }
    if (may_wait)
        moietyi_grower_begin(segments);
    else if (!held_try_begin(segments))
        return moietyi_fail(MOIETY_E_WOULD_BLOCK,
                            "another thread grows the pool");
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

/* By the grower, who alone changes the table; or lock held. */
static struct moietyi_segment *held_at(const struct moietyi_segments *segments,
                                       const struct moietyi_handle *held)
{
    return segments->at_page[held->first.index];
}

/* From now on no thread can pin one. False: one is pinned. */
static bool held_set_away(struct moietyi_segments *segments,
                          const struct moietyi_handle *held)
{
    bool is_pinned = false;
    pthread_mutex_lock(&segments->lock);
    for (const struct moietyi_handle *at = held; at; at = at->next)
        is_pinned |= held_at(segments, at)->pin_count != 0;
    for (const struct moietyi_handle *at = held; at && !is_pinned;
         at = at->next)
        held_at(segments, at)->is_away = true;
    pthread_mutex_unlock(&segments->lock);
    for (const struct moietyi_handle *at = held; at && !is_pinned;
         at = at->next)
        moietyi_segment_retract(segments, held_at(segments, at));
    return !is_pinned;
}

/* By the grower. It takes no memory, so it cannot fail. */
static void held_set_back(struct moietyi_segments *segments,
                          const struct moietyi_handle *held)
{
    /* With another id: registrations of the old one are stale. */
    for (const struct moietyi_handle *at = held; at; at = at->next)
        moietyi_segment_announce(segments, held_at(segments, at));
    pthread_mutex_lock(&segments->lock);
    for (; held; held = held->next)
        held_at(segments, held)->is_away = false;
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

/* Releases the handle, which counts until the driver has it. If it cannot be
 * unmapped, it keeps its memory, which the next refill finds. */
static void held_try_empty(struct moietyi_segments *segments,
                           struct moietyi_segment *segment)
{
    struct moietyi_segment *left = segment->spare;
    uint64_t bytes = segment->info.memory_bytes;
    if (segment->is_empty ||
        moietyi_source_unmap(segments, segment) != MOIETY_OK)
        return;
    segment->spare = NULL;
    *left = *segment;
    pthread_mutex_lock(&segments->lock);
    segment->is_empty = true;
    segments->listed_bytes -= bytes;
    segments->empty_bytes += bytes;
    pthread_mutex_unlock(&segments->lock);
    (void)moietyi_source_release(segments, left);
}

static void held_empty_all(struct moietyi_segments *segments,
                           const struct moietyi_handle *held)
{
    for (; held; held = held->next)
        held_try_empty(segments, held_at(segments, held));
}

static moiety_status held_vacate(struct moietyi_segments *segments,
                                 const struct moietyi_handle *held,
                                 bool *out_are_away)
{
    moiety_status status = MOIETY_OK;
    const struct moietyi_handle *at = held;
    for (; at && status == MOIETY_OK; at = at->next)
        status = moietyi_source_unmap(segments, held_at(segments, at));
    *out_are_away = status == MOIETY_OK;
    if (status == MOIETY_OK) {
        held_empty_all(segments, held);
        return status;
    }
    /* No handle was released, so contents come back with the mapping. */
    for (at = held; at; at = at->next) {
        struct moietyi_segment *segment = held_at(segments, at);
        if (!segment->is_mapped && held_map(segments, segment) != MOIETY_OK)
            *out_are_away = true;
    }
    if (!*out_are_away)
        held_set_back(segments, held);
    return status;
}

moiety_status moietyi_segments_vacate(struct moietyi_segments *segments,
                                      const struct moietyi_handle *held,
                                      bool *out_are_away)
{
    *out_are_away = false;
    moietyi_grower_begin(segments);
    moiety_status status =
        held_set_away(segments, held)
            ? held_vacate(segments, held, out_are_away)
            : moietyi_fail(MOIETY_E_IN_USE,
                           "the memory is held: it was exported, or "
                           "registered by moiety_segment_hold()");
    moietyi_grower_end(segments);
    return status;
}

static moiety_status held_fill_one(struct moietyi_segments *segments,
                                   struct moietyi_segment *segment)
{
    if (!segment->is_empty)
        return MOIETY_OK;
    moiety_status status = held_spare(segment);
    if (status == MOIETY_OK)
        status = moietyi_source_refill(segments, segment);
    segment->is_fresh = status == MOIETY_OK;
    if (status != MOIETY_OK)
        return status;
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

static moiety_status held_refill(struct moietyi_segments *segments,
                                 const struct moietyi_handle *held)
{
    moiety_status status = MOIETY_OK;
    const struct moietyi_handle *at = held;
    for (; at && status == MOIETY_OK; at = at->next)
        status = held_fill_one(segments, held_at(segments, at));
    /* Also one that is mapped, and may not be open to the device. */
    for (at = held; at && status == MOIETY_OK; at = at->next)
        status = held_map(segments, held_at(segments, at));
    for (at = held; at; at = at->next) {
        struct moietyi_segment *segment = held_at(segments, at);
        if (segment->is_fresh && status != MOIETY_OK)
            held_try_empty(segments, segment);
        segment->is_fresh = false;
    }
    return status;
}

moiety_status moietyi_segments_refill(struct moietyi_segments *segments,
                                      const struct moietyi_handle *held)
{
    moietyi_grower_begin(segments);
    moiety_status status = held_refill(segments, held);
    moietyi_grower_end(segments);
    return status;
}

void moietyi_segments_restore(struct moietyi_segments *segments,
                              const struct moietyi_handle *held)
{
    moietyi_grower_begin(segments);
    held_set_back(segments, held);
    moietyi_grower_end(segments);
}

void moietyi_segments_empty(struct moietyi_segments *segments,
                            const struct moietyi_handle *held)
{
    moietyi_grower_begin(segments);
    held_empty_all(segments, held);
    moietyi_grower_end(segments);
}

bool moietyi_segments_have_room(struct moietyi_segments *segments,
                                const struct moietyi_handle *held)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    uint64_t missing_bytes = 0;
    uint64_t free_bytes;
    pthread_mutex_lock(&segments->lock);
    for (; held; held = held->next) {
        const struct moietyi_segment *segment = held_at(segments, held);
        missing_bytes += segment->is_empty ? segment->info.memory_bytes : 0;
    }
    pthread_mutex_unlock(&segments->lock);
    return missing_bytes <= moietyi_bytes_below(
                                segments, moietyi_segments_limit(segments)) &&
           (mapper->look_free(mapper->context, &free_bytes) != MOIETY_OK ||
            missing_bytes <= free_bytes);
}

void moietyi_segments_drop(struct moietyi_segments *segments,
                           const struct moietyi_handle *held)
{
    moietyi_grower_begin(segments);
    for (; held; held = held->next) {
        pthread_mutex_lock(&segments->lock);
        struct moietyi_segment *segment = held_at(segments, held);
        moietyi_segment_unlist(segments, segment);
        segments->trim_count++;
        pthread_mutex_unlock(&segments->lock);
        moietyi_segment_retract(segments, segment);
        (void)moietyi_source_release(segments, segment);
    }
    moietyi_grower_end(segments);
}
