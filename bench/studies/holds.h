/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How long each thread holds locks of the pool's heaps: pool/heap/lock.h tells of
 * each hold, in the program that links //pool/heap:told_of_holds.
 */
#ifndef MOIETY_BENCH_STUDIES_HOLDS_H_
#define MOIETY_BENCH_STUDIES_HOLDS_H_

#include <stdint.h>

#include "bench/base/histogram.h"

/* The longest hold that is allowed. */
#define HOLDS_LONG_NS UINT64_C(10000)

struct holds_found {
    uint64_t longest_ns;
    uint64_t long_count; /* above HOLDS_LONG_NS */
};

/* Involuntary switches and page faults of a thread. */
struct holds_disturbances {
    uint64_t switches;
    uint64_t faults;
};

/* Holds of one thread, or of several that were added up. */
struct holds {
    struct histogram times;
    struct holds_found all;
    /* Of stretches between two looks in which the thread kept its processor, and of
     * those in which it had no page fault either. */
    struct holds_found kept;
    struct holds_found quiet;
    struct holds_disturbances disturbances; /* while it was watched */
    /* Of the current stretch, however it ends; and all until its begin. */
    struct holds_found stretch;
    struct holds_disturbances before;
};

/* The calling thread's holds count there until holds_end(). It holds no lock. */
void holds_begin(struct holds *holds);
/* Ends a stretch: the shorter these are, the fewer holds share a switch that was in
 * none of them. */
void holds_look(void);
void holds_end(void);

/* Notes a hold of this length, or what becomes of it, of a lock that is none. */
void holds_pretend(uint64_t ns);

void holds_add(struct holds *into, const struct holds *from);

#endif
