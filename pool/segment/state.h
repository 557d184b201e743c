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
    uint64_t pin_count;  /* the lock */
    uint64_t hold_count; /* of these: by a program; the lock */
    /* Of mapped memory. */
    uint64_t handle;
    bool is_mapped; /* at its address */
    bool is_held;   /* a holder has its pages, which are in no map */
    bool is_away;   /* by its holder's wish nothing is mapped there, and
                          * nobody may pin it; written under the lock */
    bool is_empty;  /* there is no handle, and no byte counts as reserved;
                          * the lock */
    bool is_told;   /* who watches knows it: it is listed, or about to be, and
                          * not away; the grower, or who took it off the list */
    uint32_t left_count; /* places that it left and is mapped at still; the lock
                          */
    /* Of such a place: what left it, and the epoch of the contexts after which
     * nothing uses it. */
    struct binadei_segment *of;
    uint64_t over_at;
};

struct binadei_segments {
    /* Constant. */
    binade_source source;
    const struct binadei_mapper *mapper; /* or NULL */
    struct binadei_buddy *buddy;
    struct binadei_maps *maps; /* or NULL */
    uint32_t page_capacity;
    /* Edge: none; relaxed. Written by the grower; others may see it late. */
    _Atomic uint64_t limit_bytes;
    uint64_t watermark_bytes;
    bool is_limited;
    uint64_t first_bytes;     /* of any segment, if it is to be had */
    uint64_t largest_bytes;   /* of segments that requests share */
    size_t granularity_bytes; /* at least a page */

    /* Edge: none; relaxed, a sum that nothing hangs on. The grower adds before
     * it asks the source; who releases takes off afterwards. */
    binadei_atomic_word reserved_bytes;
    /* Edge: none; relaxed, advice: times that the source had no memory. */
    _Atomic uint64_t refusal_count;

    pthread_mutex_t lock;
    pthread_cond_t grown;

    /* Under the lock. */
    struct binadei_segment *listed;     /* by first page */
    struct binadei_segment *unreleased; /* refused by the source */
    struct binadei_segment *left; /* places that handles left, by first page */
    uint64_t listed_bytes;
    uint64_t peak_bytes; /* of reserved_bytes */
    uint64_t next_id;
    uint64_t grow_count; /* a move is none */
    uint64_t failed_grow_count;
    uint64_t trim_count;
    uint64_t move_count;
    uint64_t moved_bytes;
    uint64_t left_pages;
    uint64_t empty_bytes; /* of segments without a handle */
    bool is_growing;
    uint32_t watch_count;  /* watchers, and those about to be */
    uint32_t trim_running; /* trims that are no growers: nobody watches */
    uint64_t last_watch;   /* id; 0: nobody has watched */

    /* The grower's, which set is_growing. */
    struct binadei_watcher *watchers; /* in the order in which they began */
    bool is_padding; /* the source has returned unaligned memory before */
    /* Where page 0 is, of so many pages; 0: nothing was mapped yet. */
    binade_devptr base;
    uint32_t base_pages;
    uint64_t peers; /* ordinals of devices that may access it, a bit each */
    uint64_t moved_at_growth; /* `moved_bytes` when it created a handle last */
    uint64_t grown_at_ns;     /* the time then */
    uint64_t moving_ns;       /* that moves took since */

    struct binadei_lookup lookup;
};

static inline uint64_t binadei_limit(const struct binadei_segments *segments)
{
    return atomic_load_explicit(&segments->limit_bytes, memory_order_relaxed);
}

/* What may be reserved up to so much; a limit may be below what is reserved. */
static inline uint64_t
binadei_bytes_below(const struct binadei_segments *segments, uint64_t bytes)
{
    uint64_t reserved = binadei_segments_reserved_bytes(segments);
    return reserved < bytes ? bytes - reserved : 0;
}

/* list.c */

/* Until nobody grows; lock held. */
void binadei_await_grower(struct binadei_segments *segments);
/* Makes the caller the one thread that grows, or ends that; trims are growers too
 * where memory is mapped, as the place of a handle is taken until it is unmapped, or
 * where somebody watches. No lock held; waits. */
void binadei_grower_begin(struct binadei_segments *segments);
void binadei_grower_end(struct binadei_segments *segments);
/* The end alone; lock held. */
void binadei_let_others_grow(struct binadei_segments *segments);
/* Into its place on a list by first page; lock held. */
void binadei_segment_insert(struct binadei_segment **list,
                            struct binadei_segment *fresh);
/* Notes a segment that was announced and has its place in the list and in the
 * look-up, and frees its pages last: a thread that takes one finds its address.
 * They are done, or in the fresh map of `own`, or the holder's. Lock held.
 * BINADE_OK, or BINADE_E_NO_HOST_MEMORY: nothing has changed. */
binade_status binadei_segment_publish(struct binadei_segments *segments,
                                      struct binadei_segment *segment,
                                      struct binadei_maps *own);
/* Off the list and the look-up, of pages that were claimed; lock held. */
struct binadei_segment *
binadei_segment_unlist(struct binadei_segments *segments,
                       struct binadei_segment **at);

/* watch.c; by the grower, no lock held. */

/* Gives a segment its id, and tells that it is there: before its pages are free. */
void binadei_segment_announce(struct binadei_segments *segments,
                              struct binadei_segment *segment);
/* Tells that it goes, if it was announced: its pages are nobody's, and its memory
 * is there still. Also by a trim that is no grower: then nobody watches. */
void binadei_segment_retract(struct binadei_segments *segments,
                             struct binadei_segment *segment);
/* The end of them all, without a word. */
void binadei_watchers_free(struct binadei_segments *segments);

/* move.c: as binadei_segments_unmap_left(), of so many places at most; by the
 * grower. BINADE_OK, or the first refusal: what was refused is a place that is
 * waited for still. */
binade_status binadei_unmap_left(struct binadei_segments *segments,
                                 uint64_t passed_epoch, uint32_t most);
/* extend.c: before mapped memory is put anywhere; addresses for so many pages in a
 * row at least. */
BINADE_MUST_USE binade_status
binadei_reserve_addresses(struct binadei_segments *segments, uint32_t needed);
/* extend.c: mapped memory for what is wanted; by the grower, no lock held. What
 * was mapped before a failure stays. */
BINADE_MUST_USE binade_status
binadei_extend(struct binadei_segments *segments,
               const struct binadei_extension *extension);
/* So many pages more, wherever; the same. */
BINADE_MUST_USE binade_status
binadei_extend_by(struct binadei_segments *segments, uint32_t page_count);
/* fitted.c: instead of `pages` for a block of so many bytes, as many as end where
 * a block of that length ends, if the limit is to be used up. `left`: pages that
 * it leaves room for. */
uint64_t binadei_fitted_pages(const struct binadei_segments *segments,
                              uint64_t block_bytes, uint64_t pages,
                              uint64_t left);

/* place.c: gaps between listed segments, border pages left out; lock held. */

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
/* Whether the memory went with its process, context or driver. */
bool binadei_source_is_gone(binade_status status);
/* Unmaps a handle; of other memory it does nothing. BINADE_OK, or what the driver
 * said: it is mapped still. */
binade_status binadei_source_unmap(const struct binadei_segments *segments,
                                   struct binadei_segment *segment);
/* Tries all that the source refused before once more. Adds to `out_bytes` what
 * it took back; BINADE_OK or the first refusal. */
binade_status binadei_source_release_refused(struct binadei_segments *segments,
                                             uint64_t *out_bytes);
/* A new handle, within the limit, which is mapped nowhere yet. Only the grower
 * calls it. */
BINADE_MUST_USE binade_status
binadei_source_create(struct binadei_segments *segments, uint64_t size_bytes,
                      struct binadei_segment **out);
/* A handle for a segment that has none, within the limit; the same. */
BINADE_MUST_USE binade_status binadei_source_refill(
    struct binadei_segments *segments, struct binadei_segment *segment);
/* What an exhausted limit or offset space is called for this source. */
binade_status binadei_source_exhausted(const struct binadei_segments *segments);

#endif
