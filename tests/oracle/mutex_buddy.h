/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A binary buddy with free lists and one mutex around every call: the oracle of
 * the model tests, and in benchmarks the allocator that anybody would write
 * first. It manages the same offset space as pool/heap but shares nothing with
 * it; all numbers are plain grains of 512 B and pages of 4096 grains.
 *
 * Threads: any, concurrently. Every call may wait for the mutex.
 */
#ifndef MOIETY_TESTS_ORACLE_MUTEX_BUDDY_H_
#define MOIETY_TESTS_ORACLE_MUTEX_BUDDY_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUTEX_BUDDY_PAGE_GRAINS 4096U
/* Grain indices and the lists' end mark fit 32 bits. */
#define MUTEX_BUDDY_PAGES_MAX (UINT32_MAX / MUTEX_BUDDY_PAGE_GRAINS)

struct mutex_buddy;

/* NULL: `page_capacity` is 0 or too large, or there is no memory. */
struct mutex_buddy *mutex_buddy_create(uint32_t page_capacity);
void mutex_buddy_destroy(struct mutex_buddy *buddy);

/* Makes pages free. False when a part of them is free already. */
bool mutex_buddy_add(struct mutex_buddy *buddy, uint32_t first_page,
                     uint32_t page_count);
/* Takes pages out. False, and nothing changed, unless all are free. */
bool mutex_buddy_withdraw(struct mutex_buddy *buddy, uint32_t first_page,
                          uint32_t page_count);

/* Takes up to `count` intervals of `grains`, each at a multiple of `alignment`,
 * a power of two; both at most a page. Returns how many it got. */
uint32_t mutex_buddy_take(struct mutex_buddy *buddy, uint32_t grains,
                          uint32_t count, uint32_t alignment,
                          uint64_t *out_starts);
/* Takes pages for `grains` grains, best fit and lowest first, and gives back
 * what is left of the last one. */
bool mutex_buddy_take_run(struct mutex_buddy *buddy, uint64_t grains,
                          uint64_t *out_start);
/* Takes exactly these grains. False, and nothing changed, unless all are free:
 * how a model repeats what another allocator did. */
bool mutex_buddy_claim(struct mutex_buddy *buddy, uint64_t start,
                       uint64_t grains);
/* False, and nothing changed, when a part is free already. */
bool mutex_buddy_give(struct mutex_buddy *buddy, uint64_t start,
                      uint64_t grains);

uint64_t mutex_buddy_free_grains(struct mutex_buddy *buddy);
uint32_t mutex_buddy_longest_page_run(struct mutex_buddy *buddy);

#ifdef __cplusplus
}
#endif

#endif
