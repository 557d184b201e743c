/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What Python programs call a stream: a number, or the object of a framework.
 */
#include "emm/native/native.h"

/* A new reference, NULL without an error where there is no such attribute. */
static PyObject *attribute_of(PyObject *object, const char *name)
{
    PyObject *found = PyObject_GetAttrString(object, name);
    if (!found && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return found;
}

/* cuda.core's protocol: (version, handle). */
static PyObject *handle_of_protocol(PyObject *object)
{
    PyObject *method = attribute_of(object, "__cuda_stream__");
    PyObject *pair = method ? PyObject_CallObject(method, NULL) : NULL;
    PyObject *handle = pair ? PySequence_GetItem(pair, 1) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(pair);
    return handle;
}

/* What a framework's stream has its handle in: a new reference. */
static PyObject *handle_of(PyObject *object)
{
    static const char *const names[] = {
        "ptr",         /* CuPy */
        "cuda_stream", /* torch */
        "handle",      /* numba, cuda.core */
    };
    PyObject *handle = handle_of_protocol(object);
    for (size_t i = 0;
         !handle && !PyErr_Occurred() && i < sizeof names / sizeof *names; i++)
        handle = attribute_of(object, names[i]);
    if (!handle && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%R is no stream", object);
    return handle;
}

/* Handles are integers, objects that convert to one, or ctypes pointers, which
 * have a .value that is None for 0. */
static int number_of(PyObject *handle, uint64_t *out)
{
    PyObject *value = attribute_of(handle, "value");
    PyObject *number = NULL;
    if (value == Py_None)
        number = PyLong_FromLong(0);
    else if (!PyErr_Occurred())
        number = PyNumber_Long(value ? value : handle);
    int is_number = number && native_u64_from(number, out);
    Py_XDECREF(value);
    Py_XDECREF(number);
    return is_number;
}

int native_stream_from(PyObject *object, void *out)
{
    uint64_t number = (uintptr_t)BINADE_STREAM_ANY;
    if (object != Py_None && PyIndex_Check(object)) {
        if (!native_u64_from(object, &number))
            return 0;
    } else if (object != Py_None) {
        PyObject *handle = handle_of(object);
        int is_number = handle && number_of(handle, &number);
        Py_XDECREF(handle);
        if (!is_number)
            return 0;
    }
    *(binade_stream *)out = (binade_stream)(uintptr_t)number;
    return 1;
}
