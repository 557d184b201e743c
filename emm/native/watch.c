/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The watches of a space, and what the library calls of them: functions of the
 * program that are told of a pool's segments. Whichever thread grows or trims the
 * pool calls them, with the GIL released, and waits for it here: so no thread
 * waits for a grower with the GIL held.
 *
 * The pool keeps a watch until close() or its own end, also where the program
 * dropped it: memory that goes away unannounced would stay registered. The watch
 * does not keep the pool.
 */
#include "emm/native/native.h"

/* What it raises nobody can catch. */
static void py_watch_call(PyObject *function, const binade_segment_info *info)
{
    Py_INCREF(function);
    PyObject *segment = native_segment_of(info);
    PyObject *result = segment ? PyObject_CallFunctionObjArgs(function, segment,
                                                              (PyObject *)NULL)
                               : NULL;
    if (!result)
        PyErr_WriteUnraisable(function);
    Py_XDECREF(result);
    Py_XDECREF(segment);
    Py_DECREF(function);
}

/* `function` may be set to NULL until the GIL is held. */
static void py_watch_tell(PyObject *const *function,
                          const binade_segment_info *info)
{
    /* An interpreter that ends lets no thread have the GIL any more. */
    if (native_is_over())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    native_told_begin();
    if (*function && !native_is_over())
        py_watch_call(*function, info);
    native_told_end();
    PyGILState_Release(gil);
}

static void watch_tell_added(void *user, const binade_segment_info *info)
{
    py_watch_tell(&((const struct native_watch *)user)->added, info);
}

static void watch_tell_releasing(void *user, const binade_segment_info *info)
{
    py_watch_tell(&((const struct native_watch *)user)->releasing, info);
}

binade_status native_watch_begin(struct native_watch *watch, binade_pool *pool)
{
    const binade_segment_watcher watcher = {
        .struct_size = sizeof watcher,
        .user = watch,
        .added = watch->added ? watch_tell_added : NULL,
        .releasing = watch->releasing ? watch_tell_releasing : NULL,
    };
    uint64_t id = 0;
    binade_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = binade_segment_watch(pool, &watcher, &id);
    Py_END_ALLOW_THREADS;
    watch->id = id;
    return status;
}

/* --- in the space's list --- */

void native_watch_drop_functions(struct native_watch *watch)
{
    Py_CLEAR(watch->added);
    Py_CLEAR(watch->releasing);
}

void native_watch_link(struct native_watch *watch, struct native_space *space)
{
    watch->space = space;
    watch->next = space->watches;
    space->watches = (struct native_watch *)Py_NewRef((PyObject *)watch);
}

void native_watch_unlink(struct native_watch *watch)
{
    struct native_watch **at = watch->space ? &watch->space->watches : NULL;
    while (at && *at && *at != watch)
        at = &(*at)->next;
    if (!at || !*at)
        return;
    *at = watch->next;
    watch->space = NULL;
    native_watch_drop_functions(watch);
    Py_DECREF((PyObject *)watch);
}

void native_watches_end(struct native_space *space)
{
    while (space->watches)
        native_watch_unlink(space->watches);
}

void native_watches_abandon(struct native_space *space)
{
    for (struct native_watch *at = space->watches; at; at = at->next)
        at->space = NULL;
    space->watches = NULL;
}

int native_watches_visit(const struct native_space *space, visitproc visit,
                         void *arg)
{
    for (struct native_watch *at = space->watches; at; at = at->next)
        Py_VISIT((PyObject *)at);
    return 0;
}
