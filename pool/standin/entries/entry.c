/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The prologue of every entry, the one lock, and the life of the process:
 * initialised, forked, torn down.
 */
#include "pool/standin/entries/entry.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "pool/standin/entries/settings.h"
#include "pool/standin/faults/cost.h"
#include "pool/standin/faults/fault.h"
#include "pool/standin/streams/engine.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;

/* Edge SI: mark_initialised (release) -> standin_enter (acquire): whoever sees
 * the flag sees the devices that cuInit made. */
static atomic_bool is_initialised;
/* Edge: none; relaxed: nothing is published through them, they only ever go up.
 * Set in a forked child by its only thread, and at exit; read by any thread. */
static atomic_bool is_forked;
static atomic_bool is_torn_down;

static void after_fork_in_child(void)
{
    /* A child of a process that never called cuInit may call it itself.
     * acquire: see SI; the child has one thread, any order would do. */
    if (atomic_load_explicit(&is_initialised, memory_order_acquire))
        atomic_store_explicit(&is_forked, true, memory_order_relaxed);
}

__attribute__((constructor)) static void set_up(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* At exit as the driver does it: handlers that a program registered before its
 * first cuInit run after this and find the driver gone. */
static void tear_down(void)
{
    atomic_store_explicit(&is_torn_down, true, memory_order_relaxed);
}

bool standin_is_dead(void)
{
    /* relaxed: see the declarations. */
    return atomic_load_explicit(&is_forked, memory_order_relaxed) ||
           atomic_load_explicit(&is_torn_down, memory_order_relaxed);
}

bool standin_is_initialised(void)
{
    /* SI.acquire */
    return atomic_load_explicit(&is_initialised, memory_order_acquire);
}

void standin_mark_initialised(void)
{
    (void)atexit(tear_down);
    /* SI.release: the devices are made. */
    atomic_store_explicit(&is_initialised, true, memory_order_release);
}

CUresult standin_enter(enum standin_entry entry, unsigned needs)
{
    (void)settings_get(); /* the fault plan may name any entry */
    calls_count(entry);
    if (atomic_load_explicit(&is_forked, memory_order_relaxed))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (atomic_load_explicit(&is_torn_down, memory_order_relaxed))
        return CUDA_ERROR_DEINITIALIZED;
    if (engine_is_in_callback())
        return CUDA_ERROR_NOT_PERMITTED;
    cost_charge(entry);
    CUresult fault = fault_take(entry);
    if (fault != CUDA_SUCCESS)
        return fault;
    if ((needs & NEEDS_INIT) && !standin_is_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    return needs & BREAKS_CAPTURE ? capture_gate() : CUDA_SUCCESS;
}

void standin_lock(void)
{
    pthread_mutex_lock(&lock);
}

void standin_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

CUresult standin_leave(CUresult code)
{
    standin_unlock();
    return code;
}

void standin_wait(void)
{
    pthread_cond_wait(&changed, &lock);
}

void standin_wait_for(long timeout_ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ns / 1000000000;
    until.tv_nsec += timeout_ns % 1000000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&changed, &lock, &until);
}

void standin_notify(void)
{
    pthread_cond_broadcast(&changed);
}

/* Edge: none; relaxed: sums that are exact once the callers are at rest; nothing
 * is published through them. */
static _Atomic uint64_t counts[ENTRY_COUNT];

void calls_count(enum standin_entry entry)
{
    atomic_fetch_add_explicit(&counts[entry], 1, memory_order_relaxed);
}

void calls_reset(void)
{
    for (int i = 0; i < ENTRY_COUNT; i++)
        atomic_store_explicit(&counts[i], 0, memory_order_relaxed);
}

uint64_t calls_of(enum standin_entry entry)
{
    return atomic_load_explicit(&counts[entry], memory_order_relaxed);
}
