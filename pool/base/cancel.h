/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Cancellation of threads. A thread that pthread_cancel() ends in the middle of
 * a call would leave locks, counts and memory behind. So every call that may
 * block, or that calls the program back, holds cancellation: it takes effect at
 * the caller's next cancellation point after the call. Holds nest.
 */
#ifndef MOIETY_POOL_BASE_CANCEL_H_
#define MOIETY_POOL_BASE_CANCEL_H_

#include <pthread.h>

/* Returns what moietyi_cancel_restore() takes. */
static inline int moietyi_cancel_hold(void)
{
    int before = PTHREAD_CANCEL_ENABLE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void moietyi_cancel_restore(int before)
{
    int held;
    (void)pthread_setcancelstate(before, &held);
}

#endif
