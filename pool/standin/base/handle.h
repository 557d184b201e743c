/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Handles of streams, events and graphs. A handle is the address of a slot in
 * one table, never of the object, so that any value a program passes can be
 * checked without touching it. Slots are used again last freed, first taken:
 * a new stream often has the handle of the one just destroyed, as with the
 * driver (its id differs).
 *
 * All functions: lock held.
 */
#ifndef MOIETY_POOL_STANDIN_BASE_HANDLE_H_
#define MOIETY_POOL_STANDIN_BASE_HANDLE_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/driver/cuda_abi.h"

enum handle_kind {
    HANDLE_STREAM = 1,
    HANDLE_EVENT,
    HANDLE_GRAPH,
    HANDLE_NODE,
    HANDLE_EXEC,
    HANDLE_KIND_COUNT
};

/* A handle for `object`; NULL when there is no memory or no slot left. */
void *handle_make(enum handle_kind kind, void *object);

/* The object behind `handle`; NULL and *why otherwise: INVALID_HANDLE, or
 * CONTEXT_IS_DESTROYED when its context took the object with it. */
void *handle_object(enum handle_kind kind, const void *handle, CUresult *why);

/* The same, and frees the handle: the object is the caller's alone now. */
void *handle_take(enum handle_kind kind, void *handle, CUresult *why);

/* The object is gone; the slot may serve another one. */
void handle_free(enum handle_kind kind, void *handle);
/* The object is gone with its context; the slot keeps saying so. */
void handle_orphan(enum handle_kind kind, void *handle);

/* `handle` named an object that handle_free() took, and names no other since. */
bool handle_was_freed(enum handle_kind kind, const void *handle);

/* The next live object after `*cursor` (0 at first), NULL after the last. */
void *handle_next(enum handle_kind kind, uint32_t *cursor);

/* Handles of `kind` with a living object. */
int64_t handle_live(enum handle_kind kind);

#endif
