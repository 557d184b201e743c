/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Frees and calls on a heap whose lock another thread holds. A free leaves its
 * block in the inbox and returns. A call that needs a result is left as well,
 * and the holder runs it before it opens the lock: the lines that calls read
 * and write stay in the caches of one processor, where most of their time is
 * spent. This is flat combining (D. Hendler, I. Incze, N. Shavit, M. Tzafrir:
 * "Flat Combining and the Synchronization-Parallelism Tradeoff", SPAA 2010),
 * with a list in place of records of threads.
 */
#ifndef MOIETY_POOL_HEAP_COMBINE_H_
#define MOIETY_POOL_HEAP_COMBINE_H_

#include "pool/heap/state.h"

/* The first field of a call, which lies on the caller's stack. Best on one line
 * with the rest: the holder has to fetch it. */
struct moietyi_heap_call {
    /* Run with the heap's lock, by any thread. It may take DONE's lock as
     * well. */
    void (*run)(struct moietyi_heap_call *call, struct moietyi_heap *heap);
    struct moietyi_heap_call *next;
    /* Edge HC: done (release) -> the caller (acquire). */
    _Atomic bool is_done;
};

/* Returns when the call is done. */
void moietyi_heap_do(struct moietyi_heap *heap, struct moietyi_heap_call *call);

#endif
