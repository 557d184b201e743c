/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 199309L
#include "pool/base/clock.h"

#include <sched.h>
#include <time.h>

#include "pool/base/lock.h"

#define YIELDS 64U
#define SHORT_NAP_NS 20000L

uint64_t moietyi_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

void moietyi_nap(long duration_ns)
{
    const struct timespec nap = {duration_ns / 1000000000,
                                 duration_ns % 1000000000};
    MOIETYI_LOCKS_CHECK("a wait");
    (void)nanosleep(&nap, NULL);
}

void moietyi_nap_longer(long *duration_ns, long most_ns)
{
    moietyi_nap(*duration_ns);
    if (*duration_ns < most_ns)
        *duration_ns *= 2;
}

void moietyi_let_others(unsigned *rounds)
{
    MOIETYI_LOCKS_CHECK("a wait");
    if (++*rounds <= YIELDS)
        (void)sched_yield();
    else
        moietyi_nap(SHORT_NAP_NS);
}
