/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/progress/freeze.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "pool/base/step.h"

/* NULL in all threads but one. */
static _Thread_local struct freeze_wish *followed;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
/* Written under the lock; read by anybody, relaxed, since nothing else is
 * concluded from it. */
static _Atomic bool is_on;
/* Of the thread that stands still; under the lock. */
static struct freeze_wish *stopped;

static void stand_still(struct freeze_wish *wish)
{
    pthread_mutex_lock(&lock);
    stopped = wish;
    atomic_store_explicit(&is_on, true, memory_order_relaxed);
    while (freeze_is_on())
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void moietyi_step(const char *name)
{
    struct freeze_wish *wish = followed;
    if (!wish || !wish->visits_left || strcmp(name, wish->step) != 0)
        return;
    if (--wish->visits_left == 0)
        stand_still(wish);
}

void freeze_follow(struct freeze_wish *wish)
{
    followed = wish;
}

struct freeze_wish *freeze_followed(void)
{
    return followed;
}

bool freeze_is_on(void)
{
    return atomic_load_explicit(&is_on, memory_order_relaxed);
}

void freeze_release(void)
{
    freeze_release_until(0);
}

void freeze_release_until(uint32_t visits)
{
    pthread_mutex_lock(&lock);
    if (freeze_is_on())
        stopped->visits_left = visits;
    atomic_store_explicit(&is_on, false, memory_order_relaxed);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
