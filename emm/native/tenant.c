/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tenant: a part of a program, with a budget of its own in a pool or an arena.
 * Its blocks keep it, so it is destroyed with the last of them at the latest.
 * The GIL is released for allocations, and for all that a tenant which can be
 * paused does with its arena: nothing else waits or calls the driver.
 */
#include "moiety/tenant.h"
#include "emm/native/native.h"
#include "moiety/private.h"

struct native_tenant {
    PyObject_HEAD struct native_space *space;
    /* The GIL, all three. 0: closed. Threads that are in a call with it, during
     * which it may not end; and whether a thread is ending it. */
    moiety_tenant handle;
    unsigned user_count;
    bool is_ending;
    bool is_pausable;                  /* its maker */
    struct native_postponed postponed; /* its end; the GIL */
    PyObject *weak_references;
};

static const struct native_first size_argument = {"nbytes", native_u64_from};

static struct native_tenant *tenant_of(PyObject *self)
{
    return (struct native_tenant *)self;
}

static void py_tenant_uncount(struct native_tenant *tenant)
{
    NATIVE_LOCK(tenant);
    tenant->user_count--;
    NATIVE_UNLOCK();
}

/* The pool, to be used until py_tenant_leave(); NULL after an error. */
static moiety_pool *py_tenant_enter(struct native_tenant *tenant)
{
    bool is_open;
    bool is_ending;
    NATIVE_LOCK(tenant);
    is_open = tenant->handle != NULL;
    is_ending = tenant->is_ending;
    tenant->user_count += is_open && !is_ending;
    NATIVE_UNLOCK();
    if (!is_open) {
        native_raise_closed(native_state_of((PyObject *)tenant),
                            "the tenant is closed");
        return NULL;
    }
    if (is_ending) {
        (void)native_refuse_as(native_state_of((PyObject *)tenant),
                               MOIETY_E_IN_USE,
                               "another thread closes the tenant");
        return NULL;
    }
    moiety_pool *pool = native_enter(tenant->space);
    if (!pool)
        py_tenant_uncount(tenant);
    return pool;
}

static void py_tenant_leave(struct native_tenant *tenant)
{
    py_tenant_uncount(tenant);
    native_leave(tenant->space);
}

static struct native_tenant *py_tenant_new_object(struct native_space *space)
{
    PyTypeObject *type = native_state_of((PyObject *)space)->tenant_type;
    struct native_tenant *tenant =
        (struct native_tenant *)native_object_new(type);
    if (tenant) {
        tenant->space = space;
        Py_INCREF((PyObject *)space);
    }
    return tenant;
}

static PyObject *py_tenant_new(struct native_space *space,
                               const moiety_tenant_options *options)
{
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    struct native_tenant *tenant = py_tenant_new_object(space);
    moiety_status status = MOIETY_OK;
    if (tenant) {
        tenant->is_pausable = (options->flags & MOIETY_TENANT_PAUSABLE) != 0;
        status = moiety_tenant_create(pool, options, &tenant->handle);
    }
    if (status != MOIETY_OK) {
        native_raise(native_state_of((PyObject *)space), NULL, status);
        Py_DECREF((PyObject *)tenant);
    }
    native_leave(space);
    return status == MOIETY_OK ? (PyObject *)tenant : NULL;
}

PyObject *native_tenant_new(PyObject *self, PyObject *arguments,
                            PyObject *names, bool has_pausable)
{
    static char *keys[] = {"name", "budget", "pausable", NULL};
    static char *arena_keys[] = {"name", "budget", NULL};
    moiety_tenant_options options = {.struct_size = sizeof options, .name = ""};
    struct native_setting budget = {"budget", &options.budget_bytes, 0};
    int is_pausable = 0;
    if (!native_parse(arguments, names,
                      has_pausable ? "|sO&$p:tenant" : "|sO&:tenant",
                      has_pausable ? keys : arena_keys, &options.name,
                      native_setting_from, &budget, &is_pausable))
        return NULL;
    options.flags = is_pausable ? MOIETY_TENANT_PAUSABLE : 0;
    return py_tenant_new((struct native_space *)self, &options);
}

/* The arena of one that can be paused is left to the pool, if it refuses to end:
 * the tenant is gone all the same. */
static moiety_status py_tenant_destroy(struct native_tenant *tenant,
                                       bool *out_is_gone)
{
    moiety_tenant_stats info = {.struct_size = sizeof info};
    moiety_status status;
    if (!tenant->is_pausable) {
        status = moiety_tenant_destroy(tenant->handle);
        *out_is_gone = status == MOIETY_OK;
        return status;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_tenant_destroy(tenant->handle);
    Py_END_ALLOW_THREADS;
    *out_is_gone =
        status == MOIETY_OK ||
        moiety_tenant_get_stats(tenant->handle, &info) == MOIETY_E_DESTROYED;
    return status;
}

/* Of whoever has set is_ending, or has the last reference. 0, or -1 after an error. A pool that
 * is closed has ended its tenants. */
static int py_tenant_end(struct native_tenant *tenant)
{
    moiety_status status = MOIETY_OK;
    bool is_gone = true;
    moiety_pool *pool =
        tenant->handle ? native_enter_open(tenant->space) : NULL;
    if (pool)
        status = py_tenant_destroy(tenant, &is_gone);
    if (status != MOIETY_OK)
        native_raise(native_state_of((PyObject *)tenant), NULL, status);
    NATIVE_LOCK(tenant);
    tenant->is_ending = false;
    tenant->handle = is_gone ? NULL : tenant->handle;
    NATIVE_UNLOCK();
    if (pool)
        native_leave(tenant->space);
    return status == MOIETY_OK ? 0 : -1;
}

static void tenant_dealloc(PyObject *self);

static void py_tenant_finish_end(void *tenant)
{
    tenant_dealloc(tenant);
}

static void tenant_dealloc(PyObject *self)
{
    native_clear_weak(self, tenant_of(self)->weak_references);
    if (!native_is_over() && native_is_told()) {
        /* As blocks: block.c. */
        native_postpone(&tenant_of(self)->postponed, self,
                        py_tenant_finish_end);
        return;
    }
    if (!native_is_over()) {
        struct native_error error = native_error_keep();
        /* What alloc_raw() gave, and what is exported, has it until the pool
         * ends. */
        (void)py_tenant_end(tenant_of(self));
        native_error_restore(error);
    }
    Py_XDECREF((PyObject *)tenant_of(self)->space);
    native_object_free(self);
}

static PyObject *tenant_close(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_tenant *tenant = tenant_of(self);
    bool is_used;
    NATIVE_LOCK(tenant);
    is_used = tenant->user_count || tenant->is_ending;
    tenant->is_ending |= !is_used;
    NATIVE_UNLOCK();
    if (is_used)
        return native_refuse_as(native_state_of(self), MOIETY_E_IN_USE,
                                "the tenant is in use by a call of another "
                                "thread, or by ONNX Runtime");
    return py_tenant_end(tenant) ? NULL : Py_NewRef(Py_None);
}

static PyObject *tenant_alloc(PyObject *self, PyObject *const *arguments,
                              Py_ssize_t count, PyObject *names)
{
    struct native_tenant *tenant = tenant_of(self);
    uint64_t nbytes = 0;
    moiety_stream stream = MOIETY_STREAM_ANY;
    if (native_number_and_stream(arguments, count, names, size_argument,
                                 &nbytes, &stream) ||
        !py_tenant_enter(tenant))
        return NULL;
    PyObject *block =
        native_block_new(tenant->space, self, tenant->handle, nbytes, stream);
    py_tenant_leave(tenant);
    return block;
}

static PyObject *tenant_alloc_raw(PyObject *self, PyObject *const *arguments,
                                  Py_ssize_t count, PyObject *names)
{
    struct native_tenant *tenant = tenant_of(self);
    uint64_t nbytes = 0;
    moiety_stream stream = MOIETY_STREAM_ANY;
    moiety_devptr address = 0;
    if (native_number_and_stream(arguments, count, names, size_argument,
                                 &nbytes, &stream))
        return NULL;
    moiety_pool *pool = py_tenant_enter(tenant);
    if (!pool)
        return NULL;
    moiety_status status =
        native_take(pool, tenant->handle, nbytes, stream, &address);
    PyObject *result = status == MOIETY_OK
                           ? PyLong_FromUnsignedLongLong(address)
                           : native_refuse(native_state_of(self), pool, status);
    py_tenant_leave(tenant);
    return result;
}

/* None, or NULL after an error. */
static PyObject *py_tenant_answer(PyObject *self, moiety_status status)
{
    struct native_tenant *tenant = tenant_of(self);
    py_tenant_uncount(tenant);
    return native_leave_with((PyObject *)tenant->space, status);
}

static PyObject *tenant_pause(PyObject *self, PyObject *arguments,
                              PyObject *names)
{
    static char *keys[] = {"keep_contents", NULL};
    struct native_tenant *tenant = tenant_of(self);
    int is_keeping = 0;
    moiety_status status;
    if (!native_parse(arguments, names, "|p:pause", keys, &is_keeping) ||
        !py_tenant_enter(tenant))
        return NULL;
    struct native_wait wait;
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_tenant_pause(tenant->handle,
                                 is_keeping ? MOIETY_PAUSE_KEEP_CONTENTS : 0);
    Py_END_ALLOW_THREADS;
    return py_tenant_answer(self, native_wait_end(&wait, status));
}

static PyObject *tenant_resume(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_tenant *tenant = tenant_of(self);
    moiety_status status;
    if (!py_tenant_enter(tenant))
        return NULL;
    struct native_wait wait;
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_tenant_resume(tenant->handle);
    Py_END_ALLOW_THREADS;
    return py_tenant_answer(self, native_wait_end(&wait, status));
}

static moiety_status py_tenant_ask_paused(moiety_tenant tenant, bool *out)
{
    moiety_private_stats info = {.struct_size = sizeof info};
    moiety_private arena = NULL;
    moiety_status status = moiety_tenant_private(tenant, &arena);
    if (status == MOIETY_OK)
        status = moiety_private_get_stats(arena, &info);
    *out = info.is_paused != 0;
    return status == MOIETY_E_UNSUPPORTED ? MOIETY_OK : status;
}

static PyObject *get_is_paused(PyObject *self, void *closure)
{
    (void)closure;
    struct native_tenant *tenant = tenant_of(self);
    bool is_paused = false;
    moiety_status status;
    if (!py_tenant_enter(tenant))
        return NULL;
    /* The arena's lock may be held by a thread that calls the driver. */
    Py_BEGIN_ALLOW_THREADS;
    status = py_tenant_ask_paused(tenant->handle, &is_paused);
    Py_END_ALLOW_THREADS;
    py_tenant_leave(tenant);
    return status == MOIETY_OK
               ? PyBool_FromLong(is_paused)
               : native_refuse(native_state_of(self), NULL, status);
}

/* 0, or -1 after an error. */
static int py_tenant_look(PyObject *self, moiety_tenant_stats *out)
{
    struct native_tenant *tenant = tenant_of(self);
    *out = (moiety_tenant_stats){.struct_size = sizeof *out};
    if (!py_tenant_enter(tenant))
        return -1;
    moiety_status status = moiety_tenant_get_stats(tenant->handle, out);
    py_tenant_leave(tenant);
    if (status == MOIETY_OK)
        return 0;
    native_raise(native_state_of(self), NULL, status);
    return -1;
}

static PyObject *tenant_stats(PyObject *self, PyObject *none)
{
    (void)none;
    moiety_tenant_stats info;
    if (py_tenant_look(self, &info))
        return NULL;
    PyObject *numbers =
        Py_BuildValue("{sssKsKsKsKsK}", "name", info.name, "budget_bytes",
                      (unsigned long long)info.budget_bytes, "live_bytes",
                      (unsigned long long)info.live_bytes, "peak_bytes",
                      (unsigned long long)info.peak_bytes, "allocation_count",
                      (unsigned long long)info.allocation_count,
                      "refusal_count", (unsigned long long)info.refusal_count);
    return numbers ? native_call_python("moiety._support.stats", "TenantStats",
                                        numbers)
                   : NULL;
}

static PyObject *tenant_exit(PyObject *self, PyObject *arguments)
{
    return native_exit_with(self, arguments, tenant_close(self, NULL));
}

static PyObject *get_name(PyObject *self, void *closure)
{
    (void)closure;
    moiety_tenant_stats info;
    return py_tenant_look(self, &info) ? NULL : PyUnicode_FromString(info.name);
}

static PyObject *get_budget(PyObject *self, void *closure)
{
    (void)closure;
    moiety_tenant_stats info;
    return py_tenant_look(self, &info)
               ? NULL
               : PyLong_FromUnsignedLongLong(info.budget_bytes);
}

static int set_budget(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    struct native_tenant *tenant = tenant_of(self);
    uint64_t budget_bytes = 0;
    struct native_setting budget = {"budget", &budget_bytes, 0};
    if (!value) {
        PyErr_SetString(PyExc_AttributeError,
                        "a tenant always has a budget: 0 is any amount");
        return -1;
    }
    if (!native_setting_from(value, &budget) || !py_tenant_enter(tenant))
        return -1;
    moiety_status status =
        moiety_tenant_set_budget(tenant->handle, budget_bytes);
    py_tenant_leave(tenant);
    if (status == MOIETY_OK)
        return 0;
    native_raise(native_state_of(self), NULL, status);
    return -1;
}

static PyObject *py_tenant_get_is_open(PyObject *self, void *closure)
{
    (void)closure;
    struct native_tenant *tenant = tenant_of(self);
    bool is_open;
    NATIVE_LOCK(tenant);
    is_open = tenant->handle != NULL;
    NATIVE_UNLOCK();
    return PyBool_FromLong(is_open && native_space_is_open(tenant->space));
}

static PyObject *get_pool(PyObject *self, void *closure)
{
    (void)closure;
    return Py_NewRef((PyObject *)tenant_of(self)->space);
}

static void py_tenant_release_capsule(PyObject *capsule)
{
    PyObject *self = PyCapsule_GetContext(capsule);
    if (!self)
        return;
    py_tenant_leave(tenant_of(self));
    Py_DECREF(self);
}

PyObject *native_tenant_capsule(PyObject *self)
{
    struct native_tenant *tenant = tenant_of(self);
    if (!py_tenant_enter(tenant))
        return NULL;
    PyObject *capsule = PyCapsule_New(tenant->handle, "moiety_tenant",
                                      py_tenant_release_capsule);
    if (capsule && PyCapsule_SetContext(capsule, self) == 0) {
        Py_INCREF(self);
        return capsule;
    }
    Py_XDECREF(capsule);
    py_tenant_leave(tenant);
    return NULL;
}

static PyMethodDef methods[] = {
    {"alloc", NATIVE_METHOD(tenant_alloc), METH_FASTCALL | METH_KEYWORDS,
     "alloc($self, nbytes, stream=moiety.ANY)\n"
     "--\n"
     "\n"
     "Allocates memory of the pool or arena, and returns a Block or HostBlock. "
     "`stream` is as for Pool.alloc().\n"
     "\n"
     "Raises BudgetExceededError at once if the budget does not suffice, and "
     "OutOfMemoryError if the pool has no memory."},
    {"alloc_raw", NATIVE_METHOD(tenant_alloc_raw),
     METH_FASTCALL | METH_KEYWORDS,
     "alloc_raw($self, nbytes, stream=moiety.ANY)\n"
     "--\n"
     "\n"
     "Allocates memory and returns its address, for free_raw() of the pool."},
    {"pause", NATIVE_METHOD(tenant_pause), METH_VARARGS | METH_KEYWORDS,
     "pause($self, keep_contents=False)\n"
     "--\n"
     "\n"
     "Returns the tenant's device memory to the driver, and keeps the "
     "addresses. Other programs can use the memory until resume().\n"
     "\n"
     "Queue all work that uses the memory before the call, which waits for it. "
     "Queue no more of it before resume(), graphs included. Blocks can be "
     "freed meanwhile, but alloc() raises PausedError.\n"
     "\n"
     "With `keep_contents` the bytes are copied to pinned host memory. "
     "Otherwise they are undefined afterwards.\n"
     "\n"
     "Raises UnsupportedError if the tenant is not pausable, and PausedError "
     "if it is paused. Raises InUseError if a segment is held, and "
     "TimedOutError if the work is not over after the pool's `wait_ms`. Raises "
     "OutOfMemoryError if there is no pinned memory for the contents. The "
     "tenant then runs as before."},
    {"resume", tenant_resume, METH_NOARGS,
     "resume($self)\n"
     "--\n"
     "\n"
     "Puts memory at the tenant's addresses again, with the contents if they "
     "were kept. Graphs that use it can be launched again.\n"
     "\n"
     "Raises OutOfMemoryError while other programs have the memory. The tenant "
     "then stays paused, and a later call can succeed."},
    {"stats", tenant_stats, METH_NOARGS,
     "stats($self)\n"
     "--\n"
     "\n"
     "Returns the tenant's numbers as a TenantStats."},
    {"_repr_html_", native_repr_html, METH_NOARGS,
     "_repr_html_($self)\n"
     "--\n"
     "\n"
     "Returns a small table for notebooks."},
    {"close", tenant_close, METH_NOARGS,
     "close($self)\n"
     "--\n"
     "\n"
     "Ends the tenant. A second call does nothing.\n"
     "\n"
     "Raises InUseError while it has blocks in use."},
    {"__enter__", native_enter_self, METH_NOARGS,
     "__enter__($self)\n"
     "--\n"
     "\n"
     "Returns the object."},
    {"__exit__", tenant_exit, METH_VARARGS,
     "__exit__($self, kind, error, trace, /)\n"
     "--\n"
     "\n"
     "Calls close()."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"name", get_name, NULL, "The name, for people.", NULL},
    {"budget", get_budget, set_budget,
     "The most bytes that the blocks hold together; 0 is no budget.\n"
     "\n"
     "It can be assigned, also as text such as \"8GiB\". A budget below the "
     "bytes in use frees nothing, but refuses allocations until enough is "
     "freed.",
     NULL},
    {"is_open", py_tenant_get_is_open, NULL,
     "False after close() of the tenant or its pool.", NULL},
    {"is_paused", get_is_paused, NULL, "True from pause() to resume().", NULL},
    {"pool", get_pool, NULL, "The Pool or HostArena of the tenant.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyObject *tenant_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<moiety.Tenant at %p of %R>", (void *)self,
                                (PyObject *)tenant_of(self)->space);
}

static PyMemberDef weak_members[] = NATIVE_WEAK_MEMBERS(struct native_tenant);

static PyType_Slot slots[] = {
    {Py_tp_dealloc, tenant_dealloc},
    {Py_tp_repr, tenant_repr},
    {Py_tp_members, weak_members},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc,
     "A budget for a part of the program, within a Pool or HostArena that "
     "other parts use too. Their tenant() makes it.\n"
     "\n"
     "The budget bounds all allocations that name the tenant, exactly, on all "
     "threads. All tenants share the caches of the pool.\n"
     "\n"
     "Threads: any. The tenant ends with its last reference and its last "
     "block. Memory of alloc_raw() ends with the pool."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "moiety.Tenant",
    .basicsize = sizeof(struct native_tenant),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int native_tenant_type_add(PyObject *module, struct native_state *state)
{
    state->tenant_type =
        (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return state->tenant_type ? PyModule_AddType(module, state->tenant_type)
                              : -1;
}
