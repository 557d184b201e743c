/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads that take turns: each does what it is told while all others sleep, so
 * that a program of several threads means the same each time.
 */
#ifndef MOIETY_TESTS_OOM_ORACLE_CREW_H_
#define MOIETY_TESTS_OOM_ORACLE_CREW_H_

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>

#include "pool/driver/cuda_abi.h"

#define CREW_MOST 8U

struct hand {
    pthread_t thread;
    CUcontext context;
    sem_t told;
    sem_t done;
    void (*act)(void *argument); /* NULL: end */
    void *argument;
};

struct crew {
    uint32_t count;
    struct hand hands[CREW_MOST];
};

/* Hand 0 is the calling thread; the others are threads of their own. */
void crew_begin(struct crew *crew, uint32_t count);
void crew_end(struct crew *crew);

/* Has the thread `index` do something, and waits until it is done. */
void crew_act(struct crew *crew, uint32_t index, void (*act)(void *argument),
              void *argument);
/* Ends the thread and makes another; does nothing to the calling one. */
void crew_replace(struct crew *crew, uint32_t index);

#endif
