/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The beginning and the end of serving: the socket, the thread, what a fork and
 * the process's exit leave of them.
 */
#define _GNU_SOURCE
#include "moiety/expose.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/lock.h"
#include "pool/config/conf.h"
#include "pool/observe/expose/expose.h"
#include "pool/observe/expose/listen.h"
#include "pool/observe/expose/serve.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t settled = PTHREAD_COND_INITIALIZER;
/* All but is_busy, which is the lock's, is of the thread that set that. The thread
 * that serves has copies of what it needs. */
static struct {
    bool is_busy; /* a thread starts or stops serving */
    bool is_running;
    bool was_started;  /* ever: MOIETY_CONF is not looked at any more */
    bool is_for_forks; /* handlers are in place */
    struct moietyi_listener listener;
    int stop;
    pthread_t thread;
} state;

static void *serve(void *unused)
{
    (void)unused;
    (void)pthread_setname_np(pthread_self(), "moiety-expose");
    moietyi_serve(state.listener.socket, state.stop);
    return NULL;
}

/* The state is the calling thread's, until expose_leave(). */
static void expose_enter(void)
{
    moietyi_lock(&lock);
    while (state.is_busy)
        moietyi_lock_wait(&lock, &settled);
    state.is_busy = true;
    moietyi_unlock(&lock);
}

static void expose_leave(void)
{
    moietyi_lock(&lock);
    state.is_busy = false;
    (void)pthread_cond_signal(&settled);
    moietyi_unlock(&lock);
}

/* Only async-signal-safe calls. The lock may be another thread's, which the
 * child has not: it is not taken here, nor later, as no call gets so far. */
static void expose_forget_in_child(void)
{
    if (!state.is_running)
        return;
    state.is_running = false;
    moietyi_listener_close(&state.listener);
    (void)close(state.stop);
    moietyi_serve_close_in_child();
}

/* Nothing is waited for: the thread that exits may hold any lock. */
__attribute__((destructor)) static void remove_at_exit(void)
{
    if (moietyi_is_forked() || !moietyi_try_lock(&lock))
        return;
    if (!state.is_busy && state.is_running)
        moietyi_listener_remove(&state.listener);
    moietyi_unlock(&lock);
}

static moiety_status watch_forks(void)
{
    if (!moietyi_fork_mark())
        return moietyi_refuse_unmarked();
    if (state.is_for_forks)
        return MOIETY_OK;
    if (pthread_atfork(NULL, NULL, expose_forget_in_child) != 0)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for a handler of forks");
    state.is_for_forks = true;
    return MOIETY_OK;
}

/* No signal of the program's is handled in a thread that it knows nothing of. */
static moiety_status start_thread(void)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return moietyi_fail(MOIETY_E_UNSUPPORTED, "signals cannot be blocked");
    int error = pthread_create(&state.thread, NULL, serve, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                "no thread to serve pools: error %d", error)
                 : MOIETY_OK;
}

/* Entered. */
static moiety_status expose_begin(const char *path)
{
    if (state.is_running)
        return moietyi_fail(MOIETY_E_IN_USE,
                            "pools are exposed already, at '%s'",
                            state.listener.address.sun_path);
    moiety_status status = watch_forks();
    if (status == MOIETY_OK)
        status = moietyi_listen(path, &state.listener);
    if (status != MOIETY_OK)
        return status;
    state.stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = state.stop < 0 ? moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                                           "no descriptor to stop serving by")
                            : start_thread();
    if (status == MOIETY_OK) {
        state.is_running = true;
        state.was_started = true;
        return MOIETY_OK;
    }
    moietyi_listener_remove(&state.listener);
    moietyi_listener_close(&state.listener);
    if (state.stop >= 0)
        (void)close(state.stop);
    return status;
}

moiety_status moiety_expose_start(const char *path)
{
    if (!path)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_expose_start: path is NULL");
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    int cancel_state = moietyi_cancel_hold();
    expose_enter();
    moiety_status status = expose_begin(path);
    expose_leave();
    moietyi_cancel_restore(cancel_state);
    return status;
}

moiety_status moiety_expose_stop(void)
{
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    int cancel_state = moietyi_cancel_hold();
    expose_enter();
    if (state.is_running) {
        (void)eventfd_write(state.stop, 1);
        (void)pthread_join(state.thread, NULL);
        moietyi_listener_remove(&state.listener);
        moietyi_listener_close(&state.listener);
        (void)close(state.stop);
        state.is_running = false;
    }
    expose_leave();
    moietyi_cancel_restore(cancel_state);
    return MOIETY_OK;
}

/* The one entry for us. Its absence is MOIETY_OK with no text. */
static moiety_status find_entry(const char *conf, struct moietyi_word *out)
{
    struct moietyi_conf_entry entry;
    out->length = 0;
    if (!conf || !*conf)
        return MOIETY_OK;
    for (const char *text = conf;; text++) {
        moiety_status status = moietyi_conf_take(&text, &entry);
        if (status == MOIETY_OK && moietyi_word_is(entry.key, "expose")) {
            if (out->length) {
                return moietyi_fail(MOIETY_E_INVALID,
                                    "MOIETY_CONF: key 'expose' is given twice, "
                                    "again as '%.*s'; accepted is once",
                                    MOIETYI_WORD_SHOWN(entry.whole));
            }
            *out = entry.value;
        }
        if (status != MOIETY_OK || *text == '\0')
            return status;
    }
}

moiety_status moietyi_expose_by_conf(const char *conf)
{
    struct moietyi_word word;
    moiety_status status = find_entry(conf, &word);
    if (status != MOIETY_OK || word.length == 0)
        return status;
    /* A name that is too long is refused as it would be whole. */
    char path[256];
    size_t length =
        word.length < sizeof(path) - 1 ? word.length : sizeof(path) - 1;
    memcpy(path, word.text, length);
    path[length] = '\0';
    expose_enter();
    if (!state.was_started)
        status = expose_begin(path);
    expose_leave();
    return status;
}
