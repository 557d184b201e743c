/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * DLPack of the bytes of a block. The structs are those of dlpack.h before its
 * version 1.0, which every consumer takes.
 */
#include "emm/native/native.h"

#include <stdlib.h>

enum { DL_CUDA = 2, DL_CUDA_HOST = 3, DL_UINT = 1 };

struct dl_device {
    int32_t type;
    int32_t ordinal;
};

struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t dimension_count;
    uint8_t type_code;
    uint8_t type_bits;
    uint16_t type_lanes;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
};

struct dl_managed_tensor {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed_tensor *self);
};

/* With what its pointers point to. */
struct exported {
    struct dl_managed_tensor managed;
    int64_t shape;
    PyObject *block;
};

/* By the consumer, from any thread and without the GIL. */
static void delete_exported(struct dl_managed_tensor *managed)
{
    struct exported *exported = managed->context;
    if (!native_is_over()) {
        PyGILState_STATE gil = PyGILState_Ensure();
        Py_DECREF(exported->block);
        PyGILState_Release(gil);
    }
    free(exported);
}

/* A capsule that somebody consumed has another name, and another owner. */
static void delete_capsule(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor"))
        return;
    struct dl_managed_tensor *managed =
        PyCapsule_GetPointer(capsule, "dltensor");
    managed->deleter(managed);
}

static struct dl_device device_of(const struct native_block *block)
{
    /* Pinned memory is the host's: its ordinal is 0 by convention. */
    if (block->space->host)
        return (struct dl_device){DL_CUDA_HOST, 0};
    return (struct dl_device){DL_CUDA, block->space->device};
}

static PyObject *export(struct native_block *block)
{
    struct exported *made = calloc(1, sizeof *made);
    if (!made)
        return PyErr_NoMemory();
    made->shape = (int64_t)block->nbytes;
    made->block = (PyObject *)block;
    made->managed = (struct dl_managed_tensor){
        .tensor = {.data = (void *)(uintptr_t)block->address,
                   .device = device_of(block),
                   .dimension_count = 1,
                   .type_code = DL_UINT,
                   .type_bits = 8,
                   .type_lanes = 1,
                   .shape = &made->shape},
        .context = made,
        .deleter = delete_exported,
    };
    PyObject *capsule =
        PyCapsule_New(&made->managed, "dltensor", delete_capsule);
    if (capsule)
        Py_INCREF(made->block);
    else
        free(made);
    return capsule;
}

/* 0: as it is asked for; -1 after an error. */
static int check_wishes(const struct native_block *block, PyObject *device,
                        PyObject *copy)
{
    struct dl_device has = device_of(block);
    int type = has.type;
    int ordinal = has.ordinal;
    if (device != Py_None && !PyArg_ParseTuple(device, "ii", &type, &ordinal))
        return -1;
    if (type != has.type || ordinal != has.ordinal)
        PyErr_SetString(PyExc_BufferError, "the block is on another device");
    else if (copy == Py_True)
        PyErr_SetString(PyExc_BufferError, "a block is never copied");
    return PyErr_Occurred() ? -1 : native_block_check(block);
}

PyObject *native_dlpack(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keys[] = {"stream", "max_version", "dl_device", "copy", NULL};
    struct native_block *block = (struct native_block *)self;
    PyObject *stream = Py_None;
    PyObject *version = Py_None;
    PyObject *device = Py_None;
    PyObject *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|$OOOO:__dlpack__",
                                     keys, &stream, &version, &device, &copy) ||
        check_wishes(block, device, copy))
        return NULL;
    return export(block);
}

PyObject *native_dlpack_device(PyObject *self, PyObject *none)
{
    (void)none;
    struct dl_device device = device_of((struct native_block *)self);
    return Py_BuildValue("(ii)", (int)device.type, (int)device.ordinal);
}
