/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the module that need no pool: handles of other processes, pins
 * of the caller's memory, the capture guard.
 */
#include "emm/native/native.h"
#include "moiety/expose.h"
#include "moiety/ipc.h"

static PyObject *answer(PyObject *module, moiety_status status)
{
    if (status != MOIETY_OK)
        return native_refuse(PyModule_GetState(module), NULL, status);
    Py_RETURN_NONE;
}

static PyObject *ipc_wait(PyObject *module, PyObject *arguments,
                          PyObject *names)
{
    static char *keys[] = {"closing", "timeout", NULL};
    uint64_t closing = 0;
    uint32_t timeout_ms = UINT32_MAX;
    moiety_status status;
    if (!native_parse(arguments, names, "O&|O&:ipc_wait", keys, native_u64_from,
                      &closing, native_timeout_from, &timeout_ms))
        return NULL;
    struct native_wait wait;
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_ipc_wait((moiety_closing)(uintptr_t)closing, timeout_ms);
    Py_END_ALLOW_THREADS;
    return answer(module, native_wait_end(&wait, status));
}

static PyObject *ipc_trim(PyObject *module, PyObject *arguments,
                          PyObject *names)
{
    static char *keys[] = {"keep_count", NULL};
    uint32_t keep_count = 0;
    uint32_t open_count = 0;
    moiety_status status;
    if (!native_parse(arguments, names, "|O&:ipc_trim", keys, native_u32_from,
                      &keep_count))
        return NULL;
    native_import_close_left();
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_ipc_trim(keep_count, &open_count);
    Py_END_ALLOW_THREADS;
    return status == MOIETY_OK ? PyLong_FromUnsignedLong(open_count)
                               : answer(module, status);
}

/* py_sharing_pin() or py_sharing_unpin(): what the library does to a range. */
static PyObject *call_on_range(PyObject *module, PyObject *arguments,
                               PyObject *names,
                               moiety_status (*call)(void *, size_t))
{
    static char *keys[] = {"address", "nbytes", NULL};
    uint64_t address = 0;
    uint64_t nbytes = 0;
    moiety_status status;
    if (!native_parse(arguments, names, "O&O&", keys, native_u64_from, &address,
                      native_u64_from, &nbytes))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = call((void *)(uintptr_t)address, nbytes);
    Py_END_ALLOW_THREADS;
    return answer(module, status);
}

static PyObject *py_sharing_pin(PyObject *module, PyObject *arguments,
                                PyObject *names)
{
    return call_on_range(module, arguments, names, moiety_host_pin);
}

static PyObject *py_sharing_unpin(PyObject *module, PyObject *arguments,
                                  PyObject *names)
{
    return call_on_range(module, arguments, names, moiety_host_unpin);
}

static PyObject *call_guard(PyObject *module, moiety_status (*call)(void))
{
    moiety_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = call();
    Py_END_ALLOW_THREADS;
    return answer(module, status);
}

static PyObject *capture_guard_begin(PyObject *module, PyObject *none)
{
    (void)none;
    return call_guard(module, moiety_capture_guard_begin);
}

static PyObject *capture_guard_end(PyObject *module, PyObject *none)
{
    (void)none;
    return call_guard(module, moiety_capture_guard_end);
}

static PyObject *expose_start(PyObject *module, PyObject *path)
{
    PyObject *bytes = NULL;
    moiety_status status;
    if (!PyUnicode_FSConverter(path, (void *)&bytes))
        return NULL;
    const char *text = PyBytes_AsString(bytes);
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_expose_start(text);
    Py_END_ALLOW_THREADS;
    Py_DECREF(bytes);
    return answer(module, status);
}

static PyObject *expose_stop(PyObject *module, PyObject *none)
{
    moiety_status status;
    (void)none;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_expose_stop();
    Py_END_ALLOW_THREADS;
    return answer(module, status);
}

PyMethodDef native_sharing_methods[] = {
    {"expose_start", expose_start, METH_O,
     "expose_start($module, path, /)\n"
     "--\n"
     "\n"
     "Lets other programs of this user look at the pools of this process "
     "through a Unix socket at `path`.\n"
     "\n"
     "Raises Error if the process is exposed already, or if there cannot be a "
     "socket at `path`."},
    {"expose_stop", expose_stop, METH_NOARGS,
     "expose_stop($module)\n"
     "--\n"
     "\n"
     "Ends start(), and removes the socket."},
    {"ipc_wait", NATIVE_METHOD(ipc_wait), METH_VARARGS | METH_KEYWORDS,
     "ipc_wait($module, closing, timeout=None)\n"
     "--\n\n"
     "Waits until it is closed; TimedOutError after the time."},
    {"ipc_trim", NATIVE_METHOD(ipc_trim), METH_VARARGS | METH_KEYWORDS,
     "ipc_trim($module, keep_count=0)\n"
     "--\n\n"
     "Gives segments back that no import uses, but for so many; how many are "
     "open afterwards."},
    {"_ipc_receive", native_import_receive, METH_VARARGS,
     "_ipc_receive($module, socket, context, /)\n"
     "--\n\n"
     "moiety_ipc_receive(): (import, handle)."},
    {"pool_of", native_pool_of, METH_O,
     "pool_of($module, address, /)\n"
     "--\n"
     "\n"
     "Returns the Pool that has an address or block, in use or not. Returns "
     "None if no pool has it.\n"
     "\n"
     "The pool can be one that another part of the program created, in C or "
     "for PyTorch. It can be used as any other, and its blocks share the "
     "limit. close() of it raises UnsupportedError. It must not be used after "
     "its creator has ended it.\n"
     "\n"
     "Pools of host memory are not found."},
    {"_default_pool", native_default_pool, METH_O,
     "_default_pool($module, device, /)\n"
     "--\n\n"
     "Returns the Pool of moiety_default_pool(), which all of the process "
     "shares."},
    {"_check_options", NATIVE_METHOD(native_check_options),
     METH_VARARGS | METH_KEYWORDS,
     "_check_options($module, device=0, **options)\n"
     "--\n\n"
     "What Pool() would raise for its options, without making one."},
    {"_note_refusal", native_note_refusal, METH_VARARGS,
     "_note_refusal($module, error, object, refusal, /)\n"
     "--\n\n"
     "The object could not be closed while the error is raised: a note of it."},
    {"_dlpack_make", native_dlpack_make, METH_VARARGS,
     "_dlpack_make($module, owner, address, device, dtype, shape, strides, "
     "max_version, is_readonly, /)\n"
     "--\n\n"
     "A capsule that keeps the owner."},
    {"_dlpack_read", native_dlpack_read, METH_O,
     "_dlpack_read($module, capsule, /)\n"
     "--\n\n"
     "(address, device, dtype, shape, strides, is_readonly)."},
    {"pin", NATIVE_METHOD(py_sharing_pin), METH_VARARGS | METH_KEYWORDS,
     "pin($module, address, nbytes)\n"
     "--\n\n"
     "Pins memory of the caller's, counted; a context must be current."},
    {"unpin", NATIVE_METHOD(py_sharing_unpin), METH_VARARGS | METH_KEYWORDS,
     "unpin($module, address, nbytes)\n"
     "--\n\n"
     "Takes back one pin() of the same range."},
    {"capture_guard_begin", capture_guard_begin, METH_NOARGS,
     "capture_guard_begin($module)\n"
     "--\n\n"
     "A graph is about to be captured: counted."},
    {"capture_guard_end", capture_guard_end, METH_NOARGS,
     "capture_guard_end($module)\n"
     "--\n\n"
     "Takes back one capture_guard_begin()."},
    {NULL, NULL, 0, NULL},
};
