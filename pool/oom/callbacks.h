/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool's out-of-memory callbacks: a list under a lock, which is not held while
 * one of them runs.
 */
#ifndef BINADE_POOL_OOM_CALLBACKS_H_
#define BINADE_POOL_OOM_CALLBACKS_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

struct binadei_callback;

struct binadei_callbacks {
    pthread_mutex_t lock;
    pthread_cond_t returned; /* of one that somebody waits to remove */
    /* Under the lock. */
    struct binadei_callback *first; /* by number */
    uint64_t next_number;
    /* Edge: none; relaxed: a hint, so that a pool without any takes no lock. */
    atomic_uint count;
};

void binadei_callbacks_init(struct binadei_callbacks *callbacks);
/* None is running. */
void binadei_callbacks_fini(struct binadei_callbacks *callbacks);

#endif
