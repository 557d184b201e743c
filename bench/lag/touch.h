/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a program does between two calls, as far as an allocator feels it: memory
 * of its own takes the place of the allocator's in the processor's caches, and of
 * the allocator's pages in what it knows of addresses.
 */
#ifndef MOIETY_BENCH_LAG_TOUCH_H_
#define MOIETY_BENCH_LAG_TOUCH_H_

#include <stdbool.h>
#include <stdint.h>

#define TOUCH_PAGES_MAX 65536U

/* One thread's. All zero touches nothing. */
struct touch {
    unsigned char *memory;
    uint64_t next_page;
    uint32_t pages; /* at a time */
};

/* `pages` of 4 KiB at a time; false: no memory. */
bool touch_init(struct touch *touch, uint32_t pages);
void touch_fini(struct touch *touch);
/* Reads and writes eight lines of each of the next pages. */
void touch_next(struct touch *touch);

#endif
