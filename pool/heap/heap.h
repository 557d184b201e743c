/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The heap of one stream: memory that was freed on it and that no other stream
 * may use yet. Free memory is in one heap only: a stream's, or DONE's. The heap
 * says who may take it, so splitting and merging need no event.
 *
 *   fresh    freed since the stream's epoch was closed
 *   ageing   freed before that; becomes done when the epoch's event has passed
 *
 * Memory goes from fresh to ageing to done and never back. Only the holder of the
 * stream's role (see pool/stream/epoch.h) calls close and drain.
 *
 * Progress: moietyi_give_some() waits for nobody. All other calls wait for the
 * holder of the heap's lock.
 */
#ifndef MOIETY_POOL_HEAP_HEAP_H_
#define MOIETY_POOL_HEAP_HEAP_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/heap/space.h"
#include "pool/heap/units.h"

struct moietyi_heap;

enum moietyi_age { MOIETYI_FRESH, MOIETYI_AGEING, MOIETYI_AGES };

/* An empty heap of `space`, which outlives it; NULL: no memory. */
struct moietyi_heap *moietyi_heap_create(struct moietyi_space *space);
/* Memory that is still in it is lost; no other call is under way. NULL is
 * fine. */
void moietyi_heap_destroy(struct moietyi_heap *heap);

/* Makes `grains` grains, at least one, from `start` on fresh. Any thread. False, as
 * of moietyi_space_give(): they are free already. */
bool moietyi_heap_give(struct moietyi_heap *heap, moietyi_grain start,
                       uint64_t grains);

/* The same for several intervals by one call; they become done if `heap` is
 * NULL. It never waits: if another thread has the lock, that thread frees them,
 * with records that `records` of the caller has for that. Returns how many were
 * seen to be free already. */
struct moietyi_interval {
    uint64_t start;
    uint64_t grains;
};
struct moietyi_records {
    uint32_t first; /* 0: it has none */
};
uint32_t moietyi_give_some(struct moietyi_space *space,
                           struct moietyi_heap *heap,
                           const struct moietyi_interval *intervals,
                           uint32_t count, struct moietyi_records *records);
/* Gives the records of `records` back. */
void moietyi_records_leave(struct moietyi_space *space,
                           struct moietyi_records *records);

/* Fresh memory becomes ageing; so does ageing memory that still waits for no
 * event. Here and below: by the holder of the stream's role; returns the grains
 * that were moved. */
uint64_t moietyi_heap_close(struct moietyi_heap *heap);
/* Makes memory of one age done. */
uint64_t moietyi_heap_drain(struct moietyi_heap *heap, enum moietyi_age age);
/* Makes memory of one age fresh in `to`, whose stream is ordered behind this
 * one's from now on. */
uint64_t moietyi_heap_hand(struct moietyi_heap *heap, enum moietyi_age age,
                           struct moietyi_heap *to);

/* Grains of one age: never below the true number; exact at rest. 0 for NULL. */
uint64_t moietyi_heap_grains(const struct moietyi_heap *heap,
                             enum moietyi_age age);
/* Whether there are any. */
bool moietyi_heap_has_any(const struct moietyi_heap *heap);
/* How many grains are in it from `start` on, up to `end`, without a gap; exact
 * at rest. */
uint64_t moietyi_heap_free_from(const struct moietyi_heap *heap,
                                moietyi_grain start, moietyi_grain end);

/* Where to search: in the heap of a stream and in DONE's, or in one of them. */
struct moietyi_view {
    struct moietyi_space *space;
    struct moietyi_heap *heap; /* NULL: done memory only */
    bool is_own_only;          /* the stream's heap only */
};

/* Takes one interval of any length that starts at a multiple of `alignment`
 * grains (a power of two up to a page): a good fit among the extents that it
 * looks at, or several extents that touch. */
bool moietyi_view_take(const struct moietyi_view *view, uint64_t grains,
                       uint32_t alignment, moietyi_grain *out);
/* As moietyi_view_take(), but looks at every extent: false means that there was
 * none while the call had the locks. */
bool moietyi_view_take_best(const struct moietyi_view *view, uint64_t grains,
                            uint32_t alignment, moietyi_grain *out);
/* Takes up to `what->count` intervals of at most 1 MiB by one call, where they
 * fit best: from the stream or from DONE, as `*out_is_done` says; if neither
 * has one, a single one that is put together from both. Returns how many. */
uint32_t moietyi_view_take_some(const struct moietyi_view *view,
                                const struct moietyi_take *what,
                                bool *out_is_done, moietyi_grain *out);
/* Takes exactly this interval; false: a part of it is not free there. */
bool moietyi_view_claim(const struct moietyi_view *view, moietyi_grain start,
                        uint64_t grains);

/* Visits the free intervals of a stream, or of DONE if `heap` is NULL, the
 * longest first: some by each hold of the heap's lock. */
#define MOIETYI_LONG_AT_ONCE 32U
struct moietyi_long_cursor {
    struct moietyi_space *space;
    struct moietyi_heap *heap;
    uint64_t least; /* in grains: about as long they are at least */
    /* 0 at the beginning. */
    uint32_t age;
    uint32_t bin;
    uint32_t seen; /* of the bin */
    uint32_t last; /* of these: the number of its extent */
    uint32_t at;   /* in the list */
    uint32_t count;
    struct moietyi_interval list[MOIETYI_LONG_AT_ONCE];
};
/* The next one; NULL at the end. A hint: some come and go meanwhile. */
const struct moietyi_interval *
moietyi_long_next(struct moietyi_long_cursor *cursor);

/* How often something was cut out of the heaps of the view since the last call:
 * a block, or several in a row. */
uint64_t moietyi_view_forget_taken(const struct moietyi_view *view);

/* How many grains are free in the heaps of the view from `start` on, up to
 * `end`; and in front of `end`, down to `start`. Exact while no thread takes or
 * frees any. */
uint64_t moietyi_view_free_from(const struct moietyi_view *view,
                                moietyi_grain start, moietyi_grain end);
uint64_t moietyi_view_free_before(const struct moietyi_view *view,
                                  moietyi_grain start, moietyi_grain end);

/* At rest: checks the numbered invariants of `count` streams' heaps, all of one
 * space; NULL among them is fine. NULL, or which one is broken; `out_at` is then
 * the grain where. */
const char *moietyi_heap_check(const struct moietyi_heap *const *heap,
                               uint32_t count, moietyi_grain *out_at);

#endif
