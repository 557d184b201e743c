/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Objects for with-blocks of a Pool: Hold keeps segments where they are,
 * CaptureScope keeps the memory of one CUDA graph.
 */
#include "moiety/scope.h"
#include "emm/native/native.h"
#include "moiety/segment.h"

struct native_hold {
    PyObject_HEAD struct native_space *space;
    uint64_t address;
    uint64_t nbytes;
    /* Edge: none; relaxed: of two that release it, one does. */
    atomic_bool is_held;
};

struct native_scope {
    PyObject_HEAD struct native_space *space;
    moiety_scope scope;
    /* Edge: none; relaxed: of two that end or release it, one does. */
    atomic_bool is_open;
    atomic_bool is_kept;
};

static struct native_hold *hold_of(PyObject *self)
{
    return (struct native_hold *)self;
}

static struct native_scope *scope_of(PyObject *self)
{
    return (struct native_scope *)self;
}

static void py_scope_free_object(PyObject *self, struct native_space *space)
{
    Py_XDECREF((PyObject *)space);
    native_object_free(self);
}

/* --- Hold --- */

PyObject *native_hold(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keys[] = {"address", "nbytes", NULL};
    struct native_space *space = (struct native_space *)self;
    PyObject *named;
    PyObject *length = Py_None;
    uint64_t address = 0;
    uint64_t nbytes = 1;
    if (!native_parse(arguments, names, "O|O:hold", keys, &named, &length) ||
        !native_address_from(named, &address) ||
        (length != Py_None && !native_u64_from(length, &nbytes)))
        return NULL;
    PyObject *made = native_object_new(native_state_of(self)->hold_type);
    moiety_pool *pool = made ? native_enter(space) : NULL;
    if (!pool) {
        Py_XDECREF(made);
        return NULL;
    }
    hold_of(made)->address = address;
    hold_of(made)->nbytes = nbytes;
    moiety_status status = moiety_segment_hold(pool, address, nbytes);
    if (status == MOIETY_OK) {
        hold_of(made)->space = (struct native_space *)Py_NewRef(self);
        /* relaxed: nobody else has it yet. */
        atomic_store_explicit(&hold_of(made)->is_held, true,
                              memory_order_relaxed);
    } else {
        native_raise(native_state_of(self), pool, status);
        Py_CLEAR(made);
    }
    native_leave(space);
    return made;
}

static PyObject *hold_release(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_hold *hold = hold_of(self);
    /* relaxed: see the field. */
    if (!atomic_exchange_explicit(&hold->is_held, false, memory_order_relaxed))
        Py_RETURN_NONE;
    moiety_pool *pool = native_enter_open(hold->space);
    if (!pool)
        Py_RETURN_NONE; /* it went with the pool */
    return native_leave_with(
        (PyObject *)hold->space,
        moiety_segment_unhold(pool, hold->address, hold->nbytes));
}

static PyObject *hold_exit(PyObject *self, PyObject *arguments)
{
    return native_exit_with(self, arguments, hold_release(self, NULL));
}

static PyObject *hold_is_held(PyObject *self, void *none)
{
    (void)none;
    /* relaxed: see the field. */
    return PyBool_FromLong(
        atomic_load_explicit(&hold_of(self)->is_held, memory_order_relaxed));
}

static void hold_dealloc(PyObject *self)
{
    py_scope_free_object(self, hold_of(self)->space);
}

static PyMethodDef hold_methods[] = {
    {"release", hold_release, METH_NOARGS,
     "release($self)\n"
     "--\n\n"
     "Ends the hold. A second call does nothing."},
    {"__enter__", native_enter_self, METH_NOARGS,
     "__enter__($self)\n"
     "--\n\n"
     "Returns the object."},
    {"__exit__", hold_exit, METH_VARARGS,
     "__exit__($self, kind, error, trace, /)\n"
     "--\n\n"
     "Calls release()."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef hold_properties[] = {
    {"is_held", hold_is_held, NULL, "False after release().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot hold_slots[] = {
    {Py_tp_dealloc, hold_dealloc},
    {Py_tp_methods, hold_methods},
    {Py_tp_getset, hold_properties},
    {Py_tp_doc,
     "Segments that stay in place. hold() of a Pool or HostArena makes it.\n"
     "\nThe hold lasts until release() or the end of the "
     "with-block, also if the object is dropped."},
    {0, NULL},
};

static PyType_Spec hold_spec = {
    .name = "moiety.Hold",
    .basicsize = sizeof(struct native_hold),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = hold_slots,
};

/* --- CaptureScope --- */

PyObject *native_capture_scope(PyObject *self, PyObject *named)
{
    struct native_space *space = (struct native_space *)self;
    moiety_stream stream = MOIETY_STREAM_ANY;
    moiety_scope scope = NULL;
    moiety_status status;
    if (!native_stream_from(named, &stream))
        return NULL;
    PyObject *made = native_object_new(native_state_of(self)->scope_type);
    moiety_pool *pool = made ? native_enter(space) : NULL;
    if (!pool) {
        Py_XDECREF(made);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_scope_begin(pool, stream, &scope);
    Py_END_ALLOW_THREADS;
    if (status == MOIETY_OK) {
        scope_of(made)->space = (struct native_space *)Py_NewRef(self);
        scope_of(made)->scope = scope;
        /* relaxed: nobody else has it yet. */
        atomic_store_explicit(&scope_of(made)->is_open, true,
                              memory_order_relaxed);
        atomic_store_explicit(&scope_of(made)->is_kept, true,
                              memory_order_relaxed);
    } else {
        native_raise(native_state_of(self), pool, status);
        Py_CLEAR(made);
    }
    native_leave(space);
    return made;
}

/* Calls the library for what `is_left` says is left to do, once. */
static PyObject *py_scope_finish(struct native_scope *scope,
                                 atomic_bool *is_left,
                                 moiety_status (*finish)(moiety_scope scope))
{
    moiety_status status;
    /* relaxed: see the field. */
    if (!atomic_exchange_explicit(is_left, false, memory_order_relaxed))
        Py_RETURN_NONE;
    if (!native_enter_open(scope->space))
        Py_RETURN_NONE; /* it went with the pool */
    Py_BEGIN_ALLOW_THREADS;
    status = finish(scope->scope);
    Py_END_ALLOW_THREADS;
    /* Pool.release_scopes() may have been there before. */
    if (status == MOIETY_E_DESTROYED)
        status = MOIETY_OK;
    /* relaxed: as above; it is as it was. */
    if (status != MOIETY_OK)
        atomic_store_explicit(is_left, true, memory_order_relaxed);
    return native_leave_with((PyObject *)scope->space, status);
}

static PyObject *scope_end(PyObject *self, PyObject *none)
{
    (void)none;
    return py_scope_finish(scope_of(self), &scope_of(self)->is_open,
                           moiety_scope_end);
}

static PyObject *scope_release(PyObject *self, PyObject *none)
{
    (void)none;
    return py_scope_finish(scope_of(self), &scope_of(self)->is_kept,
                           moiety_scope_release);
}

static PyObject *scope_exit(PyObject *self, PyObject *arguments)
{
    return native_exit_with(self, arguments, scope_end(self, NULL));
}

static PyObject *scope_is_open(PyObject *self, void *none)
{
    (void)none;
    /* relaxed: see the field. */
    return PyBool_FromLong(
        atomic_load_explicit(&scope_of(self)->is_open, memory_order_relaxed));
}

/* A scope that nobody can end any more would hold its guard for ever. */
static void scope_dealloc(PyObject *self)
{
    if (scope_of(self)->space && !native_is_over()) {
        struct native_error error = native_error_keep();
        Py_XDECREF(scope_end(self, NULL));
        PyErr_Clear();
        native_error_restore(error);
    }
    py_scope_free_object(self, scope_of(self)->space);
}

static PyMethodDef scope_methods[] = {
    {"end", scope_end, METH_NOARGS,
     "end($self)\n"
     "--\n\n"
     "Ends the scope. Call it after the capture ended, also if the capture "
     "failed. The memory stays reserved for the graph.\n\nA second call does "
     "nothing."},
    {"release", scope_release, METH_NOARGS,
     "release($self)\n"
     "--\n\n"
     "Releases the memory that the scope kept for the graph. Call it when the "
     "graph is not launched any more.\n\nRaises InUseError if the scope is "
     "open. A second call does nothing."},
    {"__enter__", native_enter_self, METH_NOARGS,
     "__enter__($self)\n"
     "--\n\n"
     "Returns the object."},
    {"__exit__", scope_exit, METH_VARARGS,
     "__exit__($self, kind, error, trace, /)\n"
     "--\n\n"
     "Calls end()."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef scope_properties[] = {
    {"is_open", scope_is_open, NULL, "False after end().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot scope_slots[] = {
    {Py_tp_dealloc, scope_dealloc},
    {Py_tp_methods, scope_methods},
    {Py_tp_getset, scope_properties},
    {Py_tp_doc, "The memory of one CUDA graph. Pool.capture_scope() makes it.\n"
                "\nThe with-block ends the scope. release() ends the "
                "reservation."},
    {0, NULL},
};

static PyType_Spec scope_spec = {
    .name = "moiety.CaptureScope",
    .basicsize = sizeof(struct native_scope),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = scope_slots,
};

int native_scope_type_add(PyObject *module, struct native_state *state)
{
    state->hold_type =
        (PyTypeObject *)PyType_FromModuleAndSpec(module, &hold_spec, NULL);
    state->scope_type = state->hold_type
                            ? (PyTypeObject *)PyType_FromModuleAndSpec(
                                  module, &scope_spec, NULL)
                            : NULL;
    return state->scope_type && !PyModule_AddType(module, state->hold_type)
               ? PyModule_AddType(module, state->scope_type)
               : -1;
}
