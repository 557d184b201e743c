/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The four functions that NumPy's NEP 49 asks of an allocator, over the pinned
 * memory of a host arena: what a PyDataMemAllocator is filled with. `ctx` is
 * moiety_host_pool() of the arena. They know nothing of Python, so another
 * package can fill a handler of its own with them; _nep49.abi3.so exports them.
 *
 * Requests below a page are served from plain memory: NumPy asks its handler
 * for every array of one element, and pinned pages are too scarce for those.
 *
 * For all of them:
 *
 * Errors:  none is reported but by NULL, which NumPy makes a MemoryError. When
 *          the arena is destroyed, requests from a page up fail, and frees do
 *          nothing: the memory has gone with it.
 * Fork:    a child has no pinned memory and gets plain memory of any size. Of
 *          its parent's blocks it knows no sizes: they cannot be resized, and
 *          frees do nothing.
 * Threads: any, concurrently, with or without Python's GIL, which they neither
 *          need nor release. Growing the arena blocks in the driver: what may
 *          not happen with the GIL held is to be reserved beforehand,
 *          moiety_host_reserve(). The arena must not be destroyed while one of
 *          them runs.
 * Streams: memory comes as MOIETY_HOST_CPU, with no work pending on it, and
 *          goes back as MOIETY_STREAM_ANY, so that a copy that is still queued
 *          may finish.
 * Context: any may be current.
 */
#ifndef MOIETY_EMM_NEP49_MEMORY_H_
#define MOIETY_EMM_NEP49_MEMORY_H_

#include <stddef.h>

#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes from which on memory is pinned. */
#define MOIETY_NEP49_PINNED_BYTES_MIN 4096

/**
 * Takes memory.
 *
 * @param ctx         moiety_host_pool() of an arena.
 * @param size_bytes  0 is as 1.
 *
 * @return the memory, aligned to 16 bytes and pinned memory to 512, or NULL.
 */
MOIETY_API void *moiety_nep49_malloc(void *ctx, size_t size_bytes);

/** The same for an array, zeroed. NULL also when the product is too large. */
MOIETY_API void *moiety_nep49_calloc(void *ctx, size_t count,
                                     size_t size_bytes);

/**
 * Changes the size of a block: where it is, if it has the room and would not
 * waste more than half of it, otherwise by a copy. A block that shall shrink
 * never fails.
 *
 * @param address     NULL: as moiety_nep49_malloc().
 * @param size_bytes  0 is as 1.
 *
 * @return the block, or NULL: then the old one is as it was.
 */
MOIETY_API void *moiety_nep49_realloc(void *ctx, void *address,
                                      size_t size_bytes);

/**
 * Gives a block back.
 *
 * @param address     NULL does nothing.
 * @param size_bytes  Not looked at: NumPy itself calls it a guess.
 */
MOIETY_API void moiety_nep49_free(void *ctx, void *address, size_t size_bytes);

#ifdef __cplusplus
}
#endif

#endif
