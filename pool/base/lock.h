/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Locks that others' first calls need: those of the process, and of a pool's
 * table of streams. Each is held for an instant, so nobody calls the driver,
 * allocates or waits with one. A build with MOIETYI_WATCH_LOCKS=1 counts what
 * each thread holds, and ends the process where it does so nevertheless; the
 * configurations of sanitizers are such builds.
 */
#ifndef MOIETY_POOL_BASE_LOCK_H_
#define MOIETY_POOL_BASE_LOCK_H_

#include <pthread.h>
#include <stdbool.h>

#ifndef MOIETYI_WATCH_LOCKS
#define MOIETYI_WATCH_LOCKS 0
#endif

/* Notes that this thread holds the lock from now on. */
void moietyi_locks_count(int by);
/* Before a call that can take long. Ends the process if the thread holds
 * one. */
void moietyi_locks_check(const char *what);

#if MOIETYI_WATCH_LOCKS
#define MOIETYI_LOCKS_COUNT(by) moietyi_locks_count(by)
#define MOIETYI_LOCKS_CHECK(what) moietyi_locks_check(what)
#else
#define MOIETYI_LOCKS_COUNT(by) ((void)0)
#define MOIETYI_LOCKS_CHECK(what) ((void)0)
#endif

static inline void moietyi_lock(pthread_mutex_t *lock)
{
    pthread_mutex_lock(lock);
    MOIETYI_LOCKS_COUNT(1);
}

static inline bool moietyi_try_lock(pthread_mutex_t *lock)
{
    bool is_held = pthread_mutex_trylock(lock) == 0;
    if (is_held)
        MOIETYI_LOCKS_COUNT(1);
    return is_held;
}

static inline void moietyi_unlock(pthread_mutex_t *lock)
{
    MOIETYI_LOCKS_COUNT(-1);
    pthread_mutex_unlock(lock);
}

/* Lets go of the lock, the only one, until somebody signals. */
static inline void moietyi_lock_wait(pthread_mutex_t *lock,
                                     pthread_cond_t *until)
{
    MOIETYI_LOCKS_COUNT(-1);
    MOIETYI_LOCKS_CHECK("a wait");
    pthread_cond_wait(until, lock);
    MOIETYI_LOCKS_COUNT(1);
}

#endif
