/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs of handles that another process maps as one: pinned together, and what
 * there is to say of each.
 */
#include <stdlib.h>

#include "pool/segment/state.h"

static bool run_has(const struct binadei_segment *segment,
                    binade_devptr address)
{
    const struct binadei_segment_info *info = &segment->info;
    return address >= info->address &&
           address - info->address <
               (uint64_t)info->page_count * BINADEI_PAGE_BYTES;
}

static binade_devptr run_end_of(const struct binadei_segment *segment)
{
    return segment->info.address +
           (uint64_t)segment->info.page_count * BINADEI_PAGE_BYTES;
}

/* The handle that has `address`, and how many there are from it to `end`. NULL:
 * there is a hole. Lock held. */
static struct binadei_segment *run_from(const struct binadei_segments *segments,
                                        binade_devptr address,
                                        binade_devptr end, size_t *out_count)
{
    struct binadei_segment *first = segments->listed;
    while (first && !run_has(first, address))
        first = first->next;
    const struct binadei_segment *last = first;
    *out_count = 1;
    while (last && run_end_of(last) < end) {
        binade_devptr next = run_end_of(last);
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
