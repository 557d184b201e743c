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
 */
#ifndef MOIETY_BENCH_SUBJECTS_MODELS_BEST_FIT_H_
#define MOIETY_BENCH_SUBJECTS_MODELS_BEST_FIT_H_

#include "bench/subjects/models/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL: there is no host memory. */
struct model *best_fit_create(const struct model_source *source);

#ifdef __cplusplus
}
#endif

#endif
