/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Segments that stay although they are free: another process may use them, and
 * nothing but the program knows when that is over.
 */
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
    while (segment && !pin_has(segment, address))
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
