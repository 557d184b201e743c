/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Block and HostBlock as types: what a program sees of them.
 */
#include "emm/native/native.h"

static struct native_block *py_block_type_block_of(PyObject *self)
{
    return (struct native_block *)self;
}

static PyObject *block_free(PyObject *self, PyObject *arguments,
                            PyObject *names)
{
    static char *keys[] = {"stream", NULL};
    moiety_stream stream =
        native_block_own_stream(py_block_type_block_of(self));
    if (!native_parse(arguments, names, "|O&:free", keys, native_stream_from,
                      &stream))
        return NULL;
    return native_block_free(self, stream);
}

static PyObject *block_exit(PyObject *self, PyObject *arguments)
{
    return native_exit_with(
        self, arguments,
        native_block_free(
            self, native_block_own_stream(py_block_type_block_of(self))));
}

static PyObject *block_int(PyObject *self)
{
    return PyLong_FromUnsignedLongLong(py_block_type_block_of(self)->address);
}

static Py_ssize_t block_length(PyObject *self)
{
    return (Py_ssize_t)py_block_type_block_of(self)->nbytes;
}

static PyObject *py_block_type_get_address(PyObject *self, void *closure)
{
    (void)closure;
    return block_int(self);
}

static PyObject *get_nbytes(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(py_block_type_block_of(self)->nbytes);
}

static PyObject *get_is_live(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(native_block_is_live(py_block_type_block_of(self)));
}

static PyObject *py_block_type_get_stream(PyObject *self, void *closure)
{
    (void)closure;
    /* relaxed: of two threads that name one, either is right. */
    return PyLong_FromUnsignedLongLong((uintptr_t)atomic_load_explicit(
        &py_block_type_block_of(self)->stream, memory_order_relaxed));
}

static int py_block_type_set_stream(PyObject *self, PyObject *value,
                                    void *closure)
{
    (void)closure;
    moiety_stream stream;
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "a block always has a stream");
        return -1;
    }
    if (!native_stream_from(value, &stream))
        return -1;
    native_block_set_stream(py_block_type_block_of(self), stream);
    return 0;
}

static PyObject *get_space(PyObject *self, void *closure)
{
    (void)closure;
    return Py_NewRef((PyObject *)py_block_type_block_of(self)->space);
}

static PyObject *get_tenant(PyObject *self, void *closure)
{
    (void)closure;
    PyObject *tenant = py_block_type_block_of(self)->tenant;
    return Py_NewRef(tenant ? tenant : Py_None);
}

/* Either array interface: bytes, in one dimension. No "stream": nothing that
 * the pool knows of is pending on them. */
static PyObject *get_array_interface(PyObject *self, void *closure)
{
    (void)closure;
    struct native_block *block = py_block_type_block_of(self);
    if (native_block_show(block))
        return NULL;
    return Py_BuildValue("{s(n)sss(KO)sOsi}", "shape",
                         (Py_ssize_t)block->nbytes, "typestr", "|u1", "data",
                         (unsigned long long)block->address, Py_False,
                         "strides", Py_None, "version", 3);
}

static PyObject *get_device_address(PyObject *self, void *closure)
{
    (void)closure;
    struct native_block *block = py_block_type_block_of(self);
    moiety_devptr found = 0;
    if (native_block_check(block) || !native_enter(block->space))
        return NULL;
    moiety_status status = moiety_host_device_address(
        block->space->host, (const void *)(uintptr_t)block->address, &found);
    PyObject *result = status == MOIETY_OK
                           ? PyLong_FromUnsignedLongLong(found)
                           : native_refuse(native_state_of(self), NULL, status);
    native_leave(block->space);
    return result;
}

PyObject *native_show(PyObject *module, PyObject *block)
{
    const struct native_state *state = PyModule_GetState(module);
    if (Py_TYPE(block) != state->block_type &&
        Py_TYPE(block) != state->host_block_type)
        return PyErr_Format(PyExc_TypeError, "%R is no block", block);
    return native_block_show(py_block_type_block_of(block)) ? NULL
                                                            : block_int(block);
}

static const char on_device[] =
    "the bytes are on the device: copy them to the host first";

/* bytes(block): without it that would be as many zeros as the address says. */
static PyObject *block_bytes(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_block *block = py_block_type_block_of(self);
    if (native_block_check(block))
        return NULL;
    if (!block->space->is_host) {
        PyErr_SetString(PyExc_TypeError, on_device);
        return NULL;
    }
    if (native_block_view(block))
        return NULL;
    PyObject *copy = PyBytes_FromStringAndSize(
        (const char *)(uintptr_t)block->address, (Py_ssize_t)block->nbytes);
    native_block_unview(block);
    return copy;
}

/* numpy.asarray(block): without it that would be an array of one object. */
static PyObject *block_array(PyObject *self, PyObject *arguments,
                             PyObject *names)
{
    (void)self;
    (void)arguments;
    (void)names;
    PyErr_SetString(PyExc_TypeError, on_device);
    return NULL;
}

static PyMethodDef methods[] = {
    {"free", NATIVE_METHOD(block_free), METH_VARARGS | METH_KEYWORDS,
     "free($self, stream=...)\n"
     "--\n"
     "\n"
     "Frees the memory now. A HostBlock with views, such as memoryview(block), "
     "is freed with the last view. A second call does nothing.\n"
     "\n"
     "`stream` is the stream whose queued work uses the memory last; the "
     "default is `stream` of the block."},
    {"__dlpack__", NATIVE_METHOD(native_dlpack), METH_VARARGS | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, "
     "copy=None)\n"
     "--\n"
     "\n"
     "Returns the bytes as a DLPack capsule, which keeps the block."},
    {"__dlpack_device__", native_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self)\n"
     "--\n"
     "\n"
     "Returns the type of the device and its ordinal, as in DLPack."},
    {"__bytes__", block_bytes, METH_NOARGS,
     "__bytes__($self)\n"
     "--\n"
     "\n"
     "Returns a copy of the bytes of host memory."},
    {"_repr_html_", native_repr_html, METH_NOARGS,
     "_repr_html_($self)\n"
     "--\n"
     "\n"
     "Returns a small table for notebooks."},
    {"__enter__", native_enter_self, METH_NOARGS,
     "__enter__($self)\n"
     "--\n"
     "\n"
     "Returns the object."},
    {"__exit__", block_exit, METH_VARARGS,
     "__exit__($self, kind, error, trace, /)\n"
     "--\n"
     "\n"
     "Calls free()."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"address", py_block_type_get_address, NULL,
     "The address of the first byte.", NULL},
    {"nbytes", get_nbytes, NULL, "The bytes, as requested.", NULL},
    {"is_live", get_is_live, NULL,
     "False after free(), or after close() of the pool. A closed arena keeps "
     "blocks whose bytes an array has.",
     NULL},
    {"tenant", get_tenant, NULL, "The Tenant that allocated it, or None.",
     NULL},
    {"stream", py_block_type_get_stream, py_block_type_set_stream,
     "The stream that free() names by default: its queued work uses the memory "
     "last. It can be assigned.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyObject *block_repr(PyObject *self)
{
    const struct native_block *block = (const struct native_block *)self;
    return PyUnicode_FromFormat("<moiety.%s of %zu bytes at %p%s>",
                                block->space->is_host ? "HostBlock" : "Block",
                                block->nbytes, (void *)block->address,
                                native_block_is_live(block) ? "" : ", freed");
}

static PyMemberDef weak_members[] = NATIVE_WEAK_MEMBERS(struct native_block);

static PyType_Slot slots[] = {
    {Py_tp_dealloc, native_block_dealloc},
    {Py_tp_repr, block_repr},
    {Py_tp_members, weak_members},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_nb_int, block_int},
    {Py_sq_length, block_length},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "moiety._native._Block",
    .basicsize = sizeof(struct native_block),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

static PyMethodDef device_methods[] = {
    {"__array__", NATIVE_METHOD(block_array), METH_VARARGS | METH_KEYWORDS,
     "__array__($self, dtype=None, copy=None)\n"
     "--\n"
     "\n"
     "Raises TypeError, since the bytes are on the device."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef device_properties[] = {
    {"pool", get_space, NULL, "The Pool.", NULL},
    {"__cuda_array_interface__", get_array_interface, NULL,
     "The bytes, for CuPy, numba and PyTorch. The program orders the work on "
     "them.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot device_slots[] = {
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_properties},
    {Py_tp_doc,
     "Device memory of a Pool. Pool.alloc() and Tenant.alloc() make it.\n"
     "\n"
     "The memory is freed with the last reference, by free(), or at the end of "
     "a with-block. A block is an array of bytes for CuPy, numba and PyTorch."},
    {0, NULL},
};

static PyType_Spec device_spec = {
    .name = "moiety.Block",
    .basicsize = sizeof(struct native_block),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = device_slots,
};

/* --- the buffer protocol --- */

/* Py_buffer, and the numbers of its flags and slots: in the stable ABI from
 * CPython 3.11 on, as they have been since 3.0. CPython takes these slots from
 * 3.9 on. */
struct native_buffer {
    void *address;
    PyObject *owner;
    Py_ssize_t nbytes;
    Py_ssize_t item_bytes;
    int is_read_only;
    int dimension_count;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
};

enum { BUFFER_FORMAT = 0x4, BUFFER_SHAPE = 0x8, BUFFER_STRIDES = 0x18 };
enum { SLOT_GETBUFFER = 1, SLOT_RELEASEBUFFER = 2 };

static int host_block_getbuffer(PyObject *self, struct native_buffer *buffer,
                                int flags)
{
    static char bytes[] = "B";
    struct native_block *block = py_block_type_block_of(self);
    buffer->owner = NULL;
    if (native_block_view(block))
        return -1;
    *buffer = (struct native_buffer){
        .address = (void *)(uintptr_t)block->address,
        .owner = Py_NewRef(self),
        .nbytes = (Py_ssize_t)block->nbytes,
        .item_bytes = 1,
        .dimension_count = 1,
    };
    if (flags & BUFFER_FORMAT)
        buffer->format = bytes;
    if (flags & BUFFER_SHAPE)
        buffer->shape = &buffer->nbytes;
    if ((flags & BUFFER_STRIDES) == BUFFER_STRIDES)
        buffer->strides = &buffer->item_bytes;
    return 0;
}

static void host_block_releasebuffer(PyObject *self,
                                     struct native_buffer *buffer)
{
    (void)buffer;
    native_block_unview(py_block_type_block_of(self));
}

static PyObject *get_is_pinned(PyObject *self, void *none)
{
    (void)self;
    (void)none;
    return Py_NewRef(Py_True);
}

static PyGetSetDef host_properties[] = {
    {"arena", get_space, NULL, "The HostArena.", NULL},
    {"device_address", get_device_address, NULL, "The address for the device.",
     NULL},
    {"__array_interface__", get_array_interface, NULL,
     "The bytes, for numpy.asarray().", NULL},
    {"is_pinned", get_is_pinned, NULL, "True.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot host_slots[] = {
    {SLOT_GETBUFFER, host_block_getbuffer},
    {SLOT_RELEASEBUFFER, host_block_releasebuffer},
    {Py_tp_getset, host_properties},
    {Py_tp_doc,
     "Pinned host memory of a HostArena. HostArena.alloc() and Tenant.alloc() "
     "make it.\n"
     "\n"
     "The memory is freed with the last reference, by free(), or at the end of "
     "a with-block. memoryview(block), numpy.frombuffer(block) and "
     "numpy.asarray(block) are the bytes, writable. They keep the memory, also "
     "after free() and close()."},
    {0, NULL},
};

static PyType_Spec host_spec = {
    .name = "moiety.HostBlock",
    .basicsize = sizeof(struct native_block),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = host_slots,
};

static PyTypeObject *py_block_type_add(PyObject *module, PyType_Spec *of,
                                       PyObject *base)
{
    PyObject *type = PyType_FromModuleAndSpec(module, of, base);
    if (type && base && PyModule_AddType(module, (PyTypeObject *)type))
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

int native_block_types_add(PyObject *module, struct native_state *state)
{
    PyObject *base = (PyObject *)py_block_type_add(module, &spec, NULL);
    if (!base)
        return -1;
    state->block_type = py_block_type_add(module, &device_spec, base);
    state->host_block_type =
        state->block_type ? py_block_type_add(module, &host_spec, base) : NULL;
    Py_DECREF(base);
    return state->host_block_type ? 0 : -1;
}
