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

static PyObject *space_alloc_raw(PyObject *self, PyObject *const *arguments,
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

/* free_raw() while the thread runs a function of a watcher. */
struct later_free {
    struct native_postponed postponed;
    struct native_space *space;
    uint64_t address;
    moiety_stream stream;
};

/* free_raw() has returned by then: nobody catches what is raised. */
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
static PyObject *py_space_type_free_raw(PyObject *self, uint64_t address,
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
    if (status == MOIETY_E_CAPTURING && is_given)
        status = native_give(pool, address, MOIETY_STREAM_ANY);
    if (status != MOIETY_OK)
        native_raise(native_state_of(self), pool, status);
    native_leave(py_space_type_space_of(self));
    return status == MOIETY_OK ? Py_NewRef(Py_None) : NULL;
}

static PyObject *space_free_raw(PyObject *self, PyObject *const *arguments,
                                Py_ssize_t count, PyObject *names)
{
    uint64_t address = 0;
    moiety_stream stream = MOIETY_STREAM_ANY;
    if (native_number_and_stream(arguments, count, names, bare_argument,
                                 &address, &stream))
        return NULL;
    return py_space_type_free_raw(self, address, stream, false);
}

PyObject *native_free_for_rmm(PyObject *module, PyObject *const *arguments,
                              Py_ssize_t count)
{
    const struct native_state *state = PyModule_GetState(module);
    uint64_t address = 0;
    moiety_stream stream = MOIETY_STREAM_ANY;
    if (count != 4 || !PyObject_TypeCheck(arguments[0], state->pool_type)) {
        PyErr_SetString(PyExc_TypeError,
                        "takes a Pool, address, nbytes and stream");
        return NULL;
    }
    /* The size is known here. */
    if (!native_bare_from(arguments[1], &address) ||
        !native_stream_from(arguments[3], &stream))
        return NULL;
    return py_space_type_free_raw(arguments[0], address, stream, true);
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
    static char *keys[] = {"timeout", NULL};
    uint32_t timeout_ms = UINT32_MAX;
    moiety_status status;
    if (!native_parse(arguments, names, "|O&:synchronize", keys,
                      native_timeout_from, &timeout_ms))
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

static int py_space_type_append(PyObject *list, const moiety_segment_info *info)
{
    PyObject *made = native_segment_of(info);
    int failed = made ? PyList_Append(list, made) : -1;
    Py_XDECREF(made);
    return failed;
}

/* The one behind `info`. The call waits for a thread that grows the memory: in the
 * driver, or in a function of a watcher, which needs the GIL. */
static moiety_status py_space_type_next_segment(moiety_pool *pool,
                                                moiety_segment_info *info)
{
    moiety_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_segment_find(pool, info->address + info->size_bytes, info);
    Py_END_ALLOW_THREADS;
    return status;
}

static PyObject *py_space_type_segments_of(PyObject *self, moiety_pool *pool)
{
    PyObject *list = PyList_New(0);
    moiety_segment_info info = {.struct_size = sizeof info};
    moiety_status status = MOIETY_OK;
    while (list &&
           (status = py_space_type_next_segment(pool, &info)) == MOIETY_OK)
        if (py_space_type_append(list, &info))
            Py_CLEAR(list);
    if (!list || status == MOIETY_E_FOREIGN)
        return list;
    Py_DECREF(list);
    return native_refuse(native_state_of(self), NULL, status);
}

static PyObject *space_segments(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_space *space = (struct native_space *)self;
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    PyObject *list = py_space_type_segments_of(self, pool);
    native_leave(space);
    return list;
}

static PyMethodDef methods[] = {
    {"alloc", NATIVE_METHOD(space_alloc), METH_FASTCALL | METH_KEYWORDS,
     "alloc($self, nbytes, stream=moiety.ANY)\n"
     "--\n"
     "\n"
     "Allocates memory and returns a Block, or a HostBlock of an arena. The "
     "memory is freed with the object.\n"
     "\n"
     "`stream` is the stream that uses the block first. ANY, the default, is "
     "safe on all "
     "streams, but slower: the pool waits for more work before it reuses the "
     "memory. "
     "The name \"current\" is the current stream of CuPy, PyTorch or numba, "
     "which is "
     "faster.\n"
     "\n"
     "Raises OutOfMemoryError."},
    {"alloc_raw", NATIVE_METHOD(space_alloc_raw), METH_FASTCALL | METH_KEYWORDS,
     "alloc_raw($self, nbytes, stream=moiety.ANY)\n"
     "--\n"
     "\n"
     "Allocates memory and returns its address. No object owns the memory: "
     "free it with free_raw().\n"
     "\n"
     "`stream` is as for alloc(). Raises OutOfMemoryError."},
    {"free_raw", NATIVE_METHOD(space_free_raw), METH_FASTCALL | METH_KEYWORDS,
     "free_raw($self, address, stream=moiety.ANY)\n"
     "--\n"
     "\n"
     "Frees memory that alloc_raw() returned.\n"
     "\n"
     "`stream` is the stream whose queued work uses the memory last. ANY, the "
     "default, waits for the queued work of all streams. DONE waits for no "
     "work. If the pool is closed, the call does nothing."},
    {"usable_size", space_usable_size, METH_O,
     "usable_size($self, address, /)\n"
     "--\n"
     "\n"
     "Returns the number of bytes that the block at `address` has. It is at "
     "least what was requested."},
    {"owns", space_owns, METH_O,
     "owns($self, address, /)\n"
     "--\n"
     "\n"
     "Returns whether `address` is in memory of this pool, in use or not."},
    {"record_use", NATIVE_METHOD(space_record_use),
     METH_FASTCALL | METH_KEYWORDS,
     "record_use($self, address, stream)\n"
     "--\n"
     "\n"
     "Records that `stream` uses a block too. The memory is reused after the "
     "work that the stream has queued when the block is freed."},
    {"segments", space_segments, METH_NOARGS,
     "segments($self)\n"
     "--\n"
     "\n"
     "Returns the pieces of memory that a transport can register, in the order "
     "of their addresses. Each is a dictionary: id, address, nbytes, "
     "hold_count, device, is_mapped."},
    {"hold", NATIVE_METHOD(native_hold), METH_VARARGS | METH_KEYWORDS,
     "hold($self, address, nbytes=None)\n"
     "--\n"
     "\n"
     "Keeps the segments of a range in place, and returns a Hold: they neither "
     "move nor return to the driver.\n"
     "\n"
     "`address` is a Block or an address; `nbytes` is 1 if it is None. Use it "
     "as a with-block, or call release() of the Hold. Holds are counted."},
    {"watch_segments", NATIVE_METHOD(native_watch_segments),
     METH_VARARGS | METH_KEYWORDS,
     "watch_segments($self, added=None, releasing=None)\n"
     "--\n"
     "\n"
     "Calls functions when segments come and go, for programs that register "
     "memory (RDMA, UCX, NIXL). Returns a SegmentWatch.\n"
     "\n"
     "The function `added` is called for each segment that exists, before this "
     "method "
     "returns. Later it is called for each new segment, before a block is in "
     "it. "
     "The function `releasing` is called before a segment goes, when no block "
     "is in it. A segment is a dictionary, as in segments().\n"
     "\n"
     "The thread that grows or trims the pool runs the functions, one at a "
     "time. They must not wait for a thread that is in a call of the pool. In "
     "them, calls on the pool raise ReentrantError, except frees, which are "
     "done "
     "later. Exceptions go to sys.unraisablehook().\n"
     "\n"
     "The pool keeps the functions until close() of the watch or the pool. "
     "Raises TypeError without a function, and UnsupportedError for a "
     "pass-through pool."},
    {"synchronize", NATIVE_METHOD(space_synchronize),
     METH_VARARGS | METH_KEYWORDS,
     "synchronize($self, timeout=None)\n"
     "--\n"
     "\n"
     "Waits for all work that was queued before the call. Memory that was "
     "freed before it can be reused on any stream afterwards.\n"
     "\n"
     "`timeout` is in seconds; None waits without a limit. Raises "
     "TimedOutError after the timeout, and CapturingError while a graph is "
     "captured."},
    {"trim", NATIVE_METHOD(native_trim), METH_VARARGS | METH_KEYWORDS,
     "trim($self, keep_bytes=0, *, wait=False)\n"
     "--\n"
     "\n"
     "Returns unused memory to the driver, until `keep_bytes` stay reserved. "
     "Returns the number of bytes.\n"
     "\n"
     "Memory that still waits for queued work stays. With `wait`, the call "
     "first waits for all queued work. While a graph is captured, the call "
     "does nothing."},
    {"set_limit", NATIVE_METHOD(native_set_limit), METH_VARARGS | METH_KEYWORDS,
     "set_limit($self, limit)\n"
     "--\n"
     "\n"
     "Sets the most bytes that are reserved from now on: a number, text such "
     "as \"8GiB\", or None for all that the device has. Unused memory above "
     "the limit returns to the driver.\n"
     "\n"
     "Raises OutOfMemoryError above sixteen times the limit that the object "
     "was "
     "created with."},
    {"reset_peaks", native_reset_peaks, METH_NOARGS,
     "reset_peaks($self)\n"
     "--\n"
     "\n"
     "Starts the peaks of stats() again at the current values."},
    {"last_oom", space_last_oom, METH_NOARGS,
     "last_oom($self)\n"
     "--\n"
     "\n"
     "Returns the report of the calling thread's last failed allocation, or "
     "None. It is a dictionary."},
    {"context_lost", space_context_lost, METH_NOARGS,
     "context_lost($self)\n"
     "--\n"
     "\n"
     "Declares that the CUDA context is destroyed, or is about to be. The pool "
     "does not call the driver any more."},
    {"_repr_html_", native_repr_html, METH_NOARGS,
     "_repr_html_($self)\n"
     "--\n"
     "\n"
     "Returns a small table for notebooks."},
    {"close", native_space_close, METH_NOARGS,
     "close($self)\n"
     "--\n"
     "\n"
     "Returns all memory to the driver, and returns the number of blocks that "
     "were in use. Their memory is gone.\n"
     "\n"
     "Blocks of an arena whose bytes an array or another object has stay valid "
     "until the last such object is dropped. A second call returns 0. Raises "
     "InUseError if another thread is in a call of the object, or a NumPy "
     "handler uses it."},
    {"__enter__", space_enter, METH_NOARGS,
     "__enter__($self)\n"
     "--\n"
     "\n"
     "Returns the object. Raises ClosedError if it is closed."},
    {"__exit__", space_exit, METH_VARARGS,
     "__exit__($self, kind, error, trace, /)\n"
     "--\n"
     "\n"
     "Calls close()."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"is_open", py_space_type_get_is_open, NULL, "False after close().", NULL},
    {"device", get_device, NULL, "The ordinal of the device.", NULL},
    {"limit", native_limit, NULL,
     "The most bytes that are reserved. set_limit() changes it.", NULL},
    {"used_bytes", native_used_bytes, NULL, "The bytes of the blocks in use.",
     NULL},
    {"total_bytes", native_total_bytes, NULL,
     "The bytes that are reserved, in use or not.", NULL},
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
