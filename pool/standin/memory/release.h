/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How memory ends: what its maker said (range->end), after the work that uses it.
 *
 * All functions: lock held.
 */
#ifndef MOIETY_POOL_STANDIN_MEMORY_RELEASE_H_
#define MOIETY_POOL_STANDIN_MEMORY_RELEASE_H_

#include "pool/standin/memory/address.h"

/* Frees `range`, which no queued work may still use, and forgets it. */
void range_release(struct address_range *range);

/* The same as the driver's frees do it: all work queued in the range's context
 * ends first, and launches of other threads wait meanwhile. Releases the lock
 * while it waits. CONTEXT_IS_DESTROYED when the range went with its context in
 * the meantime. */
CUresult range_drain_and_release(struct address_range *range);

/* An end of ranges that are mappings of their own: unmaps them. */
void range_unmap(struct address_range *range);

#endif
