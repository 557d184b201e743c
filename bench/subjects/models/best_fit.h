/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A best-fit allocator with splitting and coalescing, to compare with: what
 * PyTorch's caching allocator does by default, in the sizes of its version 2.
 * Requests are rounded to 512 B. Those of up to 1 MiB are cut from segments of
 * 2 MiB, others from segments of 20 MiB or, from 10 MiB on, of their own size
 * in steps of 2 MiB; the two never share. A freed block merges with its free
 * neighbours, and serves requests of its stream: the smallest that is large
 * enough, the lowest of these. What is left of it is split off when it is at
 * least 512 B of a small block, or more than 1 MiB of a large one. Before a
 * request fails, all segments that are wholly free go back.
 *
 * Not modelled: events of other streams, garbage collection, private pools,
 * max_split_size and the other options that are off by default.
 *
 * One mutex around every call. Addresses are never 0.
 */
#ifndef BINADE_BENCH_SUBJECTS_MODELS_BEST_FIT_H_
#define BINADE_BENCH_SUBJECTS_MODELS_BEST_FIT_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where segments come from. `take` returns 0 when there is no more. Called
 * under the allocator's mutex. */
struct best_fit_source {
    uint64_t (*take)(uint64_t size_bytes);
    void (*give)(uint64_t address, uint64_t size_bytes);
};

struct best_fit;

/* NULL: there is no host memory. */
struct best_fit *best_fit_create(const struct best_fit_source *source);
/* Gives all segments back, whatever is in them. */
void best_fit_destroy(struct best_fit *allocator);

/* 0: there is no memory. */
uint64_t best_fit_alloc(struct best_fit *allocator, uint64_t size_bytes,
                        uint32_t stream);
/* The block goes back to the stream that it was allocated for. Aborts where
 * there is no such block. */
void best_fit_free(struct best_fit *allocator, uint64_t address);

/* Bytes in blocks that are allocated, as they were rounded and split. */
uint64_t best_fit_handed_bytes(struct best_fit *allocator);
/* Each segment, by address. */
void best_fit_each_segment(struct best_fit *allocator,
                           void (*take)(void *context, uint64_t address,
                                        uint64_t size_bytes),
                           void *context);

#ifdef __cplusplus
}
#endif

#endif
