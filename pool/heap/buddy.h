/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The buddy: which parts of the pool's offset space are free. Offsets only; no
 * pointer is dereferenced and CUDA is not known here. docs/internals/buddy.md
 * explains the protocol; invariants.md beside it numbers what the verifier
 * checks.
 *
 * All memory goes back through one function, moietyi_buddy_give(), which is
 * also the undo of a claim that turned out too large: claim whole, give back
 * in part. Every claim and every step of a give is one compare-and-swap on one
 * word; a word holds no pointer, so there is no ABA.
 *
 * Progress: take and give are lock-free; what withdraws a segment's pages holds
 * the run lock.
 */
#ifndef MOIETY_POOL_HEAP_BUDDY_H_
#define MOIETY_POOL_HEAP_BUDDY_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/status.h"
#include "pool/heap/units.h"

/* Largest interval of moietyi_buddy_take(): 1 MiB. */
#define MOIETYI_TAKE_GRAINS_MAX 2048U

struct moietyi_buddy;

/* Pages that one searcher keeps to itself while there are others. */
#define MOIETYI_AFFINITY_PAGES 8U

/* Where one searcher looks first: pages that others leave to it while there
 * are other ones. Its owner alone reads and writes it; zero is "none yet". */
struct moietyi_affinity {
    uint32_t id;                                     /* its mark on its pages */
    uint32_t pages_plus_one[MOIETYI_AFFINITY_PAGES]; /* newest first, no gaps */
    uint64_t chunk_plus_one; /* the word it took from last stays open */
};

/* A buddy over `page_capacity` pages of offset space, none of them free yet.
 * Address space for its words is reserved; memory is used as pages come.
 * MOIETY_OK, MOIETY_E_INVALID (0 pages), MOIETY_E_TOO_LARGE (more than
 * MOIETYI_PAGES_MAX), MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_buddy_create(uint32_t page_capacity,
                                                   struct moietyi_buddy **out);
/* Before the first page: its tables ask for huge pages; see pool/base/table.h. For
 * a pool of MOIETYI_HUGE_LIMIT_BYTES or more: the tables of others fill few. */
#define MOIETYI_HUGE_LIMIT_BYTES (UINT64_C(2) << 30)
void moietyi_buddy_prefer_huge(struct moietyi_buddy *buddy);
/* No other call may be under way. */
void moietyi_buddy_destroy(struct moietyi_buddy *buddy);

/* Makes these pages known to searches, without any of them being free. False: no
 * host memory for what they need. Any thread. */
bool moietyi_buddy_cover(struct moietyi_buddy *buddy, moietyi_page first,
                         uint32_t page_count);
/* Makes `page_count` pages from `first` on free for the first time, or again
 * after they were withdrawn. Any thread; each page once. False: as above, and none
 * is free; never of pages that are covered. */
bool moietyi_buddy_add(struct moietyi_buddy *buddy, moietyi_page first,
                       uint32_t page_count);
/* Claims all these pages for good if all are free and merged; otherwise, and
 * where some were never added, changes nothing and returns false. */
bool moietyi_buddy_remove(struct moietyi_buddy *buddy, moietyi_page first,
                          uint32_t page_count);

/* What to take: `count` intervals of `grains` each. */
struct moietyi_take {
    uint32_t grains;    /* 1 to MOIETYI_TAKE_GRAINS_MAX */
    uint32_t count;     /* at least 1; fewer may come */
    uint32_t alignment; /* in grains, a power of two up to a page */
};

/* Takes up to `what->count` intervals and writes their starts. Returns how many
 * it got; 0 when the search found none, which under concurrency is no proof
 * that there is none. Longer ones: moietyi_view_take(). */
uint32_t moietyi_buddy_take(struct moietyi_buddy *buddy,
                            struct moietyi_affinity *affinity,
                            const struct moietyi_take *what,
                            moietyi_grain *out);

/* Gives back `grains` grains from `start` on: a whole interval, part of one, or
 * neighbours that were taken apart. False when a word that it changes says that
 * a part is free already; nothing is given of later pages then, nor of the part
 * in that word. That does not see all: what has merged since is free in
 * the word above, and the metadata byte must tell. `affinity` may be NULL. */
bool moietyi_buddy_give(struct moietyi_buddy *buddy,
                        const struct moietyi_affinity *affinity,
                        moietyi_grain start, uint64_t grains);

/* Leaves the pages that `affinity` marks to everybody, and closes what
 * hysteresis kept open for it; its owner calls it. */
void moietyi_buddy_drop_affinity(struct moietyi_buddy *buddy,
                                 struct moietyi_affinity *affinity);

/* Closes words that hysteresis left open, so that everything merges. */
void moietyi_buddy_trim(struct moietyi_buddy *buddy);

/* Free grains, and the longest free run of whole pages; exact at rest. */
uint64_t moietyi_buddy_free_grains(const struct moietyi_buddy *buddy);
/* How many grains are free from `start` on, up to `end`. */
uint64_t moietyi_buddy_free_from(const struct moietyi_buddy *buddy,
                                 moietyi_grain start, moietyi_grain end);
uint32_t moietyi_buddy_longest_page_run(const struct moietyi_buddy *buddy);
/* Bytes of the largest interval that could be taken, of whatever length; exact
 * at rest, if all was merged. */
uint64_t moietyi_buddy_largest_bytes(const struct moietyi_buddy *buddy);

/* The metadata byte of an interval's first grain: 0 where none starts. The
 * holder of the interval owns it. */
uint8_t moietyi_buddy_class(const struct moietyi_buddy *buddy,
                            moietyi_grain start);
/* The first from `start` on whose byte is not 0, up to `end`, which is none. */
moietyi_grain moietyi_buddy_next_class(const struct moietyi_buddy *buddy,
                                       moietyi_grain start, moietyi_grain end);
void moietyi_buddy_set_class(struct moietyi_buddy *buddy, moietyi_grain start,
                             uint8_t class_byte);
/* All metadata bytes, by grain: what a look-up on a hot path reads. */
const _Atomic uint8_t *moietyi_buddy_classes(const struct moietyi_buddy *buddy);
/* Ends an interval: its byte becomes 0. Returns what it was; of two that end
 * it, one gets 0. */
uint8_t moietyi_buddy_end_class(struct moietyi_buddy *buddy,
                                moietyi_grain start);
/* Length of a run, which is above a chunk and below 2^32 grains, kept for the
 * chunk in which it starts. */
uint64_t moietyi_buddy_run_grains(const struct moietyi_buddy *buddy,
                                  moietyi_grain start);
void moietyi_buddy_set_run_grains(struct moietyi_buddy *buddy,
                                  moietyi_grain start, uint64_t grains);

/* At rest: checks the numbered invariants. NULL, or which one is broken;
 * `out_at` is then the grain where. */
const char *moietyi_buddy_check(const struct moietyi_buddy *buddy,
                                moietyi_grain *out_at);
/* The same for what holds at rest only once every affinity was left, or after a
 * trim: no full word is open. */
const char *moietyi_buddy_check_merged(const struct moietyi_buddy *buddy,
                                       moietyi_grain *out_at);

#endif
