/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The functions of torch_shim.h in the library that build_torch_shim.sh makes
 * and that MOIETY_TORCH_SHIM names.
 */
#ifndef MOIETY_BENCH_SUBJECTS_TORCH_TORCH_LIBRARY_H_
#define MOIETY_BENCH_SUBJECTS_TORCH_TORCH_LIBRARY_H_

#include "bench/subjects/torch/torch_shim.h"

struct torch_library {
    const char *(*start)(void);
    int (*attach)(void);
    void *(*alloc)(size_t size_bytes, void *stream);
    void (*free)(void *block);
    const char *(*limit)(uint64_t limit_bytes);
    void (*measure)(struct moiety_torch_memory *out);
    void (*empty)(void);
};

/* NULL, or why there is no such library. */
const char *torch_library_open(struct torch_library *out);

#endif
