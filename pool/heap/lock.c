/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE /* syscall() */

#include "pool/heap/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Some 20 us: many holds, and less than a thread without a processor is
 * away. */
#define SPINS_MOST 256U
#define PAUSES_MOST 32U

/* Longer each time, so that waiters do not take the line from the holder. */
static bool spin(struct moietyi_heap_lock *lock)
{
    unsigned pauses = 1;
    for (unsigned i = 0; i < SPINS_MOST; i++) {
        moietyi_spin(pauses);
        if (pauses < PAUSES_MOST)
            pauses *= 2;
        if (moietyi_heap_lock_is_open(lock) && moietyi_heap_lock_try(lock))
            return true;
    }
    return false;
}

void moietyi_heap_lock_await(struct moietyi_heap_lock *lock)
{
    if (spin(lock))
        return;
    /* HK.acquire, if it was open. Other threads may sleep as well. */
    while (atomic_exchange_explicit(&lock->state, MOIETYI_HEAP_AWAITED,
                                    memory_order_acquire) != MOIETYI_HEAP_OPEN)
        (void)syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE,
                      MOIETYI_HEAP_AWAITED, NULL, NULL, 0);
    MOIETYI_LOCKS_COUNT(1);
    MOIETYI_HEAP_HOLD_BEGINS(lock);
}

void moietyi_heap_lock_wake(struct moietyi_heap_lock *lock)
{
    (void)syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL,
                  0);
}
