/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The base type of Pool and HostArena: what both can do.
 */
#include "emm/native/native.h"

static struct native_space *py_space_type_space_of(PyObject *self)
{
    return (struct native_space *)self;
}

static const struct native_first size_argument = {"nbytes", native_u64_from};
static const struct native_first bare_argument = {"address", native_bare_from};
static const struct native_first address_argument = {"address",
                                                     native_address_from};

static PyObject *space_alloc(PyObject *self, PyObject *const *arguments,
                             Py_ssize_t count, PyObject *names)
{
    uint64_t nbytes = 0;
    moiety_stream stream = MOIETY_STREAM_ANY;
    if (native_number_and_stream(arguments, count, names, size_argument,
                                 &nbytes, &stream))
        return NULL;
    return native_block_new(py_space_type_space_of(self), NULL, 0, nbytes,
                            stream);
}

static PyObject *space_allocate(PyObject *self, PyObject *const *arguments,
                                Py_ssize_t count, PyObject *names)
{
    uint64_t nbytes = 0;
    moiety_stream stream = MOIETY_STREAM_ANY;
    moiety_devptr address = 0;
    if (native_number_and_stream(arguments, count, names, size_argument,
                                 &nbytes, &stream))
        return NULL;
    moiety_pool *pool = native_enter(py_space_type_space_of(self));
    if (!pool)
        return NULL;
    moiety_status status = native_take(pool, 0, nbytes, stream, &address);
    PyObject *result = status == MOIETY_OK
                           ? PyLong_FromUnsignedLongLong(address)
                           : native_refuse(native_state_of(self), pool, status);
    native_leave(py_space_type_space_of(self));
    return result;
}

/* deallocate() while the thread runs a function of a watcher. */
struct later_free {
    struct native_postponed postponed;
    struct native_space *space;
    uint64_t address;
    moiety_stream stream;
};

/* deallocate() has returned by then: nobody catches what is raised. */
static void py_space_type_finish_free(void *object)
{
    struct later_free *later = object;
    struct native_space *space = later->space;
    struct native_error error = native_error_keep();
    moiety_pool *pool = native_enter_open(space);
    if (pool) {
        moiety_status status = native_give(pool, later->address, later->stream);
        if (status != MOIETY_OK) {
            native_raise(native_state_of((PyObject *)space), pool, status);
            PyErr_WriteUnraisable((PyObject *)space);
        }
        native_leave(space);
    }
    native_error_restore(error);
    PyMem_Free(later);
    Py_DECREF((PyObject *)space);
}

static PyObject *py_space_type_free_later(struct native_space *space,
                                          uint64_t address,
                                          moiety_stream stream)
{
    struct later_free *later = PyMem_Malloc(sizeof *later);
    if (!later)
        return PyErr_NoMemory();
    later->space = space;
    Py_INCREF((PyObject *)space);
    later->address = address;
    later->stream = stream;
    native_postpone(&later->postponed, later, py_space_type_finish_free);
    Py_RETURN_NONE;
}

/* `is_given`: who calls cannot keep the memory where it is refused. */
static PyObject *py_space_type_deallocate(PyObject *self, uint64_t address,
                                          moiety_stream stream, bool is_given)
{
    if (native_is_told())
        return py_space_type_free_later(py_space_type_space_of(self), address,
                                        stream);
    moiety_pool *pool = native_enter_open(py_space_type_space_of(self));
    if (!pool)
        Py_RETURN_NONE; /* the memory went with it */
    moiety_status status = native_give(pool, address, stream);
    /* A stream that captures cannot be waited for: all of them then. */
    if (status == MOIETY_E_BUSY && is_given)
        status = native_give(pool, address, MOIETY_STREAM_ANY);
    if (status != MOIETY_OK)
        native_raise(native_state_of(self), pool, status);
    native_leave(py_space_type_space_of(self));
    return status == MOIETY_OK ? Py_NewRef(Py_None) : NULL;
}

static PyObject *space_deallocate(PyObject *self, PyObject *const *arguments,
                                  Py_ssize_t count, PyObject *names)
{
    uint64_t address = 0;
    moiety_stream stream = MOIETY_STREAM_ANY;
    if (native_number_and_stream(arguments, count, names, bare_argument,
                                 &address, &stream))
        return NULL;
    return py_space_type_deallocate(self, address, stream, false);
}

/* As RMM calls it: the size is known here. */
static PyObject *space_deallocate_for_rmm(PyObject *self,
                                          PyObject *const *arguments,
                                          Py_ssize_t count)
{
    uint64_t address = 0;
    moiety_stream stream = MOIETY_STREAM_ANY;
    if (count != 3) {
        PyErr_Format(PyExc_TypeError,
                     "takes address, nbytes and stream, not %zd arguments",
                     count);
        return NULL;
    }
    if (!native_bare_from(arguments[0], &address) ||
        !native_stream_from(arguments[2], &stream))
        return NULL;
    return py_space_type_deallocate(self, address, stream, true);
}

static PyObject *space_usable_size(PyObject *self, PyObject *argument)
{
    uint64_t address = 0;
    size_t nbytes = 0;
    if (!native_address_from(argument, &address))
        return NULL;
    moiety_pool *pool = native_enter(py_space_type_space_of(self));
    if (!pool)
        return NULL;
    moiety_status status = moiety_usable_size(pool, address, &nbytes);
    PyObject *result = status == MOIETY_OK
                           ? PyLong_FromSize_t(nbytes)
                           : native_refuse(native_state_of(self), NULL, status);
    native_leave(py_space_type_space_of(self));
    return result;
}

static PyObject *space_owns(PyObject *self, PyObject *argument)
{
    uint64_t address = 0;
    if (!native_address_from(argument, &address))
        return NULL;
    return PyBool_FromLong(
        native_space_look(py_space_type_space_of(self), address) == MOIETY_OK);
}

static PyObject *space_record_use(PyObject *self, PyObject *const *arguments,
                                  Py_ssize_t count, PyObject *names)
{
    uint64_t address = 0;
    moiety_stream stream = MOIETY_STREAM_ANY;
    moiety_status status;
    if (native_number_and_stream(arguments, count, names, address_argument,
                                 &address, &stream))
        return NULL;
    moiety_pool *pool = native_enter(py_space_type_space_of(self));
    if (!pool)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_record_use(pool, address, stream);
    Py_END_ALLOW_THREADS;
    return native_leave_with(self, status);
}

static PyObject *space_synchronize(PyObject *self, PyObject *arguments,
                                   PyObject *names)
{
    static char *keys[] = {"timeout_ms", NULL};
    uint32_t timeout_ms = UINT32_MAX;
    moiety_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O&:synchronize", keys,
                                     native_u32_from, &timeout_ms))
        return NULL;
    moiety_pool *pool = native_enter(py_space_type_space_of(self));
    if (!pool)
        return NULL;
    struct native_wait wait;
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_pool_synchronize(pool, timeout_ms);
    Py_END_ALLOW_THREADS;
    return native_leave_with(self, native_wait_end(&wait, status));
}

static PyObject *space_trim(PyObject *self, PyObject *arguments,
                            PyObject *names)
{
    static char *keys[] = {"keep_bytes", NULL};
    uint64_t keep_bytes = 0;
    uint64_t given_bytes = 0;
    moiety_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|O&:trim", keys,
                                     native_u64_from, &keep_bytes))
        return NULL;
    moiety_pool *pool = native_enter(py_space_type_space_of(self));
    if (!pool)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    /* It would end a capture: there is nothing to give yet. */
    status = native_is_capture_seen()
                 ? MOIETY_OK
                 : moiety_pool_trim(pool, keep_bytes, &given_bytes);
    Py_END_ALLOW_THREADS;
    PyObject *result = status == MOIETY_OK
                           ? PyLong_FromUnsignedLongLong(given_bytes)
                           : native_refuse(native_state_of(self), NULL, status);
    native_leave(py_space_type_space_of(self));
    return result;
}

static PyObject *space_tenant(PyObject *self, PyObject *arguments,
                              PyObject *names)
{
    static char *keys[] = {"name", "budget_bytes", "pausable", NULL};
    moiety_tenant_options options = {.struct_size = sizeof options, .name = ""};
    int is_pausable = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "|sO&$p:tenant", keys,
                                     &options.name, native_u64_from,
                                     &options.budget_bytes, &is_pausable))
        return NULL;
    options.flags = is_pausable ? MOIETY_TENANT_PAUSABLE : 0;
    return native_tenant_new(py_space_type_space_of(self), &options);
}

static PyObject *space_last_oom(PyObject *self, PyObject *none)
{
    (void)none;
    moiety_pool *pool = native_enter(py_space_type_space_of(self));
    if (!pool)
        return NULL;
    PyObject *report = native_oom_report(pool);
    native_leave(py_space_type_space_of(self));
    return report;
}

static PyObject *space_context_lost(PyObject *self, PyObject *none)
{
    (void)none;
    moiety_pool *pool = native_enter_open(py_space_type_space_of(self));
    if (!pool)
        Py_RETURN_NONE;
    return native_call(self, pool, moiety_pool_context_lost);
}

static PyObject *space_enter(PyObject *self, PyObject *none)
{
    (void)none;
    if (!native_enter(py_space_type_space_of(self)))
        return NULL;
    native_leave(py_space_type_space_of(self));
    return Py_NewRef(self);
}

static PyObject *space_exit(PyObject *self, PyObject *arguments)
{
    return native_exit_with(self, arguments, native_space_close(self, NULL));
}

static PyObject *py_space_type_get_is_open(PyObject *self, void *closure)
{
    (void)closure;
    moiety_pool *pool = native_enter_open(py_space_type_space_of(self));
    if (pool)
        native_leave(py_space_type_space_of(self));
    return PyBool_FromLong(pool != NULL);
}

static PyObject *get_device(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(native_space_device(py_space_type_space_of(self)));
}

static PyMethodDef methods[] = {
    {"alloc", NATIVE_METHOD(space_alloc), METH_FASTCALL | METH_KEYWORDS,
     "alloc($self, nbytes, stream=moiety.ANY)\n"
     "--\n\n"
     "Takes memory; it is freed with the object."},
    {"allocate", NATIVE_METHOD(space_allocate), METH_FASTCALL | METH_KEYWORDS,
     "allocate($self, nbytes, stream=moiety.ANY)\n"
     "--\n\n"
     "Takes memory: an address that nobody owns, for deallocate()."},
    {"deallocate", NATIVE_METHOD(space_deallocate),
     METH_FASTCALL | METH_KEYWORDS,
     "deallocate($self, address, stream=moiety.ANY)\n"
     "--\n\n"
     "Gives memory back; nothing happens when it is closed."},
    {"_deallocate_for_rmm", NATIVE_METHOD(space_deallocate_for_rmm),
     METH_FASTCALL,
     "_deallocate_for_rmm($self, address, nbytes, stream, /)\n"
     "--\n\n"
     "deallocate(), as RMM calls it."},
    {"usable_size", space_usable_size, METH_O,
     "usable_size($self, address, /)\n"
     "--\n\n"
     "Bytes that the block has."},
    {"owns", space_owns, METH_O,
     "owns($self, address, /)\n"
     "--\n\n"
     "Whether it is in this memory, used or not."},
    {"record_use", NATIVE_METHOD(space_record_use),
     METH_FASTCALL | METH_KEYWORDS,
     "record_use($self, address, stream)\n"
     "--\n\n"
     "A free will wait for the stream as well."},
    {"synchronize", NATIVE_METHOD(space_synchronize),
     METH_VARARGS | METH_KEYWORDS,
     "synchronize($self, timeout_ms=4294967295)\n"
     "--\n\n"
     "Waits for all queued work; what was freed before it is everybody's."},
    {"trim", NATIVE_METHOD(space_trim), METH_VARARGS | METH_KEYWORDS,
     "trim($self, keep_bytes=0)\n"
     "--\n\n"
     "Gives unused memory back to the driver; bytes."},
    {"set_limit", NATIVE_METHOD(native_set_limit), METH_VARARGS | METH_KEYWORDS,
     "set_limit($self, limit_bytes)\n"
     "--\n\n"
     "Changes the most that it reserves; 0: what there is."},
    {"used_bytes", native_used_bytes, METH_NOARGS,
     "used_bytes($self)\n"
     "--\n\n"
     "Bytes of blocks in use."},
    {"total_bytes", native_total_bytes, METH_NOARGS,
     "total_bytes($self)\n"
     "--\n\n"
     "Bytes that are reserved, used or not."},
    {"free_all_blocks", native_free_all_blocks, METH_NOARGS,
     "free_all_blocks($self)\n"
     "--\n\n"
     "synchronize() and trim(), as CuPy's pools have it."},
    {"reset_peaks", native_reset_peaks, METH_NOARGS,
     "reset_peaks($self)\n"
     "--\n\n"
     "Lets the peaks of stats() begin anew."},
    {"tenant", NATIVE_METHOD(space_tenant), METH_VARARGS | METH_KEYWORDS,
     "tenant($self, name='', budget_bytes=0, *, pausable=False)\n"
     "--\n\n"
     "A Tenant: a budget for a part of the program; 0: any amount. pausable: "
     "it has pause(), in a pool of mapped memory."},
    {"last_oom", space_last_oom, METH_NOARGS,
     "last_oom($self)\n"
     "--\n\n"
     "Why this thread's last allocation failed, or None."},
    {"context_lost", space_context_lost, METH_NOARGS,
     "context_lost($self)\n"
     "--\n\n"
     "The context is gone or about to go: the driver is not called any more."},
    {"_repr_html_", native_repr_html, METH_NOARGS,
     "_repr_html_($self)\n"
     "--\n\n"
     "A small table, for notebooks."},
    {"close", native_space_close, METH_NOARGS,
     "close($self)\n"
     "--\n\n"
     "Gives all memory back, also what is live: as many blocks as are "
     "returned."},
    {"__enter__", space_enter, METH_NOARGS,
     "__enter__($self)\n"
     "--\n\n"
     "The same object."},
    {"__exit__", space_exit, METH_VARARGS,
     "__exit__($self, kind, error, trace, /)\n"
     "--\n\n"
     "Ends it."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"is_open", py_space_type_get_is_open, NULL, "False after close().", NULL},
    {"device", get_device, NULL, "Ordinal of the device.", NULL},
    {"limit_bytes", native_limit_bytes, NULL,
     "The most that it reserves; see set_limit().", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef weak_members[] = NATIVE_WEAK_MEMBERS(struct native_space);

static PyType_Slot slots[] = {
    {Py_tp_dealloc, native_space_dealloc},
    {Py_tp_members, weak_members},
    {Py_tp_finalize, native_space_finalize},
    {Py_tp_traverse, native_space_traverse},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "moiety._native._Space",
    .basicsize = sizeof(struct native_space),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

PyTypeObject *native_space_type_new(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
