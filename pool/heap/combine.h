/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Frees and calls on a heap whose lock another thread holds. A free leaves its block
 * in the inbox and goes on. A call that has to find something is left as well, and
 * the holder does it before it goes: all that calls read and write stays in the
 * caches of one processor, where most of their time goes. This is flat
 * combining (D. Hendler, I. Incze, N. Shavit, M. Tzafrir: "Flat Combining and the
 * Synchronization-Parallelism Tradeoff", SPAA 2010), with a list in place of
 * records of threads.
 */
#ifndef MOIETY_POOL_HEAP_COMBINE_H_
#define MOIETY_POOL_HEAP_COMBINE_H_

#include "pool/heap/state.h"

/* First in what the call is about, which lies on the caller's stack, and best on one
 * line: the holder has to fetch it. */
struct moietyi_heap_call {
    /* With the heap's lock, by any thread. It may take DONE's lock besides. */
    void (*run)(struct moietyi_heap_call *call, struct moietyi_heap *heap);
    struct moietyi_heap_call *next;
    /* Edge HC: done (release) -> the caller (acquire). */
    _Atomic bool is_done;
};

/* Returns once it is done. */
void moietyi_heap_do(struct moietyi_heap *heap, struct moietyi_heap_call *call);

#endif
