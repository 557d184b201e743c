/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Stopping a pool for a moment, so that somebody can see where all of its
 * memory is. Nothing is taken back and no cache is emptied: the pool goes on as
 * it was.
 *
 * Three things move memory, and each is stopped by its own means.
 *  - Calls that are no hits are slow paths (pool/cache/gate.h). Each looks at
 *    `stop` after it has counted itself, and steps out again while it is odd;
 *    so once each thread state's counter was seen even, none moves anything.
 *  - Hits. The attention word lets no route be right. A hit that looked at it
 *    before comes upon its thread's claim, which is asked for as by a thread
 *    that takes idle caches (pool/cache/reclaim.c), with the same barrier:
 *    after it a thread that is outside, or in a call that is no hit, has no hit
 *    before it has settled with the claim, and then it sees the attention word.
 *    What is left is a hit that is inside: it is waited for.
 *  - Growth, which is no slow path. It adds a segment under the segments' lock.
 *
 * A thread that makes a call meanwhile waits until the pool goes on, however
 * long that is: what is read belongs to the threads that wait.
 */
#ifndef MOIETY_POOL_OBSERVE_HEAP_STOP_WORLD_H_
#define MOIETY_POOL_OBSERVE_HEAP_STOP_WORLD_H_

#include "pool/cache/cache.h"

/* Stops the pool. The call is no slow path from now on. Other threads' calls
 * may wait from here on, so nobody is waited for in between, no lock of others'
 * is kept, and nothing is done that takes long. False: others were at work for
 * too long, or there is no barrier: the pool goes on. */
MOIETY_MUST_USE bool moietyi_stop_world(struct moietyi_call *call);
/* Lets it go on. */
void moietyi_start_world(struct moietyi_call *call);

#endif
