/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a thread puts off while it runs a function of a watcher (watch.c): frees.
 * The pool is in the middle of a call of that thread and refuses them, and who
 * drops a last reference, as the garbage collector does, can be told of nothing.
 * They are done when the thread leaves the call. Other pools' frees wait too: they
 * may want what another thread has that runs such a function itself.
 *
 * The list is the thread's own: no other thread waits in its stead.
 */
#include "emm/native/native.h"

struct postponed_list {
    unsigned told_depth; /* functions of watchers that are running */
    bool is_draining;
    struct native_postponed *first;
    struct native_postponed *last;
};

static _Thread_local struct postponed_list own
    __attribute__((tls_model("initial-exec")));

void native_told_begin(void)
{
    own.told_depth++;
}

void native_told_end(void)
{
    own.told_depth--;
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

void native_do_postponed(void)
{
    if (!own.first || own.told_depth || own.is_draining)
        return;
    /* A free may trim, and so postpone another one, for this loop. */
    own.is_draining = true;
    while (own.first) {
        struct native_postponed *entry = own.first;
        own.first = entry->next;
        entry->finish(entry->object);
    }
    own.is_draining = false;
}
