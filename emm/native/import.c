/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * An import of another process's memory that is closed with the last reference
 * to it. What it looks like, as an array, is moiety/ipc.py's.
 *
 * A close can be refused for a while: all work of a context cannot be asked for
 * during a capture. The thread that drops the last reference cannot be told; so
 * a refused close is left in a list, and tried again whenever this module
 * opens, drops or trims imports.
 */
#include "emm/native/native.h"
#include "moiety/ipc.h"

#include <stdlib.h>

/* Made with the import, as its end must not need memory. */
struct left {
    struct left *next;
    uint64_t address;
};

struct native_import {
    PyObject_HEAD struct left *record; /* NULL: __init__() has not been */
    /* Edge: none; relaxed: a close names the stream that was named last. */
    _Atomic(moiety_stream) stream;
    /* Edge: none; relaxed: it only says whether a close came first. */
    atomic_bool is_open;
};

/* All interpreters' of the process; the GIL, or left_mutex. */
static struct left *left_open;
static struct native_mutex left_mutex;

static struct native_import *import_of(PyObject *self)
{
    return (struct native_import *)self;
}

static bool py_import_is_gone(moiety_status status)
{
    return status == MOIETY_E_CONTEXT_DESTROYED ||
           status == MOIETY_E_DEINITIALIZED;
}

/* With the GIL released. A context that is gone took its imports along. */
static moiety_status py_import_close_at(uint64_t address, moiety_stream stream,
                                        moiety_closing *out_closing)
{
    moiety_status status = moiety_ipc_close(address, stream, out_closing);
    return py_import_is_gone(status)
               ? moiety_ipc_close(address, MOIETY_STREAM_DONE, out_closing)
               : status;
}

static bool try_left(const struct left *record)
{
    moiety_closing closing = NULL;
    moiety_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = py_import_close_at(record->address, MOIETY_STREAM_ANY, &closing);
    Py_END_ALLOW_THREADS;
    return status == MOIETY_OK;
}

static struct left *py_import_take_left(void)
{
    native_mutex_lock(&left_mutex);
    struct left *records = left_open;
    left_open = NULL;
    native_mutex_unlock(&left_mutex);
    return records;
}

static void py_import_put_left(struct left *record)
{
    native_mutex_lock(&left_mutex);
    record->next = left_open;
    left_open = record;
    native_mutex_unlock(&left_mutex);
}

void native_import_close_left(void)
{
    /* Each record is nobody else's meanwhile. */
    struct left *records = py_import_take_left();
    while (records) {
        struct left *record = records;
        records = record->next;
        if (try_left(record))
            free(record);
        else
            py_import_put_left(record);
    }
}

/* Once for each import, however many threads are at it. The work behind it may go
 * on: `out_closing` is what to wait for then. */
static moiety_status py_import_end(struct native_import *import,
                                   moiety_stream stream,
                                   moiety_closing *out_closing)
{
    moiety_status status;
    /* relaxed: only says whether another close came first. */
    if (!atomic_exchange_explicit(&import->is_open, false,
                                  memory_order_relaxed))
        return MOIETY_OK;
    Py_BEGIN_ALLOW_THREADS;
    status = py_import_close_at(import->record->address, stream, out_closing);
    Py_END_ALLOW_THREADS;
    /* relaxed: as above; what was refused is open as before. */
    if (status != MOIETY_OK)
        atomic_store_explicit(&import->is_open, true, memory_order_relaxed);
    return status;
}

/* Takes over the record. */
static void py_import_fill(struct native_import *import, struct left *record,
                           uint64_t address)
{
    record->address = address;
    import->record = record;
    /* relaxed: an object that is being made is its maker's. */
    atomic_store_explicit(&import->stream, MOIETY_STREAM_ANY,
                          memory_order_relaxed);
    atomic_store_explicit(&import->is_open, true, memory_order_relaxed);
}

static int import_init(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keys[] = {"handle", "context", NULL};
    struct native_import *import = import_of(self);
    const char *handle = NULL;
    Py_ssize_t size_bytes = 0;
    uint64_t context = 0;
    moiety_devptr address = 0;
    moiety_status status;
    if (import->record) {
        PyErr_SetString(PyExc_TypeError, "__init__() was called before");
        return -1;
    }
    if (!native_parse(arguments, names, "y#|O&:Import", keys, &handle,
                      &size_bytes, native_context_from, &context))
        return -1;
    native_import_close_left();
    struct left *record = calloc(1, sizeof *record);
    if (!record)
        return PyErr_NoMemory(), -1;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_ipc_import(handle, (size_t)size_bytes,
                               (moiety_context)(uintptr_t)context, &address);
    Py_END_ALLOW_THREADS;
    if (status != MOIETY_OK) {
        free(record);
        native_raise(native_state_of(self), NULL, status);
        return -1;
    }
    py_import_fill(import, record, address);
    return 0;
}

/* What came through the socket, as (import, handle). */
static PyObject *py_import_received(const struct native_state *state,
                                    int socket, moiety_context context,
                                    struct left *record)
{
    moiety_ipc_handle handle;
    moiety_devptr address = 0;
    moiety_status status;
    PyObject *self = native_object_new(state->import_type);
    if (!self) {
        free(record);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_ipc_receive(socket, context, &handle, &address);
    Py_END_ALLOW_THREADS;
    if (status != MOIETY_OK) {
        free(record);
        native_raise(state, NULL, status);
        Py_DECREF(self);
        return NULL;
    }
    py_import_fill(import_of(self), record, address);
    return Py_BuildValue("(Ny#)", self, (const char *)&handle,
                         (Py_ssize_t)sizeof handle);
}

PyObject *native_import_receive(PyObject *module, PyObject *arguments)
{
    int socket = -1;
    uint64_t context = 0;
    if (!PyArg_ParseTuple(arguments, "iO&:_ipc_receive", &socket,
                          native_context_from, &context))
        return NULL;
    native_import_close_left();
    struct left *record = calloc(1, sizeof *record);
    if (!record)
        return PyErr_NoMemory();
    return py_import_received(PyModule_GetState(module), socket,
                              (moiety_context)(uintptr_t)context, record);
}

static moiety_stream py_import_stream(const struct native_import *import)
{
    /* relaxed: see the field. */
    return atomic_load_explicit(&import->stream, memory_order_relaxed);
}

/* The thread that drops the last reference waits for nothing and is told of
 * nothing. */
static void py_import_drop(struct native_import *import)
{
    struct native_error error = native_error_keep();
    moiety_closing closing = NULL;
    moiety_status status =
        py_import_end(import, py_import_stream(import), &closing);
    if (status == MOIETY_OK || status == MOIETY_E_FORKED)
        free(import->record);
    else
        py_import_put_left(import->record);
    native_import_close_left();
    native_error_restore(error);
}

static void import_dealloc(PyObject *self)
{
    if (import_of(self)->record && !native_is_over())
        py_import_drop(import_of(self));
    native_object_free(self);
}

/* The driver's own wait could not be ended by a signal. */
static moiety_status py_import_await(moiety_closing *closing)
{
    struct native_wait wait;
    moiety_status status;
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    do {
        status = *closing ? moiety_ipc_wait(*closing, UINT32_MAX) : MOIETY_OK;
    } while (status == MOIETY_E_TIMEOUT && !wait.has_failed);
    Py_END_ALLOW_THREADS;
    *closing = NULL;
    return native_wait_end(&wait, status);
}

static PyObject *import_close(PyObject *self, PyObject *arguments,
                              PyObject *names)
{
    static char *keys[] = {"stream", "wait", NULL};
    struct native_import *import = import_of(self);
    moiety_stream stream = py_import_stream(import);
    int is_waiting = 1;
    moiety_closing closing = NULL;
    if (!native_parse(arguments, names, "|O&p:close", keys, native_stream_from,
                      &stream, &is_waiting))
        return NULL;
    moiety_status status = py_import_end(import, stream, &closing);
    if (status == MOIETY_OK && is_waiting)
        status = py_import_await(&closing);
    if (status != MOIETY_OK)
        return native_refuse(native_state_of(self), NULL, status);
    return PyLong_FromVoidPtr((void *)closing);
}

static bool py_import_is_open(PyObject *self)
{
    /* relaxed: see py_import_end(). */
    return atomic_load_explicit(&import_of(self)->is_open,
                                memory_order_relaxed);
}

static PyObject *py_import_get_address(PyObject *self, void *closure)
{
    (void)closure;
    if (py_import_is_open(self))
        return PyLong_FromUnsignedLongLong(import_of(self)->record->address);
    native_raise_closed(native_state_of(self), "the import is closed");
    return NULL;
}

static PyObject *py_import_get_is_open(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(py_import_is_open(self));
}

static PyObject *py_import_get_stream(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(
        (uintptr_t)py_import_stream(import_of(self)));
}

static int py_import_set_stream(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    moiety_stream stream;
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "an import always has a stream");
        return -1;
    }
    if (!native_stream_from(value, &stream))
        return -1;
    /* relaxed: see the field. */
    atomic_store_explicit(&import_of(self)->stream, stream,
                          memory_order_relaxed);
    return 0;
}

static PyMethodDef methods[] = {
    {"close", NATIVE_METHOD(import_close), METH_VARARGS | METH_KEYWORDS,
     "close($self, stream=..., wait=True)\n"
     "--\n\n"
     "Ends the import when what was queued on the stream is over. "
     "wait=False: returns at once, with a number for ipc_wait(), or 0 "
     "when it is over already. Again: 0."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"address", py_import_get_address, NULL,
     "The address that the handle names.", NULL},
    {"is_open", py_import_get_is_open, NULL, "False after close().", NULL},
    {"stream", py_import_get_stream, py_import_set_stream,
     "The stream that a close names: its queued work uses the memory last.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_init, import_init},
    {Py_tp_dealloc, import_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc, "_Import(handle, context=None)\n--\n\n"
                "Memory of another process, closed when the last reference "
                "goes: what moiety.ipc.Import is made of."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "moiety._native._Import",
    .basicsize = sizeof(struct native_import),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int native_import_type_add(PyObject *module, struct native_state *state)
{
    state->import_type =
        (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return state->import_type ? PyModule_AddType(module, state->import_type)
                              : -1;
}
