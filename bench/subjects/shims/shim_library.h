/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The functions of shim.h in a library that build_shim.sh makes and that a
 * variable of the environment names.
 */
#ifndef MOIETY_BENCH_SUBJECTS_SHIMS_SHIM_LIBRARY_H_
#define MOIETY_BENCH_SUBJECTS_SHIMS_SHIM_LIBRARY_H_

#include "bench/subjects/shims/shim.h"

struct shim_library {
    const char *(*start)(const char *name, uint64_t limit_bytes);
    int (*attach)(void);
    void *(*alloc)(size_t size_bytes, void *stream);
    void (*free)(void *block, size_t size_bytes, void *stream);
    void (*measure)(struct moiety_shim_memory *out);
    void (*stop)(void);
};

/* NULL, or why there is no such library. */
const char *shim_library_open(const char *variable, struct shim_library *out);

#endif
