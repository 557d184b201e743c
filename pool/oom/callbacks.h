/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool's out-of-memory callbacks: a list under a lock, which is not held while
 * one of them runs.
 */
#ifndef MOIETY_POOL_OOM_CALLBACKS_H_
#define MOIETY_POOL_OOM_CALLBACKS_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct moietyi_callback;

struct moietyi_callbacks {
    pthread_mutex_t lock;
    pthread_cond_t returned; /* of one that somebody waits to remove */
    /* Under the lock. */
    struct moietyi_callback *first; /* by number */
    uint64_t next_number;
    /* Edge: none; relaxed: a hint, so that a pool without any takes no lock. */
    atomic_uint count;
};

void moietyi_callbacks_init(struct moietyi_callbacks *callbacks);
/* None is running. */
void moietyi_callbacks_fini(struct moietyi_callbacks *callbacks);

#endif
