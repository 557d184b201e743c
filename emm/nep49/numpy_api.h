/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Python's and NumPy's headers as all files of the module must include them:
 * the stable ABI of CPython 3.10, which a free-threaded one has not, and the
 * interface of NumPy 1.22, the first
 * with handlers. Built with the headers of NumPy 2 it loads in both 1.x and 2.x.
 */
#ifndef MOIETY_EMM_NEP49_NUMPY_API_H_
#define MOIETY_EMM_NEP49_NUMPY_API_H_

#define PY_SSIZE_T_CLEAN
#include <pyconfig.h>
#ifndef Py_GIL_DISABLED
#define Py_LIMITED_API 0x030A0000
#endif
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
/* One table of NumPy's functions for the module, in numpy_api.c. */
#define PY_ARRAY_UNIQUE_SYMBOL moietyi_numpy_table
#ifndef MOIETYI_NUMPY_TABLE_HERE
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

/* Fills the table. -1, with the error set, where NumPy cannot be used. */
int moietyi_numpy_import(void);

#endif
