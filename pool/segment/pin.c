/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Segments that stay although they are free: another process may use them, or a
 * transport has registered them, and nothing but the program knows when that is
 * over.
 */
#include <stdlib.h>

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

static binade_devptr memory_end(const struct binadei_segment *segment)
{
    return segment->info.memory + segment->info.memory_bytes;
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

/* --- runs of handles that another process maps as one --- */

/* The handle that has `address`, and how many there are from it to `end`. NULL:
 * there is a hole. Lock held. */
static struct binadei_segment *run_from(const struct binadei_segments *segments,
                                        binade_devptr address,
                                        binade_devptr end, size_t *out_count)
{
    struct binadei_segment *first = segments->listed;
    while (first && !pin_has(first, address))
        first = first->next;
    const struct binadei_segment *last = first;
    *out_count = 1;
    while (last && memory_end(last) < end) {
        binade_devptr next = memory_end(last);
        last = last->next;
        if (last && last->info.address != next)
            last = NULL;
        ++*out_count;
    }
    return last ? first : NULL;
}

static void run_pin(struct binadei_segment *first, struct binadei_pieces *out)
{
    struct binadei_segment *at = first;
    for (size_t i = 0; i < out->count; i++, at = at->next) {
        at->pin_count++;
        out->pieces[i] = (struct binadei_piece){at->info.id, at->handle,
                                                at->info.memory_bytes};
        out->size_bytes += at->info.memory_bytes;
    }
}

binade_status binadei_segments_pin_run(struct binadei_segments *segments,
                                       binade_devptr address, binade_devptr end,
                                       struct binadei_pieces *out)
{
    size_t count;
    binade_status status = BINADE_E_INVALID;
    pthread_mutex_lock(&segments->lock);
    struct binadei_segment *first = run_from(segments, address, end, &count);
    if (first) {
        *out = (struct binadei_pieces){
            .address = first->info.address,
            .pieces = calloc(count, sizeof(struct binadei_piece)),
            .count = count};
        status = out->pieces ? BINADE_OK : BINADE_E_NO_HOST_MEMORY;
    }
    if (status == BINADE_OK)
        run_pin(first, out);
    pthread_mutex_unlock(&segments->lock);
    return status;
}

static void run_repin(struct binadei_segments *segments, binade_devptr address,
                      uint64_t size_bytes, bool is_more)
{
    pthread_mutex_lock(&segments->lock);
    for (struct binadei_segment *at = segments->listed; at; at = at->next) {
        if (at->info.address < address ||
            at->info.address - address >= size_bytes)
            continue;
        if (is_more)
            at->pin_count++;
        else
            at->pin_count--;
    }
    pthread_mutex_unlock(&segments->lock);
}

void binadei_segments_pin_again(struct binadei_segments *segments,
                                binade_devptr address, uint64_t size_bytes)
{
    run_repin(segments, address, size_bytes, true);
}

void binadei_segments_unpin_run(struct binadei_segments *segments,
                                binade_devptr address, uint64_t size_bytes)
{
    run_repin(segments, address, size_bytes, false);
}
