/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The textbook's buddy (Knuth, The Art of Computer Programming, volume 1,
 * section 2.5), to compare with: every request is rounded to a power of two, at
 * least 512 B; a block is halved until it fits, and merges with its other half
 * when both are free. Segments of 256 MiB, or as large as the request, become
 * free blocks, and are never given back before the end.
 *
 * Streams are not known to it: what is freed serves anybody at once.
 */
#ifndef MOIETY_BENCH_SUBJECTS_MODELS_POW2_BUDDY_H_
#define MOIETY_BENCH_SUBJECTS_MODELS_POW2_BUDDY_H_

#include "bench/subjects/models/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL: there is no host memory. */
struct model *pow2_buddy_create(const struct model_source *source);

#ifdef __cplusplus
}
#endif

#endif
