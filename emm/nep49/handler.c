/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * NEP 49 has nobody who says when a handler is not used any more, so a handler's
 * struct is immortal: one for each arena and name, made when it is first asked
 * for. The capsules over it are counted as all objects are, by the arrays whose
 * memory is the handler's and by the contexts where it is set; each keeps the
 * arena open.
 *
 * All that is here runs with the GIL held, which guards the list; where there is
 * none, a mutex does.
 */
#include "emm/nep49/handler.h"

#include <stdlib.h>
#include <string.h>

#include "emm/nep49/memory.h"
#include "moiety/host.h"

#define CAPSULE_NAME "mem_handler" /* NumPy's */
#define HANDLER_VERSION 1

struct handler {
    PyDataMem_Handler numpy;
    struct handler *next;
};

static struct handler *handlers;
#ifdef Py_GIL_DISABLED
static PyMutex handlers_mutex;
#endif

static struct handler *nep49_handler_find(const moiety_pool *pool,
                                          const char *name)
{
    struct handler *handler = handlers;
    /* A pool's handle is never another's, also after its end. */
    while (handler && (handler->numpy.allocator.ctx != pool ||
                       strcmp(handler->numpy.name, name) != 0))
        handler = handler->next;
    return handler;
}

/* NULL when there is no memory. */
static struct handler *nep49_handler_make(moiety_pool *pool, const char *name)
{
    struct handler *handler = calloc(1, sizeof(*handler));
    if (!handler)
        return NULL;
    memcpy(handler->numpy.name, name, strlen(name) + 1);
    handler->numpy.version = HANDLER_VERSION;
    handler->numpy.allocator = (PyDataMemAllocator){
        .ctx = pool,
        .malloc = moiety_nep49_malloc,
        .calloc = moiety_nep49_calloc,
        .realloc = moiety_nep49_realloc,
        .free = moiety_nep49_free,
    };
    handler->next = handlers;
    handlers = handler;
    return handler;
}

/* NULL when there is no memory. */
static struct handler *nep49_handler_get(moiety_pool *pool, const char *name)
{
#ifdef Py_GIL_DISABLED
    PyMutex_Lock(&handlers_mutex);
#endif
    struct handler *handler = nep49_handler_find(pool, name);
    if (!handler)
        handler = nep49_handler_make(pool, name);
#ifdef Py_GIL_DISABLED
    PyMutex_Unlock(&handlers_mutex);
#endif
    return handler;
}

static void nep49_handler_release_arena(PyObject *capsule)
{
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
}

static PyObject *nep49_handler_wrap(struct handler *handler, PyObject *arena)
{
    PyObject *capsule = PyCapsule_New(&handler->numpy, CAPSULE_NAME,
                                      nep49_handler_release_arena);
    if (!capsule)
        return NULL;
    if (PyCapsule_SetContext(capsule, arena) < 0)
        Py_CLEAR(capsule);
    else
        Py_INCREF(arena);
    return capsule;
}

PyObject *moietyi_handler_make(PyObject *module, PyObject *arguments)
{
    PyObject *arena;
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Os:handler", &arena, &name))
        return NULL;
    if (strlen(name) >= sizeof(((PyDataMem_Handler *)NULL)->name)) {
        return PyErr_Format(PyExc_ValueError,
                            "a handler's name has %zu bytes at most",
                            sizeof(((PyDataMem_Handler *)NULL)->name) - 1);
    }
    moiety_host *host = PyCapsule_GetPointer(arena, "moiety_host");
    if (!host)
        return NULL;
    moiety_pool *pool = moiety_host_pool(host);
    /* Children that a worker forks compute on their parent's arrays. */
    if (moiety_host_copy_to_children(host) == MOIETY_E_DESTROYED)
        return PyErr_Format(PyExc_ValueError, "the arena is closed");
    struct handler *handler = nep49_handler_get(pool, name);
    return handler ? nep49_handler_wrap(handler, arena) : PyErr_NoMemory();
}

PyObject *moietyi_handler_context(PyObject *module, PyObject *capsule)
{
    (void)module;
    const PyDataMem_Handler *handler =
        PyCapsule_GetPointer(capsule, CAPSULE_NAME);
    return handler ? PyLong_FromVoidPtr(handler->allocator.ctx) : NULL;
}

PyObject *moietyi_handler_set(PyObject *module, PyObject *capsule)
{
    (void)module;
    return PyDataMem_SetHandler(capsule == Py_None ? NULL : capsule);
}

PyObject *moietyi_handler_get(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyDataMem_GetHandler();
}

static int nep49_handler_add(PyObject *functions, const char *name,
                             uintptr_t address)
{
    PyObject *number = PyLong_FromVoidPtr((void *)address);
    int result = number ? PyDict_SetItemString(functions, name, number) : -1;
    Py_XDECREF(number);
    return result;
}

PyObject *moietyi_handler_functions(void)
{
    PyObject *functions = PyDict_New();
    if (functions && (nep49_handler_add(functions, "malloc",
                                        (uintptr_t)moiety_nep49_malloc) < 0 ||
                      nep49_handler_add(functions, "calloc",
                                        (uintptr_t)moiety_nep49_calloc) < 0 ||
                      nep49_handler_add(functions, "realloc",
                                        (uintptr_t)moiety_nep49_realloc) < 0 ||
                      nep49_handler_add(functions, "free",
                                        (uintptr_t)moiety_nep49_free) < 0))
        Py_CLEAR(functions);
    return functions;
}
