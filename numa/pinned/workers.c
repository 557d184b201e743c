/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/workers.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "pool/base/clock.h"
#include "pool/base/fork_mark.h"

/* One huge page: calls of this process that change its map of memory, and all that
 * come behind them, wait until the chunks that are being touched are done. */
#define CHUNK_BYTES ((size_t)2 << 20)
/* For less, another thread takes longer to start than it saves. */
#define THREAD_BYTES ((size_t)16 << 20)

static bool workers_is_over(const struct moietyi_workers *workers)
{
    return workers->is_stopped || workers->failed_at != SIZE_MAX ||
           workers->begun_bytes == workers->size_bytes;
}

/* Lock held. A call that the program ends begins nothing any more. */
static void workers_stop_if_over(struct moietyi_workers *workers)
{
    if (workers->is_stopped || !moietyi_progress_is_over(workers->progress))
        return;
    workers->is_stopped = true;
    pthread_cond_broadcast(&workers->granted);
    pthread_cond_signal(&workers->moved);
}

/* Lock held. A chunk that no thread has begun, in the place of the thread; false if
 * none is granted. */
static bool workers_take(struct moietyi_workers *workers, uint32_t thread,
                         size_t *out_bytes)
{
    size_t left = workers->size_bytes - workers->begun_bytes;
    workers_stop_if_over(workers);
    if (workers_is_over(workers) ||
        workers->begun_bytes >= workers->granted_bytes)
        return false;
    *out_bytes = workers->chunk_bytes < left ? workers->chunk_bytes : left;
    workers->working_at[thread] = workers->begun_bytes;
    workers->begun_bytes += *out_bytes;
    return true;
}

/* Lock held, but not while it works. */
static bool workers_work_once(struct moietyi_workers *workers, uint32_t thread)
{
    size_t bytes;
    if (!workers_take(workers, thread, &bytes))
        return false;
    size_t at = workers->working_at[thread];
    pthread_mutex_unlock(&workers->lock);
    bool is_done = workers->work(workers->job, workers->base + at, bytes);
    pthread_mutex_lock(&workers->lock);
    workers->working_at[thread] = SIZE_MAX;
    if (!is_done && at < workers->failed_at)
        workers->failed_at = at;
    if (workers_is_over(workers))
        pthread_cond_broadcast(&workers->granted);
    pthread_cond_signal(&workers->moved);
    return true;
}

static void *workers_work(void *argument)
{
    struct moietyi_workers *workers = argument;
    const struct moietyi_place *place = workers->place;
    /* If it is refused, the memory is bound all the same, only slower. */
    if (!hwloc_bitmap_iszero(place->cpus))
        (void)hwloc_set_cpubind(place->topology, place->cpus,
                                HWLOC_CPUBIND_THREAD);
    pthread_mutex_lock(&workers->lock);
    uint32_t thread = workers->joined_count++;
    while (workers_work_once(workers, thread) || !workers_is_over(workers))
        if (!workers_is_over(workers) &&
            workers->begun_bytes >= workers->granted_bytes)
            pthread_cond_wait(&workers->granted, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

static uint32_t count_wanted(const struct moietyi_workers *workers,
                             uint32_t thread_max)
{
    size_t part = workers->chunk_bytes > THREAD_BYTES ? workers->chunk_bytes
                                                      : THREAD_BYTES;
    size_t parts = (workers->size_bytes - 1) / part + 1;
    uint32_t wanted =
        thread_max < MOIETYI_WORKERS_MAX ? thread_max : MOIETYI_WORKERS_MAX;
    return parts < wanted ? (uint32_t)parts : wanted;
}

int moietyi_thread_start(pthread_t *out, void *(*run)(void *), void *argument)
{
    sigset_t all;
    sigset_t own;
    (void)sigfillset(&all);
    int error = pthread_sigmask(SIG_SETMASK, &all, &own);
    if (error)
        return error;
    error = pthread_create(out, NULL, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &own, NULL);
    return error;
}

static void workers_start(struct moietyi_workers *workers, uint32_t wanted)
{
    while (workers->thread_count < wanted &&
           moietyi_thread_start(&workers->threads[workers->thread_count],
                                workers_work, workers) == 0)
        workers->thread_count++;
}

/* The clock of waits is not the time of day. */
static void workers_init_moved(struct moietyi_workers *workers)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&workers->moved, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

void moietyi_workers_begin(struct moietyi_workers *workers,
                           const struct moietyi_workers_options *options,
                           struct moietyi_region *region)
{
    bool is_large = region->pages == MOIETYI_PAGES_1GIB;
    *workers = (struct moietyi_workers){
        .work = options->work,
        .job = options->job,
        .place = options->place,
        .progress = options->progress,
        .base = region->base,
        .size_bytes = region->size_bytes,
        .chunk_bytes = is_large ? (size_t)1 << 30 : CHUNK_BYTES,
        .failed_at = SIZE_MAX,
    };
    memset(workers->working_at, 0xff, sizeof(workers->working_at));
    (void)pthread_mutex_init(&workers->lock, NULL);
    (void)pthread_cond_init(&workers->granted, NULL);
    workers_init_moved(workers);
    uint32_t wanted = count_wanted(workers, options->thread_max);
    workers_start(workers, wanted);
    if (workers->thread_count < wanted)
        region->fallbacks |= MOIETY_HOST_FELL_TO_FEWER_THREADS;
    if (workers->thread_count > region->thread_count)
        region->thread_count = workers->thread_count;
}

void moietyi_workers_grant(struct moietyi_workers *workers, size_t end_bytes)
{
    pthread_mutex_lock(&workers->lock);
    if (end_bytes > workers->granted_bytes)
        workers->granted_bytes = end_bytes;
    pthread_cond_broadcast(&workers->granted);
    pthread_mutex_unlock(&workers->lock);
}

/* Lock held. */
static size_t workers_count_done(const struct moietyi_workers *workers)
{
    size_t done = workers->begun_bytes < workers->failed_at
                      ? workers->begun_bytes
                      : workers->failed_at;
    for (uint32_t i = 0; i < MOIETYI_WORKERS_MAX; i++)
        if (workers->working_at[i] < done)
            done = workers->working_at[i];
    return done;
}

size_t moietyi_workers_done(struct moietyi_workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    size_t done = workers_count_done(workers);
    pthread_mutex_unlock(&workers->lock);
    return done;
}

/* Lock held. */
static void workers_wait(struct moietyi_workers *workers)
{
    uint64_t end_ns = moietyi_now_ns() + MOIETYI_TICK_NS;
    const struct timespec until = {(time_t)(end_ns / 1000000000U),
                                   (long)(end_ns % 1000000000U)};
    if (workers->thread_count)
        (void)pthread_cond_timedwait(&workers->moved, &workers->lock, &until);
    else
        (void)workers_work_once(workers, 0);
}

bool moietyi_workers_await(struct moietyi_workers *workers, size_t end_bytes,
                           struct moietyi_progress *progress, bool reports_work)
{
    pthread_mutex_lock(&workers->lock);
    size_t done = workers_count_done(workers);
    size_t told = SIZE_MAX;
    while (done != told || (done < end_bytes && done != workers->failed_at &&
                            !moietyi_progress_is_over(progress))) {
        if (done == told) {
            workers_wait(workers);
            done = workers_count_done(workers);
        }
        pthread_mutex_unlock(&workers->lock);
        moietyi_progress_tick(progress, reports_work ? done : 0);
        /* A child has no crew, and the crew may have held the lock. */
        if (moietyi_is_forked())
            return false;
        told = done;
        pthread_mutex_lock(&workers->lock);
    }
    pthread_mutex_unlock(&workers->lock);
    return done >= end_bytes;
}

void moietyi_workers_end(struct moietyi_workers *workers)
{
    if (moietyi_is_forked())
        return;
    pthread_mutex_lock(&workers->lock);
    workers->is_stopped = true;
    pthread_cond_broadcast(&workers->granted);
    pthread_mutex_unlock(&workers->lock);
    for (uint32_t i = 0; i < workers->thread_count; i++)
        (void)pthread_join(workers->threads[i], NULL);
    (void)pthread_cond_destroy(&workers->moved);
    (void)pthread_cond_destroy(&workers->granted);
    (void)pthread_mutex_destroy(&workers->lock);
}
