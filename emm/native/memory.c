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

static binade_status take_slowly(binade_pool *pool, binade_tenant tenant,
                                 size_t nbytes, binade_stream stream,
                                 binade_devptr *out)
{
    return tenant ? binade_tenant_alloc(tenant, nbytes, stream, out)
                  : binade_alloc(pool, nbytes, stream, out);
}

binade_status native_take(binade_pool *pool, binade_tenant tenant,
                          size_t nbytes, binade_stream stream,
                          binade_devptr *out)
{
    /* Tenants have no way that is known to call nobody. */
    binade_status status =
        tenant ? BINADE_E_BUSY : binade_alloc_cached(pool, nbytes, stream, out);
    if (status == BINADE_E_BUSY) {
        Py_BEGIN_ALLOW_THREADS;
        status = take_slowly(pool, tenant, nbytes, stream, out);
        Py_END_ALLOW_THREADS;
    }
    return status;
}

binade_status native_give(binade_pool *pool, binade_devptr address,
                          binade_stream stream)
{
    binade_status status = binade_free_cached(pool, address, stream);
    if (status == BINADE_E_BUSY) {
        Py_BEGIN_ALLOW_THREADS;
        status = binade_free(pool, address, stream);
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
