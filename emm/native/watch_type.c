/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * SegmentWatch, which watch_segments() makes: how one begins, and close().
 */
#include "emm/native/native.h"
#include "moiety/segment.h"

static struct native_watch *watch_of(PyObject *self)
{
    return (struct native_watch *)self;
}

static struct native_watch *
py_watch_type_new_object(const struct native_state *state, PyObject *added,
                         PyObject *releasing)
{
    struct native_watch *watch =
        (struct native_watch *)native_object_new(state->watch_type);
    if (watch) {
        watch->added = added == Py_None ? NULL : Py_NewRef(added);
        watch->releasing = releasing == Py_None ? NULL : Py_NewRef(releasing);
    }
    return watch;
}

static int py_watch_type_check(PyObject *function, const char *name)
{
    if (function == Py_None || PyCallable_Check(function))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s is %R; accepted are functions and None",
                 name, function);
    return -1;
}

static int py_watch_type_parse(PyObject *arguments, PyObject *names,
                               PyObject **added, PyObject **releasing)
{
    static char *keys[] = {"added", "releasing", NULL};
    if (!native_parse(arguments, names, "|OO:watch_segments", keys, added,
                      releasing) ||
        py_watch_type_check(*added, "added") ||
        py_watch_type_check(*releasing, "releasing"))
        return -1;
    if (*added != Py_None || *releasing != Py_None)
        return 0;
    PyErr_SetString(PyExc_TypeError, "added or releasing is missing");
    return -1;
}

PyObject *native_watch_segments(PyObject *self, PyObject *arguments,
                                PyObject *names)
{
    struct native_space *space = (struct native_space *)self;
    PyObject *added = Py_None;
    PyObject *releasing = Py_None;
    if (py_watch_type_parse(arguments, names, &added, &releasing))
        return NULL;
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    const struct native_state *state = native_state_of(self);
    struct native_watch *watch =
        py_watch_type_new_object(state, added, releasing);
    moiety_status status = MOIETY_OK;
    if (watch) {
        native_watch_link(watch, space);
        status = native_watch_begin(watch, pool);
    }
    if (status != MOIETY_OK) {
        native_raise(state, pool, status);
        native_watch_unlink(watch);
        Py_CLEAR(watch);
    }
    native_leave(space);
    return (PyObject *)watch;
}

/* Of two that close it at a time the second finds it gone, when no function of it
 * runs any more. `space` is NULL where it is in its end. */
static PyObject *py_watch_type_end(struct native_watch *watch,
                                   struct native_space *space)
{
    const struct native_state *state = native_state_of((PyObject *)watch);
    moiety_status status;
    moiety_pool *pool = space ? native_enter_open(space) : NULL;
    if (!pool)
        return native_refuse_as(state, MOIETY_E_IN_USE,
                                "the pool is being closed, which ends the "
                                "watch");
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_segment_unwatch(pool, watch->handle);
    Py_END_ALLOW_THREADS;
    bool is_over = status == MOIETY_OK || status == MOIETY_E_DESTROYED;
    if (is_over)
        native_watch_unlink(watch);
    else
        native_raise(state, NULL, status);
    native_leave(space);
    return is_over ? Py_NewRef(Py_None) : NULL;
}

static PyObject *watch_close(PyObject *self, PyObject *none)
{
    (void)none;
    bool is_open;
    PyObject *space = native_watch_space(watch_of(self), &is_open);
    PyObject *result =
        is_open && watch_of(self)->handle
            ? py_watch_type_end(watch_of(self), (struct native_space *)space)
            : Py_NewRef(Py_None);
    Py_XDECREF(space);
    return result;
}

static int watch_clear(PyObject *self)
{
    native_watch_drop_functions(watch_of(self));
    return 0;
}

static void watch_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    native_watch_drop_functions(watch_of(self));
    native_object_free(self);
}

/* The type is not visited: see native_space_traverse(). */
static int watch_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(watch_of(self)->added);
    Py_VISIT(watch_of(self)->releasing);
    return 0;
}

/* --- the type --- */

static PyObject *py_watch_type_exit(PyObject *self, PyObject *arguments)
{
    return native_exit_with(self, arguments, watch_close(self, NULL));
}

static PyObject *py_watch_type_get_is_open(PyObject *self, void *closure)
{
    (void)closure;
    bool is_open;
    Py_XDECREF(native_watch_space(watch_of(self), &is_open));
    return PyBool_FromLong(is_open);
}

static PyMethodDef methods[] = {
    {"close", watch_close, METH_NOARGS,
     "close($self)\n"
     "--\n"
     "\n"
     "Ends the watch. It reports nothing about the segments that exist. "
     "Neither function runs any more after the call. A second call does "
     "nothing.\n"
     "\n"
     "Raises ReentrantError within a function of the pool."},
    {"__enter__", native_enter_self, METH_NOARGS,
     "__enter__($self)\n"
     "--\n"
     "\n"
     "Returns the object."},
    {"__exit__", py_watch_type_exit, METH_VARARGS,
     "__exit__($self, kind, error, trace, /)\n"
     "--\n"
     "\n"
     "Calls close()."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"is_open", py_watch_type_get_is_open, NULL,
     "False after close() of the watch or the pool.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, watch_dealloc},
    {Py_tp_traverse, watch_traverse},
    {Py_tp_clear, watch_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc, "Functions that are called when segments come and go. "
                "watch_segments() of a Pool or HostArena makes it."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "moiety.SegmentWatch",
    .basicsize = sizeof(struct native_watch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int native_watch_type_add(PyObject *module, struct native_state *state)
{
    state->watch_type =
        (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return state->watch_type ? PyModule_AddType(module, state->watch_type) : -1;
}
