/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * _CuPyAllocator: what moiety.cupy gives to cupy.cuda.set_allocator(). An
 * allocation asks CuPy for the current device and stream by the C functions that
 * its modules export to Cython, and makes CuPy's two objects with a Block as the
 * owner. The block frees itself on that stream, so no free runs Python.
 *
 * CuPy's constructors take longer than the pool, as they parse numbers of Python's.
 * So the objects are filled here, if that gives the same bytes.
 *
 * CuPy's own CFunctionAllocator names no stream when it frees, and takes a NULL
 * for memory: the block knows its stream, and a failure is an exception.
 */
#include "emm/native/native.h"

#include <string.h>

/* Of cupy.cuda.device.get_device_id() and cupy_backends.cuda.stream's
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
    NOTHING = GIVEN_COUNT, /* () */
    /* By device: what was found for it, or NULL; the GIL. Of a device that has no
     * place it is asked for at each call. */
    FIRST_SOURCE,
    OBJECT_COUNT = FIRST_SOURCE + 64
};

/* UnownedMemory and MemoryPointer, as CuPy's memory.pxd has them for Cython. */
struct cupy_memory {
    PyObject_HEAD intptr_t address;
    size_t nbytes;
    int device;
    PyObject *owner;
};

struct cupy_pointer {
    PyObject_HEAD void *methods;
    intptr_t address;
    int device;
    PyObject *memory;
};

/* What they are to have. */
struct cupy_values {
    uint64_t address;
    uint64_t nbytes;
    int device;
};

struct native_cupy {
    PyObject_HEAD PyObject *objects[OBJECT_COUNT];
    /* Of the two types: what makes an object to be filled here. NULL: the type is
     * called. */
    newfunc new_memory;
    newfunc new_pointer;
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

/* Where the device's source is kept, or NULL. */
static PyObject **cupy_place(struct native_cupy *cupy, int device)
{
    bool has_place = device >= 0 && device < OBJECT_COUNT - FIRST_SOURCE;
    return has_place ? &cupy->objects[FIRST_SOURCE + device] : NULL;
}

/* A new reference. Of two threads that ask, the last one's answer is kept. */
static PyObject *cupy_find_source(struct native_cupy *cupy, int device)
{
    PyObject *source =
        PyObject_CallFunction(cupy->objects[FIND_SOURCE], "i", device);
    PyObject **place = source ? cupy_place(cupy, device) : NULL;
    PyObject *old = NULL;
    if (!place)
        return source;
    NATIVE_LOCK(cupy);
    old = *place;
    *place = Py_NewRef(source);
    NATIVE_UNLOCK();
    Py_XDECREF(old);
    return source;
}

/* A new reference. */
static PyObject *cupy_source(struct native_cupy *cupy, int device)
{
    PyObject **place = cupy_place(cupy, device);
    PyObject *source = NULL;
    /* Against another thread that puts its own in the place. */
    NATIVE_LOCK(cupy);
    source = place ? Py_XNewRef(*place) : NULL;
    NATIVE_UNLOCK();
    return source ? source : cupy_find_source(cupy, device);
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
    if (!PyErr_ExceptionMatches(state->errors[NATIVE_OUT_OF_MEMORY]))
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
static PyObject *cupy_call(PyObject *type, PyObject **arguments, int count)
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

/* Steals the owner. */
static PyObject *cupy_call_memory(struct native_cupy *cupy,
                                  const struct cupy_values *values,
                                  PyObject *owner)
{
    PyObject *arguments[] = {PyLong_FromUnsignedLongLong(values->address),
                             PyLong_FromUnsignedLongLong(values->nbytes), owner,
                             PyLong_FromLong(values->device)};
    return cupy_call(cupy->objects[MEMORY_TYPE], arguments, 4);
}

/* Steals the memory. */
static PyObject *cupy_call_pointer(struct native_cupy *cupy, PyObject *memory)
{
    PyObject *arguments[] = {memory, PyLong_FromLong(0)};
    return cupy_call(cupy->objects[POINTER_TYPE], arguments, 2);
}

/* An object of the type, in whose `place` None gives way to what is stolen. */
static void *cupy_new(const struct native_cupy *cupy, newfunc make, int type,
                      size_t place, PyObject *stolen)
{
    char *made = (char *)make((PyTypeObject *)cupy->objects[type],
                              cupy->objects[NOTHING], NULL);
    PyObject *none = stolen;
    if (made) {
        none = *(PyObject **)(void *)(made + place);
        *(PyObject **)(void *)(made + place) = stolen;
    }
    Py_XDECREF(none);
    return made;
}

/* Steals the owner. */
static PyObject *cupy_fill_memory(struct native_cupy *cupy, newfunc make,
                                  const struct cupy_values *values,
                                  PyObject *owner)
{
    struct cupy_memory *memory = cupy_new(
        cupy, make, MEMORY_TYPE, offsetof(struct cupy_memory, owner), owner);
    if (memory) {
        memory->address = (intptr_t)values->address;
        memory->nbytes = values->nbytes;
        memory->device = values->device;
    }
    return (PyObject *)memory;
}

/* Steals the memory. */
static PyObject *cupy_fill_pointer(struct native_cupy *cupy, newfunc make,
                                   const struct cupy_values *values,
                                   PyObject *memory)
{
    struct cupy_pointer *pointer =
        cupy_new(cupy, make, POINTER_TYPE,
                 offsetof(struct cupy_pointer, memory), memory);
    if (pointer) {
        pointer->address = (intptr_t)values->address;
        pointer->device = values->device;
    }
    return (PyObject *)pointer;
}

/* Steals the owner. */
static PyObject *cupy_pointer(struct native_cupy *cupy,
                              const struct cupy_values *values, PyObject *owner)
{
    if (!cupy->new_pointer) {
        PyObject *memory = cupy_call_memory(cupy, values, owner);
        return memory ? cupy_call_pointer(cupy, memory) : NULL;
    }
    PyObject *memory = cupy_fill_memory(cupy, cupy->new_memory, values, owner);
    return memory ? cupy_fill_pointer(cupy, cupy->new_pointer, values, memory)
                  : NULL;
}

/* --- whether they can be filled --- */

/* Of the type itself, and of as many bytes. */
static bool cupy_is_of(PyObject *made, PyObject *type, size_t nbytes)
{
    PyObject *size = PyObject_GetAttrString(type, "__basicsize__");
    bool is_of = size && (PyObject *)Py_TYPE(made) == type &&
                 PyLong_AsSize_t(size) == nbytes;
    Py_XDECREF(size);
    return is_of;
}

/* The same bytes, but for references to them. Steals the second. */
static bool cupy_is_same(PyObject *called, PyObject *filled, size_t nbytes)
{
    bool is_same = filled && memcmp((char *)called + sizeof(PyObject),
                                    (char *)filled + sizeof(PyObject),
                                    nbytes - sizeof(PyObject)) == 0;
    Py_XDECREF(filled);
    return is_same;
}

/* What the types themselves have made is read first: where a reference was, there
 * is no odd number. */
static void cupy_compare(struct native_cupy *cupy, PyObject *memory,
                         PyObject *pointer, const struct cupy_values *values)
{
    PyTypeObject *memory_type = (PyTypeObject *)cupy->objects[MEMORY_TYPE];
    PyTypeObject *pointer_type = (PyTypeObject *)cupy->objects[POINTER_TYPE];
    const struct cupy_memory *theirs = (const struct cupy_memory *)memory;
    const struct cupy_pointer *to_it = (const struct cupy_pointer *)pointer;
    if (!cupy_is_of(memory, (PyObject *)memory_type, sizeof *theirs) ||
        !cupy_is_of(pointer, (PyObject *)pointer_type, sizeof *to_it) ||
        theirs->address != (intptr_t)values->address ||
        theirs->nbytes != values->nbytes || theirs->device != values->device ||
        theirs->owner != cupy->objects[NOTHING] ||
        to_it->address != theirs->address || to_it->device != theirs->device ||
        to_it->memory != memory)
        return;
    newfunc new_memory = (newfunc)PyType_GetSlot(memory_type, Py_tp_new);
    newfunc new_pointer = (newfunc)PyType_GetSlot(pointer_type, Py_tp_new);
    if (!cupy_is_same(memory,
                      cupy_fill_memory(cupy, new_memory, values,
                                       Py_NewRef(cupy->objects[NOTHING])),
                      sizeof *theirs) ||
        !cupy_is_same(
            pointer,
            cupy_fill_pointer(cupy, new_pointer, values, Py_NewRef(memory)),
            sizeof *to_it))
        return;
    cupy->new_memory = new_memory;
    cupy->new_pointer = new_pointer;
}

/* By one of each, of which none has memory. */
static void cupy_learn(struct native_cupy *cupy)
{
    const struct cupy_values odd = {
        .address = 0x7f123457, .nbytes = 0x12345, .device = 5};
    PyObject *memory =
        cupy_call_memory(cupy, &odd, Py_NewRef(cupy->objects[NOTHING]));
    PyObject *pointer =
        memory ? cupy_call_pointer(cupy, Py_NewRef(memory)) : NULL;
    if (pointer)
        cupy_compare(cupy, memory, pointer, &odd);
    Py_XDECREF(pointer);
    Py_XDECREF(memory);
    PyErr_Clear();
}

/* --- the allocator --- */

static int cupy_keep(struct native_cupy *cupy, PyObject *const *given)
{
    void *device;
    void *stream;
    if (cupy_address_in(given[DEVICE], device_signature, &device) ||
        cupy_address_in(given[STREAM], stream_signature, &stream))
        return -1;
    cupy->objects[NOTHING] = PyTuple_New(0);
    if (!cupy->objects[NOTHING])
        return -1;
    for (int i = 0; i < GIVEN_COUNT; i++)
        cupy->objects[i] = Py_NewRef(given[i]);
    cupy->device = (device_fn *)device;
    cupy->stream = (stream_fn *)stream;
    if (PyType_Check(given[MEMORY_TYPE]) && PyType_Check(given[POINTER_TYPE]))
        cupy_learn(cupy);
    return 0;
}

static int cupy_init(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keys[] = {
        "find_source", "refuse", "memory_type", "pointer_type",
        "device",      "stream", NULL};
    PyObject *given[GIVEN_COUNT];
    if (cupy_of(self)->objects[FIND_SOURCE]) {
        PyErr_SetString(PyExc_TypeError, "__init__() was called before");
        return -1;
    }
    if (!native_parse(arguments, names, "OOOOOO:_CuPyAllocator", keys,
                      &given[FIND_SOURCE], &given[REFUSE], &given[MEMORY_TYPE],
                      &given[POINTER_TYPE], &given[DEVICE], &given[STREAM]))
        return -1;
    return cupy_keep(cupy_of(self), given);
}

static PyObject *cupy_malloc(PyObject *self, PyObject *size)
{
    struct native_cupy *cupy = cupy_of(self);
    struct cupy_values values = {.address = 0};
    if (!cupy->objects[FIND_SOURCE]) {
        PyErr_SetString(PyExc_ValueError, "it was not made");
        return NULL;
    }
    if (!native_u64_from(size, &values.nbytes) ||
        cupy_device(cupy, &values.device))
        return NULL;
    if (!values.nbytes)
        return cupy_pointer(cupy, &values, Py_NewRef(Py_None));
    PyObject *block = cupy_take(cupy, values.device, values.nbytes);
    if (!block)
        return cupy_refuse(cupy, values.nbytes);
    values.address = ((struct native_block *)block)->address;
    return cupy_pointer(cupy, &values, block);
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
    PyObject_GC_UnTrack(self);
    (void)cupy_clear(self);
    native_object_free(self);
}

static PyObject *cupy_is_direct(PyObject *self, void *none)
{
    (void)none;
    return PyBool_FromLong(cupy_of(self)->new_pointer != NULL);
}

static PyGetSetDef properties[] = {
    {"is_direct", cupy_is_direct, NULL,
     "Whether CuPy's objects are filled without their constructors.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

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
    {Py_tp_getset, properties},
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
