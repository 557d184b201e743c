/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Types and markings that every public header of Binade shares. Plain C11 and
 * C++17. cuda.h is not included and need not be installed; where a program
 * includes both, binade_stream is CUstream and binade_devptr is CUdeviceptr,
 * so that no cast is needed.
 */
#ifndef BINADE_TYPES_H_
#define BINADE_TYPES_H_

#include <stddef.h>
#include <stdint.h>

/** Marks what the shared library exports. */
#define BINADE_API __attribute__((visibility("default")))

/** Marks a status that the caller may not drop; -Werror makes it an error. */
#define BINADE_MUST_USE __attribute__((warn_unused_result))

/** A CUDA stream: the same type as CUstream and cudaStream_t. */
typedef struct CUstream_st *binade_stream;

/** A CUDA event: the same type as CUevent and cudaEvent_t. */
typedef struct CUevent_st *binade_event;

/** A CUDA context: the same type as CUcontext. A function that takes one refuses
 *  an address at which nothing is mapped with BINADE_E_INVALID, and asks the
 *  driver about any other: a context that was destroyed is refused with
 *  BINADE_E_CONTEXT_DESTROYED, and so is what the driver does not take for a
 *  context. But the driver looks into the memory that it asks about, so with a
 *  pointer to something else no answer is certain. */
typedef struct CUctx_st *binade_context;

/** A device address: the same type as CUdeviceptr. 0 is the null address. */
typedef unsigned long long binade_devptr;

#endif
