/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One run: three workers at work, a fourth thread that roams until it stops at
 * the step, then a number of operations of every worker, then the end of the
 * standstill. The watch asks, in long intervals, whether every worker has
 * completed anything since the last time; how fast is not asked.
 */
#include "tests/progress/progress.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/progress/freeze.h"

/* Operations after which a step that was never passed never will be. */
#define ROAMS_MAX 20000000U

struct run;

struct seat {
    struct run *run;
    unsigned index;
    /* Completed while one stood still. Its worker writes; the watch reads. */
    _Atomic uint32_t completed;
};

struct run {
    const struct progress_case *test;
    void *state;
    bool is_locked;
    struct seat seats[PROGRESS_THREADS];
    _Atomic bool is_over;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t changed;
    unsigned entered;
    unsigned finished; /* workers that have completed enough */
    bool has_roamed;   /* the fourth thread has come to its end */
};

static void note(struct run *run, unsigned *count)
{
    pthread_mutex_lock(&run->lock);
    ++*count;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

/* Nobody is to stop before everybody has taken the locks of a beginning. */
static void enter(struct seat *seat)
{
    struct run *run = seat->run;
    run->test->subject->enter(run->state, seat->index);
    note(run, &run->entered);
    pthread_mutex_lock(&run->lock);
    while (run->entered < PROGRESS_THREADS)
        pthread_cond_wait(&run->changed, &run->lock);
    pthread_mutex_unlock(&run->lock);
}

static void *work(void *argument)
{
    struct seat *seat = argument;
    struct run *run = seat->run;
    const struct progress_subject *subject = run->test->subject;
    enter(seat);
    while (!atomic_load(&run->is_over)) {
        bool is_done = subject->work(run->state, seat->index, run->is_locked);
        if (is_done && freeze_is_on() &&
            atomic_fetch_add(&seat->completed, 1) + 1 == PROGRESS_OPERATIONS)
            note(run, &run->finished);
    }
    subject->leave(run->state, seat->index);
    return NULL;
}

static void *roam(void *argument)
{
    struct seat *seat = argument;
    struct run *run = seat->run;
    const struct progress_subject *subject = run->test->subject;
    enter(seat);
    struct freeze_wish wish = {run->test->step, run->test->visit};
    freeze_follow(&wish);
    for (uint32_t i = 0; i < ROAMS_MAX && !atomic_load(&run->is_over); i++)
        subject->roam(run->state, seat->index, run->is_locked);
    freeze_follow(NULL);
    pthread_mutex_lock(&run->lock);
    run->has_roamed = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    subject->leave(run->state, seat->index);
    return NULL;
}

/* Which worker has completed nothing since `before`; or PROGRESS_WORKERS. */
static unsigned find_idle(struct run *run, uint32_t before[PROGRESS_WORKERS])
{
    unsigned idle = PROGRESS_WORKERS;
    for (unsigned i = 0; i < PROGRESS_WORKERS; i++) {
        uint32_t now = atomic_load(&run->seats[i].completed);
        if (now == before[i] && now < PROGRESS_OPERATIONS)
            idle = i;
        before[i] = now;
    }
    return idle;
}

/* Waits for one change, or until the watch's next look is due; then false. */
static bool await_change(struct run *run, const struct timespec *deadline)
{
    return pthread_cond_timedwait(&run->changed, &run->lock, deadline) == 0;
}

static struct timespec deadline_in(uint32_t seconds)
{
    struct timespec deadline;
    (void)timespec_get(&deadline, TIME_UTC);
    deadline.tv_sec += seconds;
    return deadline;
}

/* NULL when all workers got their operations done. */
static const char *watch(struct run *run)
{
    uint32_t before[PROGRESS_WORKERS] = {0};
    bool was_on = false;
    const char *failure = NULL;
    struct timespec deadline = deadline_in(run->test->patience_s);
    pthread_mutex_lock(&run->lock);
    while (!failure && run->finished < PROGRESS_WORKERS) {
        bool is_early = await_change(run, &deadline);
        if (run->has_roamed)
            failure = "no thread ever stopped there";
        if (is_early)
            continue;
        bool is_on = freeze_is_on();
        if (is_on && find_idle(run, before) < PROGRESS_WORKERS && was_on)
            failure = "a worker waits for the thread that stands still";
        was_on = is_on;
        deadline = deadline_in(run->test->patience_s);
    }
    pthread_mutex_unlock(&run->lock);
    return failure;
}

static const char *play(struct run *run)
{
    pthread_t threads[PROGRESS_THREADS];
    for (unsigned i = 0; i < PROGRESS_THREADS; i++) {
        run->seats[i].run = run;
        run->seats[i].index = i;
        (void)pthread_create(&threads[i], NULL,
                             i < PROGRESS_WORKERS ? work : roam,
                             &run->seats[i]);
    }
    const char *failure = watch(run);
    atomic_store(&run->is_over, true);
    freeze_release();
    for (unsigned i = 0; i < PROGRESS_THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    return failure;
}

bool progress_run(const struct progress_case *test,
                  char message[PROGRESS_MESSAGE_BYTES])
{
    struct run run = {.test = test,
                      .is_locked = strncmp(test->step, "locked.", 7) == 0,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER};
    run.state = test->subject->create();
    const char *failure = run.state ? play(&run) : "it cannot be created";
    const char *damage = run.state ? test->subject->destroy(run.state) : NULL;
    (void)snprintf(message, PROGRESS_MESSAGE_BYTES,
                   "%s, visit %u: %s%s%s (%u, %u, %u operations)", test->step,
                   test->visit, failure ? failure : "", damage ? damage : "",
                   failure || damage ? "" : "all is well",
                   atomic_load(&run.seats[0].completed),
                   atomic_load(&run.seats[1].completed),
                   atomic_load(&run.seats[2].completed));
    return !failure && !damage;
}
