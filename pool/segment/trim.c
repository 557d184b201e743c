/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Trims. A segment is withdrawn by claiming all its pages in the space, so that
 * no thread can hold a part of it; then it is unlinked, so that no thread can
 * find it; only then does the source get it.
 */
#include "pool/segment/state.h"

/* Lock held. */
static bool may_withdraw(const struct moietyi_segments *segments,
                         const struct moietyi_segment *segment,
                         uint64_t keep_bytes)
{
    return !segment->pin_count && !segment->left_count &&
           segments->listed_bytes >= keep_bytes &&
           segments->listed_bytes - keep_bytes >= segment->info.memory_bytes;
}

static bool try_withdraw(struct moietyi_segments *segments,
                         const struct moietyi_segment *segment,
                         uint64_t keep_bytes)
{
    const struct moietyi_segment_info *info = &segment->info;
    return may_withdraw(segments, segment, keep_bytes) &&
           moietyi_space_remove(segments->space, info->first, info->page_count);
}

/* Bytes of a free interval that would go back, from page `cursor` on; lock
 * held. */
static uint64_t whole_bytes_in(const struct moietyi_segments *segments,
                               const struct moietyi_interval *free,
                               uint64_t keep_bytes, uint32_t cursor,
                               uint64_t enough)
{
    uint64_t bytes = 0;
    uint64_t end = (free->start + free->grains) / MOIETYI_PAGE_GRAINS;
    uint64_t page =
        (free->start + MOIETYI_PAGE_GRAINS - 1) / MOIETYI_PAGE_GRAINS;
    if (page < cursor)
        page = cursor;
    while (page < end && bytes < enough) {
        const struct moietyi_segment *at = segments->at_page[page];
        uint64_t first = at ? at->info.first.index : page;
        uint64_t next = at ? first + at->info.page_count : page + 1;
        if (at && first >= page && next <= end &&
            may_withdraw(segments, at, keep_bytes))
            bytes += at->info.memory_bytes;
        page = next;
    }
    return bytes;
}

/* Bytes that would go back, from page `cursor` on, or so many of them. It looks
 * at long intervals of done memory, because most segments are partly in use. */
static uint64_t whole_bytes(struct moietyi_segments *segments,
                            uint64_t keep_bytes, uint32_t cursor,
                            uint64_t enough)
{
    struct moietyi_long_cursor listed = {.space = segments->space,
                                         .least = MOIETYI_PAGE_GRAINS};
    const struct moietyi_interval *free;
    uint64_t bytes = 0;
    pthread_mutex_lock(&segments->lock);
    while (bytes < enough && (free = moietyi_long_next(&listed)))
        bytes += whole_bytes_in(segments, free, keep_bytes, cursor, enough);
    pthread_mutex_unlock(&segments->lock);
    return bytes;
}

static bool is_any_unreleased(struct moietyi_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    bool is_any = segments->unreleased != NULL;
    pthread_mutex_unlock(&segments->lock);
    return is_any;
}

static bool may_release(const struct moietyi_segments *segments,
                        const struct moietyi_release_rule *rule)
{
    return !rule || moietyi_segments_are_mapped(segments) ||
           rule->may_release(rule->context);
}

/* The next segment that is wholly free, from page `*cursor` on; NULL at the end. */
static struct moietyi_segment *withdraw_next(struct moietyi_segments *segments,
                                             uint64_t keep_bytes,
                                             uint32_t *cursor)
{
    pthread_mutex_lock(&segments->lock);
    struct moietyi_segment *at = moietyi_segment_from(segments, *cursor);
    while (at && !try_withdraw(segments, at, keep_bytes))
        at = at->next;
    if (at) {
        *cursor = at->info.first.index + at->info.page_count;
        moietyi_segment_unlist(segments, at);
        segments->trim_count++;
    }
    pthread_mutex_unlock(&segments->lock);
    return at;
}

/* A handle that cannot be unmapped stays where it was. */
static moiety_status relist(struct moietyi_segments *segments,
                            struct moietyi_segment *segment, moiety_status why)
{
    moietyi_segment_announce(segments, segment);
    pthread_mutex_lock(&segments->lock);
    segments->trim_count--;
    /* This cannot fail: the pages are covered. */
    (void)moietyi_segment_publish(segments, segment, NULL);
    pthread_mutex_unlock(&segments->lock);
    return why;
}

static moiety_status give_back(struct moietyi_segments *segments,
                               struct moietyi_segment *segment)
{
    moietyi_segment_retract(segments, segment);
    moiety_status status = moietyi_source_unmap(segments, segment);
    return moietyi_source_is_gone(status)
               ? moietyi_source_release(segments, segment)
               : relist(segments, segment, status);
}

/* Adds to `out_bytes`. */
static moiety_status trim_all(struct moietyi_segments *segments,
                              uint64_t keep_bytes,
                              const struct moietyi_release_rule *rule,
                              uint64_t *out_bytes)
{
    moiety_status first = MOIETY_OK;
    struct moietyi_segment *segment;
    uint32_t cursor = 0;
    if (is_any_unreleased(segments) && may_release(segments, rule))
        first = moietyi_source_release_refused(segments, out_bytes);
    while ((!rule || whole_bytes(segments, keep_bytes, cursor, 1)) &&
           may_release(segments, rule) &&
           (segment = withdraw_next(segments, keep_bytes, &cursor))) {
        uint64_t bytes = segment->info.memory_bytes;
        moiety_status status = give_back(segments, segment);
        if (status == MOIETY_OK)
            *out_bytes += bytes;
        else if (first == MOIETY_OK)
            first = status;
    }
    return first;
}

/* Whether a trim is a grower: if a place is taken until it is unmapped, or if
 * there is a watcher, which gets one notice at a time. Lock held. */
static bool is_grower(const struct moietyi_segments *segments)
{
    return segments->mapper || segments->watch_count;
}

/* A grower notifies nobody if there is no watcher, so a trim that may not
 * notify waits for one only while that is so. False: there is a watcher. */
static bool trim_begin(struct moietyi_segments *segments, bool may_tell,
                       bool *out_is_grower)
{
    pthread_mutex_lock(&segments->lock);
    while (is_grower(segments) && segments->is_growing &&
           (may_tell || !segments->watch_count))
        pthread_cond_wait(&segments->grown, &segments->lock);
    bool is_begun = may_tell || !segments->watch_count;
    *out_is_grower = is_grower(segments);
    if (is_begun && *out_is_grower)
        segments->is_growing = true;
    else if (is_begun)
        segments->trim_running++;
    pthread_mutex_unlock(&segments->lock);
    return is_begun;
}

static void trim_end(struct moietyi_segments *segments, bool is_growing)
{
    if (is_growing) {
        moietyi_grower_end(segments);
        return;
    }
    pthread_mutex_lock(&segments->lock);
    if (--segments->trim_running == 0)
        pthread_cond_broadcast(&segments->grown);
    pthread_mutex_unlock(&segments->lock);
}

moiety_status moietyi_segments_trim(struct moietyi_segments *segments,
                                    uint64_t keep_bytes,
                                    const struct moietyi_release_rule *rule,
                                    uint64_t *out_bytes)
{
    bool is_growing;
    *out_bytes = 0;
    (void)trim_begin(segments, true, &is_growing);
    moiety_status status = trim_all(segments, keep_bytes, rule, out_bytes);
    trim_end(segments, is_growing);
    return status;
}

moiety_status moietyi_segments_trim_unwatched(
    struct moietyi_segments *segments, uint64_t passed_epoch,
    const struct moietyi_release_rule *rule, uint64_t *out_bytes)
{
    bool is_growing;
    *out_bytes = 0;
    if (!trim_begin(segments, false, &is_growing))
        return MOIETY_E_WOULD_BLOCK;
    if (segments->mapper)
        (void)moietyi_unmap_left(segments, passed_epoch, UINT32_MAX);
    moiety_status status = trim_all(segments, 0, rule, out_bytes);
    trim_end(segments, is_growing);
    return status;
}

bool moietyi_segments_are_watched(struct moietyi_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    bool are_watched = segments->watch_count != 0;
    pthread_mutex_unlock(&segments->lock);
    return are_watched;
}

uint64_t moietyi_segments_whole_bytes(struct moietyi_segments *segments)
{
    return whole_bytes(segments, 0, 0, UINT64_MAX);
}
