/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The beginning and the end of serving: the socket, the thread, what a fork and
 * the process's exit leave of them.
 */
#define _GNU_SOURCE
#include "binade/expose.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/config/conf.h"
#include "pool/observe/expose/expose.h"
#include "pool/observe/expose/listen.h"
#include "pool/observe/expose/serve.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The lock; the thread has copies of what it needs. */
static struct {
    bool is_running;
    bool was_started;  /* ever: BINADE_CONF is not looked at any more */
    bool is_for_forks; /* handlers are in place */
    struct binadei_listener listener;
    int stop;
    pthread_t thread;
} state;

static void *serve(void *unused)
{
    (void)unused;
    (void)pthread_setname_np(pthread_self(), "binade-expose");
    binadei_serve(state.listener.socket, state.stop);
    return NULL;
}

/* Only async-signal-safe calls. The lock may be another thread's, which the
 * child has not: it is not taken here, nor later, as no call gets so far. */
static void expose_forget_in_child(void)
{
    if (!state.is_running)
        return;
    state.is_running = false;
    binadei_listener_close(&state.listener);
    (void)close(state.stop);
    binadei_serve_close_in_child();
}

/* Nothing is waited for: the thread that exits may hold any lock. */
__attribute__((destructor)) static void remove_at_exit(void)
{
    if (binadei_is_forked() || pthread_mutex_trylock(&lock) != 0)
        return;
    if (state.is_running)
        binadei_listener_remove(&state.listener);
    pthread_mutex_unlock(&lock);
}

static binade_status watch_forks(void)
{
    if (!binadei_fork_mark())
        return binadei_refuse_unmarked();
    if (state.is_for_forks)
        return BINADE_OK;
    if (pthread_atfork(NULL, NULL, expose_forget_in_child) != 0)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory for a handler of forks");
    state.is_for_forks = true;
    return BINADE_OK;
}

/* No signal of the program's is handled in a thread that it knows nothing of. */
static binade_status start_thread(void)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return binadei_fail(BINADE_E_UNSUPPORTED, "signals cannot be blocked");
    int error = pthread_create(&state.thread, NULL, serve, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? binadei_fail(BINADE_E_NO_HOST_MEMORY,
                                "no thread to serve pools: error %d", error)
                 : BINADE_OK;
}

static binade_status start_locked(const char *path)
{
    if (state.is_running)
        return binadei_fail(BINADE_E_BUSY, "pools are exposed already, at '%s'",
                            state.listener.address.sun_path);
    binade_status status = watch_forks();
    if (status == BINADE_OK)
        status = binadei_listen(path, &state.listener);
    if (status != BINADE_OK)
        return status;
    state.stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = state.stop < 0 ? binadei_fail(BINADE_E_NO_HOST_MEMORY,
                                           "no descriptor to stop serving by")
                            : start_thread();
    if (status == BINADE_OK) {
        state.is_running = true;
        state.was_started = true;
        return BINADE_OK;
    }
    binadei_listener_remove(&state.listener);
    binadei_listener_close(&state.listener);
    if (state.stop >= 0)
        (void)close(state.stop);
    return status;
}

binade_status binade_expose_start(const char *path)
{
    if (!path)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_expose_start: path is NULL");
    if (binadei_is_forked())
        return binadei_refuse_child();
    int cancel_state = binadei_cancel_hold();
    pthread_mutex_lock(&lock);
    binade_status status = start_locked(path);
    pthread_mutex_unlock(&lock);
    binadei_cancel_restore(cancel_state);
    return status;
}

binade_status binade_expose_stop(void)
{
    if (binadei_is_forked())
        return binadei_refuse_child();
    int cancel_state = binadei_cancel_hold();
    pthread_mutex_lock(&lock);
    if (state.is_running) {
        (void)eventfd_write(state.stop, 1);
        (void)pthread_join(state.thread, NULL);
        binadei_listener_remove(&state.listener);
        binadei_listener_close(&state.listener);
        (void)close(state.stop);
        state.is_running = false;
    }
    pthread_mutex_unlock(&lock);
    binadei_cancel_restore(cancel_state);
    return BINADE_OK;
}

/* The one entry for us. Its absence is BINADE_OK with no text. */
static binade_status find_entry(const char *conf, struct binadei_word *out)
{
    struct binadei_conf_entry entry;
    out->length = 0;
    if (!conf || !*conf)
        return BINADE_OK;
    for (const char *text = conf;; text++) {
        binade_status status = binadei_conf_take(&text, &entry);
        if (status == BINADE_OK && binadei_word_is(entry.key, "expose")) {
            if (out->length) {
                return binadei_fail(BINADE_E_INVALID,
                                    "BINADE_CONF: key 'expose' is given twice, "
                                    "again as '%.*s'; accepted is once",
                                    BINADEI_WORD_SHOWN(entry.whole));
            }
            *out = entry.value;
        }
        if (status != BINADE_OK || *text == '\0')
            return status;
    }
}

binade_status binadei_expose_by_conf(const char *conf)
{
    struct binadei_word word;
    binade_status status = find_entry(conf, &word);
    if (status != BINADE_OK || word.length == 0)
        return status;
    /* A name that is too long is refused as it would be whole. */
    char path[256];
    size_t length =
        word.length < sizeof(path) - 1 ? word.length : sizeof(path) - 1;
    memcpy(path, word.text, length);
    path[length] = '\0';
    pthread_mutex_lock(&lock);
    if (!state.was_started)
        status = start_locked(path);
    pthread_mutex_unlock(&lock);
    return status;
}
