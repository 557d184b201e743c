/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The functions that ONNX Runtime allocates with. Its CUDA provider is given
 * addresses of C functions, which have no argument for the pool; so there is a
 * set of them for each of a few slots, and a slot is for one pool, or tenant of
 * it, and one stream. Nothing here knows Python.
 */
#ifndef MOIETY_EMM_NATIVE_ONNXRUNTIME_SLOTS_H_
#define MOIETY_EMM_NATIVE_ONNXRUNTIME_SLOTS_H_

#include <stddef.h>
#include <stdint.h>

#include "moiety/stream.h"
#include "moiety/tenant.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MOIETY_ONNXRUNTIME_API __attribute__((visibility("default")))

/** Slots that can be taken at a time. */
#define MOIETY_ONNXRUNTIME_SLOTS_MAX 16

/** What a slot has for the provider. Threads: any, concurrently. */
typedef struct moiety_onnxruntime_functions {
    /** gpu_external_alloc. NULL: there is no memory, the calling thread's
     *  moiety_last_error_message() says why; or nobody has the slot. */
    void *(*alloc)(size_t size_bytes);
    /** gpu_external_free. What the pool refuses is told on stderr. */
    void (*free)(void *block);
    /** gpu_external_empty_cache: moiety_pool_trim(). */
    void (*empty_cache)(void);
} moiety_onnxruntime_functions;

/**
 * Takes a slot.
 *
 * @param pool    The pool, which must outlive the slot.
 * @param tenant  A tenant of the pool, or 0.
 * @param stream  What blocks are allocated for and freed on.
 * @param out     [out] Its functions. Written only when there is a slot.
 *
 * @return the slot, or -1: all are taken
 *
 * Threads: one at a time, this and the next.
 */
MOIETY_ONNXRUNTIME_API int
moiety_onnxruntime_take(moiety_pool *pool, moiety_tenant tenant,
                        moiety_stream stream,
                        moiety_onnxruntime_functions *out);

/**
 * Gives a slot back.
 *
 * @return 0, or how many blocks of it are live, or calls under way: it is taken
 *         as before
 */
MOIETY_ONNXRUNTIME_API uint64_t moiety_onnxruntime_give(int slot);

#ifdef __cplusplus
}
#endif

#endif
