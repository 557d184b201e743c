/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emm/native/native.h"

#include <string.h>

/* What a pool's memory is to be. */
enum memory_wish { MEMORY_DRIVER, MEMORY_MAPPED, MEMORY_AUTO };

struct wishes {
    moiety_pool_options options;
    enum memory_wish memory;
    int is_exportable;
    int is_checked;
    int is_passed_through;
    int has_auto_scopes;
};

static int py_pool_memory_from(PyObject *object, void *out)
{
    static const char *const names[] = {"driver", "mapped", "auto"};
    static const enum memory_wish wishes[] = {MEMORY_DRIVER, MEMORY_MAPPED,
                                              MEMORY_AUTO};
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError,
                     "memory is %R; accepted are 'driver', 'mapped' and 'auto'",
                     object);
        return 0;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (PyUnicode_CompareWithASCIIString(object, names[i]) == 0) {
            *(enum memory_wish *)out = wishes[i];
            return 1;
        }
    }
    PyErr_Format(PyExc_ValueError,
                 "memory is %R; accepted are 'driver', 'mapped' and 'auto'",
                 object);
    return 0;
}

static int py_pool_peer_from(PyObject *item, uint64_t *peers)
{
    uint32_t ordinal = 0;
    if (!native_u32_from(item, &ordinal))
        return 0;
    if (ordinal > 63) {
        PyErr_Format(PyExc_ValueError,
                     "peers has %u; accepted are ordinals from 0 to 63",
                     (unsigned)ordinal);
        return 0;
    }
    *peers |= UINT64_C(1) << ordinal;
    return 1;
}

/* Any iterable of ordinals, as a bit for each. */
static int py_pool_peers_from(PyObject *object, void *out)
{
    uint64_t peers = 0;
    int is_fine = 1;
    PyObject *items = PyObject_GetIter(object);
    PyObject *item;
    if (!items)
        return 0;
    while (is_fine && (item = PyIter_Next(items)) != NULL) {
        is_fine = py_pool_peer_from(item, &peers);
        Py_DECREF(item);
    }
    Py_DECREF(items);
    *(uint64_t *)out = peers;
    return is_fine && !PyErr_Occurred();
}

static int py_pool_parse(PyObject *arguments, PyObject *names,
                         struct wishes *wishes)
{
    static char *keys[] = {"device",
                           "context",
                           "limit_bytes",
                           "first_segment_bytes",
                           "largest_segment_bytes",
                           "thread_cache_bytes",
                           "cache_bytes",
                           "history_entries",
                           "watermark_bytes",
                           "quarantine_bytes",
                           "wait_ms",
                           "exportable",
                           "checked",
                           "pass_through",
                           "auto_scope",
                           "memory",
                           "peers",
                           NULL};
    static const moiety_memory memories[] = {
        [MEMORY_DRIVER] = MOIETY_MEMORY_DRIVER,
        [MEMORY_MAPPED] = MOIETY_MEMORY_MAPPED,
        [MEMORY_AUTO] = MOIETY_MEMORY_AUTO,
    };
    static const moiety_mode modes[2][2] = {
        {MOIETY_MODE_PLAIN, MOIETY_MODE_PASS_THROUGH},
        {MOIETY_MODE_CHECKED, MOIETY_MODE_CHECKED_PASS_THROUGH}};
    moiety_pool_options *options = &wishes->options;
    uint64_t context = 0;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, names, "|i$O&O&O&O&O&O&O&O&O&O&ppppO&O&:Pool", keys,
            &options->device, native_context_from, &context, native_u64_from,
            &options->limit_bytes, native_u64_from,
            &options->first_segment_bytes, native_u64_from,
            &options->largest_segment_bytes, native_bytes_from,
            &options->thread_cache_bytes, native_u64_from,
            &options->cache_bytes, native_u64_from, &options->history_entries,
            native_u64_from, &options->watermark_bytes, native_bytes_from,
            &options->quarantine_bytes, native_wait_from, &options->wait_ms,
            &wishes->is_exportable, &wishes->is_checked,
            &wishes->is_passed_through, &wishes->has_auto_scopes,
            py_pool_memory_from, &wishes->memory, py_pool_peers_from,
            &options->peer_devices))
        return -1;
    options->context = (moiety_context)(uintptr_t)context;
    options->memory = memories[wishes->memory];
    options->mode =
        modes[wishes->is_checked != 0][wishes->is_passed_through != 0];
    options->flags |= wishes->is_exportable ? MOIETY_POOL_EXPORTABLE : 0;
    options->flags |= wishes->has_auto_scopes ? MOIETY_POOL_AUTO_SCOPE : 0;
    return 0;
}

/* MOIETY_CONF may have gone over what was asked for: the pool knows. */
static moiety_status py_pool_ask_memory(moiety_pool *pool, bool *out_is_mapped)
{
    moiety_heap_summary summary = {.struct_size = sizeof summary};
    moiety_heap_snapshot *snapshot;
    moiety_status status = moiety_heap_snapshot_create(pool, &snapshot);
    if (status != MOIETY_OK)
        return status;
    status = moiety_heap_snapshot_summary(snapshot, &summary);
    *out_is_mapped =
        status == MOIETY_OK && strcmp(summary.source_name, "cuMemMap") == 0;
    moiety_heap_snapshot_destroy(snapshot);
    return status;
}

static moiety_status py_pool_make(struct wishes *wishes, moiety_pool **out,
                                  bool *out_is_mapped)
{
    moiety_status status = moiety_pool_create(&wishes->options, out);
    if (status != MOIETY_OK)
        return status;
    status = py_pool_ask_memory(*out, out_is_mapped);
    if (status != MOIETY_OK)
        (void)moiety_pool_destroy(*out, NULL);
    return status;
}

static void py_pool_set_mapped(struct native_space *space, bool is_mapped)
{
    /* relaxed: see the field. */
    atomic_store_explicit(&space->is_mapped, is_mapped, memory_order_relaxed);
}

static int py_pool_begin(PyObject *self, PyObject *arguments, PyObject *names)
{
    struct native_space *space = (struct native_space *)self;
    struct wishes wishes = {.options = MOIETY_POOL_OPTIONS_INIT};
    moiety_pool *pool = NULL;
    bool is_mapped = false;
    moiety_status status;
    if (py_pool_parse(arguments, names, &wishes))
        return -1;
    Py_BEGIN_ALLOW_THREADS;
    status = py_pool_make(&wishes, &pool, &is_mapped);
    Py_END_ALLOW_THREADS;
    if (status != MOIETY_OK) {
        native_raise(native_state_of(self), NULL, status);
        return -1;
    }
    if (native_space_list(space)) {
        (void)moiety_pool_destroy(pool, NULL);
        return -1;
    }
    native_space_set_device(space, wishes.options.device);
    py_pool_set_mapped(space, is_mapped);
    /* PO.release: the pool is whole before others find it. */
    atomic_store_explicit(&space->pool, pool, memory_order_release);
    return 0;
}

PyObject *native_check_options(PyObject *module, PyObject *arguments,
                               PyObject *names)
{
    struct wishes wishes = {.options = MOIETY_POOL_OPTIONS_INIT};
    if (py_pool_parse(arguments, names, &wishes))
        return NULL;
    moiety_status status = moiety_pool_options_check(&wishes.options);
    if (status != MOIETY_OK)
        return native_refuse(PyModule_GetState(module), NULL, status);
    Py_RETURN_NONE;
}

static int pool_init(PyObject *self, PyObject *arguments, PyObject *names)
{
    return native_space_init(self, arguments, names, py_pool_begin);
}

/* Of those that Python has made, a new reference in *out, which is NULL where
 * none has it, or that is in its end. */
static moiety_status py_pool_find_own(struct native_state *state,
                                      uint64_t address, PyObject **out)
{
    moiety_status status = MOIETY_E_FOREIGN;
    *out = NULL;
    native_mutex_lock(&state->lists);
    for (struct native_space *space = state->pools;
         space && status == MOIETY_E_FOREIGN; space = space->next) {
        if (space->is_borrowed)
            continue;
        status = native_space_look(space, address);
        if (status == MOIETY_OK)
            *out = native_space_keep(space);
    }
    native_mutex_unlock(&state->lists);
    return status;
}

/* A new reference, or NULL. */
static PyObject *py_pool_find_borrowed(struct native_state *state,
                                       const moiety_pool *pool)
{
    PyObject *found = NULL;
    native_mutex_lock(&state->lists);
    for (struct native_space *space = state->pools; space && !found;
         space = space->next) {
        /* relaxed: it is compared, and never changes. */
        if (space->is_borrowed &&
            atomic_load_explicit(&space->pool, memory_order_relaxed) == pool)
            found = native_space_keep(space);
    }
    native_mutex_unlock(&state->lists);
    return found;
}

/* Of two threads that borrow a pool at a time each may make an object. */
static PyObject *py_pool_new_borrowed(struct native_state *state,
                                      moiety_pool *pool)
{
    allocfunc make = (allocfunc)PyType_GetSlot(state->pool_type, Py_tp_alloc);
    PyObject *made = make(state->pool_type, 0);
    if (!made)
        return NULL;
    struct native_space *space = (struct native_space *)made;
    space->is_borrowed = true;
    /* relaxed: nobody else has it yet. */
    atomic_store_explicit(&space->is_made, true, memory_order_relaxed);
    /* PO.release: as __init__() does. */
    atomic_store_explicit(&space->pool, pool, memory_order_release);
    if (native_space_list(space))
        Py_CLEAR(made);
    return Py_XNewRef(made); /* it never ends */
}

/* Of device memory that the driver gives: a host arena's pool is none. */
static PyObject *py_pool_borrow(struct native_state *state, moiety_pool *pool)
{
    moiety_pool_options options = {.struct_size = sizeof options};
    bool is_mapped = false;
    moiety_status status = moiety_pool_options_get(pool, &options);
    if (status == MOIETY_OK && options.source)
        Py_RETURN_NONE;
    if (status == MOIETY_OK) {
        Py_BEGIN_ALLOW_THREADS;
        status = py_pool_ask_memory(pool, &is_mapped);
        Py_END_ALLOW_THREADS;
    }
    if (status != MOIETY_OK)
        return native_refuse(state, NULL, status);
    PyObject *found = py_pool_find_borrowed(state, pool);
    if (!found)
        found = py_pool_new_borrowed(state, pool);
    if (!found)
        return NULL;
    /* Another pool may have come to be where one was that has ended. */
    native_space_set_device((struct native_space *)found, options.device);
    py_pool_set_mapped((struct native_space *)found, is_mapped);
    return found;
}

PyObject *native_pool_of(PyObject *module, PyObject *address)
{
    struct native_state *state = PyModule_GetState(module);
    PyObject *own = NULL;
    moiety_pool *pool = NULL;
    uint64_t number = 0;
    if (!native_address_from(address, &number))
        return NULL;
    moiety_status status = py_pool_find_own(state, number, &own);
    if (status == MOIETY_OK)
        return own ? own : Py_NewRef(Py_None);
    if (status != MOIETY_E_FOREIGN)
        return native_refuse(state, NULL, status);
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_pool_of(number, &pool);
    Py_END_ALLOW_THREADS;
    if (status == MOIETY_OK)
        return py_pool_borrow(state, pool);
    if (status != MOIETY_E_FOREIGN)
        return native_refuse(state, NULL, status);
    Py_RETURN_NONE;
}

PyObject *native_default_pool(PyObject *module, PyObject *device)
{
    moiety_pool *pool = NULL;
    uint32_t ordinal = 0;
    moiety_status status;
    if (!native_u32_from(device, &ordinal))
        return NULL;
    int32_t number = ordinal > INT32_MAX ? INT32_MAX : (int32_t)ordinal;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_default_pool(number, &pool);
    Py_END_ALLOW_THREADS;
    struct native_state *state = PyModule_GetState(module);
    return status == MOIETY_OK ? py_pool_borrow(state, pool)
                               : native_refuse(state, NULL, status);
}

static PyObject *stats_of(const moiety_stats *stats)
{
    PyObject *made = PyDict_New();
    uint64_t value = 0;
    const char *key;
    for (uint32_t i = 0;
         made && (key = moiety_stats_entry(stats, i, &value)) != NULL; i++)
        if (native_put_u64(made, key, value))
            Py_CLEAR(made);
    return made;
}

PyObject *native_stats_of(PyObject *self, moiety_pool *pool)
{
    moiety_stats stats = {.struct_size = sizeof stats};
    moiety_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_pool_stats(pool, &stats);
    Py_END_ALLOW_THREADS;
    return status == MOIETY_OK
               ? stats_of(&stats)
               : native_refuse(native_state_of(self), NULL, status);
}

static PyObject *pool_stats(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_space *space = (struct native_space *)self;
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    PyObject *stats = native_stats_of(self, pool);
    native_leave(space);
    return stats;
}

typedef moiety_status handle_fn(moiety_pool *pool, moiety_devptr address,
                                moiety_ipc_handle *out);

static PyObject *py_pool_make_handle(PyObject *self, PyObject *argument,
                                     handle_fn *make)
{
    struct native_space *space = (struct native_space *)self;
    moiety_ipc_handle handle;
    uint64_t address = 0;
    moiety_status status;
    if (!native_address_from(argument, &address))
        return NULL;
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = make(pool, address, &handle);
    Py_END_ALLOW_THREADS;
    PyObject *result =
        status == MOIETY_OK
            ? PyBytes_FromStringAndSize((const char *)&handle, sizeof handle)
            : native_refuse(native_state_of(self), NULL, status);
    native_leave(space);
    return result;
}

static PyObject *pool_export(PyObject *self, PyObject *argument)
{
    return py_pool_make_handle(self, argument, moiety_ipc_export);
}

static PyObject *pool_ticket(PyObject *self, PyObject *argument)
{
    return py_pool_make_handle(self, argument, moiety_ipc_ticket);
}

static PyObject *pool_send(PyObject *self, PyObject *arguments)
{
    struct native_space *space = (struct native_space *)self;
    uint64_t address = 0;
    int socket = -1;
    moiety_status status;
    if (!PyArg_ParseTuple(arguments, "O&i:send", native_address_from, &address,
                          &socket))
        return NULL;
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_ipc_send(pool, address, socket);
    Py_END_ALLOW_THREADS;
    return native_leave_with(self, status);
}

static PyObject *pool_release_exports(PyObject *self, PyObject *argument)
{
    struct native_space *space = (struct native_space *)self;
    uint64_t address = 0;
    moiety_status status;
    if (!native_address_from(argument, &address))
        return NULL;
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_ipc_release_exports(pool, address);
    Py_END_ALLOW_THREADS;
    return native_leave_with(self, status);
}

static PyObject *pool_release_scopes(PyObject *self, PyObject *none)
{
    (void)none;
    return native_call(self, native_enter((struct native_space *)self),
                       moiety_scope_release_all);
}

static PyObject *pool_add_peer(PyObject *self, PyObject *argument)
{
    struct native_space *space = (struct native_space *)self;
    uint32_t device = 0;
    moiety_status status;
    if (!native_u32_from(argument, &device))
        return NULL;
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_pool_add_peer(pool, device > INT32_MAX ? INT32_MAX
                                                           : (int32_t)device);
    Py_END_ALLOW_THREADS;
    return native_leave_with(self, status);
}

static int py_pool_append(PyObject *list, const moiety_segment_info *info)
{
    PyObject *made = native_segment_of(info);
    int failed = made ? PyList_Append(list, made) : -1;
    Py_XDECREF(made);
    return failed;
}

/* The one behind `info`. It waits for a thread that grows the pool, and is in the
 * driver, or in a function that is told of segments and wants the GIL. */
static moiety_status py_pool_next_segment(moiety_pool *pool,
                                          moiety_segment_info *info)
{
    moiety_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_segment_find(pool, info->address + info->size_bytes, info);
    Py_END_ALLOW_THREADS;
    return status;
}

static PyObject *py_pool_segments_of(PyObject *self, moiety_pool *pool)
{
    PyObject *list = PyList_New(0);
    moiety_segment_info info = {.struct_size = sizeof info};
    moiety_status status = MOIETY_OK;
    while (list && (status = py_pool_next_segment(pool, &info)) == MOIETY_OK)
        if (py_pool_append(list, &info))
            Py_CLEAR(list);
    if (!list || status == MOIETY_E_FOREIGN)
        return list;
    Py_DECREF(list);
    return native_refuse(native_state_of(self), NULL, status);
}

static PyObject *pool_segments(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_space *space = (struct native_space *)self;
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    PyObject *list = py_pool_segments_of(self, pool);
    native_leave(space);
    return list;
}

typedef moiety_status hold_fn(moiety_pool *pool, moiety_devptr address,
                              size_t size_bytes);

static PyObject *py_pool_change_hold(PyObject *self, PyObject *arguments,
                                     const char *format, hold_fn *change)
{
    struct native_space *space = (struct native_space *)self;
    uint64_t address = 0;
    uint64_t nbytes = 1;
    if (!PyArg_ParseTuple(arguments, format, native_address_from, &address,
                          native_u64_from, &nbytes))
        return NULL;
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    moiety_status status = change(pool, address, nbytes);
    return native_leave_with(self, status);
}

static PyObject *pool_hold(PyObject *self, PyObject *arguments)
{
    return py_pool_change_hold(self, arguments, "O&|O&:hold",
                               moiety_segment_hold);
}

static PyObject *pool_release_hold(PyObject *self, PyObject *arguments)
{
    return py_pool_change_hold(self, arguments, "O&|O&:release_hold",
                               moiety_segment_release);
}

static PyObject *pool_capsule(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_space *space = (struct native_space *)self;
    moiety_pool *pool = native_enter(space);
    return pool ? native_space_capsule(space, pool, "moiety_pool") : NULL;
}

/* A pool whose memory is auto may have fallen back meanwhile. */
static void py_pool_look_again(struct native_space *space)
{
    moiety_pool_options options = {.struct_size = sizeof options};
    moiety_pool *pool = native_enter_open(space);
    if (!pool)
        return;
    if (moiety_pool_options_get(pool, &options) == MOIETY_OK)
        py_pool_set_mapped(space, options.memory == MOIETY_MEMORY_MAPPED);
    native_leave(space);
}

static const char *py_pool_memory_name(PyObject *self)
{
    py_pool_look_again((struct native_space *)self);
    /* relaxed: see the field. */
    return atomic_load_explicit(&((struct native_space *)self)->is_mapped,
                                memory_order_relaxed)
               ? "mapped"
               : "driver";
}

static PyObject *pool_memory(PyObject *self, void *none)
{
    (void)none;
    return PyUnicode_FromString(py_pool_memory_name(self));
}

static PyObject *pool_repr(PyObject *self)
{
    struct native_space *space = (struct native_space *)self;
    return PyUnicode_FromFormat("<moiety.Pool at %p: device %d, %s memory%s>",
                                (void *)self, native_space_device(space),
                                py_pool_memory_name(self),
                                space->is_borrowed            ? ", borrowed"
                                : native_space_is_open(space) ? ""
                                                              : ", closed");
}

static PyGetSetDef properties[] = {
    {"memory", pool_memory, NULL,
     "\"driver\" for cuMemAlloc(), or \"mapped\"; whatever was asked for.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"stats", pool_stats, METH_NOARGS,
     "stats($self)\n"
     "--\n\n"
     "The pool's numbers, by the keys of moiety_stats_entry()."},
    {"snapshot", native_snapshot, METH_NOARGS,
     "snapshot($self)\n"
     "--\n\n"
     "Segments and their intervals, of one moment."},
    {"history", native_history, METH_NOARGS,
     "history($self)\n"
     "--\n\n"
     "The newest operations, oldest first."},
    {"export", pool_export, METH_O,
     "export($self, address, /)\n"
     "--\n\n"
     "A moiety_ipc_handle of any address in a live block, as bytes; "
     "moiety.ipc.export() makes one of an array. The pool must be exportable."},
    {"ticket", pool_ticket, METH_O,
     "ticket($self, address, /)\n"
     "--\n\n"
     "The same; of mapped memory, for a process that has received it."},
    {"send", pool_send, METH_VARARGS,
     "send($self, address, socket, /)\n"
     "--\n\n"
     "Sends a live block through a socket, given by its descriptor: "
     "moiety_ipc_send(); moiety.ipc.send() sends an array."},
    {"release_exports", pool_release_exports, METH_O,
     "release_exports($self, address, /)\n"
     "--\n\n"
     "No process has what was exported open any more; 0: of all blocks."},
    {"release_scopes", pool_release_scopes, METH_NOARGS,
     "release_scopes($self)\n"
     "--\n\n"
     "The graphs that were captured are gone: what auto_scope=True kept for "
     "them serves others."},
    {"reserve", NATIVE_METHOD(native_reserve), METH_VARARGS | METH_KEYWORDS,
     "reserve($self, nbytes)\n"
     "--\n\n"
     "Grows until this much is reserved, used or not."},
    {"segments", pool_segments, METH_NOARGS,
     "segments($self)\n"
     "--\n\n"
     "The pieces of memory that can be registered, by address."},
    {"hold", pool_hold, METH_VARARGS,
     "hold($self, address, nbytes=1, /)\n"
     "--\n\n"
     "Keeps the segments of a range where they are."},
    {"release_hold", pool_release_hold, METH_VARARGS,
     "release_hold($self, address, nbytes=1, /)\n"
     "--\n\n"
     "Ends one hold of each."},
    {"watch_segments", NATIVE_METHOD(native_watch_segments),
     METH_VARARGS | METH_KEYWORDS,
     "watch_segments($self, added=None, releasing=None)\n"
     "--\n\n"
     "Tells of each segment that is there and that comes, and of each before "
     "it "
     "goes. Until close() of the SegmentWatch that it gives."},
    {"add_peer", pool_add_peer, METH_O,
     "add_peer($self, device, /)\n"
     "--\n\n"
     "Lets one more device access all memory of the pool, which is mapped."},
    {"_capsule", pool_capsule, METH_NOARGS,
     "_capsule($self)\n"
     "--\n\n"
     "Its moiety_pool, as 'moiety_pool'; keeps it open."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_init, pool_init},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_repr, pool_repr},
    {Py_tp_doc, "Pool(device=0, *, context=0, limit_bytes=..., "
                "first_segment_bytes=..., largest_segment_bytes=..., "
                "thread_cache_bytes=..., cache_bytes=..., "
                "history_entries=..., watermark_bytes=..., "
                "quarantine_bytes=..., wait_ms=..., exportable=False, "
                "checked=False, pass_through=False, auto_scope=False, "
                "memory='driver', peers=())\n--\n\nA pool of device "
                "memory. Options are those of moiety_pool_options, and memory: "
                "'driver' (default), 'mapped' or 'auto'; MOIETY_CONF goes over "
                "them."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "moiety.Pool",
    .basicsize = sizeof(struct native_space),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int native_pool_type_add(PyObject *module, struct native_state *state,
                         PyTypeObject *base)
{
    state->pool_type = (PyTypeObject *)PyType_FromModuleAndSpec(
        module, &spec, (PyObject *)base);
    return state->pool_type ? PyModule_AddType(module, state->pool_type) : -1;
}
