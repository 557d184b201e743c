/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 199309L
#include "pool/base/clock.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "moiety/callbacks.h"

#include "pool/base/lock.h"

#define YIELDS 64U
#define SHORT_NAP_NS 20000L
/* 1, 2, 4, 8 and 16 us. */
#define BRIEF_STEP_NS UINT64_C(1000)
#define BRIEF_NS UINT64_C(31000)
#define ASK_NS UINT64_C(20000000)

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

void moietyi_yield_for(uint64_t duration_ns)
{
    uint64_t end_ns = moietyi_now_ns() + duration_ns;
    MOIETYI_LOCKS_CHECK("a wait");
    do
        (void)sched_yield();
    while (moietyi_now_ns() < end_ns);
}

bool moietyi_wait_briefly(uint64_t *waited_ns)
{
    if (*waited_ns >= BRIEF_NS)
        return false;
    uint64_t wait_ns = *waited_ns + BRIEF_STEP_NS;
    moietyi_yield_for(wait_ns);
    *waited_ns += wait_ns;
    return true;
}

void moietyi_nap_longer(long *duration_ns, long most_ns)
{
    if (*duration_ns < SHORT_NAP_NS)
        moietyi_yield_for((uint64_t)*duration_ns);
    else
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

/* Of `tick`, beside numbers of ASK_NS. */
#define NEVER_ASKED UINT32_MAX
#define INTERRUPTED (UINT32_MAX - 1)

struct interrupt {
    moiety_interrupt_fn *function;
    void *user;
    uint32_t tick; /* of the last question */
};

/* A pointer: a process that loads many copies of the library has little room
 * for thread-local storage. */
static _Thread_local struct interrupt *own;

void moiety_set_interrupt(moiety_interrupt_fn *function, void *user)
{
    if (!function) {
        free(own);
        own = NULL;
        return;
    }
    if (!own)
        own = malloc(sizeof(*own));
    if (own)
        *own = (struct interrupt){function, user, NEVER_ASKED};
}

void moietyi_interrupt_ask(void)
{
    if (!own || moietyi_is_interrupted())
        return;
    uint32_t tick = (uint32_t)(moietyi_now_ns() / ASK_NS) & INT32_MAX;
    if (tick == own->tick)
        return;
    own->tick = tick;
    /* It may set another one, or none. */
    if (own->function(own->user) && own)
        own->tick = INTERRUPTED;
}

bool moietyi_is_interrupted(void)
{
    return own && own->tick == INTERRUPTED;
}

bool moietyi_is_overdue(uint64_t end_ns)
{
    return moietyi_is_interrupted() || moietyi_now_ns() >= end_ns;
}
