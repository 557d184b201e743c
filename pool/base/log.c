/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each thread has a queue of its own, so that a message is told by the thread that
 * had it. What the function itself causes is not told: it would never end.
 */
#define _DEFAULT_SOURCE
#include "pool/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/lock.h"

struct message {
    struct message *next;
    uint32_t level;
    char text[];
};

struct queue {
    struct message *first;
    struct message *last;
    bool is_telling;
};

/* NULL until the thread has had a message: it is apart, as failure.c's room. */
static _Thread_local struct queue *own;

/* Edge: none; relaxed, both: see log.h. */
atomic_uint moietyi_log_level;
/* Edge: none; relaxed: as above. */
atomic_bool moietyi_log_is_used;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool is_ready;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
/* The lock. */
static moiety_log_callback function;
static void *function_user;
static uint32_t running_count; /* threads that are in it */
static bool is_being_set;

static void log_end_thread(void *context)
{
    struct queue *queue = context;
    own = NULL;
    while (queue->first) {
        struct message *message = queue->first;
        queue->first = message->next;
        free(message);
    }
    free(queue);
}

static void log_get_ready(void)
{
    is_ready = pthread_key_create(&key, log_end_thread) == 0;
}

/* The thread's; NULL: no memory. */
static struct queue *log_queue(void)
{
    if (own)
        return own;
    if (pthread_once(&once, log_get_ready) != 0 || !is_ready)
        return NULL;
    struct queue *queue = calloc(1, sizeof(*queue));
    if (queue && pthread_setspecific(key, queue) != 0) {
        free(queue);
        return NULL;
    }
    own = queue;
    return queue;
}

static void log_push(struct queue *queue, struct message *message)
{
    if (queue->last && queue->first)
        queue->last->next = message;
    else
        queue->first = message;
    queue->last = message;
}

static void log_leave(uint32_t level, const char *format, va_list arguments)
{
    struct queue *queue = log_queue();
    va_list again;
    if (!queue || queue->is_telling)
        return;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    size_t bytes = length < 0 ? 0 : (size_t)length + 1;
    struct message *message = bytes ? malloc(sizeof(*message) + bytes) : NULL;
    if (!message)
        return;
    message->next = NULL;
    message->level = level;
    (void)vsnprintf(message->text, bytes, format, arguments);
    log_push(queue, message);
}

void moietyi_log(uint32_t level, const char *format, ...)
{
    va_list arguments;
    if (!moietyi_log_wants(level))
        return;
    va_start(arguments, format);
    log_leave(level, format, arguments);
    va_end(arguments);
}

void moietyi_log_or_print(uint32_t level, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (moietyi_log_wants(level)) {
        log_leave(level, format, arguments);
    } else if (!moietyi_log_wants(MOIETY_LOG_ERROR)) {
        flockfile(stderr);
        (void)fputs("moiety: ", stderr);
        (void)vfprintf(stderr, format, arguments);
        (void)fputc('\n', stderr);
        funlockfile(stderr);
    }
    va_end(arguments);
}

/* The function, which is running from now on; NULL: there is none. */
static moiety_log_callback log_begin(void **out_user)
{
    moietyi_lock(&lock);
    moiety_log_callback found = function;
    *out_user = function_user;
    running_count += found != NULL;
    moietyi_unlock(&lock);
    return found;
}

static void log_end(void)
{
    moietyi_lock(&lock);
    if (--running_count == 0)
        pthread_cond_broadcast(&returned);
    moietyi_unlock(&lock);
}

static void log_tell_one(const struct message *message)
{
    void *user;
    moiety_log_callback found = log_begin(&user);
    if (!found)
        return;
    found(message->level, message->text, user);
    log_end();
}

/* The failure of the call that was just made stays the last one. */
void moietyi_log_tell_all(void)
{
    struct queue *queue = own;
    struct moietyi_failure kept;
    if (!queue || !queue->first || queue->is_telling)
        return;
    int error = errno;
    moietyi_failure_keep(&kept);
    queue->is_telling = true;
    while (queue->first) {
        struct message *message = queue->first;
        queue->first = message->next;
        log_tell_one(message);
        free(message);
    }
    queue->is_telling = false;
    moietyi_failure_restore(&kept);
    errno = error;
}

/* One after the other, and until the old one has returned everywhere. */
static void log_exchange(uint32_t level, moiety_log_callback callback,
                         void *user)
{
    moietyi_lock(&lock);
    while (is_being_set)
        moietyi_lock_wait(&lock, &returned);
    is_being_set = true;
    function = NULL;
    while (running_count)
        moietyi_lock_wait(&lock, &returned);
    function = callback;
    function_user = user;
    /* relaxed: see log.h. */
    atomic_store_explicit(&moietyi_log_level, level, memory_order_relaxed);
    is_being_set = false;
    pthread_cond_broadcast(&returned);
    moietyi_unlock(&lock);
}

moiety_status moietyi_log_set(uint32_t level, moiety_log_callback callback,
                              void *user)
{
    if (callback && (!level || level > MOIETY_LOG_INFO)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_set_log: level %u; accepted are 1 to %u",
                            level, MOIETY_LOG_INFO);
    }
    if (own && own->is_telling)
        return moietyi_fail(MOIETY_E_REENTRANT,
                            "a log function may not wait for its own end");
    int cancel_state = moietyi_cancel_hold();
    if (callback)
        /* relaxed: see log.h. */
        atomic_store_explicit(&moietyi_log_is_used, true, memory_order_relaxed);
    log_exchange(callback ? level : 0, callback, user);
    moietyi_cancel_restore(cancel_state);
    return MOIETY_OK;
}
