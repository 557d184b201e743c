/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/lag/hold.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench/base/device.h"
#include "bench/lag/plan.h"
#include "pool/driver/driver_table.h"

#define LOOK_NS 5000000L
/* A call that has not returned after so many looks, 250 ms, is stuck: no call
 * that waits for nothing takes as long, and no allocation fails sooner that
 * waits for its stream. */
#define LOOKS_UNTIL_STUCK 50U

struct seat {
    /* Even: outside of the subject. Written by its own thread, read by the
     * watchdog, which only compares: relaxed. */
    alignas(64) _Atomic uint64_t calls;
    uint64_t seen; /* the watchdog's */
    uint32_t looks;
};

static struct {
    const struct moietyi_driver *driver;
    CUcontext context;
    CUdeviceptr word_address;
    /* The streams wait until it reaches the last ticket; they read it as the
     * driver does, at any time. */
    _Atomic uint32_t *word;
    unsigned stream_count;
    unsigned thread_count;
    pthread_t watchdog;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t wake;
    uint32_t ticket;
    unsigned gone_on; /* who has the streams go on */
    uint64_t releases;
    bool is_over;
    struct seat seats[LAG_THREADS_MAX];
} hold = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static void demand(CUresult code, const char *call)
{
    if (code == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "lag: %s returned %d\n", call, (int)code);
    abort();
}

static void hold_locked(void)
{
    hold.ticket++;
    for (unsigned i = 0; i < hold.stream_count; i++)
        demand(hold.driver->cuStreamWaitValue32(bench_device_streams[i],
                                                hold.word_address, hold.ticket,
                                                CU_STREAM_WAIT_VALUE_GEQ),
               "cuStreamWaitValue32");
}

static void go_on_locked(void)
{
    hold.gone_on++;
    hold.releases++;
    /* release: the driver's own wait orders what comes after it. */
    atomic_store_explicit(hold.word, hold.ticket, memory_order_release);
}

static void resume_locked(void)
{
    if (--hold.gone_on == 0 && !hold.is_over)
        hold_locked();
}

/* Whether the thread has been in one call for too long. */
static bool is_stuck(struct seat *seat)
{
    uint64_t calls = atomic_load_explicit(&seat->calls, memory_order_relaxed);
    seat->looks = calls == seat->seen && calls % 2 == 1 ? seat->looks + 1 : 0;
    seat->seen = calls;
    return seat->looks >= LOOKS_UNTIL_STUCK;
}

static bool is_any_stuck(void)
{
    bool is_any = false;
    for (unsigned i = 0; i < hold.thread_count; i++)
        is_any |= is_stuck(&hold.seats[i]);
    return is_any;
}

static void wait_for_look_locked(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    (void)pthread_cond_timedwait(&hold.wake, &hold.lock, &until);
}

static void *watch(void *unused)
{
    (void)unused;
    bool has_given_way = false;
    demand(hold.driver->cuCtxSetCurrent(hold.context), "cuCtxSetCurrent");
    (void)pthread_mutex_lock(&hold.lock);
    while (!hold.is_over) {
        bool is_stuck_now = is_any_stuck();
        if (is_stuck_now && !has_given_way)
            go_on_locked();
        else if (!is_stuck_now && has_given_way)
            resume_locked();
        has_given_way = is_stuck_now;
        wait_for_look_locked();
    }
    (void)pthread_mutex_unlock(&hold.lock);
    return NULL;
}

static const char *make_word(void)
{
    void *word;
    if (!hold.driver->cuStreamWaitValue32)
        return "the driver has no cuStreamWaitValue32 to hold streams by";
    if (hold.driver->cuMemHostAlloc(&word, sizeof(*hold.word),
                                    CU_MEMHOSTALLOC_PORTABLE |
                                        CU_MEMHOSTALLOC_DEVICEMAP) !=
        CUDA_SUCCESS)
        return "there is no pinned memory to hold streams by";
    hold.word = word;
    atomic_init(hold.word, 0);
    demand(hold.driver->cuMemHostGetDevicePointer(&hold.word_address, word, 0),
           "cuMemHostGetDevicePointer");
    return NULL;
}

const char *lag_hold_start(unsigned thread_count, unsigned stream_count)
{
    hold.driver = moietyi_driver_opened();
    hold.thread_count = thread_count;
    hold.stream_count = stream_count;
    hold.ticket = 0;
    hold.gone_on = 0;
    hold.releases = 0;
    hold.is_over = false;
    for (unsigned i = 0; i < thread_count; i++) {
        atomic_store_explicit(&hold.seats[i].calls, 0, memory_order_relaxed);
        hold.seats[i].looks = 0;
    }
    demand(hold.driver->cuCtxGetCurrent(&hold.context), "cuCtxGetCurrent");
    const char *why = make_word();
    if (why)
        return why;
    hold_locked();
    if (pthread_create(&hold.watchdog, NULL, watch, NULL) == 0)
        return NULL;
    atomic_store_explicit(hold.word, hold.ticket, memory_order_release);
    (void)hold.driver->cuCtxSynchronize();
    (void)hold.driver->cuMemFreeHost((void *)hold.word);
    return "the system gives no thread for a watchdog";
}

static void count_call(unsigned thread)
{
    _Atomic uint64_t *calls = &hold.seats[thread].calls;
    uint64_t count = atomic_load_explicit(calls, memory_order_relaxed);
    atomic_store_explicit(calls, count + 1, memory_order_relaxed);
}

void lag_hold_enter(unsigned thread)
{
    count_call(thread);
}

void lag_hold_leave(unsigned thread)
{
    count_call(thread);
}

void lag_hold_give_way(void)
{
    (void)pthread_mutex_lock(&hold.lock);
    go_on_locked();
    (void)pthread_mutex_unlock(&hold.lock);
    for (unsigned i = 0; i < hold.stream_count; i++)
        demand(hold.driver->cuStreamSynchronize(bench_device_streams[i]),
               "cuStreamSynchronize");
}

void lag_hold_resume(void)
{
    (void)pthread_mutex_lock(&hold.lock);
    resume_locked();
    (void)pthread_mutex_unlock(&hold.lock);
}

uint64_t lag_hold_releases(void)
{
    (void)pthread_mutex_lock(&hold.lock);
    uint64_t releases = hold.releases;
    (void)pthread_mutex_unlock(&hold.lock);
    return releases;
}

void lag_hold_stop(void)
{
    (void)pthread_mutex_lock(&hold.lock);
    hold.is_over = true;
    atomic_store_explicit(hold.word, hold.ticket, memory_order_release);
    (void)pthread_cond_signal(&hold.wake);
    (void)pthread_mutex_unlock(&hold.lock);
    (void)pthread_join(hold.watchdog, NULL);
    demand(hold.driver->cuCtxSynchronize(), "cuCtxSynchronize");
    (void)hold.driver->cuMemFreeHost((void *)hold.word);
}
