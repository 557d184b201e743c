/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Types and markings that every public header of Moiety shares. Plain C11 and
 * C++17. cuda.h is not included and need not be installed; where a program
 * includes both, moiety_stream is CUstream and moiety_devptr is CUdeviceptr,
 * so that no cast is needed.
 */
#ifndef MOIETY_TYPES_H_
#define MOIETY_TYPES_H_

#include <stddef.h>
#include <stdint.h>

/** Marks what the shared library exports. */
#define MOIETY_API __attribute__((visibility("default")))

/** Marks a status that the caller may not drop; -Werror makes it an error. */
#define MOIETY_MUST_USE __attribute__((warn_unused_result))

/** A CUDA stream: the same type as CUstream and cudaStream_t. */
typedef struct CUstream_st *moiety_stream;

/** A CUDA event: the same type as CUevent and cudaEvent_t. */
typedef struct CUevent_st *moiety_event;

/** A CUDA context: the same type as CUcontext. A function that takes one refuses
 *  an address at which nothing is mapped with MOIETY_E_INVALID, and asks the
 *  driver about any other: a context that was destroyed is refused with
 *  MOIETY_E_CONTEXT_DESTROYED, and so is what the driver does not take for a
 *  context. But the driver looks into the memory that it asks about, so with a
 *  pointer to something else no answer is certain. */
typedef struct CUctx_st *moiety_context;

/** A device address: the same type as CUdeviceptr. 0 is the null address. */
typedef unsigned long long moiety_devptr;

/* Handles below are numbers of this process in the form of pointers, so that the
 * compiler tells their types apart. They point to nothing. NULL is none. A number is
 * never used again, so the library recognises the handle of an object that is gone. */

/** A tenant: moiety/tenant.h. */
typedef struct moiety_tenant_s *moiety_tenant;

/** A private arena: moiety/private.h. */
typedef struct moiety_private_s *moiety_private;

/** A capture scope: moiety/scope.h. */
typedef struct moiety_scope_s *moiety_scope;

/** A watch of a pool's segments: moiety/segment.h. */
typedef struct moiety_watch_s *moiety_watch;

/** The work behind a closed import: moiety/ipc.h. */
typedef struct moiety_closing_s *moiety_closing;

#endif
