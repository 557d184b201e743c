/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the source. It is foreign code: its memory is checked before
 * anything relies on it, and goes back if it is refused. The bytes count as
 * reserved from before the source is asked until after it took them back.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/segment/mapper.h"
#include "pool/segment/state.h"

moiety_status moietyi_source_exhausted(const struct moietyi_segments *segments)
{
    return segments->source.flags & MOIETY_SOURCE_PINNED
               ? MOIETY_E_NO_PINNED_MEMORY
               : MOIETY_E_NO_DEVICE_MEMORY;
}

uint64_t
moietyi_segments_reserved_bytes(const struct moietyi_segments *segments)
{
    /* relaxed: a sum. */
    return moietyi_load_relaxed(&segments->reserved_bytes);
}

uint64_t moietyi_segments_limit(const struct moietyi_segments *segments)
{
    /* relaxed: see state.h. */
    return atomic_load_explicit(&segments->limit_bytes, memory_order_relaxed);
}

/* Below 0 for bytes that were taken back. */
static void count_reserved(struct moietyi_segments *segments, uint64_t more)
{
    /* relaxed: a sum. */
    atomic_fetch_add_explicit(&segments->reserved_bytes, more,
                              memory_order_relaxed);
}

uint64_t moietyi_segments_refusals(const struct moietyi_segments *segments)
{
    /* relaxed: advice. */
    return atomic_load_explicit(&segments->refusal_count, memory_order_relaxed);
}

void moietyi_source_note_refusal(struct moietyi_segments *segments)
{
    /* relaxed: advice. */
    atomic_fetch_add_explicit(&segments->refusal_count, 1,
                              memory_order_relaxed);
}

/* Takes back what was counted before the source was asked, and counts a
 * refusal. */
static void source_call_take_off(struct moietyi_segments *segments,
                                 uint64_t bytes, moiety_status status)
{
    count_reserved(segments, -bytes);
    if (status == moietyi_source_exhausted(segments))
        moietyi_source_note_refusal(segments);
}

moiety_status
moietyi_source_check_limit(const struct moietyi_segments *segments,
                           uint64_t bytes)
{
    uint64_t reserved = moietyi_segments_reserved_bytes(segments);
    uint64_t limit = moietyi_segments_limit(segments);
    if (bytes > moietyi_bytes_below(segments, limit)) {
        return moietyi_fail(moietyi_source_exhausted(segments),
                            "%llu bytes more would exceed the limit of %llu "
                            "bytes: %llu are reserved",
                            (unsigned long long)bytes,
                            (unsigned long long)limit,
                            (unsigned long long)reserved);
    }
    return MOIETY_OK;
}

/* Only the grower adds, so a size that fits here still fits below. */
static moiety_status
source_call_reserve_limit(struct moietyi_segments *segments, uint64_t bytes)
{
    moiety_status status = moietyi_source_check_limit(segments, bytes);
    if (status == MOIETY_OK)
        count_reserved(segments, bytes);
    return status;
}

/* Of memory that has no handle. */
static const moiety_source *
fixed_source_of(const struct moietyi_segments *segments)
{
    return segments->mapper ? &segments->fallback : &segments->source;
}

/* The message, unless the source is one of ours and made a better one. */
static moiety_status
source_call_explain(const struct moietyi_segments *segments,
                    moiety_status status, const char *refused, uint64_t bytes)
{
    if (segments->source.flags & MOIETYI_SOURCE_EXPLAINS)
        return status;
    return moietyi_fail(status, "source '%s' failed to %s %llu bytes",
                        segments->source.name, refused,
                        (unsigned long long)bytes);
}

bool moietyi_source_is_gone(moiety_status status)
{
    return status == MOIETY_OK || status == MOIETY_E_FORKED ||
           status == MOIETY_E_DEINITIALIZED ||
           status == MOIETY_E_CONTEXT_DESTROYED;
}

moiety_status moietyi_source_unmap(const struct moietyi_segments *segments,
                                   struct moietyi_segment *segment)
{
    const struct moietyi_segment_info *info = &segment->info;
    const struct moietyi_mapper *mapper = segments->mapper;
    if (!segment->is_mapped)
        return MOIETY_OK;
    moiety_status status =
        mapper->unmap(mapper->context, info->memory, info->memory_bytes);
    segment->is_mapped = status != MOIETY_OK;
    return status;
}

static moiety_status call_release(const struct moietyi_segments *segments,
                                  struct moietyi_segment *segment)
{
    const struct moietyi_segment_info *info = &segment->info;
    const struct moietyi_mapper *mapper = segments->mapper;
    const moiety_source *source = fixed_source_of(segments);
    if (info->is_fixed)
        return source->release(source->context, info->memory,
                               info->memory_bytes);
    moiety_status status = moietyi_source_unmap(segments, segment);
    if (status != MOIETY_OK)
        return status;
    /* The memory would stay, and no record would know of it. The caller that
     * unmapped it has reported the driver's error. */
    if (segment->left_count)
        return MOIETY_E_DRIVER;
    return mapper->destroy(mapper->context, segment->handle);
}

void moietyi_segment_free(struct moietyi_segment *segment)
{
    free(segment->spare);
    free(segment);
}

moiety_status moietyi_source_release(struct moietyi_segments *segments,
                                     struct moietyi_segment *segment)
{
    const struct moietyi_segment_info *info = &segment->info;
    if (segment->is_empty) {
        moietyi_segment_free(segment);
        return MOIETY_OK;
    }
    moiety_status status = call_release(segments, segment);
    if (moietyi_source_is_gone(status)) {
        count_reserved(segments, -info->memory_bytes);
        moietyi_segment_free(segment);
        return MOIETY_OK;
    }
    moietyi_log(
        MOIETY_LOG_WARNING,
        "source '%s' does not take %llu bytes at 0x%llx back (%d); they "
        "are tried again",
        info->is_fixed ? fixed_source_of(segments)->name
                       : segments->source.name,
        (unsigned long long)info->memory_bytes,
        (unsigned long long)info->memory, (int)status);
    pthread_mutex_lock(&segments->lock);
    segment->next = segments->unreleased;
    segments->unreleased = segment;
    pthread_mutex_unlock(&segments->lock);
    return source_call_explain(segments, status, "release", info->memory_bytes);
}

moiety_status moietyi_source_release_refused(struct moietyi_segments *segments,
                                             uint64_t *out_bytes)
{
    moiety_status first = MOIETY_OK;
    pthread_mutex_lock(&segments->lock);
    struct moietyi_segment *refused = segments->unreleased;
    segments->unreleased = NULL;
    pthread_mutex_unlock(&segments->lock);
    while (refused) {
        struct moietyi_segment *segment = refused;
        uint64_t bytes = segment->info.memory_bytes;
        refused = segment->next;
        moiety_status status = moietyi_source_release(segments, segment);
        if (status == MOIETY_OK)
            *out_bytes += bytes;
        else if (first == MOIETY_OK)
            first = status;
    }
    return first;
}

static bool overlaps(const struct moietyi_segment *list,
                     const struct moietyi_segment_info *info)
{
    for (; list; list = list->next)
        if (info->memory < list->info.memory + list->info.memory_bytes &&
            list->info.memory < info->memory + info->memory_bytes)
            return true;
    return false;
}

/* Why the memory is refused, or NULL. Memory on its way back is no longer ours,
 * and the source may give it out again before it returns. */
static const char *fault_of(struct moietyi_segments *segments,
                            const struct moietyi_segment_info *info)
{
    if (info->memory > MOIETYI_ADDRESS_END - info->memory_bytes)
        return "is not within the 512 TiB that a device addresses";
    pthread_mutex_lock(&segments->lock);
    bool is_ours = overlaps(segments->listed, info) ||
                   overlaps(segments->unreleased, info);
    pthread_mutex_unlock(&segments->lock);
    return is_ours ? "overlaps memory that it returned before" : NULL;
}

static moiety_status source_call_refuse(struct moietyi_segments *segments,
                                        struct moietyi_segment *segment,
                                        const char *fault)
{
    struct moietyi_segment_info info = segment->info;
    /* First, as it may make a message of its own. */
    (void)moietyi_source_release(segments, segment);
    return moietyi_fail(
        MOIETY_E_INVALID, "source '%s': its memory of %llu bytes at 0x%llx %s",
        segments->source.name, (unsigned long long)info.memory_bytes,
        (unsigned long long)info.memory, fault);
}

static void find_inside(struct moietyi_segment_info *info)
{
    uint64_t end = info->memory + info->memory_bytes;
    info->address = (info->memory + MOIETYI_PAGE_BYTES - 1) &
                    ~(moiety_devptr)(MOIETYI_PAGE_BYTES - 1);
    if (end > info->address)
        info->page_count =
            (uint32_t)((end - info->address) / MOIETYI_PAGE_BYTES);
}

static moiety_status call_reserve(struct moietyi_segments *segments,
                                  struct moietyi_segment_info *info)
{
    const moiety_source *source = fixed_source_of(segments);
    moiety_status status =
        source->reserve(source->context, info->memory_bytes, &info->memory);
    if (status != MOIETY_OK)
        return source_call_explain(segments, status, "reserve",
                                   info->memory_bytes);
    if (!info->memory)
        return moietyi_fail(
            MOIETY_E_INVALID, "source '%s' returned no address for %llu bytes",
            segments->source.name, (unsigned long long)info->memory_bytes);
    return MOIETY_OK;
}

/* Within the limit. */
static moiety_status source_call_reserve(struct moietyi_segments *segments,
                                         struct moietyi_segment_info *info)
{
    moiety_status status =
        source_call_reserve_limit(segments, info->memory_bytes);
    if (status != MOIETY_OK)
        return status;
    status = call_reserve(segments, info);
    if (status != MOIETY_OK)
        source_call_take_off(segments, info->memory_bytes, status);
    return status;
}

moiety_status moietyi_source_refill(struct moietyi_segments *segments,
                                    struct moietyi_segment *segment)
{
    const struct moietyi_mapper *mapper = segments->mapper;
    uint64_t size_bytes = segment->info.memory_bytes;
    moiety_status status = source_call_reserve_limit(segments, size_bytes);
    if (status != MOIETY_OK)
        return status;
    status = mapper->create(mapper->context, size_bytes, &segment->handle);
    if (status != MOIETY_OK)
        source_call_take_off(segments, size_bytes, status);
    return status;
}

static moiety_status make_record(uint64_t size_bytes,
                                 struct moietyi_segment **out)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for the record of a segment");
    (*out)->info.memory_bytes = size_bytes;
    return MOIETY_OK;
}

moiety_status moietyi_source_create(struct moietyi_segments *segments,
                                    uint64_t size_bytes,
                                    struct moietyi_segment **out)
{
    struct moietyi_segment *segment;
    moiety_status status = make_record(size_bytes, &segment);
    if (status != MOIETY_OK)
        return status;
    segment->info.page_count = (uint32_t)(size_bytes / MOIETYI_PAGE_BYTES);
    status = moietyi_source_refill(segments, segment);
    if (status == MOIETY_OK)
        *out = segment;
    else
        free(segment);
    return status;
}

moiety_status moietyi_source_reserve(struct moietyi_segments *segments,
                                     uint64_t size_bytes,
                                     struct moietyi_segment **out)
{
    struct moietyi_segment *segment;
    moiety_status status = make_record(size_bytes, &segment);
    if (status != MOIETY_OK)
        return status;
    segment->info.is_fixed = true;
    status = source_call_reserve(segments, &segment->info);
    if (status != MOIETY_OK) {
        free(segment);
        return status;
    }
    const char *fault = fault_of(segments, &segment->info);
    if (fault)
        return source_call_refuse(segments, segment, fault);
    find_inside(&segment->info);
    *out = segment;
    return MOIETY_OK;
}
