/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include "binade/binade.h"

static PyObject *version(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyUnicode_FromString(binade_version());
}

static PyMethodDef methods[] = {
    {"version", version, METH_NOARGS, "The library's version."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "binade._native",
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModule_Create(&definition);
}
