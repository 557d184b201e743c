/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * _CuPyAllocator: what moiety.cupy gives to cupy.cuda.set_allocator(). An
 * allocation asks CuPy for the current device and stream by the C functions that
 * its modules export to Cython, and makes CuPy's two objects with a Block as the
 * owner. The block frees itself on that stream, so no free runs Python.
 *
 * CuPy's own CFunctionAllocator names no stream when it frees, and takes a NULL
 * for memory: the block knows its stream, and a failure is an exception.
 */
#include "emm/native/native.h"

/* Of cupy.cuda.device.get_device_id() and cupy.cuda.stream's
 * get_current_stream_ptr(), as Cython names their capsules. Both return -1 and
 * set an exception where they fail. */
typedef int device_fn(int skip_dispatch);
typedef intptr_t stream_fn(void);
static const char device_signature[] = "int (int __pyx_skip_dispatch)";
static const char stream_signature[] = "intptr_t (void)";

/* What an allocator refers to, in its list of objects. */
enum {
    FIND_SOURCE, /* (device) -> a Pool or Tenant; called once for a device */
    REFUSE,      /* (nbytes, error) raises CuPy's exception */
    MEMORY_TYPE,
    POINTER_TYPE,
    DEVICE, /* a capsule, or else any callable */
    STREAM, /* the same */
    GIVEN_COUNT,
    SOURCES = GIVEN_COUNT, /* a dictionary: device -> what was found for it */
    OBJECT_COUNT
};

struct native_cupy {
    PyObject_HEAD PyObject *objects[OBJECT_COUNT];
    /* NULL: the object is called. */
    device_fn *device;
    stream_fn *stream;
};

static struct native_cupy *cupy_of(PyObject *self)
{
    return (struct native_cupy *)self;
}

/* What is in a capsule, or NULL for what can be called. */
static int cupy_address_in(PyObject *object, const char *signature, void **out)
{
    *out = NULL;
    if (PyCapsule_IsValid(object, signature)) {
        *out = PyCapsule_GetPointer(object, signature);
        return 0;
    }
    if (PyCallable_Check(object))
        return 0;
    PyErr_Format(PyExc_TypeError, "%R is neither callable nor a capsule of %s",
                 object, signature);
    return -1;
}

static int cupy_fill(struct native_cupy *cupy, PyObject *const *given)
{
    void *device;
    void *stream;
    if (cupy_address_in(given[DEVICE], device_signature, &device) ||
        cupy_address_in(given[STREAM], stream_signature, &stream))
        return -1;
    cupy->objects[SOURCES] = PyDict_New();
    if (!cupy->objects[SOURCES])
        return -1;
    for (int i = 0; i < GIVEN_COUNT; i++)
        cupy->objects[i] = Py_NewRef(given[i]);
    cupy->device = (device_fn *)device;
    cupy->stream = (stream_fn *)stream;
    return 0;
}

static int cupy_init(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keys[] = {
        "find_source", "refuse", "memory_type", "pointer_type",
        "device",      "stream", NULL};
    PyObject *given[GIVEN_COUNT];
    if (cupy_of(self)->objects[SOURCES]) {
        PyErr_SetString(PyExc_TypeError, "__init__() was called before");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "OOOOOO:_CuPyAllocator",
                                     keys, &given[FIND_SOURCE], &given[REFUSE],
                                     &given[MEMORY_TYPE], &given[POINTER_TYPE],
                                     &given[DEVICE], &given[STREAM]))
        return -1;
    return cupy_fill(cupy_of(self), given);
}

static int cupy_device(const struct native_cupy *cupy, int *out)
{
    if (cupy->device) {
        *out = cupy->device(0);
        return *out == -1 && PyErr_Occurred() ? -1 : 0;
    }
    PyObject *number = PyObject_CallObject(cupy->objects[DEVICE], NULL);
    long value = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    *out = (int)value;
    return value == -1 && PyErr_Occurred() ? -1 : 0;
}

static int cupy_stream(const struct native_cupy *cupy, moiety_stream *out)
{
    if (cupy->stream) {
        intptr_t value = cupy->stream();
        *out = (moiety_stream)(uintptr_t)value;
        return value == -1 && PyErr_Occurred() ? -1 : 0;
    }
    PyObject *object = PyObject_CallObject(cupy->objects[STREAM], NULL);
    int is_stream = object && native_stream_from(object, out);
    Py_XDECREF(object);
    return is_stream ? 0 : -1;
}

/* A new reference. */
static PyObject *cupy_source(struct native_cupy *cupy, int device)
{
    PyObject *key = PyLong_FromLong(device);
    PyObject *source = NULL;
    /* Against another thread that puts its own in the place. */
    NATIVE_LOCK(cupy->objects[SOURCES]);
    source = Py_XNewRef(
        key ? PyDict_GetItemWithError(cupy->objects[SOURCES], key) : NULL);
    NATIVE_UNLOCK();
    if (key && !source && !PyErr_Occurred()) {
        source =
            PyObject_CallFunctionObjArgs(cupy->objects[FIND_SOURCE], key, NULL);
        if (source && PyDict_SetItem(cupy->objects[SOURCES], key, source))
            Py_CLEAR(source);
    }
    Py_XDECREF(key);
    return source;
}

static PyObject *cupy_take(struct native_cupy *cupy, int device,
                           uint64_t nbytes)
{
    const struct native_state *state = native_state_of((PyObject *)cupy);
    moiety_stream stream = MOIETY_STREAM_ANY;
    if (cupy_stream(cupy, &stream))
        return NULL;
    PyObject *source = cupy_source(cupy, device);
    if (!source)
        return NULL;
    PyObject *block =
        Py_TYPE(source) == state->pool_type
            ? native_block_new((struct native_space *)source, NULL, 0, nbytes,
                               stream)
            : PyObject_CallMethod(source, "alloc", "KK",
                                  (unsigned long long)nbytes,
                                  (unsigned long long)(uintptr_t)stream);
    Py_DECREF(source);
    return block;
}

/* CuPy's exception in place of ours, which is its cause. */
static PyObject *cupy_refuse(struct native_cupy *cupy, uint64_t nbytes)
{
    const struct native_state *state = native_state_of((PyObject *)cupy);
    if (!PyErr_ExceptionMatches(state->out_of_memory))
        return NULL;
    struct native_error error = native_error_keep();
    PyErr_NormalizeException(&error.kind, &error.value, &error.trace);
    PyObject *answer = PyObject_CallFunction(
        cupy->objects[REFUSE], "KO", (unsigned long long)nbytes, error.value);
    Py_XDECREF(error.kind);
    Py_XDECREF(error.value);
    Py_XDECREF(error.trace);
    Py_XDECREF(answer);
    if (!PyErr_Occurred())
        PyErr_SetNone(PyExc_MemoryError);
    return NULL;
}

/* type(*arguments), of which each is stolen and may be NULL, after an error. */
static PyObject *cupy_make(PyObject *type, PyObject **arguments, int count)
{
    PyObject *tuple = PyTuple_New(count);
    bool is_whole = tuple != NULL;
    for (int i = 0; i < count; i++) {
        is_whole = is_whole && arguments[i];
        if (tuple)
            (void)PyTuple_SetItem(tuple, i, arguments[i]);
        else
            Py_XDECREF(arguments[i]);
    }
    PyObject *made = is_whole ? PyObject_CallObject(type, tuple) : NULL;
    Py_XDECREF(tuple);
    return made;
}

/* Steals the owner. Built by hand: a format takes longer than the rest. */
static PyObject *cupy_pointer(struct native_cupy *cupy, int device,
                              uint64_t address, PyObject *size, PyObject *owner)
{
    PyObject *of_memory[] = {PyLong_FromUnsignedLongLong(address),
                             Py_NewRef(size), owner, PyLong_FromLong(device)};
    PyObject *memory = cupy_make(cupy->objects[MEMORY_TYPE], of_memory, 4);
    if (!memory)
        return NULL;
    PyObject *of_pointer[] = {memory, PyLong_FromLong(0)};
    return cupy_make(cupy->objects[POINTER_TYPE], of_pointer, 2);
}

static PyObject *cupy_malloc(PyObject *self, PyObject *size)
{
    struct native_cupy *cupy = cupy_of(self);
    uint64_t nbytes = 0;
    int device = 0;
    if (!cupy->objects[SOURCES]) {
        PyErr_SetString(PyExc_ValueError, "it was not made");
        return NULL;
    }
    if (!native_u64_from(size, &nbytes) || cupy_device(cupy, &device))
        return NULL;
    if (!nbytes)
        return cupy_pointer(cupy, device, 0, size, Py_NewRef(Py_None));
    PyObject *block = cupy_take(cupy, device, nbytes);
    if (!block)
        return cupy_refuse(cupy, nbytes);
    return cupy_pointer(cupy, device, ((struct native_block *)block)->address,
                        size, block);
}

static int cupy_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (int i = 0; i < OBJECT_COUNT; i++)
        Py_VISIT(cupy_of(self)->objects[i]);
    return 0;
}

static int cupy_clear(PyObject *self)
{
    for (int i = 0; i < OBJECT_COUNT; i++)
        Py_CLEAR(cupy_of(self)->objects[i]);
    return 0;
}

static void cupy_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    (void)cupy_clear(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"malloc", cupy_malloc, METH_O,
     "malloc($self, size, /)\n"
     "--\n\n"
     "A cupy.cuda.MemoryPointer, for CuPy's current device and stream."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_init, cupy_init},
    {Py_tp_dealloc, cupy_dealloc},
    {Py_tp_traverse, cupy_traverse},
    {Py_tp_clear, cupy_clear},
    {Py_tp_methods, methods},
    {Py_tp_doc,
     "_CuPyAllocator(find_source, refuse, memory_type, pointer_type, device, "
     "stream)\n--\n\nMemory for CuPy, from a Pool or Tenant for each device."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "moiety._native._CuPyAllocator",
    .basicsize = sizeof(struct native_cupy),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int native_cupy_type_add(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int error =
        type ? PyModule_AddObjectRef(module, "_CuPyAllocator", type) : -1;
    Py_XDECREF(type);
    return error;
}
