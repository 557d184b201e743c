/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * DLPack, of the bytes of a block and of what moiety.ipc shares. The structs
 * are those of dlpack.h: of its version 1.0 for a consumer that asks for it, or
 * else those from before, which every consumer takes.
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

/* From version 1.0 on, which can say that a tensor is read-only. */
struct dl_versioned_tensor {
    uint32_t major;
    uint32_t minor;
    void *context;
    void (*deleter)(struct dl_versioned_tensor *self);
    uint64_t flags;
    struct dl_tensor tensor;
};

enum { DL_MAJOR = 1, DL_READ_ONLY = 1 };
static const char plain_name[] = "dltensor";
static const char versioned_name[] = "dltensor_versioned";

/* How a capsule is asked for. */
struct dl_request {
    bool is_versioned;
    bool is_read_only;
};

/* With what its pointers point to. */
struct exported {
    union {
        struct dl_managed_tensor plain;
        struct dl_versioned_tensor versioned;
    } managed;
    PyObject *owner;
    int64_t extents[]; /* the shape, then the strides */
};

/* By the consumer, from any thread and without the GIL. */
static void dlpack_delete(struct exported *exported)
{
    if (!native_is_over()) {
        PyGILState_STATE gil = PyGILState_Ensure();
        Py_DECREF(exported->owner);
        PyGILState_Release(gil);
    }
    free(exported);
}

static void dlpack_delete_plain(struct dl_managed_tensor *managed)
{
    dlpack_delete(managed->context);
}

static void dlpack_delete_versioned(struct dl_versioned_tensor *managed)
{
    dlpack_delete(managed->context);
}

/* A capsule that somebody consumed has another name, and another owner. Both
 * kinds begin the object that they are in. */
static void delete_capsule(PyObject *capsule)
{
    const char *name =
        PyCapsule_IsValid(capsule, plain_name) ? plain_name : versioned_name;
    if (PyCapsule_IsValid(capsule, name))
        dlpack_delete(PyCapsule_GetPointer(capsule, name));
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
                                    const struct dl_tensor *tensor,
                                    struct dl_request request)
{
    size_t count = (size_t)tensor->dimension_count;
    struct exported *made =
        calloc(1, sizeof *made + 2 * count * sizeof made->extents[0]);
    if (!made)
        return NULL;
    made->owner = owner;
    struct dl_tensor *own = &made->managed.plain.tensor;
    if (request.is_versioned) {
        made->managed.versioned = (struct dl_versioned_tensor){
            .major = DL_MAJOR,
            .context = made,
            .deleter = dlpack_delete_versioned,
            .flags = request.is_read_only ? DL_READ_ONLY : 0,
        };
        own = &made->managed.versioned.tensor;
    } else {
        made->managed.plain = (struct dl_managed_tensor){
            .context = made, .deleter = dlpack_delete_plain};
    }
    *own = *tensor;
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
static PyObject *export(PyObject *owner, const struct dl_tensor *tensor,
                        struct dl_request request)
{
    if (request.is_read_only && !request.is_versioned) {
        PyErr_SetString(PyExc_BufferError,
                        "the array is read-only, which DLPack before 1.0 "
                        "cannot say: ask for it with max_version=(1, 0)");
        return NULL;
    }
    struct exported *made = dlpack_make(owner, tensor, request);
    if (!made)
        return PyErr_NoMemory();
    PyObject *capsule =
        PyCapsule_New(made, request.is_versioned ? versioned_name : plain_name,
                      delete_capsule);
    if (capsule)
        Py_INCREF(owner);
    else
        free(made);
    return capsule;
}

static PyObject *export_block(struct native_block *block,
                              struct dl_request request)
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
    return native_block_show(block)
               ? NULL
               : export((PyObject *)block, &tensor, request);
}

/* From max_version. 0, or -1 after an error. */
static int dlpack_set_version(struct dl_request *request, PyObject *version)
{
    int major = 0;
    int minor = 0;
    if (version != Py_None &&
        native_pair_from(version, "max_version", &major, &minor))
        return -1;
    request->is_versioned = major >= DL_MAJOR;
    return 0;
}

/* 0: as it is asked for; -1 after an error. */
static int check_wishes(const struct native_block *block, PyObject *device,
                        PyObject *copy)
{
    struct dl_device has = device_of(block);
    int type = has.type;
    int ordinal = has.ordinal;
    if (device != Py_None &&
        native_pair_from(device, "dl_device", &type, &ordinal))
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
    struct dl_request request = {false, false};
    if (!native_parse(arguments, names, "|$OOOO:__dlpack__", keys, &stream,
                      &version, &device, &copy) ||
        check_wishes(block, device, copy) ||
        dlpack_set_version(&request, version))
        return NULL;
    return export_block(block, request);
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
    PyObject *version;
    uint64_t address = 0;
    int type = 0;
    int ordinal = 0;
    int is_read_only = 0;
    struct dl_request request = {false, false};
    if (!PyArg_ParseTuple(arguments, "OO&(ii)(BB)OOOp:_dlpack_make", &owner,
                          native_u64_from, &address, &type, &ordinal,
                          &tensor.type_code, &tensor.type_bits, &shape_items,
                          &stride_items, &version, &is_read_only) ||
        dlpack_set_version(&request, version))
        return NULL;
    request.is_read_only = is_read_only;
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
    return export(owner, &tensor, request);
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

/* What is in a capsule of either kind; NULL after an error. */
static const struct dl_tensor *dlpack_tensor_in(PyObject *capsule,
                                                bool *out_is_read_only)
{
    *out_is_read_only = false;
    if (!PyCapsule_IsValid(capsule, versioned_name)) {
        const struct dl_managed_tensor *plain =
            PyCapsule_GetPointer(capsule, plain_name);
        return plain ? &plain->tensor : NULL;
    }
    const struct dl_versioned_tensor *versioned =
        PyCapsule_GetPointer(capsule, versioned_name);
    *out_is_read_only = versioned->flags & DL_READ_ONLY;
    if (versioned->major == DL_MAJOR)
        return &versioned->tensor;
    PyErr_Format(PyExc_BufferError,
                 "the capsule is of DLPack %u; accepted is %d",
                 (unsigned)versioned->major, DL_MAJOR);
    return NULL;
}

PyObject *native_dlpack_read(PyObject *module, PyObject *capsule)
{
    (void)module;
    bool is_read_only = false;
    const struct dl_tensor *tensor = dlpack_tensor_in(capsule, &is_read_only);
    if (!tensor)
        return NULL;
    unsigned long long address = (uintptr_t)tensor->data;
    address += tensor->byte_offset;
    PyObject *shape = tuple_of(tensor->shape, tensor->dimension_count);
    PyObject *strides = tuple_of(tensor->strides, tensor->dimension_count);
    if (!shape || !strides) {
        Py_XDECREF(shape);
        Py_XDECREF(strides);
        return NULL;
    }
    return Py_BuildValue("(K(ii)(iii)NNO)", address, (int)tensor->device.type,
                         (int)tensor->device.ordinal, (int)tensor->type_code,
                         (int)tensor->type_bits, (int)tensor->type_lanes, shape,
                         strides, is_read_only ? Py_True : Py_False);
}
