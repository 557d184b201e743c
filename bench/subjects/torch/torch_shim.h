/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the subject `torch` finds in a library that
 * bench/subjects/torch/build_torch_shim.sh makes on a machine with PyTorch. C
 * on both sides: nothing of PyTorch is needed to build the benchmarks.
 */
#ifndef MOIETY_BENCH_SUBJECTS_TORCH_TORCH_SHIM_H_
#define MOIETY_BENCH_SUBJECTS_TORCH_TORCH_SHIM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL, or why PyTorch's allocator cannot run here. The driver is initialised
 * and device 0 has its primary context. */
__attribute__((visibility("default"))) const char *
moiety_torch_shim_start(void);

/* Makes device 0 the calling thread's. 0: it cannot be. */
__attribute__((visibility("default"))) int moiety_torch_shim_attach(void);

/* NULL: no memory. `stream` is a CUstream of the primary context. */
__attribute__((visibility("default"))) void *
moiety_torch_shim_alloc(size_t size_bytes, void *stream);

/* The block goes back to the stream that it was allocated for. */
__attribute__((visibility("default"))) void moiety_torch_shim_free(void *block);

/* Bytes that it may have of the driver; 0: all. NULL, or why not. */
__attribute__((visibility("default"))) const char *
moiety_torch_shim_limit(uint64_t limit_bytes);

struct moiety_torch_memory {
    uint64_t allocated_bytes; /* in blocks, as they were rounded */
    uint64_t reserved_bytes;
    uint64_t segments_made;
    uint64_t segments_freed;
};

__attribute__((visibility("default"))) void
moiety_torch_shim_measure(struct moiety_torch_memory *out);

/* Gives back what is not in use. */
__attribute__((visibility("default"))) void moiety_torch_shim_empty(void);

#ifdef __cplusplus
}
#endif

#endif
