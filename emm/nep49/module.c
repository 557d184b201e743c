/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The module moiety._nep49: for moiety.numpy, which says what it all means.
 */
#include "emm/nep49/array.h"
#include "emm/nep49/handler.h"
#include "emm/nep49/memory.h"
#include "emm/nep49/numpy_api.h"

static PyMethodDef methods[] = {
    {"handler", moietyi_handler_make, METH_VARARGS,
     "handler($module, arena, name, /)\n"
     "--\n\n"
     "The handler of an arena, given as the capsule that "
     "HostArena._capsule() returns. It keeps the arena open."},
    {"context", moietyi_handler_context, METH_O,
     "context($module, handler, /)\n"
     "--\n\n"
     "The address to call FUNCTIONS with."},
    {"set_handler", moietyi_handler_set, METH_O,
     "set_handler($module, handler, /)\n"
     "--\n\n"
     "NumPy's handler in this context from now on; None for its own. Returns "
     "the one before."},
    {"get_handler", moietyi_handler_get, METH_NOARGS,
     "get_handler($module)\n"
     "--\n\n"
     "NumPy's handler in this context."},
    {"empty", moietyi_array_empty, METH_VARARGS,
     "empty($module, alloc, show, shape, dtype, is_fortran, is_zeroed, /)\n"
     "--\n\n"
     "An array over the block that alloc(nbytes) returns."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "moiety._nep49",
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__nep49(void);

PyMODINIT_FUNC PyInit__nep49(void)
{
    if (moietyi_numpy_import() < 0)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
#ifdef Py_GIL_DISABLED
    if (module && PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED) < 0)
        Py_CLEAR(module);
#endif
    PyObject *functions = module ? moietyi_handler_functions() : NULL;
    if (!functions ||
        PyModule_AddObjectRef(module, "FUNCTIONS", functions) < 0 ||
        PyModule_AddIntConstant(module, "PINNED_BYTES_MIN",
                                MOIETY_NEP49_PINNED_BYTES_MIN) < 0)
        Py_CLEAR(module);
    Py_XDECREF(functions);
    return module;
}
