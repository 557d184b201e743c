/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emm/native/native.h"

int native_put(PyObject *dictionary, const char *key, PyObject *value)
{
    int error = value ? PyDict_SetItemString(dictionary, key, value) : -1;
    Py_XDECREF(value);
    return error;
}

int native_put_u64(PyObject *dictionary, const char *key, uint64_t value)
{
    return native_put(dictionary, key, PyLong_FromUnsignedLongLong(value));
}
