/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The beginning and the end of a pool's segments, and questions about them.
 */
#include "pool/segment/segment.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/failure.h"
#include "pool/driver/section.h"
#include "pool/segment/mapped.h"
#include "pool/segment/mapper.h"

#define GRANULARITY_MAX ((size_t)1 << 30)
#define KNOWN_FLAGS                                                            \
    (MOIETY_SOURCE_LEGACY_IPC | MOIETY_SOURCE_PINNED | MOIETYI_SOURCE_EXPLAINS)

/* Bytes of the table's first version, which every later one begins with. */
#define SOURCE_BYTES_MIN                                                       \
    (offsetof(moiety_source, granularity_bytes) + sizeof(size_t))

static moiety_status check_source(const moiety_source *source)
{
    if (!source || source->struct_size < SOURCE_BYTES_MIN) {
        return moietyi_fail(
            MOIETY_E_INVALID,
            "the source is NULL, or its struct_size is less than "
            "%zu bytes",
            SOURCE_BYTES_MIN);
    }
    if (!source->name || !source->reserve || !source->release)
        return moietyi_fail(MOIETY_E_INVALID,
                            "the source lacks a name, reserve or release");
    if (source->flags & ~KNOWN_FLAGS)
        return moietyi_fail(MOIETY_E_INVALID,
                            "source '%s': flags 0x%x are not known",
                            source->name, source->flags & ~KNOWN_FLAGS);
    size_t granularity = source->granularity_bytes;
    if (granularity & (granularity - 1) || granularity > GRANULARITY_MAX) {
        return moietyi_fail(
            MOIETY_E_INVALID,
            "source '%s': a granularity of %zu bytes is no power of "
            "two up to %zu",
            source->name, granularity, GRANULARITY_MAX);
    }
    return MOIETY_OK;
}

/* Short handles move for a little free memory; the driver takes its time per
 * handle. */
#define HANDLE_PAGES 2U

static void segment_fill(struct moietyi_segments *segments,
                         const struct moietyi_segments_options *options)
{
    const moiety_source *source = options->source;
    /* No more than both sides know. */
    memcpy(&segments->source, source,
           source->struct_size < sizeof(*source) ? source->struct_size
                                                 : sizeof(*source));
    segments->mapper = options->mapper;
    if (options->mapper && options->fallback)
        segments->fallback = *options->fallback;
    segments->peers = options->peers;
    segments->space = options->space;
    atomic_init(&segments->limit_bytes, options->limit_bytes);
    segments->watermark_bytes = options->watermark_bytes;
    segments->largest_bytes = options->largest_bytes;
    segments->is_limited = options->is_limited;
    segments->handle_pages =
        options->handle_pages ? options->handle_pages : HANDLE_PAGES;
    segments->move_credit = MOIETYI_MOVES_AT_ONCE;
    segments->first_bytes = options->first_bytes;
    segments->granularity_bytes = source->granularity_bytes;
    if (segments->granularity_bytes < MOIETYI_PAGE_BYTES)
        segments->granularity_bytes = MOIETYI_PAGE_BYTES;
    pthread_mutex_init(&segments->lock, NULL);
    pthread_cond_init(&segments->grown, NULL);
}

void moietyi_segments_set_limit(struct moietyi_segments *segments,
                                uint64_t limit_bytes)
{
    moietyi_grower_begin(segments);
    /* relaxed: see state.h. */
    atomic_store_explicit(&segments->limit_bytes, limit_bytes,
                          memory_order_relaxed);
    segments->is_limited = true;
    moietyi_grower_end(segments);
}

void moietyi_segments_reset_peak(struct moietyi_segments *segments)
{
    /* Bytes of a growth under way count as reserved, and the source may refuse
     * them. */
    moietyi_grower_begin(segments);
    pthread_mutex_lock(&segments->lock);
    segments->peak_bytes = moietyi_segments_reserved_bytes(segments);
    pthread_mutex_unlock(&segments->lock);
    moietyi_grower_end(segments);
}

moiety_status
moietyi_segments_create(const struct moietyi_segments_options *options,
                        struct moietyi_segments **out)
{
    moiety_status status = check_source(options->source);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_segments *segments = calloc(1, sizeof(*segments));
    if (!segments)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for a pool's segments");
    status = moietyi_lookup_init(&segments->lookup, options->page_capacity);
    if (status != MOIETY_OK) {
        free(segments);
        return status;
    }
    segments->page_capacity = options->page_capacity;
    status = moietyi_pages_init(segments);
    if (status != MOIETY_OK) {
        moietyi_lookup_fini(&segments->lookup);
        free(segments);
        return status;
    }
    segment_fill(segments, options);
    *out = segments;
    return MOIETY_OK;
}

/* A refusal at the end is tried again, because no later call would. */
static moiety_status unmap_all_left(struct moietyi_segments *segments)
{
    moiety_status status = MOIETY_E_DRIVER;
    for (int i = 0; i < MOIETYI_UNDO_TRIES && status != MOIETY_OK; i++)
        status = moietyi_unmap_left(segments, UINT64_MAX, UINT32_MAX);
    return status;
}

static moiety_status release_all_refused(struct moietyi_segments *segments)
{
    uint64_t released_bytes = 0;
    moiety_status status = MOIETY_E_DRIVER;
    for (int i = 1; i < MOIETYI_UNDO_TRIES && status != MOIETY_OK; i++)
        status = moietyi_source_release_refused(segments, &released_bytes);
    return status;
}

static void release_addresses(const struct moietyi_segments *segments)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    uint64_t size_bytes = segments->base_pages * (uint64_t)MOIETYI_PAGE_BYTES;
    for (int i = 0; segments->base && i < MOIETYI_UNDO_TRIES; i++)
        if (mapper->release(mapper->context, segments->base, size_bytes) ==
            MOIETY_OK)
            return;
}

static void forget_segments(struct moietyi_segment **list)
{
    while (*list) {
        struct moietyi_segment *segment = *list;
        *list = segment->next;
        moietyi_segment_free(segment);
    }
}

moiety_status moietyi_segments_destroy(struct moietyi_segments *segments)
{
    if (!segments)
        return MOIETY_OK;
    moiety_status left = unmap_all_left(segments);
    while (segments->listed) {
        struct moietyi_segment *segment = segments->listed;
        segments->listed = segment->next;
        moietyi_segment_retract(segments, segment);
        /* Refused segments are tried again below. */
        (void)moietyi_source_release(segments, segment);
    }
    moiety_status status = release_all_refused(segments);
    release_addresses(segments);
    forget_segments(&segments->unreleased);
    forget_segments(&segments->left);
    moietyi_watchers_free(segments);
    moietyi_lookup_fini(&segments->lookup);
    moietyi_pages_fini(segments);
    pthread_cond_destroy(&segments->grown);
    pthread_mutex_destroy(&segments->lock);
    free(segments);
    return status == MOIETY_OK ? left : status;
}

const struct moietyi_lookup *
moietyi_segments_lookup(const struct moietyi_segments *segments)
{
    return &segments->lookup;
}

bool moietyi_segments_are_mapped(const struct moietyi_segments *segments)
{
    /* relaxed: see state.h. */
    return segments->mapper &&
           !atomic_load_explicit(&segments->has_fallen, memory_order_relaxed);
}

const char *
moietyi_segments_source_name(const struct moietyi_segments *segments)
{
    return segments->mapper && !moietyi_segments_are_mapped(segments)
               ? segments->fallback.name
               : segments->source.name;
}

uint64_t moietyi_segments_left_at(struct moietyi_segments *segments,
                                  uint64_t passed_epoch)
{
    uint64_t first = 0;
    pthread_mutex_lock(&segments->lock);
    for (const struct moietyi_segment *left = segments->left; left && !first;
         left = left->next)
        if (left->over_at > passed_epoch)
            first = left->over_at;
    pthread_mutex_unlock(&segments->lock);
    return first;
}

bool moietyi_segments_are_growing(struct moietyi_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    bool are_growing = segments->is_growing;
    pthread_mutex_unlock(&segments->lock);
    return are_growing;
}

void moietyi_segments_stats(struct moietyi_segments *segments,
                            struct moietyi_segments_stats *out)
{
    const struct moietyi_segment *segment;
    pthread_mutex_lock(&segments->lock);
    *out = (struct moietyi_segments_stats){
        .reserved_bytes = moietyi_segments_reserved_bytes(segments),
        .grow_count = segments->grow_count,
        .peak_bytes = segments->peak_bytes,
        .failed_grow_count = segments->failed_grow_count,
        .trim_count = segments->trim_count,
        .move_count = segments->move_count,
        .moved_bytes = segments->moved_bytes,
        .left_bytes = segments->left_pages * MOIETYI_PAGE_BYTES,
        .empty_bytes = segments->empty_bytes,
        .segment_count = segments->listed_count,
    };
    /* The bytes of a growth under way are not there yet, and may be refused;
     * and a peak never goes down. */
    if (out->reserved_bytes > out->peak_bytes)
        out->reserved_bytes = out->peak_bytes;
    for (segment = segments->unreleased; segment; segment = segment->next)
        out->unreleased_bytes += segment->info.memory_bytes;
    pthread_mutex_unlock(&segments->lock);
}

bool moietyi_segments_walk(struct moietyi_segments *segments, moietyi_page from,
                           struct moietyi_segment_info *out)
{
    pthread_mutex_lock(&segments->lock);
    const struct moietyi_segment *segment =
        moietyi_segment_from(segments, from.index);
    if (segment)
        *out = segment->info;
    for (const struct moietyi_segment *next = segment ? segment->next : NULL;
         next && next->info.first.index == out->first.index + out->page_count;
         next = next->next) {
        out->page_count += next->info.page_count;
        out->memory_bytes += next->info.memory_bytes;
    }
    pthread_mutex_unlock(&segments->lock);
    return segment != NULL;
}
