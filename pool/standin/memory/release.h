/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How each kind of memory ends.
 *
 * All functions: lock held.
 */
#ifndef BINADE_POOL_STANDIN_MEMORY_RELEASE_H_
#define BINADE_POOL_STANDIN_MEMORY_RELEASE_H_

#include "pool/standin/memory/address.h"

/* Frees `range`, which no queued work may still use, and forgets it. */
void range_release(struct address_range *range);

/* The same as the driver's frees do it: all work queued in the range's context
 * ends first, and launches of other threads wait meanwhile. Releases the lock
 * while it waits. CONTEXT_IS_DESTROYED when the range went with its context in
 * the meantime. */
CUresult range_drain_and_release(struct address_range *range);

/* One kind each, called by range_release() only: what it has beside the entry
 * in the table. */
void pool_give(struct address_range *range);     /* pool.c */
void mapping_end(struct address_range *range);   /* vmm/map.c */
void import_end(struct address_range *range);    /* ipc/ipc.c */
void export_revoke(struct address_range *range); /* ipc/ipc.c */

#endif
