/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The dealings with the source. It is foreign code: what it returns is checked
 * before anything relies on it, and goes back if it is refused. The bytes count
 * as reserved from before the source is asked until after it took them back.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/base/log.h"
#include "pool/segment/mapper.h"
#include "pool/segment/state.h"

binade_status binadei_source_exhausted(const struct binadei_segments *segments)
{
    return segments->source.flags & BINADE_SOURCE_PINNED
               ? BINADE_E_NO_PINNED_MEMORY
               : BINADE_E_NO_DEVICE_MEMORY;
}

uint64_t
binadei_segments_reserved_bytes(const struct binadei_segments *segments)
{
    /* relaxed: a sum. */
    return binadei_load_relaxed(&segments->reserved_bytes);
}

static void count_reserved(struct binadei_segments *segments, uint64_t bytes)
{
    /* relaxed: a sum. */
    atomic_fetch_add_explicit(&segments->reserved_bytes, bytes,
                              memory_order_relaxed);
}

static void count_released(struct binadei_segments *segments, uint64_t bytes)
{
    /* relaxed: a sum. */
    atomic_fetch_sub_explicit(&segments->reserved_bytes, bytes,
                              memory_order_relaxed);
}

uint64_t binadei_segments_refusals(const struct binadei_segments *segments)
{
    /* relaxed: advice. */
    return atomic_load_explicit(&segments->refusal_count, memory_order_relaxed);
}

/* What was counted before the source was asked; and that it had none. */
static void source_call_take_off(struct binadei_segments *segments,
                                 uint64_t bytes, binade_status status)
{
    count_released(segments, bytes);
    if (status == binadei_source_exhausted(segments))
        /* relaxed: advice. */
        atomic_fetch_add_explicit(&segments->refusal_count, 1,
                                  memory_order_relaxed);
}

/* Only the grower adds, so what fits here still fits below. */
static binade_status
source_call_reserve_limit(struct binadei_segments *segments, uint64_t bytes)
{
    uint64_t reserved = binadei_segments_reserved_bytes(segments);
    uint64_t limit = binadei_limit(segments);
    if (bytes > binadei_bytes_below(segments, limit)) {
        return binadei_fail(binadei_source_exhausted(segments),
                            "%llu bytes more would exceed the limit of %llu "
                            "bytes: %llu are reserved",
                            (unsigned long long)bytes,
                            (unsigned long long)limit,
                            (unsigned long long)reserved);
    }
    count_reserved(segments, bytes);
    return BINADE_OK;
}

/* The message, unless the source is one of ours and made a better one. */
static binade_status
source_call_explain(const struct binadei_segments *segments,
                    binade_status status, const char *refused, uint64_t bytes)
{
    if (segments->source.flags & BINADEI_SOURCE_EXPLAINS)
        return status;
    return binadei_fail(status, "source '%s' failed to %s %llu bytes",
                        segments->source.name, refused,
                        (unsigned long long)bytes);
}

/* The memory went with its process, context or driver. */
bool binadei_source_is_gone(binade_status status)
{
    return status == BINADE_OK || status == BINADE_E_FORKED ||
           status == BINADE_E_DEINITIALIZED ||
           status == BINADE_E_CONTEXT_DESTROYED;
}

binade_status binadei_source_unmap(const struct binadei_segments *segments,
                                   struct binadei_segment *segment)
{
    const struct binadei_segment_info *info = &segment->info;
    const struct binadei_mapper *mapper = segments->mapper;
    if (!segment->is_mapped)
        return BINADE_OK;
    binade_status status =
        mapper->unmap(mapper->context, info->memory, info->memory_bytes);
    segment->is_mapped = status != BINADE_OK;
    return status;
}

static binade_status call_release(const struct binadei_segments *segments,
                                  struct binadei_segment *segment)
{
    const struct binadei_segment_info *info = &segment->info;
    const struct binadei_mapper *mapper = segments->mapper;
    if (!mapper)
        return segments->source.release(segments->source.context, info->memory,
                                        info->memory_bytes);
    binade_status status = binadei_source_unmap(segments, segment);
    return status == BINADE_OK
               ? mapper->destroy(mapper->context, segment->handle)
               : status;
}

binade_status binadei_source_release(struct binadei_segments *segments,
                                     struct binadei_segment *segment)
{
    const struct binadei_segment_info *info = &segment->info;
    if (segment->is_empty) {
        free(segment);
        return BINADE_OK;
    }
    binade_status status = call_release(segments, segment);
    if (binadei_source_is_gone(status)) {
        count_released(segments, info->memory_bytes);
        free(segment);
        return BINADE_OK;
    }
    binadei_log(
        BINADE_LOG_WARNING,
        "source '%s' does not take %llu bytes at 0x%llx back (%d); they "
        "are tried again",
        segments->source.name, (unsigned long long)info->memory_bytes,
        (unsigned long long)info->memory, (int)status);
    pthread_mutex_lock(&segments->lock);
    segment->next = segments->unreleased;
    segments->unreleased = segment;
    pthread_mutex_unlock(&segments->lock);
    return source_call_explain(segments, status, "release", info->memory_bytes);
}

binade_status binadei_source_release_refused(struct binadei_segments *segments,
                                             uint64_t *out_bytes)
{
    binade_status first = BINADE_OK;
    pthread_mutex_lock(&segments->lock);
    struct binadei_segment *refused = segments->unreleased;
    segments->unreleased = NULL;
    pthread_mutex_unlock(&segments->lock);
    while (refused) {
        struct binadei_segment *segment = refused;
        uint64_t bytes = segment->info.memory_bytes;
        refused = segment->next;
        binade_status status = binadei_source_release(segments, segment);
        if (status == BINADE_OK)
            *out_bytes += bytes;
        else if (first == BINADE_OK)
            first = status;
    }
    return first;
}

static bool overlaps(const struct binadei_segment *list,
                     const struct binadei_segment_info *info)
{
    for (; list; list = list->next)
        if (info->memory < list->info.memory + list->info.memory_bytes &&
            list->info.memory < info->memory + info->memory_bytes)
            return true;
    return false;
}

/* What is wrong with the memory, or NULL. Memory on its way back is no longer
 * ours, and the source may hand it out again before it returns. */
static const char *fault_of(struct binadei_segments *segments,
                            const struct binadei_segment_info *info)
{
    if (info->memory > BINADEI_ADDRESS_END - info->memory_bytes)
        return "is not within the 512 TiB that a device addresses";
    pthread_mutex_lock(&segments->lock);
    bool is_ours = overlaps(segments->listed, info) ||
                   overlaps(segments->unreleased, info);
    pthread_mutex_unlock(&segments->lock);
    return is_ours ? "overlaps memory that it returned before" : NULL;
}

static binade_status source_call_refuse(struct binadei_segments *segments,
                                        struct binadei_segment *segment,
                                        const char *fault)
{
    struct binadei_segment_info info = segment->info;
    /* First, as it may make a message of its own. */
    (void)binadei_source_release(segments, segment);
    return binadei_fail(
        BINADE_E_INVALID, "source '%s': its memory of %llu bytes at 0x%llx %s",
        segments->source.name, (unsigned long long)info.memory_bytes,
        (unsigned long long)info.memory, fault);
}

static void find_inside(struct binadei_segment_info *info)
{
    uint64_t end = info->memory + info->memory_bytes;
    info->address = (info->memory + BINADEI_PAGE_BYTES - 1) &
                    ~(binade_devptr)(BINADEI_PAGE_BYTES - 1);
    if (end > info->address)
        info->page_count =
            (uint32_t)((end - info->address) / BINADEI_PAGE_BYTES);
}

static binade_status call_reserve(struct binadei_segments *segments,
                                  struct binadei_segment_info *info)
{
    binade_status status = segments->source.reserve(
        segments->source.context, info->memory_bytes, &info->memory);
    if (status != BINADE_OK)
        return source_call_explain(segments, status, "reserve",
                                   info->memory_bytes);
    if (!info->memory)
        return binadei_fail(
            BINADE_E_INVALID, "source '%s' returned no address for %llu bytes",
            segments->source.name, (unsigned long long)info->memory_bytes);
    return BINADE_OK;
}

/* Within the limit. */
static binade_status source_call_reserve(struct binadei_segments *segments,
                                         struct binadei_segment_info *info)
{
    binade_status status =
        source_call_reserve_limit(segments, info->memory_bytes);
    if (status != BINADE_OK)
        return status;
    status = call_reserve(segments, info);
    if (status != BINADE_OK)
        source_call_take_off(segments, info->memory_bytes, status);
    return status;
}

static binade_status call_create(struct binadei_segments *segments,
                                 struct binadei_segment *segment)
{
    const struct binadei_mapper *mapper = segments->mapper;
    uint64_t size_bytes = segment->info.memory_bytes;
    binade_status status = source_call_reserve_limit(segments, size_bytes);
    if (status != BINADE_OK)
        return status;
    status = mapper->create(mapper->context, size_bytes, &segment->handle);
    if (status != BINADE_OK)
        source_call_take_off(segments, size_bytes, status);
    return status;
}

binade_status binadei_source_refill(struct binadei_segments *segments,
                                    struct binadei_segment *segment)
{
    return call_create(segments, segment);
}

static binade_status make_record(uint64_t size_bytes,
                                 struct binadei_segment **out)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory for the record of a segment");
    (*out)->info.memory_bytes = size_bytes;
    return BINADE_OK;
}

binade_status binadei_source_create(struct binadei_segments *segments,
                                    uint64_t size_bytes,
                                    struct binadei_segment **out)
{
    struct binadei_segment *segment;
    binade_status status = make_record(size_bytes, &segment);
    if (status != BINADE_OK)
        return status;
    segment->info.page_count = (uint32_t)(size_bytes / BINADEI_PAGE_BYTES);
    status = call_create(segments, segment);
    if (status == BINADE_OK)
        *out = segment;
    else
        free(segment);
    return status;
}

binade_status binadei_source_reserve(struct binadei_segments *segments,
                                     uint64_t size_bytes,
                                     struct binadei_segment **out)
{
    struct binadei_segment *segment;
    binade_status status = make_record(size_bytes, &segment);
    if (status != BINADE_OK)
        return status;
    status = source_call_reserve(segments, &segment->info);
    if (status != BINADE_OK) {
        free(segment);
        return status;
    }
    const char *fault = fault_of(segments, &segment->info);
    if (fault)
        return source_call_refuse(segments, segment, fault);
    find_inside(&segment->info);
    *out = segment;
    return BINADE_OK;
}
