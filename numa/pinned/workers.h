/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A crew: threads on the CPUs of some nodes that work through a stretch of memory
 * in order, chunk by chunk. The caller waits until they have passed a point, and
 * grants how far they may go.
 */
#ifndef MOIETY_NUMA_PINNED_WORKERS_H_
#define MOIETY_NUMA_PINNED_WORKERS_H_

#include <pthread.h>

#include "numa/pinned/progress.h"
#include "numa/pinned/region.h"

#define MOIETYI_WORKERS_MAX 64U

/* Starts a thread in which no handler of the program's signals runs. 0 or an errno. */
MOIETY_MUST_USE int moietyi_thread_start(pthread_t *out, void *(*run)(void *),
                                         void *argument);

/* Called by the crew's threads with chunks that do not overlap; false stops the
 * workers. */
typedef bool moietyi_workers_fn(void *job, char *from, size_t size_bytes);

struct moietyi_workers {
    /* Constant. */
    moietyi_workers_fn *work;
    void *job;
    const struct moietyi_place *place;
    const struct moietyi_progress
        *progress; /* no chunk is begun if it is over */
    char *base;
    size_t size_bytes;
    size_t chunk_bytes; /* but for the last */
    uint32_t thread_count;
    pthread_t threads[MOIETYI_WORKERS_MAX];

    pthread_mutex_t lock;
    pthread_cond_t moved;   /* a chunk was settled */
    pthread_cond_t granted; /* there is more to do, or nothing any more */
    /* Under the lock. Offsets in bytes. */
    size_t begun_bytes;
    size_t granted_bytes;
    size_t failed_at; /* SIZE_MAX: nothing failed */
    size_t
        working_at[MOIETYI_WORKERS_MAX]; /* by thread; SIZE_MAX: it is idle */
    uint32_t joined_count;
    bool is_stopped;
};

struct moietyi_workers_options {
    moietyi_workers_fn *work;
    void *job;
    const struct moietyi_place *place;
    const struct moietyi_progress *progress; /* outlives the crew */
    uint32_t thread_max;
};
/* Begins with work on the region, of which nothing is granted. `thread_max` is 0 for
 * the caller's thread alone. If no thread can be started, the caller works while it
 * waits; a region with fewer threads than planned gets the bit
 * MOIETY_HOST_FELL_TO_FEWER_THREADS. It must be ended. */
void moietyi_workers_begin(struct moietyi_workers *workers,
                           const struct moietyi_workers_options *options,
                           struct moietyi_region *region);
void moietyi_workers_grant(struct moietyi_workers *workers, size_t end_bytes);
/* Waits until all before `end_bytes`, which are granted, is done, with a tick of
 * `progress` at least every 20 ms. `more_bytes` of a tick are those done if
 * `reports_work`, and 0 otherwise. False: work failed before that point, and none
 * goes on before it, or the program ended the call. */
bool moietyi_workers_await(struct moietyi_workers *workers, size_t end_bytes,
                           struct moietyi_progress *progress,
                           bool reports_work);
/* Bytes that are done without a gap. */
size_t moietyi_workers_done(struct moietyi_workers *workers);
/* Waits for the chunks that are begun. No thread is left. In a child of a fork it does
 * nothing. */
void moietyi_workers_end(struct moietyi_workers *workers);

#endif
