/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The segments of a pool, for the files of this folder only.
 */
#ifndef MOIETY_POOL_SEGMENT_STATE_H_
#define MOIETY_POOL_SEGMENT_STATE_H_

#include <pthread.h>

#include "pool/base/atomics.h"
#include "pool/segment/segment.h"

/* Filled by the grower alone; once listed, read under the lock. */
struct moietyi_segment {
    struct moietyi_segment *next;
    struct moietyi_segment *previous; /* where it is listed */
    struct moietyi_segment_info info;
    uint64_t pin_count;  /* the lock */
    uint64_t hold_count; /* of these: by the program; the lock */
    /* Of mapped memory. */
    uint64_t handle;
    bool is_mapped; /* at its address */
    bool is_held;   /* a holder has its pages, which are in no heap */
    bool is_away;   /* by its holder's wish nothing is mapped there, and no
                     * thread may pin it; written under the lock */
    bool is_empty;  /* there is no handle, and no byte counts as reserved;
                          * the lock */
    bool is_fresh;  /* a refill that is under way has given it a handle */
    /* Of one that is held and not empty: a record for memory that has lost its place,
     * and that the driver does not take back. */
    struct moietyi_segment *spare;
    bool is_told; /* who watches knows it: it is listed, or about to be, and
                          * not away; the grower, or who took it off the list */
    uint32_t left_count; /* places that it left, or never served at, and is
                          * mapped at still; the lock */
    /* Of such a place: the handle that left it, and the epoch of the contexts
     * after which nothing uses it. */
    struct moietyi_segment *of;
    uint64_t over_at;
};

struct moietyi_segments {
    /* Constant. */
    moiety_source source;
    const struct moietyi_mapper *mapper; /* or NULL */
    moiety_source fallback;              /* of the mapper; no name: none */
    struct moietyi_space *space;
    uint32_t page_capacity;
    /* Edge: none; relaxed. Written by the grower; others may see it late. */
    _Atomic uint64_t limit_bytes;
    uint64_t watermark_bytes;
    bool is_limited;
    uint64_t first_bytes;     /* of any segment, if it is to be had */
    uint32_t handle_pages;    /* that a new handle may always have */
    uint64_t largest_bytes;   /* of segments that requests share */
    size_t granularity_bytes; /* at least a page */

    /* Edge: none; relaxed, a sum that orders nothing. The grower adds before it
     * asks the source; a release subtracts afterwards. */
    moietyi_atomic_word reserved_bytes;
    /* Edge: none; relaxed: written by the grower, and others may see it late. The
     * fallback has replaced the mapper. */
    atomic_bool has_fallen;
    /* Edge: none; relaxed, advice: times that the source had no memory. */
    _Atomic uint64_t refusal_count;

    pthread_mutex_t lock;
    pthread_cond_t grown;

    /* Under the lock. */
    struct moietyi_segment *listed;     /* by first page */
    struct moietyi_segment *unreleased; /* refused by the source */
    struct moietyi_segment *left;       /* places that handles left, by epoch */
    struct moietyi_segment *left_last;
    struct moietyi_segment **at_page; /* listed, by page; NULL: none */
    uint64_t *taken;    /* a bit for each page: a listed segment has it, or a
                         * handle is still mapped at it */
    uint32_t taken_end; /* no page from here on was ever taken */
    uint64_t listed_bytes;
    uint32_t listed_count;
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
    struct moietyi_watcher *watchers; /* in the order in which they began */
    bool is_padding; /* the source has returned unaligned memory before */
    /* Where page 0 is, of so many pages; 0: nothing was mapped yet. */
    moiety_devptr base;
    uint32_t base_pages;
    uint64_t peers; /* ordinals of devices that may access it, a bit each */
    int64_t move_credit;  /* moves that it may make; below 0: it made more */
    uint64_t taken_since; /* cuts for which it got no move yet */

    struct moietyi_lookup lookup;
};

/* Bytes that may still be reserved below so much; a limit may be below what is
 * reserved. */
static inline uint64_t
moietyi_bytes_below(const struct moietyi_segments *segments, uint64_t bytes)
{
    uint64_t reserved = moietyi_segments_reserved_bytes(segments);
    return reserved < bytes ? bytes - reserved : 0;
}

/* list.c */

/* Waits until no thread grows; lock held. */
void moietyi_await_grower(struct moietyi_segments *segments);
/* Makes the caller the one thread that grows, or ends that. Trims are growers
 * too if memory is mapped, because a place is taken until it is unmapped, or if
 * there is a watcher. No lock held; waits. */
void moietyi_grower_begin(struct moietyi_segments *segments);
void moietyi_grower_end(struct moietyi_segments *segments);
/* Only the end; lock held. */
void moietyi_let_others_grow(struct moietyi_segments *segments);
/* Lists an announced segment that has its place, also in the look-up, and frees
 * its pages last, so that a thread that takes one finds its address. The pages
 * are done, or fresh in `own`, or the holder's. Lock held. MOIETY_OK, or
 * MOIETY_E_NO_HOST_MEMORY: nothing has changed. */
moiety_status moietyi_segment_publish(struct moietyi_segments *segments,
                                      struct moietyi_segment *segment,
                                      struct moietyi_heap *own);
/* Takes it off the list and the look-up; its pages were claimed; lock held. */
void moietyi_segment_unlist(struct moietyi_segments *segments,
                            struct moietyi_segment *segment);

/* list.c: which pages are taken, and by what; lock held. */

/* MOIETY_OK, or MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status
moietyi_pages_init(struct moietyi_segments *segments);
void moietyi_pages_fini(struct moietyi_segments *segments);
/* Marks pages as taken, by a segment (`listed`) or, if that is NULL, by a place
 * that a handle left; or as not taken. */
void moietyi_pages_set(struct moietyi_segments *segments,
                       const struct moietyi_segment_info *info,
                       struct moietyi_segment *listed, bool are_taken);
/* The first listed segment that begins at page `from` or behind it, or NULL. */
struct moietyi_segment *
moietyi_segment_from(const struct moietyi_segments *segments, uint32_t from);
/* Pages that are not taken. */
struct moietyi_hole {
    uint32_t first;
    uint32_t end;
};
/* The first from page `from` on, up to `capacity`; false: there is none. */
bool moietyi_next_hole(const struct moietyi_segments *segments, uint32_t from,
                       uint32_t capacity, struct moietyi_hole *out);
bool moietyi_page_is_taken(const struct moietyi_segments *segments,
                           uint32_t page);

/* watch.c; by the grower, no lock held. */

/* Gives a segment its id, and notifies watchers: before its pages are free. */
void moietyi_segment_announce(struct moietyi_segments *segments,
                              struct moietyi_segment *segment);
/* Notifies watchers that it is removed, if it was announced: its pages belong
 * to nobody, and its memory still exists. Also by a trim that is no grower:
 * then there is no watcher. */
void moietyi_segment_retract(struct moietyi_segments *segments,
                             struct moietyi_segment *segment);
/* Ends all watchers without a call. */
void moietyi_watchers_free(struct moietyi_segments *segments);

/* move.c: as moietyi_segments_unmap_left(), of so many places at most; by the
 * grower. MOIETY_OK, or the first refusal: a place that was refused waits
 * again. */
moiety_status moietyi_unmap_left(struct moietyi_segments *segments,
                                 uint64_t passed_epoch, uint32_t most);
/* extend.c: maps memory for the extension; by the grower, no lock held. Memory
 * mapped before a failure stays. */
MOIETY_MUST_USE moiety_status
moietyi_extend(struct moietyi_segments *segments,
               const struct moietyi_extension *extension);
/* place.c: gaps between listed segments, border pages left out; lock held. */

/* The longest gap, in pages. */
uint32_t moietyi_longest_gap(const struct moietyi_segments *segments);
/* The shortest gap that holds `page_count`, lowest first; there must be one. */
moietyi_page moietyi_best_gap(const struct moietyi_segments *segments,
                              uint32_t page_count);

/* source_call.c: calls the source; no lock held. */

/* Asks for `size_bytes`, within the limit, and refuses unusable memory. The new
 * segment has `address` and `page_count` of the aligned inside, which may be 0,
 * and no place yet. Only the grower calls it. */
MOIETY_MUST_USE moiety_status
moietyi_source_reserve(struct moietyi_segments *segments, uint64_t size_bytes,
                       struct moietyi_segment **out);
/* Frees a record. */
void moietyi_segment_free(struct moietyi_segment *segment);
/* Gives the memory back and ends the segment. If the source refuses, keeps it
 * on the list of the unreleased and returns the source's error. */
moiety_status moietyi_source_release(struct moietyi_segments *segments,
                                     struct moietyi_segment *segment);
/* Whether the memory went with its process, context or driver. */
bool moietyi_source_is_gone(moiety_status status);
/* Unmaps a handle; does nothing for other memory. MOIETY_OK, or the driver's
 * error: it is still mapped. */
moiety_status moietyi_source_unmap(const struct moietyi_segments *segments,
                                   struct moietyi_segment *segment);
/* Tries all that the source refused before once more. Adds the bytes that it
 * took back to `out_bytes`; MOIETY_OK or the first refusal. */
moiety_status moietyi_source_release_refused(struct moietyi_segments *segments,
                                             uint64_t *out_bytes);
/* A new handle, within the limit, which is mapped nowhere yet. Only the grower
 * calls it. */
MOIETY_MUST_USE moiety_status
moietyi_source_create(struct moietyi_segments *segments, uint64_t size_bytes,
                      struct moietyi_segment **out);
/* A handle for a segment that has none, within the limit; the same. */
MOIETY_MUST_USE moiety_status moietyi_source_refill(
    struct moietyi_segments *segments, struct moietyi_segment *segment);
/* Whether the limit lets so much more be reserved. */
MOIETY_MUST_USE moiety_status moietyi_source_check_limit(
    const struct moietyi_segments *segments, uint64_t bytes);
/* The device has less than the request: treated as if the driver had
 * refused. */
void moietyi_source_note_refusal(struct moietyi_segments *segments);
/* The status of an exhausted limit or offset space for this source. */
moiety_status moietyi_source_exhausted(const struct moietyi_segments *segments);

#endif
