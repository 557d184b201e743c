/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One thread looks after operations that end when a value appears in memory or
 * when a time has come. It polls only while there are any.
 */
#include <semaphore.h>
#include <time.h>

#include "pool/standin/base/process.h"
#include "pool/standin/work/op.h"

#define PERIOD_NS 50000

static struct op *watched;
static bool is_started;
static bool is_asleep; /* in sem_wait(), or about to be */
static sem_t wake;
static op_ender *end_op;

static bool watcher_is_over(struct op *op, CUresult *out_code)
{
    return op->state == OP_WAITING && op->work.test(&op->work, out_code);
}

void watcher_look(void)
{
    struct op *rest = watched;
    watched = NULL;
    while (rest) {
        struct op *op = rest;
        CUresult code = CUDA_SUCCESS;
        rest = op->next;
        if (watcher_is_over(op, &code)) {
            end_op(op, code); /* may queue others */
        } else if (op->state == OP_WAITING) {
            op->next = watched;
            watched = op;
            continue;
        }
        op_unref(op);
    }
}

static void pause_unlocked(void)
{
    const struct timespec period = {.tv_nsec = PERIOD_NS};
    is_asleep = !watched;
    bool is_idle = is_asleep;
    standin_unlock();
    if (is_idle)
        sem_wait(&wake);
    else
        nanosleep(&period, NULL);
    standin_lock();
}

static void *watcher_main(void *unused)
{
    (void)unused;
    standin_lock();
    while (!standin_is_dead()) {
        watcher_look();
        pause_unlocked();
    }
    standin_unlock();
    return NULL;
}

CUresult watcher_start(op_ender *end)
{
    if (is_started)
        return CUDA_SUCCESS;
    sem_init(&wake, 0, 0);
    end_op = end;
    is_started = thread_start_detached(watcher_main, NULL);
    return is_started ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

void watcher_queue(struct op *op)
{
    op->references++; /* the list's */
    op->next = watched;
    watched = op;
    if (is_asleep) {
        is_asleep = false;
        sem_post(&wake);
    }
}
