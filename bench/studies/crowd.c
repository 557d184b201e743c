/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "bench/studies/crowd.h"

#include <pthread.h>
#include <stdlib.h>

#include "bench/base/clock.h"
#include "bench/base/resident.h"
#include "bench/studies/crew.h"
#include "bench/subjects/pool.h"

/* So that address space for thousands is never short. */
#define STACK_BYTES ((size_t)64 << 10)
/* Of the thread that works. */
#define PLACES 64U
#define WARM_PAIRS 20000U
/* A quarter of which is what one thread's caches may hold by default. */
#define GROWN_BYTES (UINT64_C(256) << 20)

enum stage {
    STAGE_COMING,  /* the threads start */
    STAGE_WORKING, /* and do their pairs */
    STAGE_LEAVING, /* and end */
};

struct crowd {
    const struct subject *subject;
    const struct crowd_job *job;
    pthread_mutex_t lock;
    pthread_cond_t all_there;
    pthread_cond_t goes_on;
    /* Under the lock. */
    enum stage stage;
    uint32_t there; /* threads that wait for the next stage */
    /* The threads that pthread_create() started. */
    struct member *members;
    uint32_t count;
};

struct member {
    struct crowd *crowd;
    pthread_t thread;
    uint64_t failed;
    bool is_attached;
};

static void wait_for(struct crowd *crowd, enum stage stage)
{
    (void)pthread_mutex_lock(&crowd->lock);
    if (++crowd->there == crowd->count)
        (void)pthread_cond_signal(&crowd->all_there);
    while (crowd->stage < stage)
        (void)pthread_cond_wait(&crowd->goes_on, &crowd->lock);
    (void)pthread_mutex_unlock(&crowd->lock);
}

static void await_all(struct crowd *crowd)
{
    (void)pthread_mutex_lock(&crowd->lock);
    while (crowd->there < crowd->count)
        (void)pthread_cond_wait(&crowd->all_there, &crowd->lock);
    (void)pthread_mutex_unlock(&crowd->lock);
}

static void enter_stage(struct crowd *crowd, enum stage stage)
{
    (void)pthread_mutex_lock(&crowd->lock);
    crowd->stage = stage;
    crowd->there = 0;
    (void)pthread_cond_broadcast(&crowd->goes_on);
    (void)pthread_mutex_unlock(&crowd->lock);
}

/* Queues the lag's work behind a call. */
static void follow(const struct crowd *crowd, uint32_t thread, uint32_t stream,
                   uint64_t address)
{
    if (crowd->subject->follow)
        crowd->subject->follow(thread, stream, address, crowd->job->size_bytes);
}

static void do_pairs(struct member *member, uint32_t thread)
{
    const struct subject *subject = member->crowd->subject;
    const struct crowd_job *job = member->crowd->job;
    for (uint32_t i = 0; i < job->stream_count * job->pairs; i++) {
        uint32_t stream = i % job->stream_count;
        uint64_t address = subject->alloc(thread, job->size_bytes, stream);
        if (!address) {
            member->failed++;
            continue;
        }
        follow(member->crowd, thread, stream, address);
        subject->free(thread, address, job->size_bytes, stream);
        follow(member->crowd, thread, stream, 0);
    }
}

static void *run_member(void *argument)
{
    struct member *member = argument;
    struct crowd *crowd = member->crowd;
    uint32_t thread = (uint32_t)(member - crowd->members);
    member->is_attached =
        !crowd->subject->attach || crowd->subject->attach(thread);
    wait_for(crowd, STAGE_WORKING);
    if (member->is_attached)
        do_pairs(member, thread);
    wait_for(crowd, STAGE_LEAVING);
    return NULL;
}

/* False: not all of them could be started, and those that were wait. */
static bool start_members(struct crowd *crowd)
{
    pthread_attr_t small;
    uint32_t started = 0;
    crowd->count = crowd->job->thread_count;
    if (pthread_attr_init(&small) != 0)
        return false;
    (void)pthread_attr_setstacksize(&small, STACK_BYTES);
    for (; started < crowd->job->thread_count; started++) {
        struct member *member = &crowd->members[started];
        member->crowd = crowd;
        if (pthread_create(&member->thread, &small, run_member, member) != 0)
            break;
    }
    (void)pthread_attr_destroy(&small);
    /* Nobody waits for the last one yet. */
    (void)pthread_mutex_lock(&crowd->lock);
    crowd->count = started;
    (void)pthread_mutex_unlock(&crowd->lock);
    return started == crowd->job->thread_count;
}

static const char *join_members(struct crowd *crowd, struct crowd_found *out)
{
    const char *why = NULL;
    uint64_t start_ns = clock_now_ns();
    enter_stage(crowd, STAGE_LEAVING);
    for (uint32_t i = 0; i < crowd->count; i++) {
        (void)pthread_join(crowd->members[i].thread, NULL);
        out->failed += crowd->members[i].failed;
        if (!crowd->members[i].is_attached)
            why = "a thread cannot use it";
    }
    out->end_ns = clock_now_ns() - start_ns;
    return why;
}

static void read_stats(moiety_stats *out)
{
    out->struct_size = sizeof(*out);
    if (moiety_pool_stats(subject_moiety_pool(), out) != MOIETY_OK)
        abort();
}

/* Nobody else allocates meanwhile. */
static const char *run_worker(const struct crowd *crowd, struct crowd_work *out)
{
    const struct crew_job job = {.thread_count = 1,
                                 .places = PLACES,
                                 .warm_pairs = WARM_PAIRS,
                                 .pairs = crowd->job->work_pairs,
                                 .seed = crowd->job->seed};
    struct crew_found found;
    moiety_stats before = {0};
    moiety_stats after = {0};
    read_stats(&before);
    const char *why = crew_run(crowd->subject, &job, &found);
    read_stats(&after);
    if (why)
        return why;
    uint64_t hits = after.cache_hits - before.cache_hits;
    uint64_t all = hits + after.cache_misses - before.cache_misses;
    *out = (struct crowd_work){.mean_ns = found.mean_ns,
                               .hits = all ? (double)hits / (double)all : 0,
                               .failed = found.failed};
    return NULL;
}

/* All are there, and have used nothing of the pool. */
static const char *run_beside(struct crowd *crowd, struct crowd_found *out)
{
    await_all(crowd);
    read_stats(&out->coming);
    uint64_t before_bytes = resident_bytes();
    enter_stage(crowd, STAGE_WORKING);
    await_all(crowd);
    uint64_t after_bytes = resident_bytes();
    if (after_bytes > before_bytes)
        out->host_bytes = after_bytes - before_bytes;
    read_stats(&out->resting);
    return run_worker(crowd, &out->beside);
}

static const char *run_crowd(struct crowd *crowd, struct crowd_found *out)
{
    const char *why = start_members(crowd)
                          ? run_beside(crowd, out)
                          : "so many threads cannot be started";
    const char *why_join = join_members(crowd, out);
    return why ? why : why_join;
}

/* How much a cache may hold depends on what the pool has reserved, so it
 * reserves before the first work what all will need, if it can. */
static void grow_pool(const struct crowd *crowd)
{
    const struct crowd_job *job = crowd->job;
    uint64_t size_bytes = GROWN_BYTES + (uint64_t)job->thread_count *
                                            job->stream_count * job->size_bytes;
    uint64_t address = crowd->subject->alloc(0, size_bytes, 0);
    if (address)
        crowd->subject->free(0, address, size_bytes, SUBJECT_STREAM_DONE);
}

static const char *run_all(struct crowd *crowd, struct crowd_found *out)
{
    if (crowd->subject->attach && !crowd->subject->attach(0))
        return "a thread cannot use it";
    grow_pool(crowd);
    const char *why = run_worker(crowd, &out->before);
    if (!why)
        why = run_crowd(crowd, out);
    if (!why)
        why = run_worker(crowd, &out->after);
    return why;
}

const char *crowd_run(const struct subject *subject,
                      const struct crowd_job *job, struct crowd_found *out)
{
    struct crowd crowd = {.subject = subject,
                          .job = job,
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .all_there = PTHREAD_COND_INITIALIZER,
                          .goes_on = PTHREAD_COND_INITIALIZER};
    *out = (struct crowd_found){0};
    crowd.members = calloc(job->thread_count, sizeof(*crowd.members));
    if (!crowd.members)
        return "there is no host memory";
    const char *why = run_all(&crowd, out);
    free(crowd.members);
    return why;
}
