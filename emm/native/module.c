/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The module: its constants, types and functions.
 */
#include "emm/native/native.h"

static PyObject *version(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyUnicode_FromString(moiety_version());
}

static PyObject *capsule_of(PyObject *module, PyObject *object)
{
    const struct native_state *state = PyModule_GetState(module);
    struct native_space *space = (struct native_space *)object;
    if (Py_TYPE(object) == state->tenant_type)
        return native_tenant_capsule(object);
    if (!PyObject_TypeCheck(object, state->pool_type) &&
        !PyObject_TypeCheck(object, state->arena_type))
        return PyErr_Format(PyExc_TypeError,
                            "%R is no Pool, HostArena or Tenant", object);
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    return space->is_host
               ? native_space_capsule(space, space->host, "moiety_host")
               : native_space_capsule(space, pool, "moiety_pool");
}

static PyMethodDef methods[] = {
    {"_capsule_of", capsule_of, METH_O,
     "_capsule_of($module, object, /)\n"
     "--\n\n"
     "The C handle of a Pool, HostArena or Tenant, as a capsule 'moiety_pool', "
     "'moiety_host' or 'moiety_tenant'. While it lives, close() raises "
     "InUseError."},
    {"_error_for", native_error_for, METH_VARARGS,
     "_error_for($module, status, text, /)\n"
     "--\n\n"
     "The exception for a status, such as 'E_IN_USE'."},
    {"_bytes_of", native_bytes_of, METH_VARARGS,
     "_bytes_of($module, name, value, /)\n"
     "--\n\n"
     "The bytes of a setting: a number, text such as '8GiB', or None for 0."},
    {"_free_for_rmm", NATIVE_METHOD(native_free_for_rmm), METH_FASTCALL,
     "_free_for_rmm($module, pool, address, nbytes, stream, /)\n"
     "--\n\n"
     "Pool.free_raw(), as RMM calls it."},
    {"_show", native_show, METH_O,
     "_show($module, block, /)\n"
     "--\n\n"
     "The address of a block, for an object that keeps the block."},
    {"version", version, METH_NOARGS,
     "version($module)\n"
     "--\n"
     "\n"
     "Returns the version of the library."},
    {"probe", NATIVE_METHOD(native_probe), METH_VARARGS | METH_KEYWORDS,
     "probe($module, device=0)\n"
     "--\n"
     "\n"
     "Returns a dictionary of what the driver and the device are and support.\n"
     "\n"
     "Raises DriverError without a driver, and Error for a device that does "
     "not exist."},
    {"topology", NATIVE_METHOD(native_topology), METH_VARARGS | METH_KEYWORDS,
     "topology($module, json=False)\n"
     "--\n"
     "\n"
     "Returns a text, or JSON, of the machine's NUMA nodes and GPUs, and of "
     "the nodes that are used for each GPU."},
    {NULL, NULL, 0, NULL},
};

static int py_module_add_stream(PyObject *module, const char *name,
                                moiety_stream stream)
{
    PyObject *number = PyLong_FromUnsignedLongLong((uintptr_t)stream);
    int error = number ? PyModule_AddObjectRef(module, name, number) : -1;
    Py_XDECREF(number);
    return error;
}

static int add_streams(PyObject *module)
{
    return py_module_add_stream(module, "LEGACY", MOIETY_STREAM_LEGACY) ||
           py_module_add_stream(module, "PER_THREAD",
                                MOIETY_STREAM_PER_THREAD) ||
           py_module_add_stream(module, "ANY", MOIETY_STREAM_ANY) ||
           py_module_add_stream(module, "DONE", MOIETY_STREAM_DONE);
}

static int add_types(PyObject *module, struct native_state *state)
{
    PyTypeObject *base = native_space_type_new(module);
    int error = !base || native_pool_type_add(module, state, base) ||
                native_arena_type_add(module, state, base) ||
                native_block_types_add(module, state) ||
                native_import_type_add(module, state) ||
                native_tenant_type_add(module, state) ||
                native_watch_type_add(module, state) ||
                native_scope_type_add(module, state) ||
                native_cupy_type_add(module);
    Py_XDECREF((PyObject *)base);
    return error;
}

static int py_module_fill(PyObject *module)
{
    struct native_state *state = PyModule_GetState(module);
    return native_errors_add(module, state) || add_streams(module) ||
                   add_types(module, state) ||
                   PyModule_AddFunctions(module, native_sharing_methods) ||
                   native_watch_exit(module)
               ? -1
               : 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    const struct native_state *state = PyModule_GetState(module);
    enum { HELD_COUNT = 10 };
    PyObject *const held[HELD_COUNT] = {
        (PyObject *)state->pool_type,   (PyObject *)state->arena_type,
        (PyObject *)state->block_type,  (PyObject *)state->host_block_type,
        (PyObject *)state->import_type, (PyObject *)state->tenant_type,
        (PyObject *)state->watch_type,  (PyObject *)state->hold_type,
        (PyObject *)state->scope_type,  (PyObject *)state->growth_type,
    };
    int result = 0;
    for (size_t i = 0; !result && i < NATIVE_ERROR_KINDS; i++)
        result = state->errors[i] ? visit(state->errors[i], arg) : 0;
    for (size_t i = 0; !result && i < HELD_COUNT; i++)
        result = held[i] ? visit(held[i], arg) : 0;
    return result;
}

static void py_module_clear_block_types(struct native_state *state)
{
    Py_CLEAR(state->block_type);
    Py_CLEAR(state->host_block_type);
    Py_CLEAR(state->import_type);
}

static void py_module_clear_types(struct native_state *state)
{
    Py_CLEAR(state->pool_type);
    Py_CLEAR(state->arena_type);
    py_module_clear_block_types(state);
    Py_CLEAR(state->tenant_type);
    Py_CLEAR(state->watch_type);
    Py_CLEAR(state->hold_type);
    Py_CLEAR(state->scope_type);
    Py_CLEAR(state->growth_type);
}

static int py_module_clear(PyObject *module)
{
    struct native_state *state = PyModule_GetState(module);
    for (size_t i = 0; i < NATIVE_ERROR_KINDS; i++)
        Py_CLEAR(state->errors[i]);
    py_module_clear_types(state);
    return 0;
}

static void py_module_end(void *module)
{
    (void)py_module_clear(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, py_module_fill},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "moiety._native",
    .m_doc = "Pools and host arenas as Python objects.",
    .m_size = sizeof(struct native_state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = py_module_clear,
    .m_free = py_module_end,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
