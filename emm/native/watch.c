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
#include "moiety/segment.h"

/* Steals the function. What it raises nobody can catch. */
static void py_watch_call(PyObject *function, const moiety_segment_info *info)
{
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

/* A new reference; NULL: it was dropped. */
static PyObject *py_watch_function(struct native_watch *watch,
                                   PyObject *const *function)
{
    struct native_state *state = native_state_of((PyObject *)watch);
    native_mutex_lock(&state->lists);
    PyObject *found = Py_XNewRef(*function);
    native_mutex_unlock(&state->lists);
    return found;
}

static void py_watch_tell(struct native_watch *watch, PyObject *const *function,
                          const moiety_segment_info *info)
{
    /* An interpreter that ends lets no thread have the GIL any more. */
    if (native_is_over())
        return;
    struct native_told told;
    native_told_begin(&told);
    PyObject *found =
        native_is_over() ? NULL : py_watch_function(watch, function);
    if (found)
        py_watch_call(found, info);
    native_told_end(&told);
}

static void watch_tell_added(void *user, const moiety_segment_info *info)
{
    struct native_watch *watch = user;
    py_watch_tell(watch, &watch->added, info);
}

static void watch_tell_releasing(void *user, const moiety_segment_info *info)
{
    struct native_watch *watch = user;
    py_watch_tell(watch, &watch->releasing, info);
}

moiety_status native_watch_begin(struct native_watch *watch, moiety_pool *pool)
{
    const moiety_segment_watcher watcher = {
        .struct_size = sizeof watcher,
        .user = watch,
        .added = watch->added ? watch_tell_added : NULL,
        .releasing = watch->releasing ? watch_tell_releasing : NULL,
    };
    moiety_watch handle = NULL;
    moiety_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_segment_watch(pool, &watcher, &handle);
    Py_END_ALLOW_THREADS;
    watch->handle = handle;
    return status;
}

/* --- in the space's list --- */

static struct native_mutex *py_watch_mutex_of(void *object)
{
    return &native_state_of(object)->lists;
}

void native_watch_drop_functions(struct native_watch *watch)
{
    native_mutex_lock(py_watch_mutex_of(watch));
    PyObject *added = watch->added;
    PyObject *releasing = watch->releasing;
    watch->added = NULL;
    watch->releasing = NULL;
    native_mutex_unlock(py_watch_mutex_of(watch));
    Py_XDECREF(added);
    Py_XDECREF(releasing);
}

void native_watch_link(struct native_watch *watch, struct native_space *space)
{
    Py_INCREF((PyObject *)watch);
    native_mutex_lock(py_watch_mutex_of(watch));
    watch->space = space;
    watch->next = space->watches;
    space->watches = watch;
    native_mutex_unlock(py_watch_mutex_of(watch));
}

/* Of a watch that is taken out of its list. */
static void py_watch_finish(struct native_watch *watch)
{
    native_watch_drop_functions(watch);
    Py_DECREF((PyObject *)watch);
}

void native_watch_unlink(struct native_watch *watch)
{
    native_mutex_lock(py_watch_mutex_of(watch));
    struct native_watch **at = watch->space ? &watch->space->watches : NULL;
    while (at && *at && *at != watch)
        at = &(*at)->next;
    bool is_found = at && *at;
    if (is_found) {
        *at = watch->next;
        watch->space = NULL;
    }
    native_mutex_unlock(py_watch_mutex_of(watch));
    if (is_found)
        py_watch_finish(watch);
}

static struct native_watch *py_watch_take_first(struct native_space *space)
{
    native_mutex_lock(py_watch_mutex_of(space));
    struct native_watch *first = space->watches;
    if (first) {
        space->watches = first->next;
        first->space = NULL;
    }
    native_mutex_unlock(py_watch_mutex_of(space));
    return first;
}

void native_watches_end(struct native_space *space)
{
    struct native_watch *watch;
    while ((watch = py_watch_take_first(space)) != NULL)
        py_watch_finish(watch);
}

void native_watches_abandon(struct native_space *space)
{
    native_mutex_lock(py_watch_mutex_of(space));
    for (struct native_watch *at = space->watches; at; at = at->next)
        at->space = NULL;
    space->watches = NULL;
    native_mutex_unlock(py_watch_mutex_of(space));
}

PyObject *native_watch_space(struct native_watch *watch, bool *out_is_open)
{
    native_mutex_lock(py_watch_mutex_of(watch));
    *out_is_open = watch->space != NULL;
    PyObject *found = watch->space ? native_space_keep(watch->space) : NULL;
    native_mutex_unlock(py_watch_mutex_of(watch));
    return found;
}

int native_watches_visit(const struct native_space *space, visitproc visit,
                         void *arg)
{
    for (struct native_watch *at = space->watches; at; at = at->next)
        Py_VISIT((PyObject *)at);
    return 0;
}
