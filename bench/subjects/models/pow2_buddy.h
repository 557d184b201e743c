/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The textbook's buddy (Knuth, The Art of Computer Programming, volume 1,
 * section 2.5), to compare with: every request is rounded to a power of two, at
 * least 512 B; a block is halved until it fits, and merges with its other half
 * when both are free. Segments of 256 MiB, or as large as the request, become
 * free blocks, and are never given back before the end.
 *
 * One mutex around every call. Addresses are never 0. Streams are not known to
 * it: what is freed serves anybody at once.
 */
#ifndef BINADE_BENCH_SUBJECTS_MODELS_POW2_BUDDY_H_
#define BINADE_BENCH_SUBJECTS_MODELS_POW2_BUDDY_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where segments come from; `take` returns 0 when there is no more. */
struct pow2_buddy_source {
    uint64_t (*take)(uint64_t size_bytes);
    void (*give)(uint64_t address, uint64_t size_bytes);
};

struct pow2_buddy;

/* NULL: there is no host memory. */
struct pow2_buddy *pow2_buddy_create(const struct pow2_buddy_source *source);
/* Gives all segments back, whatever is in them. */
void pow2_buddy_destroy(struct pow2_buddy *buddy);

/* 0: there is no memory. */
uint64_t pow2_buddy_alloc(struct pow2_buddy *buddy, uint64_t size_bytes);
/* Aborts where there is no such block. */
void pow2_buddy_free(struct pow2_buddy *buddy, uint64_t address);

uint64_t pow2_buddy_handed_bytes(struct pow2_buddy *buddy);
void pow2_buddy_each_segment(struct pow2_buddy *buddy,
                             void (*take)(void *context, uint64_t address,
                                          uint64_t size_bytes),
                             void *context);

#ifdef __cplusplus
}
#endif

#endif
