/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/crew.h"

#include <pthread.h>
#include <signal.h>

#define CREW_MAX 64U
/* Long enough that a thread is worth it, short enough that the last pieces end
 * at about the same time. */
#define PIECE_BYTES ((size_t)16 << 20)

struct crew {
    const struct binadei_crew_options *options;
    struct binadei_region *region;
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
static char *crew_take(struct crew *crew, size_t *size_bytes)
{
    pthread_mutex_lock(&crew->lock);
    size_t left = crew->region->size_bytes - crew->begun_bytes;
    char *from = (char *)crew->region->base + crew->begun_bytes;
    if (crew->has_failed)
        left = 0;
    *size_bytes = left < crew->piece_bytes ? left : crew->piece_bytes;
    crew->begun_bytes += *size_bytes;
    pthread_mutex_unlock(&crew->lock);
    return *size_bytes ? from : NULL;
}

static void crew_settle(struct crew *crew, size_t size_bytes, bool is_done)
{
    pthread_mutex_lock(&crew->lock);
    if (is_done)
        crew->done_bytes += size_bytes;
    else
        crew->has_failed = true;
    pthread_cond_signal(&crew->moved);
    pthread_mutex_unlock(&crew->lock);
}

static bool work_once(struct crew *crew)
{
    size_t size_bytes;
    char *from = crew_take(crew, &size_bytes);
    if (!from)
        return false;
    crew_settle(crew, size_bytes,
                crew->options->work(crew->options->job, from, size_bytes));
    return true;
}

static void *work(void *argument)
{
    struct crew *crew = argument;
    const struct binadei_place *place = crew->options->place;
    /* Refused, the memory is where it was bound to all the same: slower. */
    if (!hwloc_bitmap_iszero(place->cpus))
        (void)hwloc_set_cpubind(place->topology, place->cpus,
                                HWLOC_CPUBIND_THREAD);
    while (work_once(crew))
        ;
    pthread_mutex_lock(&crew->lock);
    crew->working_count--;
    pthread_cond_signal(&crew->moved);
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

static void report(const struct crew *crew, size_t done_bytes)
{
    const struct binadei_progress *progress = crew->options->progress;
    if (progress && progress->report)
        progress->report(progress->user_data, progress->done_bytes + done_bytes,
                         progress->total_bytes);
}

/* Lock held, but not while it reports. The last that is done is reported too,
 * also when all was done before this began to wait. */
static void wait_locked(struct crew *crew, size_t reported)
{
    while (crew->working_count || crew->done_bytes != reported) {
        if (crew->done_bytes == reported) {
            (void)pthread_cond_wait(&crew->moved, &crew->lock);
            continue;
        }
        reported = crew->done_bytes;
        pthread_mutex_unlock(&crew->lock);
        report(crew, reported);
        pthread_mutex_lock(&crew->lock);
    }
}

static uint32_t count_wanted(const struct crew *crew)
{
    size_t pieces = (crew->region->size_bytes - 1) / crew->piece_bytes + 1;
    uint32_t wanted = crew->options->thread_max;
    if (wanted > CREW_MAX)
        wanted = CREW_MAX;
    return pieces < wanted ? (uint32_t)pieces : wanted;
}

/* How many could be started. Signals are for the program's own threads. */
static uint32_t crew_start(struct crew *crew, pthread_t *threads,
                           uint32_t wanted)
{
    sigset_t all;
    sigset_t own;
    uint32_t count = 0;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &own) != 0)
        return 0;
    while (count < wanted) {
        pthread_mutex_lock(&crew->lock);
        crew->working_count++;
        pthread_mutex_unlock(&crew->lock);
        if (pthread_create(&threads[count], NULL, work, crew) != 0) {
            pthread_mutex_lock(&crew->lock);
            crew->working_count--;
            pthread_mutex_unlock(&crew->lock);
            break;
        }
        count++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &own, NULL);
    return count;
}

/* What it reported last. */
static size_t work_here(struct crew *crew)
{
    size_t reported = 0;
    while (work_once(crew)) {
        reported = crew->done_bytes;
        report(crew, reported);
    }
    return reported;
}

static void crew_run(struct crew *crew)
{
    pthread_t threads[CREW_MAX];
    uint32_t wanted = count_wanted(crew);
    uint32_t count = crew_start(crew, threads, wanted);
    if (count < wanted)
        crew->region->fallbacks |= BINADE_HOST_FELL_TO_FEWER_THREADS;
    if (count > crew->region->thread_count)
        crew->region->thread_count = count;
    size_t reported = count ? 0 : work_here(crew);
    pthread_mutex_lock(&crew->lock);
    wait_locked(crew, reported);
    pthread_mutex_unlock(&crew->lock);
    for (uint32_t i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
}

bool binadei_crew_run(const struct binadei_crew_options *options,
                      struct binadei_region *region)
{
    size_t page_bytes =
        region->pages == BINADEI_PAGES_1GIB ? (size_t)1 << 30 : PIECE_BYTES;
    struct crew crew = {
        .options = options,
        .region = region,
        .piece_bytes = page_bytes,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .moved = PTHREAD_COND_INITIALIZER,
    };
    crew_run(&crew);
    (void)pthread_cond_destroy(&crew.moved);
    (void)pthread_mutex_destroy(&crew.lock);
    return !crew.has_failed;
}
