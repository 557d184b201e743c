/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The offset space: which parts of it are done, so that any thread may take
 * them, and the metadata of blocks. heap.h has the memory that streams freed.
 * Offsets only; no pointer is dereferenced and CUDA is not known here.
 * docs/dev/heaps.md explains it; invariants.md beside it numbers what the
 * verifier checks.
 *
 * Progress: a call waits for the holder of the heap's lock; heap.h has a give
 * that does not.
 */
#ifndef MOIETY_POOL_HEAP_SPACE_H_
#define MOIETY_POOL_HEAP_SPACE_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/heap/units.h"

struct moietyi_space;

/* A space of `page_capacity` pages, 1 to MOIETYI_PAGES_MAX, none of them free yet.
 * Address space for its tables is reserved; memory is used as pages come. NULL: no
 * memory. */
struct moietyi_space *moietyi_space_create(uint32_t page_capacity);
/* Before the first page: the tables ask for huge pages; see pool/base/table.h.
 * For pools of MOIETYI_HUGE_LIMIT_BYTES or more: smaller pools fill few. */
#define MOIETYI_HUGE_LIMIT_BYTES (UINT64_C(2) << 30)
void moietyi_space_prefer_huge(struct moietyi_space *space);
/* No other call may be under way. */
void moietyi_space_destroy(struct moietyi_space *space);

/* Makes these pages known to searches, without any of them being free. False: no
 * host memory for what they need. Any thread. */
bool moietyi_space_cover(struct moietyi_space *space, moietyi_page first,
                         uint32_t page_count);
/* Makes `page_count` pages from `first` on free for the first time, or again
 * after they were withdrawn. Any thread; each page once. False: no host memory,
 * and none became free; never for pages that are covered. */
bool moietyi_space_add(struct moietyi_space *space, moietyi_page first,
                       uint32_t page_count);
/* Withdraws all these pages if all are done; otherwise, or if some were never
 * added, changes nothing and returns false. */
bool moietyi_space_remove(struct moietyi_space *space, moietyi_page first,
                          uint32_t page_count);

/* What to take: `count` intervals of `grains` each. */
struct moietyi_take {
    uint32_t grains;    /* at least 1 */
    uint32_t count;     /* at least 1; fewer may come */
    uint32_t alignment; /* in grains, a power of two up to a page */
};

/* Makes `grains` grains from `start` on done: a whole interval, part of one, or
 * neighbours that were taken apart. False, and nothing changes: an extent that
 * begins or ends as they do shows that they are free already. Memory that has
 * merged since, or waits in an inbox, is not seen: the caller checks the
 * metadata byte. */
bool moietyi_space_give(struct moietyi_space *space, moietyi_grain start,
                        uint64_t grains);

/* Grains that are done, and the longest run of whole pages; exact at rest. */
uint64_t moietyi_space_free_grains(const struct moietyi_space *space);
/* How many grains are done from `start` on, up to `end`. */
uint64_t moietyi_space_free_from(const struct moietyi_space *space,
                                 moietyi_grain start, moietyi_grain end);
uint32_t moietyi_space_longest_page_run(const struct moietyi_space *space);
/* Bytes of the largest interval that could be taken, of whatever length; exact
 * at rest. */
uint64_t moietyi_space_largest_bytes(const struct moietyi_space *space);

/* The metadata byte of an interval's first grain: 0 where none starts. The
 * holder of the interval owns it. */
uint8_t moietyi_space_class(const struct moietyi_space *space,
                            moietyi_grain start);
/* The first from `start` on whose byte is not 0; `end` if there is none. */
moietyi_grain moietyi_space_next_class(const struct moietyi_space *space,
                                       moietyi_grain start, moietyi_grain end);
void moietyi_space_set_class(struct moietyi_space *space, moietyi_grain start,
                             uint8_t class_byte);
/* All metadata bytes, by grain, for look-ups on a hot path. */
const _Atomic uint8_t *moietyi_space_classes(const struct moietyi_space *space);
/* Ends an interval: its byte becomes 0. Returns the byte before; if two threads
 * end it, one of them gets 0. */
uint8_t moietyi_space_end_class(struct moietyi_space *space,
                                moietyi_grain start);
/* Length of a run, which is above a chunk and below 2^32 grains, kept for the
 * chunk in which it starts. */
uint64_t moietyi_space_run_grains(const struct moietyi_space *space,
                                  moietyi_grain start);
void moietyi_space_set_run_grains(struct moietyi_space *space,
                                  moietyi_grain start, uint64_t grains);

/* At rest: checks the numbered invariants. NULL, or which one is broken;
 * `out_at` is then the grain where. */
const char *moietyi_space_check(const struct moietyi_space *space,
                                moietyi_grain *out_at);
#endif
