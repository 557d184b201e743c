/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The functions that shimmed.c finds in a library which build_shim.sh makes on a
 * machine with PyTorch or RMM. C on both sides: nothing of either is needed to
 * build the benchmarks.
 */
#ifndef MOIETY_BENCH_SUBJECTS_SHIMS_SHIM_H_
#define MOIETY_BENCH_SUBJECTS_SHIMS_SHIM_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOIETY_SHIM_API __attribute__((visibility("default")))

/* Starts the allocator `name` of the library with so many bytes of the driver's
 * at most; 0: all. NULL, or why it cannot run here. The driver is initialised and
 * device 0 has its primary context. */
MOIETY_SHIM_API const char *moiety_shim_start(const char *name,
                                              uint64_t limit_bytes);

/* Makes device 0 the calling thread's. 0: it cannot be. */
MOIETY_SHIM_API int moiety_shim_attach(void);

/* NULL: no memory. `stream` is a CUstream of the primary context. */
MOIETY_SHIM_API void *moiety_shim_alloc(size_t size_bytes, void *stream);

/* `stream`: where the block was used last. PyTorch's goes back to the stream that
 * it was allocated for. */
MOIETY_SHIM_API void moiety_shim_free(void *block, size_t size_bytes,
                                      void *stream);

struct moiety_shim_memory {
    uint64_t allocated_bytes; /* in blocks, as they were rounded */
    uint64_t reserved_bytes;
    uint64_t segments_made;
    uint64_t segments_freed;
};

MOIETY_SHIM_API void moiety_shim_measure(struct moiety_shim_memory *out);

/* Gives back what is not in use. */
MOIETY_SHIM_API void moiety_shim_stop(void);

#ifdef __cplusplus
}
#endif

#endif
