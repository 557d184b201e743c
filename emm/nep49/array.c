/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * An array over a block, in one call: through __array_interface__ it would take
 * ten times as long, and the block would not be the array's base but its base's.
 */
#include "emm/nep49/array.h"

#include <stdbool.h>
#include <string.h>

struct wish {
    PyObject *alloc;
    PyObject *show; /* of a block, its address */
    int axis_count;
    npy_intp lengths[NPY_MAXDIMS];
    PyArray_Descr *type;
    int is_fortran;
    int is_zeroed;
};

static bool check_type(const struct wish *wish)
{
    if (PyDataType_FLAGCHK(wish->type, NPY_ITEM_REFCOUNT)) {
        PyErr_SetString(PyExc_TypeError,
                        "elements that refer to Python objects cannot be in "
                        "pinned memory");
        return false;
    }
    if (PyDataType_ELSIZE(wish->type) <= 0) {
        PyErr_SetString(PyExc_TypeError,
                        "the data type has no size: say how long its strings "
                        "are");
        return false;
    }
    return true;
}

/* False, with the error set, for what no array can be. */
static bool count_bytes(const struct wish *wish, Py_ssize_t *out)
{
    Py_ssize_t bytes = PyDataType_ELSIZE(wish->type);
    for (int i = 0; i < wish->axis_count; i++) {
        if (wish->lengths[i] < 0) {
            PyErr_SetString(PyExc_ValueError,
                            "negative dimensions are not allowed");
            return false;
        }
        if (__builtin_mul_overflow(bytes, wish->lengths[i], &bytes)) {
            PyErr_SetString(PyExc_ValueError,
                            "array is too big: its bytes cannot be counted");
            return false;
        }
    }
    *out = bytes;
    return true;
}

/* The block knows from now on that an array looks at it. */
static void *address_of(PyObject *show, PyObject *block)
{
    PyObject *number = PyObject_CallFunctionObjArgs(show, block, NULL);
    void *address = number ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    if (!address && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the block has no memory");
    return address;
}

static void nep49_array_clear(void *address, Py_ssize_t bytes)
{
    Py_BEGIN_ALLOW_THREADS;
    memset(address, 0, (size_t)bytes);
    Py_END_ALLOW_THREADS;
}

/* Takes the reference to `block`, also when it fails. */
static PyObject *over(const struct wish *wish, PyObject *block, void *address)
{
    /* Which takes a reference to the type, also when it fails. */
    Py_INCREF(wish->type);
    PyObject *array = PyArray_NewFromDescr(
        &PyArray_Type, wish->type, wish->axis_count, wish->lengths, NULL,
        address, wish->is_fortran ? NPY_ARRAY_FARRAY : NPY_ARRAY_CARRAY, NULL);
    if (!array) {
        Py_DECREF(block);
        return NULL;
    }
    if (PyArray_SetBaseObject((PyArrayObject *)array, block) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

static PyObject *nep49_array_make(const struct wish *wish)
{
    Py_ssize_t bytes;
    if (!check_type(wish) || !count_bytes(wish, &bytes))
        return NULL;
    /* An array without elements has an address too. */
    PyObject *number = PyLong_FromSsize_t(bytes ? bytes : 1);
    if (!number)
        return NULL;
    PyObject *block = PyObject_CallFunctionObjArgs(wish->alloc, number, NULL);
    Py_DECREF(number);
    if (!block)
        return NULL;
    void *address = address_of(wish->show, block);
    if (!address) {
        Py_DECREF(block);
        return NULL;
    }
    if (wish->is_zeroed)
        nep49_array_clear(address, bytes);
    return over(wish, block, address);
}

static int read_shape(PyObject *shape, void *out)
{
    struct wish *wish = out;
    wish->axis_count =
        PyArray_IntpFromSequence(shape, wish->lengths, NPY_MAXDIMS);
    if (wish->axis_count > NPY_MAXDIMS)
        PyErr_Format(PyExc_ValueError, "%d dimensions: the most are %d",
                     wish->axis_count, NPY_MAXDIMS);
    return wish->axis_count >= 0 && wish->axis_count <= NPY_MAXDIMS;
}

PyObject *moietyi_array_empty(PyObject *module, PyObject *arguments)
{
    struct wish wish;
    PyObject *array = NULL;
    (void)module;
    wish.type = NULL;
    if (PyArg_ParseTuple(arguments, "OOO&O&pp:empty", &wish.alloc, &wish.show,
                         read_shape, &wish, PyArray_DescrConverter, &wish.type,
                         &wish.is_fortran, &wish.is_zeroed))
        array = nep49_array_make(&wish);
    Py_XDECREF(wish.type);
    return array;
}
