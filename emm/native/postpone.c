/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a thread puts off while it runs a function of a watcher (watch.c): frees.
 * The pool is in the middle of a call of that thread and refuses them, and who
 * drops a last reference, as the garbage collector does, can be told of nothing.
 * They are done when the thread leaves the call. Other pools' frees wait too: they
 * may want what another thread has that runs such a function itself.
 *
 * The list is the thread's own: no other thread waits in its stead. But a thread that
 * is not Python's, such as one of a growth, calls nothing of ours that it could leave:
 * any thread that is Python's does what it put off.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "emm/native/native.h"

struct postponed_list {
    unsigned told_depth; /* functions of watchers that are running */
    bool is_draining;
    struct native_postponed *first;
    struct native_postponed *last;
};

static _Thread_local struct postponed_list own
    __attribute__((tls_model("initial-exec")));

/* Entries of foreign threads, which have no GIL by then. */
static struct {
    pthread_mutex_t mutex;
    /* Edge: none; relaxed, advice to those who do not have the mutex. */
    _Atomic(struct native_postponed *) first;
    struct native_postponed *last;
} left = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void leave_to_others(void)
{
    pthread_mutex_lock(&left.mutex);
    /* relaxed: the mutex orders them. */
    if (atomic_load_explicit(&left.first, memory_order_relaxed))
        left.last->next = own.first;
    else
        /* relaxed: as above. */
        atomic_store_explicit(&left.first, own.first, memory_order_relaxed);
    left.last = own.last;
    pthread_mutex_unlock(&left.mutex);
    own.first = NULL;
}

static bool is_some_left(void)
{
    /* relaxed: advice; who misses it now takes it later. */
    return atomic_load_explicit(&left.first, memory_order_relaxed) != NULL;
}

/* NULL, too, where another thread has the mutex: it may be a child's parent's. */
static struct native_postponed *take_what_is_left(void)
{
    if (!is_some_left() || pthread_mutex_trylock(&left.mutex) != 0)
        return NULL;
    /* relaxed: the mutex orders them. */
    struct native_postponed *first =
        atomic_load_explicit(&left.first, memory_order_relaxed);
    /* relaxed: as above. */
    atomic_store_explicit(&left.first, NULL, memory_order_relaxed);
    pthread_mutex_unlock(&left.mutex);
    return first;
}

void native_told_begin(struct native_told *told)
{
    told->is_foreign = !PyGILState_GetThisThreadState();
    told->gil = PyGILState_Ensure();
    own.told_depth++;
}

void native_told_end(const struct native_told *told)
{
    /* A foreign thread's own variables go with its state, and may be blocks. */
    PyGILState_Release(told->gil);
    own.told_depth--;
    if (told->is_foreign && own.first)
        leave_to_others();
}

bool native_is_told(void)
{
    return own.told_depth > 0;
}

void native_postpone(struct native_postponed *entry, void *object,
                     void (*finish)(void *object))
{
    *entry = (struct native_postponed){.object = object, .finish = finish};
    /* In order: a tenant ends behind its blocks. */
    if (own.first)
        own.last->next = entry;
    else
        own.first = entry;
    own.last = entry;
}

static void finish_all(struct native_postponed *entry)
{
    while (entry) {
        struct native_postponed *next = entry->next;
        entry->finish(entry->object);
        entry = next;
    }
}

void native_do_postponed(void)
{
    if ((!own.first && !is_some_left()) || own.told_depth || own.is_draining)
        return;
    /* A free may trim, and so postpone another one, for this loop. */
    own.is_draining = true;
    finish_all(take_what_is_left());
    while (own.first) {
        struct native_postponed *first = own.first;
        own.first = NULL;
        finish_all(first);
    }
    own.is_draining = false;
}
