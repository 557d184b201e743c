/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread that holds the GIL must not call the driver: another thread may hold
 * a lock of the driver and wait for work behind a host function, and that
 * function waits for the GIL. So what is free is asked for first, which calls
 * nobody.
 */
#include "emm/native/native.h"

/* Edge: none; relaxed: the GIL orders it. Set by atexit, before the interpreter
 * takes itself apart. One for all interpreters of the process, whose exit it
 * is. */
static atomic_bool is_over;

/* The innermost of the thread. */
static _Thread_local struct native_wait *waiting
    __attribute__((tls_model("initial-exec")));

/* The library is in the middle of a call: frees wait, as in a watcher. */
static int py_memory_ask(void *user)
{
    struct native_wait *wait = user;
    if (wait->has_failed || native_is_over())
        return wait->has_failed;
    struct native_told told;
    native_told_begin(&told);
    wait->has_failed = PyErr_CheckSignals() != 0;
    if (wait->has_failed)
        wait->error = native_error_keep();
    native_told_end(&told);
    return wait->has_failed;
}

void native_wait_begin(struct native_wait *wait)
{
    *wait = (struct native_wait){.outer = waiting};
    waiting = wait;
    moiety_set_interrupt(py_memory_ask, wait);
}

void native_wait_fail(struct native_wait *wait)
{
    wait->has_failed = true;
    wait->error = native_error_keep();
    /* Set anew, it is asked at once. */
    moiety_set_interrupt(py_memory_ask, wait);
}

moiety_status native_wait_end(struct native_wait *wait, moiety_status status)
{
    waiting = wait->outer;
    moiety_set_interrupt(waiting ? py_memory_ask : NULL, waiting);
    if (!wait->has_failed)
        return status;
    native_error_restore(wait->error);
    return status == MOIETY_OK ? MOIETY_E_INTERRUPTED : status;
}

static moiety_status take_slowly(moiety_pool *pool, moiety_tenant tenant,
                                 size_t nbytes, moiety_stream stream,
                                 moiety_devptr *out)
{
    const moiety_alloc_options options = {.struct_size = sizeof options,
                                          .tenant = tenant};
    return tenant ? moiety_alloc_with(NULL, nbytes, stream, &options, out)
                  : moiety_alloc(pool, nbytes, stream, out);
}

/* Its last life may be pending, but on no other stream; one that captures cannot be
 * waited for: all of them then. */
static void py_memory_return(moiety_pool *pool, moiety_devptr address,
                             moiety_stream stream)
{
    moiety_status status = moiety_free(pool, address, stream);
    if (status != MOIETY_OK)
        status = moiety_free(pool, address, MOIETY_STREAM_ANY);
    (void)status;
}

moiety_status native_take(moiety_pool *pool, moiety_tenant tenant,
                          size_t nbytes, moiety_stream stream,
                          moiety_devptr *out)
{
    static const moiety_alloc_options no_call = {.struct_size = sizeof no_call,
                                                 .flags = MOIETY_ALLOC_NO_CALL};
    /* Tenants have no way that is known to call nobody. */
    moiety_status status =
        tenant ? MOIETY_E_WOULD_BLOCK
               : moiety_alloc_with(pool, nbytes, stream, &no_call, out);
    if (status != MOIETY_E_WOULD_BLOCK)
        return status;
    struct native_wait wait;
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    status = take_slowly(pool, tenant, nbytes, stream, out);
    /* What came when a handler had raised already has no owner. */
    if (status == MOIETY_OK && wait.has_failed)
        py_memory_return(pool, *out, stream);
    Py_END_ALLOW_THREADS;
    return native_wait_end(&wait, status);
}

moiety_status native_give(moiety_pool *pool, moiety_devptr address,
                          moiety_stream stream)
{
    moiety_status status = moiety_free_no_call(pool, address, stream);
    if (status == MOIETY_E_WOULD_BLOCK) {
        Py_BEGIN_ALLOW_THREADS;
        status = moiety_free(pool, address, stream);
        Py_END_ALLOW_THREADS;
    }
    return status;
}

bool native_is_over(void)
{
    /* relaxed: the GIL orders it. */
    return atomic_load_explicit(&is_over, memory_order_relaxed);
}

static PyObject *py_memory_end(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    /* relaxed: see native_is_over(). */
    atomic_store_explicit(&is_over, true, memory_order_relaxed);
    Py_RETURN_NONE;
}

int native_watch_exit(PyObject *module)
{
    static PyMethodDef method = {"_end", py_memory_end, METH_NOARGS, NULL};
    PyObject *function = PyCFunction_New(&method, module);
    PyObject *atexit = function ? PyImport_ImportModule("atexit") : NULL;
    PyObject *result =
        atexit ? PyObject_CallMethod(atexit, "register", "O", function) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(atexit);
    Py_XDECREF(result);
    return result ? 0 : -1;
}
