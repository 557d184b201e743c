/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The threads that do stream work. There are as few as the work allows: one
 * more is made only when work is ready and nobody is idle. Work that a user
 * may block (host functions) does not count against the limit, or it could
 * keep copies from running that it waits for.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include "pool/standin/base/process.h"
#include "pool/standin/settings/fault.h"
#include "pool/standin/work/op.h"

#define BOUNDED_MAX 8
#define WORKER_MAX 512

struct worker {
    struct worker *next_idle;
    sem_t wake;
};

static struct op *ready_first, **ready_last = &ready_first;
static struct worker *idle; /* last in, first out: its stack is warm */
static unsigned worker_count;
static unsigned blocking_count; /* workers running work that may block */
static op_ender *end_op;

bool thread_start_detached(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    /* A program's signal handlers run on the program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_made = pthread_create(&thread, NULL, run, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_made)
        pthread_detach(thread);
    return is_made;
}

static struct op *take_ready(void)
{
    struct op *op = ready_first;
    ready_first = op->next;
    if (!ready_first)
        ready_last = &ready_first;
    return op;
}

static void sleep_us(long duration_us)
{
    struct timespec duration = {.tv_sec = duration_us / 1000000,
                                .tv_nsec = duration_us % 1000000 * 1000};
    nanosleep(&duration, NULL);
}

/* Releases the lock while the work is done. */
static void run_one(struct op *op)
{
    long slow_us = fault_stream_delay_us();
    bool may_block = op->work.may_block;
    op->state = OP_RUNNING;
    blocking_count += may_block;
    standin_unlock();
    if (slow_us)
        sleep_us(slow_us);
    CUresult code = op->work.run(&op->work);
    standin_lock();
    blocking_count -= may_block;
    end_op(op, code);
}

static void wait_for_work(struct worker *self)
{
    self->next_idle = idle;
    idle = self;
    standin_unlock();
    while (sem_wait(&self->wake) != 0)
        continue; /* interrupted */
    standin_lock();
}

static void *worker_main(void *unused)
{
    (void)unused;
    struct worker self;
    sem_init(&self.wake, 0, 0);
    standin_lock();
    while (!standin_is_dead()) {
        if (!ready_first) {
            wait_for_work(&self);
            continue;
        }
        struct op *op = take_ready();
        if (op->state == OP_READY)
            run_one(op);
        op_unref(op);
    }
    standin_unlock();
    return NULL;
}

static bool worker_grow(void)
{
    if (worker_count >= WORKER_MAX ||
        worker_count >= BOUNDED_MAX + blocking_count)
        return false;
    bool is_made = thread_start_detached(worker_main, NULL);
    worker_count += is_made;
    return is_made;
}

/* Threads run this code from now on: a dlclose() may not take it away. */
static void stay_loaded(void)
{
    Dl_info self;
    if (dladdr(&idle, &self))
        (void)dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

CUresult workers_start(op_ender *end)
{
    if (worker_count)
        return CUDA_SUCCESS;
    stay_loaded();
    end_op = end;
    return worker_grow() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

void worker_queue(struct op *op)
{
    op->state = OP_READY;
    op->references++; /* the queue's */
    op->next = NULL;
    *ready_last = op;
    ready_last = &op->next;
    struct worker *worker = idle;
    if (worker) {
        idle = worker->next_idle;
        sem_post(&worker->wake);
    } else {
        worker_grow();
    }
}
