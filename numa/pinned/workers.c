/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/workers.h"

#include <pthread.h>
#include <signal.h>

#define WORKERS_MAX 64U
/* Long enough that a thread is worth it, short enough that the last pieces end
 * at about the same time. */
#define PIECE_BYTES ((size_t)16 << 20)

struct workers {
    const struct moietyi_workers_options *options;
    struct moietyi_region *region;
    size_t piece_bytes;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    /* Under the lock. */
    size_t begun_bytes;
    size_t done_bytes;
    uint32_t working_count;
    bool has_failed;
};

/* A piece that nobody has begun, of `*size_bytes`; NULL when there is none. */
static char *workers_take(struct workers *workers, size_t *size_bytes)
{
    pthread_mutex_lock(&workers->lock);
    size_t left = workers->region->size_bytes - workers->begun_bytes;
    char *from = (char *)workers->region->base + workers->begun_bytes;
    if (workers->has_failed)
        left = 0;
    *size_bytes = left < workers->piece_bytes ? left : workers->piece_bytes;
    workers->begun_bytes += *size_bytes;
    pthread_mutex_unlock(&workers->lock);
    return *size_bytes ? from : NULL;
}

static void workers_settle(struct workers *workers, size_t size_bytes,
                           bool is_done)
{
    pthread_mutex_lock(&workers->lock);
    if (is_done)
        workers->done_bytes += size_bytes;
    else
        workers->has_failed = true;
    pthread_cond_signal(&workers->moved);
    pthread_mutex_unlock(&workers->lock);
}

static bool work_once(struct workers *workers)
{
    size_t size_bytes;
    char *from = workers_take(workers, &size_bytes);
    if (!from)
        return false;
    workers_settle(
        workers, size_bytes,
        workers->options->work(workers->options->job, from, size_bytes));
    return true;
}

static void *work(void *argument)
{
    struct workers *workers = argument;
    const struct moietyi_place *place = workers->options->place;
    /* If it is refused, the memory is bound all the same, only slower. */
    if (!hwloc_bitmap_iszero(place->cpus))
        (void)hwloc_set_cpubind(place->topology, place->cpus,
                                HWLOC_CPUBIND_THREAD);
    while (work_once(workers))
        ;
    pthread_mutex_lock(&workers->lock);
    workers->working_count--;
    pthread_cond_signal(&workers->moved);
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

static void report(const struct workers *workers, size_t done_bytes)
{
    const struct moietyi_progress *progress = workers->options->progress;
    if (progress && progress->report)
        progress->report(progress->user_data, progress->done_bytes + done_bytes,
                         progress->total_bytes);
}

/* Lock held, but not while it reports. The last that is done is reported too,
 * also when all was done before this began to wait. */
static void wait_locked(struct workers *workers, size_t reported)
{
    while (workers->working_count || workers->done_bytes != reported) {
        if (workers->done_bytes == reported) {
            (void)pthread_cond_wait(&workers->moved, &workers->lock);
            continue;
        }
        reported = workers->done_bytes;
        pthread_mutex_unlock(&workers->lock);
        report(workers, reported);
        pthread_mutex_lock(&workers->lock);
    }
}

static uint32_t count_wanted(const struct workers *workers)
{
    size_t pieces =
        (workers->region->size_bytes - 1) / workers->piece_bytes + 1;
    uint32_t wanted = workers->options->thread_max;
    if (wanted > WORKERS_MAX)
        wanted = WORKERS_MAX;
    return pieces < wanted ? (uint32_t)pieces : wanted;
}

/* How many could be started. Signals are for the program's own threads. */
static uint32_t workers_start(struct workers *workers, pthread_t *threads,
                              uint32_t wanted)
{
    sigset_t all;
    sigset_t own;
    uint32_t count = 0;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &own) != 0)
        return 0;
    while (count < wanted) {
        pthread_mutex_lock(&workers->lock);
        workers->working_count++;
        pthread_mutex_unlock(&workers->lock);
        if (pthread_create(&threads[count], NULL, work, workers) != 0) {
            pthread_mutex_lock(&workers->lock);
            workers->working_count--;
            pthread_mutex_unlock(&workers->lock);
            break;
        }
        count++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &own, NULL);
    return count;
}

/* The last progress that it reported. */
static size_t work_here(struct workers *workers)
{
    size_t reported = 0;
    while (work_once(workers)) {
        reported = workers->done_bytes;
        report(workers, reported);
    }
    return reported;
}

static void workers_run(struct workers *workers)
{
    pthread_t threads[WORKERS_MAX];
    uint32_t wanted = count_wanted(workers);
    uint32_t count = workers_start(workers, threads, wanted);
    if (count < wanted)
        workers->region->fallbacks |= MOIETY_HOST_FELL_TO_FEWER_THREADS;
    if (count > workers->region->thread_count)
        workers->region->thread_count = count;
    size_t reported = count ? 0 : work_here(workers);
    pthread_mutex_lock(&workers->lock);
    wait_locked(workers, reported);
    pthread_mutex_unlock(&workers->lock);
    for (uint32_t i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
}

bool moietyi_workers_run(const struct moietyi_workers_options *options,
                         struct moietyi_region *region)
{
    size_t page_bytes =
        region->pages == MOIETYI_PAGES_1GIB ? (size_t)1 << 30 : PIECE_BYTES;
    struct workers workers = {
        .options = options,
        .region = region,
        .piece_bytes = page_bytes,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .moved = PTHREAD_COND_INITIALIZER,
    };
    workers_run(&workers);
    (void)pthread_cond_destroy(&workers.moved);
    (void)pthread_mutex_destroy(&workers.lock);
    return !workers.has_failed;
}
