/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The lock and its waiters; the flags that a fork, cuInit and exit set.
 */
#include "pool/standin/base/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;

/* Edge SI: standin_mark_initialised() (release) -> standin_is_initialised()
 * (acquire): a thread that sees the flag sees the devices that cuInit made. */
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

CUresult standin_refusal(void)
{
    /* relaxed: see the declarations. */
    if (atomic_load_explicit(&is_forked, memory_order_relaxed))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (atomic_load_explicit(&is_torn_down, memory_order_relaxed))
        return CUDA_ERROR_DEINITIALIZED;
    return CUDA_SUCCESS;
}

bool standin_is_dead(void)
{
    return standin_refusal() != CUDA_SUCCESS;
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

static _Thread_local struct thread_state state;
/* Edge: none; relaxed: only uniqueness matters. */
static _Atomic uint64_t last_serial;

struct thread_state *thread_state(void)
{
    if (state.serial == 0)
        state.serial =
            atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) +
            1;
    return &state;
}

/* The fields are counted from the last ')', for the name before it may hold
 * anything. */
uint64_t standin_start_ticks(pid_t pid)
{
    char path[64];
    char text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[length] = '\0';
    char *field = strrchr(text, ')');
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}
