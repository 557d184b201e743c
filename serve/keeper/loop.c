/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One event at a time, so that no event is left over for an object that an event
 * before it has freed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "pool/base/failure.h"
#include "serve/keeper/keeper.h"

bool moietyi_keeper_watch(struct moietyi_keeper *keeper, int descriptor,
                          void *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = source}};
    return epoll_ctl(keeper->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void moietyi_keeper_unwatch(struct moietyi_keeper *keeper, int descriptor)
{
    (void)epoll_ctl(keeper->epoll, EPOLL_CTL_DEL, descriptor, NULL);
}

/* The vault has blocked the signal. */
static bool keeper_start_signals(struct moietyi_keeper *keeper)
{
    sigset_t drain;
    (void)sigemptyset(&drain);
    (void)sigaddset(&drain, SIGUSR1);
    keeper->signals = signalfd(-1, &drain, SFD_CLOEXEC | SFD_NONBLOCK);
    return keeper->signals >= 0 &&
           moietyi_keeper_watch(keeper, keeper->signals, &keeper->signals_kind);
}

/* How many this process can have. */
static int descriptors_most(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT_MAX)
        return INT_MAX;
    return (int)limit.rlim_cur;
}

static bool keeper_start(struct moietyi_keeper *keeper)
{
    keeper->listener_kind = MOIETYI_SOURCE_LISTENER;
    keeper->closer_kind = MOIETYI_SOURCE_CLOSER;
    keeper->signals_kind = MOIETYI_SOURCE_SIGNALS;
    keeper->descriptors = descriptors_most();
    keeper->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (keeper->epoll < 0 || !moietyi_closer_start(&keeper->closer) ||
        !moietyi_keeper_watch(keeper, keeper->closer.event,
                              &keeper->closer_kind) ||
        !keeper_start_signals(keeper)) {
        perror("moiety-serve: epoll, the closer and signals");
        return false;
    }
    if (moietyi_keeper_restore(keeper) != MOIETY_OK) {
        (void)fprintf(stderr, "moiety-serve: %s\n", moietyi_failure_message());
        return false;
    }
    return moietyi_keeper_watch(keeper, keeper->listener,
                                &keeper->listener_kind);
}

/* From now on it only loses regions, and ends with the last one. */
static void keeper_drain(struct moietyi_keeper *keeper)
{
    struct signalfd_siginfo signal;
    ssize_t got = read(keeper->signals, &signal, sizeof(signal));
    (void)got;
    keeper->is_draining = true;
    (void)moietyi_keeper_drop_all(keeper, true);
}

static void keeper_handle(struct moietyi_keeper *keeper, void *source)
{
    uint64_t count;
    ssize_t got;
    switch (*(const enum moietyi_source_kind *)source) {
    case MOIETYI_SOURCE_LISTENER:
        moietyi_keeper_accept(keeper);
        break;
    case MOIETYI_SOURCE_CLOSER:
        /* The sweep reads what was closed. */
        got = read(keeper->closer.event, &count, sizeof(count));
        (void)got;
        break;
    case MOIETYI_SOURCE_SIGNALS:
        keeper_drain(keeper);
        break;
    case MOIETYI_SOURCE_CLIENT:
        moietyi_client_read(keeper, source);
        break;
    case MOIETYI_SOURCE_HOLD:
        moietyi_hold_end(keeper, source);
        break;
    }
}

int moietyi_keeper_serve(int vault, void *context)
{
    struct moietyi_keeper *keeper = context;
    keeper->vault = vault;
    if (!keeper_start(keeper))
        return 1;
    for (;;) {
        struct epoll_event event;
        int wait_ms = moietyi_clients_check(keeper);
        int count = epoll_wait(keeper->epoll, &event, 1, wait_ms);
        if (count < 0 && errno != EINTR)
            return 1;
        if (count > 0)
            keeper_handle(keeper, event.data.ptr);
        moietyi_keeper_sweep(keeper);
        if (keeper->is_draining && !keeper->regions)
            return 0;
    }
}
