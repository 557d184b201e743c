/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holding streams back: what is queued behind a hold starts when a watchdog
 * says so. A block that is given to another stream too early is overwritten
 * before the held stream has read it.
 */
#ifndef MOIETY_TESTS_TRUTH_HOLD_H_
#define MOIETY_TESTS_TRUTH_HOLD_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/driver/cuda_abi.h"

#define HOLD_MAX 1024

/* One stream at a time can be held through one of these. */
struct hold {
    /* 0: free; 1: being queued; else when it ends, on kit_now_ns()'s clock. */
    _Atomic uint64_t until_ns;
    uint32_t ticket;        /* of the latest hold: whoever made until_ns 1 */
    _Atomic uint32_t *word; /* in pinned memory: the latest that is over */
    CUdeviceptr word_address;
};

struct holds {
    struct hold hold[HOLD_MAX];
    uint32_t count;
    pthread_t watchdog;
    atomic_bool is_over; /* written by the thread that ends them */
};

/* Makes `count` holds and the watchdog. */
void holds_begin(struct holds *holds, uint32_t count);

/* Releases everything and ends the watchdog. No stream is held after it. */
void holds_end(struct holds *holds);

/* Holds `stream` for `duration_us`, unless `index` holds one already. */
void hold_stream(struct holds *holds, uint32_t index, CUstream stream,
                 uint32_t duration_us);

#endif
