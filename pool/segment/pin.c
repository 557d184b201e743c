/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Segments that stay although they are free: another process may use them, or a
 * transport has registered them, and nothing but the program knows when that is
 * over.
 */
#include "pool/base/failure.h"
#include "pool/segment/state.h"

static bool pin_has(const struct binadei_segment *segment,
                    binade_devptr address)
{
    const struct binadei_segment_info *info = &segment->info;
    return address >= info->address &&
           address - info->address <
               (uint64_t)info->page_count * BINADEI_PAGE_BYTES;
}

bool binadei_segments_pin(struct binadei_segments *segments,
                          binade_devptr address,
                          struct binadei_segment_info *out)
{
    pthread_mutex_lock(&segments->lock);
    struct binadei_segment *segment = segments->listed;
    while (segment && (!pin_has(segment, address) || segment->is_away))
        segment = segment->next;
    if (segment) {
        segment->pin_count++;
        *out = segment->info;
    }
    pthread_mutex_unlock(&segments->lock);
    return segment != NULL;
}

void binadei_segments_unpin(struct binadei_segments *segments, uint64_t id)
{
    pthread_mutex_lock(&segments->lock);
    struct binadei_segment *segment = segments->listed;
    while (segment->info.id != id)
        segment = segment->next;
    segment->pin_count--;
    pthread_mutex_unlock(&segments->lock);
}

static binade_devptr memory_end(const struct binadei_segment *segment)
{
    return segment->info.memory + segment->info.memory_bytes;
}

/* Lock held; addresses are not in the list's order. */
static struct binadei_segment *find_at(const struct binadei_segments *segments,
                                       binade_devptr address)
{
    struct binadei_segment *found = NULL;
    for (struct binadei_segment *at = segments->listed; at; at = at->next)
        if (memory_end(at) > address &&
            (!found || at->info.memory < found->info.memory))
            found = at;
    return found;
}

bool binadei_segments_find(struct binadei_segments *segments,
                           binade_devptr address,
                           struct binadei_segment_info *out,
                           uint64_t *out_hold_count)
{
    pthread_mutex_lock(&segments->lock);
    /* What a grower moves or trims is on no list for a moment. */
    binadei_await_grower(segments);
    const struct binadei_segment *found = find_at(segments, address);
    if (found) {
        *out = found->info;
        *out_hold_count = found->hold_count;
    }
    pthread_mutex_unlock(&segments->lock);
    return found != NULL;
}

/* Lock held. Whether all of a range is in segments, which are all held. */
static binade_status check_held_range(const struct binadei_segments *segments,
                                      binade_devptr address,
                                      uint64_t size_bytes, bool are_held)
{
    binade_devptr end = address + size_bytes;
    if (end < address)
        return binadei_fail(BINADE_E_FOREIGN,
                            "%llu bytes from 0x%llx on are no addresses",
                            (unsigned long long)size_bytes, address);
    for (binade_devptr at = address; at < end;) {
        const struct binadei_segment *segment = find_at(segments, at);
        if (!segment || segment->info.memory > at)
            return binadei_fail(BINADE_E_FOREIGN,
                                "0x%llx is in no segment of the pool", at);
        if (!are_held && segment->is_away)
            return binadei_fail(BINADE_E_BUSY,
                                "the segment at 0x%llx is paused",
                                segment->info.memory);
        if (are_held && !segment->hold_count)
            return binadei_fail(BINADE_E_INVALID,
                                "the segment at 0x%llx is not held",
                                segment->info.memory);
        at = memory_end(segment);
    }
    return BINADE_OK;
}

/* Lock held. */
static void change_holds(struct binadei_segments *segments,
                         binade_devptr address, uint64_t size_bytes,
                         bool is_hold)
{
    for (binade_devptr at = address; at < address + size_bytes;) {
        struct binadei_segment *segment = find_at(segments, at);
        segment->hold_count = segment->hold_count + is_hold - !is_hold;
        segment->pin_count = segment->pin_count + is_hold - !is_hold;
        at = memory_end(segment);
    }
}

binade_status binadei_segments_hold_range(struct binadei_segments *segments,
                                          binade_devptr address,
                                          uint64_t size_bytes)
{
    pthread_mutex_lock(&segments->lock);
    binade_status status =
        check_held_range(segments, address, size_bytes, false);
    if (status == BINADE_OK)
        change_holds(segments, address, size_bytes, true);
    pthread_mutex_unlock(&segments->lock);
    return status;
}

binade_status binadei_segments_release_range(struct binadei_segments *segments,
                                             binade_devptr address,
                                             uint64_t size_bytes)
{
    pthread_mutex_lock(&segments->lock);
    binade_status status =
        check_held_range(segments, address, size_bytes, true);
    if (status == BINADE_OK)
        change_holds(segments, address, size_bytes, false);
    pthread_mutex_unlock(&segments->lock);
    return status;
}
