/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Segments that stay although they are free: another process may use them, or a
 * transport has registered them, and only the program knows when that is over.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/segment/state.h"

static bool pin_has(const struct moietyi_segment *segment,
                    moiety_devptr address)
{
    const struct moietyi_segment_info *info = &segment->info;
    return address >= info->address &&
           address - info->address <
               (uint64_t)info->page_count * MOIETYI_PAGE_BYTES;
}

static moiety_devptr memory_end(const struct moietyi_segment *segment)
{
    return segment->info.memory + segment->info.memory_bytes;
}

bool moietyi_segments_pin(struct moietyi_segments *segments,
                          moiety_devptr address,
                          struct moietyi_segment_info *out)
{
    pthread_mutex_lock(&segments->lock);
    struct moietyi_segment *segment = segments->listed;
    while (segment && (!pin_has(segment, address) || segment->is_away))
        segment = segment->next;
    if (segment) {
        segment->pin_count++;
        *out = segment->info;
    }
    pthread_mutex_unlock(&segments->lock);
    return segment != NULL;
}

void moietyi_segments_unpin(struct moietyi_segments *segments, uint64_t id)
{
    pthread_mutex_lock(&segments->lock);
    struct moietyi_segment *segment = segments->listed;
    while (segment->info.id != id)
        segment = segment->next;
    segment->pin_count--;
    pthread_mutex_unlock(&segments->lock);
}

/* Lock held; addresses are not in the list's order. */
static struct moietyi_segment *find_at(const struct moietyi_segments *segments,
                                       moiety_devptr address)
{
    struct moietyi_segment *found = NULL;
    for (struct moietyi_segment *at = segments->listed; at; at = at->next)
        if (memory_end(at) > address &&
            (!found || at->info.memory < found->info.memory))
            found = at;
    return found;
}

bool moietyi_segments_find(struct moietyi_segments *segments,
                           moiety_devptr address,
                           struct moietyi_segment_info *out,
                           uint64_t *out_hold_count)
{
    pthread_mutex_lock(&segments->lock);
    /* A segment that a grower moves or trims is on no list for a moment. */
    moietyi_await_grower(segments);
    const struct moietyi_segment *found = find_at(segments, address);
    if (found) {
        *out = found->info;
        *out_hold_count = found->hold_count;
    }
    pthread_mutex_unlock(&segments->lock);
    return found != NULL;
}

/* Lock held. Whether all of a range is in segments, which are all held. */
static moiety_status check_held_range(const struct moietyi_segments *segments,
                                      moiety_devptr address,
                                      uint64_t size_bytes, bool are_held)
{
    moiety_devptr end = address + size_bytes;
    if (end < address)
        return moietyi_fail(MOIETY_E_FOREIGN,
                            "%llu bytes from 0x%llx on are no addresses",
                            (unsigned long long)size_bytes, address);
    for (moiety_devptr at = address; at < end;) {
        const struct moietyi_segment *segment = find_at(segments, at);
        if (!segment || segment->info.memory > at)
            return moietyi_fail(MOIETY_E_FOREIGN,
                                "0x%llx is in no segment of the pool", at);
        if (!are_held && segment->is_away)
            return moietyi_fail(MOIETY_E_PAUSED,
                                "the segment at 0x%llx is paused",
                                segment->info.memory);
        if (are_held && !segment->hold_count)
            return moietyi_fail(MOIETY_E_INVALID,
                                "the segment at 0x%llx is not held",
                                segment->info.memory);
        at = memory_end(segment);
    }
    return MOIETY_OK;
}

/* Lock held. */
static void change_holds(struct moietyi_segments *segments,
                         moiety_devptr address, uint64_t size_bytes,
                         bool is_hold)
{
    for (moiety_devptr at = address; at < address + size_bytes;) {
        struct moietyi_segment *segment = find_at(segments, at);
        segment->hold_count = segment->hold_count + is_hold - !is_hold;
        segment->pin_count = segment->pin_count + is_hold - !is_hold;
        at = memory_end(segment);
    }
}

moiety_status moietyi_segments_hold_range(struct moietyi_segments *segments,
                                          moiety_devptr address,
                                          uint64_t size_bytes, bool is_hold)
{
    pthread_mutex_lock(&segments->lock);
    moiety_status status =
        check_held_range(segments, address, size_bytes, !is_hold);
    if (status == MOIETY_OK)
        change_holds(segments, address, size_bytes, is_hold);
    pthread_mutex_unlock(&segments->lock);
    return status;
}

/* --- runs of handles that another process maps as one --- */

/* The handle that has `address`, and how many there are from it to `end`. NULL:
 * there is a hole. Lock held. */
static struct moietyi_segment *run_from(const struct moietyi_segments *segments,
                                        moiety_devptr address,
                                        moiety_devptr end, size_t *out_count)
{
    struct moietyi_segment *first = segments->listed;
    while (first && !pin_has(first, address))
        first = first->next;
    const struct moietyi_segment *last = first;
    *out_count = 1;
    while (last && memory_end(last) < end) {
        moiety_devptr next = memory_end(last);
        last = last->next;
        if (last && last->info.address != next)
            last = NULL;
        ++*out_count;
    }
    return last ? first : NULL;
}

static void run_pin(struct moietyi_segment *first, struct moietyi_pieces *out)
{
    struct moietyi_segment *at = first;
    for (size_t i = 0; i < out->count; i++, at = at->next) {
        at->pin_count++;
        out->pieces[i] = (struct moietyi_piece){at->info.id, at->handle,
                                                at->info.memory_bytes};
        out->size_bytes += at->info.memory_bytes;
    }
}

moiety_status moietyi_segments_pin_run(struct moietyi_segments *segments,
                                       moiety_devptr address, moiety_devptr end,
                                       struct moietyi_pieces *out)
{
    size_t count;
    moiety_status status = MOIETY_E_INVALID;
    pthread_mutex_lock(&segments->lock);
    struct moietyi_segment *first = run_from(segments, address, end, &count);
    if (first) {
        *out = (struct moietyi_pieces){
            .address = first->info.address,
            .pieces = calloc(count, sizeof(struct moietyi_piece)),
            .count = count};
        status = out->pieces ? MOIETY_OK : MOIETY_E_NO_HOST_MEMORY;
    }
    if (status == MOIETY_OK)
        run_pin(first, out);
    pthread_mutex_unlock(&segments->lock);
    return status;
}

void moietyi_segments_repin(struct moietyi_segments *segments,
                            moiety_devptr address, uint64_t size_bytes,
                            bool is_more)
{
    pthread_mutex_lock(&segments->lock);
    for (struct moietyi_segment *at = segments->listed; at; at = at->next)
        if (at->info.address >= address &&
            at->info.address - address < size_bytes)
            at->pin_count = at->pin_count + is_more - !is_more;
    pthread_mutex_unlock(&segments->lock);
}
