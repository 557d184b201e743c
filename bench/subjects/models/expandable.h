/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The best-fit allocator with expandable segments, to compare with: what PyTorch
 * does where expandable_segments is on, in the sizes of its version 2. Each
 * stream has a span of addresses for blocks of up to 1 MiB and one for others, as
 * long as 9/8 of the device's memory. Memory is mapped there in pages of 2 MiB or
 * 20 MiB, when a block needs them, and free memory merges across pages. Requests
 * are rounded to 512 B. A request gets the smallest free block that is large
 * enough, the lowest of these, where a block before addresses without memory
 * counts as long as it could become; and then the lowest free block, with or
 * without memory, that can be made long enough, for which the missing pages are
 * mapped. What is left of a block is split off when it is at least 512 B. Before a
 * request fails, all pages that are wholly free are unmapped, once the device's
 * work is over.
 *
 * Not modelled: events of other streams, garbage collection, private pools,
 * peers, sharing with other processes, and the other options that are off by
 * default. PyTorch waits for a segment's stream alone before it unmaps.
 */
#ifndef MOIETY_BENCH_SUBJECTS_MODELS_EXPANDABLE_H_
#define MOIETY_BENCH_SUBJECTS_MODELS_EXPANDABLE_H_

#include <stdbool.h>

#include "bench/subjects/models/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where addresses and pages come from. Called under the model's mutex. */
struct model_pages {
    /* Addresses without memory; 0: there are none. */
    uint64_t (*reserve)(uint64_t size_bytes);
    /* Nothing is mapped there. */
    void (*release)(uint64_t address, uint64_t size_bytes);
    /* False: there is no memory for all of them, and none is mapped. */
    bool (*map)(uint64_t address, uint64_t page_bytes, uint64_t page_count);
    /* These pages were mapped. */
    void (*unmap)(uint64_t address, uint64_t page_bytes, uint64_t page_count);
    uint64_t device_bytes; /* of memory that there is */
};

/* NULL: there is no host memory. */
struct model *expandable_create(const struct model_pages *pages);

#ifdef __cplusplus
}
#endif

#endif
