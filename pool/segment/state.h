/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The segments of a pool, for the files of this folder only.
 */
#ifndef BINADE_POOL_SEGMENT_STATE_H_
#define BINADE_POOL_SEGMENT_STATE_H_

#include <pthread.h>

#include "pool/base/atomics.h"
#include "pool/segment/segment.h"

/* Filled by the grower alone; once listed, read under the lock. */
struct binadei_segment {
    struct binadei_segment *next;
    struct binadei_segment_info info;
    uint64_t pin_count; /* the lock */
};

struct binadei_segments {
    /* Constant. */
    binade_source source;
    struct binadei_buddy *buddy;
    struct binadei_maps *maps; /* or NULL */
    uint32_t page_capacity;
    uint64_t limit_bytes;
    uint64_t watermark_bytes;
    bool is_limited;
    uint64_t first_bytes;     /* of any segment, if it is to be had */
    uint64_t largest_bytes;   /* of segments that requests share */
    size_t granularity_bytes; /* at least a page */

    /* Edge: none; relaxed, a sum that nothing hangs on. The grower adds before
     * it asks the source; who releases takes off afterwards. */
    binadei_atomic_word reserved_bytes;

    pthread_mutex_t lock;
    pthread_cond_t grown;

    /* Under the lock. */
    struct binadei_segment *listed;     /* by first page */
    struct binadei_segment *unreleased; /* refused by the source */
    uint64_t listed_bytes;
    uint64_t peak_bytes; /* of reserved_bytes */
    uint64_t grow_count;
    uint64_t failed_grow_count;
    uint64_t trim_count;
    bool is_growing;

    /* The grower's, which set is_growing. */
    bool is_padding; /* the source has returned unaligned memory before */

    struct binadei_lookup lookup;
};

/* fitted.c: instead of `pages` for a block of so many bytes, as many as end where
 * a block of that length ends, if the limit is to be used up. `left`: pages that
 * it leaves room for. */
uint64_t binadei_fitted_pages(const struct binadei_segments *segments,
                              uint64_t block_bytes, uint64_t pages,
                              uint64_t left);

/* best_gap.c: gaps between listed segments, border pages left out; lock held.
 *  */

/* The longest gap, in pages. */
uint32_t binadei_longest_gap(const struct binadei_segments *segments);
/* The shortest gap that holds `page_count`, lowest first; there must be one. */
binadei_page binadei_best_gap(const struct binadei_segments *segments,
                              uint32_t page_count);

/* source_call.c: talks to the source; no lock held. */

/* Asks for `size_bytes`, within the limit, and refuses what cannot be used.
 * The new segment has `address` and `page_count` of the aligned inside, which
 * may be 0, and no place yet. Only the grower calls it. */
BINADE_MUST_USE binade_status
binadei_source_reserve(struct binadei_segments *segments, uint64_t size_bytes,
                       struct binadei_segment **out);
/* Gives the memory back and ends the segment. If the source refuses, keeps it
 * on the list of the unreleased and returns what the source said. */
binade_status binadei_source_release(struct binadei_segments *segments,
                                     struct binadei_segment *segment);
/* Tries all that the source refused before once more. Adds to `out_bytes` what
 * it took back; BINADE_OK or the first refusal. */
binade_status binadei_source_release_refused(struct binadei_segments *segments,
                                             uint64_t *out_bytes);
/* What an exhausted limit or offset space is called for this source. */
binade_status binadei_source_exhausted(const struct binadei_segments *segments);

#endif
