/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A growth is a reserve in a thread of its own, which the arena counts like any
 * other. The arena's lock, which is never freed, guards how far its growths are. A
 * handle is the program's, also after the arena's end.
 */
#include "numa/arena/growth.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "numa/arena/reserve.h"
#include "numa/pinned/workers.h"
#include "pool/base/cancel.h"
#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/later.h"

#define NS_OF_MS UINT64_C(1000000)

struct moiety_growth {
    struct moiety_host *host;
    uint64_t size_bytes;
    struct moietyi_progress progress; /* the thread's */
    pthread_t thread;
    int event; /* readable from its end on */
    /* Edge: none; relaxed, numbers that order nothing. */
    moietyi_atomic_word cancels;
    moietyi_atomic_word ready_bytes;
    /* Under the arena's lock. */
    struct moiety_growth *next;
    pthread_t runner;
    bool is_running;
    bool has_left;   /* the thread uses neither it nor the arena any more */
    bool is_dropped; /* by the program: who comes by joins and frees it */
    moiety_status status;
    struct moietyi_failure failure;
};

static void growth_note(void *user_data, uint64_t done_bytes,
                        uint64_t total_bytes)
{
    struct moiety_growth *growth = user_data;
    (void)total_bytes;
    /* relaxed: a number. */
    atomic_store_explicit(&growth->ready_bytes, done_bytes,
                          memory_order_relaxed);
}

static void growth_unlink_locked(struct moiety_growth *growth)
{
    struct moiety_growth **link = &growth->host->growths;
    while (*link != growth)
        link = &(*link)->next;
    *link = growth->next;
    /* Those that end all growths may wait for it. */
    pthread_cond_broadcast(&growth->host->growth_left);
}

static void growth_free(struct moiety_growth *growth)
{
    if (growth->event >= 0)
        (void)close(growth->event);
    free(growth);
}

static bool growth_is_own(const struct moiety_growth *growth)
{
    return growth->is_running && pthread_equal(growth->runner, pthread_self());
}

/* Lock held. One that nobody needs any more, off the list; NULL if there is none. */
static struct moiety_growth *growths_take_dropped(struct moiety_host *host)
{
    struct moiety_growth *one = host->growths;
    while (one && (!one->is_dropped || !one->has_left || growth_is_own(one)))
        one = one->next;
    if (one)
        growth_unlink_locked(one);
    return one;
}

/* Their threads have left, so that joining them waits for no work. */
static void growths_reap(struct moiety_host *host)
{
    for (;;) {
        pthread_mutex_lock(&host->lock);
        struct moiety_growth *one = growths_take_dropped(host);
        pthread_mutex_unlock(&host->lock);
        if (!one)
            return;
        (void)pthread_join(one->thread, NULL);
        growth_free(one);
    }
}

static void growth_leave(struct moiety_growth *growth, moiety_status status)
{
    struct moiety_host *host = growth->host;
    pthread_mutex_lock(&host->lock);
    growth->status = status;
    moietyi_failure_keep(&growth->failure);
    growth->has_left = true;
    host->reserve_count--;
    pthread_cond_broadcast(&host->growth_left);
    /* It neither fails nor waits: the counter is 0. */
    (void)eventfd_write(growth->event, 1);
    pthread_mutex_unlock(&host->lock);
}

static void *growth_run(void *argument)
{
    struct moiety_growth *growth = argument;
    struct moiety_host *host = growth->host;
    struct moietyi_progress *progress = &growth->progress;
    pthread_mutex_lock(&host->lock);
    growth->runner = pthread_self();
    growth->is_running = true;
    pthread_mutex_unlock(&host->lock);
    moiety_status status =
        moietyi_reserve_run(host, growth->size_bytes, progress);
    growth_note(growth, progress->done_bytes, progress->total_bytes);
    growth_leave(growth, status);
    /* An arena that was destroyed later waits for this. */
    moietyi_later_run(MOIETYI_END_LOOKS);
    return NULL;
}

/* On the list before its thread starts, which may be over at once. 0 or an errno. */
static int growth_start(struct moiety_growth *growth)
{
    struct moiety_host *host = growth->host;
    pthread_mutex_lock(&host->lock);
    growth->next = host->growths;
    host->growths = growth;
    pthread_mutex_unlock(&host->lock);
    int error = moietyi_thread_start(&growth->thread, growth_run, growth);
    if (error) {
        pthread_mutex_lock(&host->lock);
        growth_unlink_locked(growth);
        pthread_mutex_unlock(&host->lock);
    }
    return error;
}

/* Of a thread that has entered the arena. */
static moiety_status growth_make(struct moiety_host *host, uint64_t size_bytes,
                                 uint32_t thread_count,
                                 struct moiety_growth **out)
{
    struct moiety_growth *growth = calloc(1, sizeof(*growth));
    if (!growth)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for a growth");
    growth->host = host;
    growth->size_bytes = size_bytes;
    growth->progress = (struct moietyi_progress){
        .report = growth_note,
        .user_data = growth,
        .thread_count = thread_count,
        .is_exact = true,
        .own_cancels = &growth->cancels,
    };
    moietyi_progress_begin(&growth->progress, &host->cancels);
    growth->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = growth->event < 0 ? errno : growth_start(growth);
    if (error) {
        growth_free(growth);
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "moiety_host_reserve_async: no thread or "
                            "descriptor for it: %s",
                            strerror_r(error, (char[64]){0}, 64));
    }
    *out = growth;
    return MOIETY_OK;
}

moiety_status moiety_host_reserve_async(moiety_host *host, uint64_t size_bytes,
                                        uint32_t thread_count,
                                        moiety_growth **out)
{
    static const char function[] = "moiety_host_reserve_async";
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID, "%s: out is NULL", function);
    moiety_status status =
        moietyi_reserve_enter(host, size_bytes, thread_count, function);
    if (status != MOIETY_OK)
        return status;
    int cancel_state = moietyi_cancel_hold();
    status = growth_make(host, size_bytes, thread_count, out);
    if (status != MOIETY_OK)
        moietyi_host_leave(host);
    moietyi_cancel_restore(cancel_state);
    return status;
}

/* How it ended; false if it goes on. */
static bool growth_result(const struct moiety_growth *growth,
                          moiety_status *out)
{
    pthread_mutex_lock(&growth->host->lock);
    bool has_left = growth->has_left;
    struct moietyi_failure failure = growth->failure;
    *out = growth->status;
    pthread_mutex_unlock(&growth->host->lock);
    if (has_left && *out != MOIETY_OK)
        moietyi_failure_restore(&failure);
    return has_left;
}

/* Whether it is over before the time, or before the thread's interrupt function ends
 * the wait. */
static bool growth_await(const struct moiety_growth *growth,
                         uint32_t timeout_ms)
{
    struct pollfd one = {.fd = growth->event, .events = POLLIN};
    uint64_t end_ns = moietyi_now_ns() + NS_OF_MS * timeout_ms;
    for (;;) {
        uint64_t now_ns = moietyi_now_ns();
        uint64_t left_ns = now_ns < end_ns ? end_ns - now_ns : 0;
        if (left_ns > MOIETYI_TICK_NS)
            left_ns = MOIETYI_TICK_NS;
        /* Upwards, so that it does not spin at the end. */
        if (poll(&one, 1, (int)((left_ns + NS_OF_MS - 1) / NS_OF_MS)) > 0)
            return true;
        moietyi_interrupt_ask();
        if (moietyi_is_overdue(end_ns))
            return false;
    }
}

moiety_status moiety_growth_wait(moiety_growth *growth, uint32_t timeout_ms)
{
    if (!growth)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_growth_wait: growth is NULL");
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    moiety_status status;
    if (growth_result(growth, &status))
        return status;
    int cancel_state = moietyi_cancel_hold();
    bool is_over = growth_await(growth, timeout_ms);
    moietyi_cancel_restore(cancel_state);
    if (is_over && growth_result(growth, &status))
        return status;
    return moietyi_is_interrupted()
               ? moietyi_fail(MOIETY_E_INTERRUPTED,
                              "the program stopped a wait for a growth")
               : moietyi_fail(MOIETY_E_TIMEOUT,
                              "the growth is not over after %" PRIu32 " ms",
                              timeout_ms);
}

uint64_t moiety_growth_ready_bytes(const moiety_growth *growth)
{
    /* relaxed: a number. */
    return growth ? moietyi_load_relaxed(&growth->ready_bytes) : 0;
}

int moiety_growth_descriptor(const moiety_growth *growth)
{
    return growth ? growth->event : -1;
}

void moiety_growth_cancel(moiety_growth *growth)
{
    /* relaxed: a number; a growth that sees it later stops later. */
    if (growth)
        atomic_fetch_add_explicit(&growth->cancels, 1, memory_order_relaxed);
}

moiety_status moiety_growth_destroy(moiety_growth *growth)
{
    if (!growth)
        return MOIETY_OK;
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    struct moiety_host *host = growth->host;
    moiety_growth_cancel(growth);
    pthread_mutex_lock(&host->lock);
    growth->is_dropped = true;
    pthread_mutex_unlock(&host->lock);
    growths_reap(host);
    return MOIETY_OK;
}

/* Lock held. Whether there is one that uses the arena, but for that of this thread: it
 * runs functions of the program, too. */
static bool growths_stop(struct moiety_host *host)
{
    bool has_any = false;
    for (struct moiety_growth *one = host->growths; one; one = one->next) {
        if (one->has_left)
            continue;
        moiety_growth_cancel(one);
        has_any = has_any || !growth_is_own(one);
    }
    return has_any;
}

void moietyi_growths_cancel(struct moiety_host *host)
{
    pthread_mutex_lock(&host->lock);
    (void)growths_stop(host);
    pthread_mutex_unlock(&host->lock);
    growths_reap(host);
}

void moietyi_growths_end(struct moiety_host *host)
{
    int cancel_state = moietyi_cancel_hold();
    pthread_mutex_lock(&host->lock);
    while (growths_stop(host))
        pthread_cond_wait(&host->growth_left, &host->lock);
    pthread_mutex_unlock(&host->lock);
    growths_reap(host);
    moietyi_cancel_restore(cancel_state);
}
