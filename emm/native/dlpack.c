/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * DLPack, of the bytes of a block and of what moiety.ipc shares. The structs
 * are those of dlpack.h before its version 1.0, which every consumer takes.
 */
#include "emm/native/native.h"

#include <stdlib.h>

enum { DL_CUDA = 2, DL_CUDA_HOST = 3, DL_UINT = 1 };
enum { DIMENSIONS_MAX = 64 };

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
    PyObject *owner;
    int64_t extents[]; /* the shape, then the strides */
};

/* By the consumer, from any thread and without the GIL. */
static void delete_exported(struct dl_managed_tensor *managed)
{
    struct exported *exported = managed->context;
    if (!native_is_over()) {
        PyGILState_STATE gil = PyGILState_Ensure();
        Py_DECREF(exported->owner);
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
    if (block->space->is_host)
        return (struct dl_device){DL_CUDA_HOST, 0};
    return (struct dl_device){DL_CUDA, native_space_device(block->space)};
}

/* NULL: no memory. */
static struct exported *dlpack_make(PyObject *owner,
                                    const struct dl_tensor *tensor)
{
    size_t count = (size_t)tensor->dimension_count;
    struct exported *made =
        calloc(1, sizeof *made + 2 * count * sizeof made->extents[0]);
    if (!made)
        return NULL;
    made->owner = owner;
    made->managed = (struct dl_managed_tensor){
        .tensor = *tensor, .context = made, .deleter = delete_exported};
    struct dl_tensor *own = &made->managed.tensor;
    own->shape = made->extents;
    own->strides = tensor->strides ? made->extents + count : NULL;
    for (size_t i = 0; i < count; i++) {
        own->shape[i] = tensor->shape[i];
        if (own->strides)
            own->strides[i] = tensor->strides[i];
    }
    return made;
}

/* A capsule of the tensor, whose shape and strides are copied, that keeps the
 * owner. */
static PyObject *export(PyObject *owner, const struct dl_tensor *tensor)
{
    struct exported *made = dlpack_make(owner, tensor);
    if (!made)
        return PyErr_NoMemory();
    PyObject *capsule =
        PyCapsule_New(&made->managed, "dltensor", delete_capsule);
    if (capsule)
        Py_INCREF(owner);
    else
        free(made);
    return capsule;
}

static PyObject *export_block(struct native_block *block)
{
    int64_t shape = (int64_t)block->nbytes;
    const struct dl_tensor tensor = {
        .data = (void *)(uintptr_t)block->address,
        .device = device_of(block),
        .dimension_count = 1,
        .type_code = DL_UINT,
        .type_bits = 8,
        .type_lanes = 1,
        .shape = &shape,
    };
    return native_block_show(block) ? NULL : export((PyObject *)block, &tensor);
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
    return PyErr_Occurred() ? -1 : 0;
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
    return export_block(block);
}

PyObject *native_dlpack_device(PyObject *self, PyObject *none)
{
    (void)none;
    struct dl_device device = device_of((struct native_block *)self);
    return Py_BuildValue("(ii)", (int)device.type, (int)device.ordinal);
}

/* A sequence of whole numbers. Their count, or -1 after an error. */
static Py_ssize_t extents_from(PyObject *sequence, int64_t *out)
{
    Py_ssize_t count = PySequence_Size(sequence);
    if (count > DIMENSIONS_MAX) {
        PyErr_Format(PyExc_BufferError, "%zd dimensions are too many", count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        out[i] = item ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return -1;
    }
    return count;
}

static int check_strides(PyObject *strides, Py_ssize_t dimension_count)
{
    if (strides == Py_None || PySequence_Size(strides) == dimension_count)
        return 0;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "strides: one for each dimension");
    return -1;
}

PyObject *native_dlpack_make(PyObject *module, PyObject *arguments)
{
    (void)module;
    int64_t shape[DIMENSIONS_MAX];
    int64_t strides[DIMENSIONS_MAX];
    struct dl_tensor tensor = {.type_lanes = 1, .shape = shape};
    PyObject *owner;
    PyObject *shape_items;
    PyObject *stride_items;
    uint64_t address = 0;
    int type = 0;
    int ordinal = 0;
    if (!PyArg_ParseTuple(arguments, "OO&(ii)(BB)OO:_dlpack_make", &owner,
                          native_u64_from, &address, &type, &ordinal,
                          &tensor.type_code, &tensor.type_bits, &shape_items,
                          &stride_items))
        return NULL;
    Py_ssize_t count = extents_from(shape_items, shape);
    if (count < 0 || check_strides(stride_items, count))
        return NULL;
    if (stride_items != Py_None) {
        if (extents_from(stride_items, strides) < 0)
            return NULL;
        tensor.strides = strides;
    }
    tensor.data = (void *)(uintptr_t)address;
    tensor.device = (struct dl_device){type, ordinal};
    tensor.dimension_count = (int32_t)count;
    return export(owner, &tensor);
}

static PyObject *tuple_of(const int64_t *extents, int32_t count)
{
    if (!extents)
        return Py_NewRef(Py_None);
    PyObject *made = PyTuple_New(count);
    for (int32_t i = 0; made && i < count; i++) {
        PyObject *number = PyLong_FromLongLong(extents[i]);
        if (!number || PyTuple_SetItem(made, i, number))
            Py_CLEAR(made);
    }
    return made;
}

PyObject *native_dlpack_read(PyObject *module, PyObject *capsule)
{
    (void)module;
    const struct dl_managed_tensor *managed =
        PyCapsule_GetPointer(capsule, "dltensor");
    if (!managed)
        return NULL;
    const struct dl_tensor *tensor = &managed->tensor;
    unsigned long long address = (uintptr_t)tensor->data;
    address += tensor->byte_offset;
    PyObject *shape = tuple_of(tensor->shape, tensor->dimension_count);
    PyObject *strides = tuple_of(tensor->strides, tensor->dimension_count);
    if (!shape || !strides) {
        Py_XDECREF(shape);
        Py_XDECREF(strides);
        return NULL;
    }
    return Py_BuildValue("(K(ii)(iii)NN)", address, (int)tensor->device.type,
                         (int)tensor->device.ordinal, (int)tensor->type_code,
                         (int)tensor->type_bits, (int)tensor->type_lanes, shape,
                         strides);
}
