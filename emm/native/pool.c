/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emm/native/native.h"
#include "moiety/heap.h"
#include "moiety/ipc.h"
#include "moiety/scope.h"
#include "moiety/segment.h"

#include <string.h>

struct wishes {
    moiety_pool_options options;
    int is_exportable;
    int is_checked;
    int is_passed_through;
    int has_auto_scopes;
};

static int py_pool_memory_from(PyObject *object, void *out)
{
    static const char *const names[] = {"driver", "mapped", "auto"};
    static const moiety_memory memories[] = {
        MOIETY_MEMORY_DRIVER, MOIETY_MEMORY_MAPPED, MOIETY_MEMORY_AUTO};
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError,
                     "memory is %R; accepted are 'driver', 'mapped' and 'auto'",
                     object);
        return 0;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (PyUnicode_CompareWithASCIIString(object, names[i]) == 0) {
            *(moiety_memory *)out = memories[i];
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

static void py_pool_set_kind(struct wishes *wishes)
{
    static const moiety_mode modes[2][2] = {
        {MOIETY_MODE_PLAIN, MOIETY_MODE_PASS_THROUGH},
        {MOIETY_MODE_CHECKED, MOIETY_MODE_CHECKED_PASS_THROUGH}};
    moiety_pool_options *options = &wishes->options;
    options->mode =
        modes[wishes->is_checked != 0][wishes->is_passed_through != 0];
    options->flags |= wishes->is_exportable ? MOIETY_POOL_EXPORTABLE : 0;
    options->flags |= wishes->has_auto_scopes ? MOIETY_POOL_AUTO_SCOPE : 0;
}

static int py_pool_parse(PyObject *arguments, PyObject *names,
                         struct wishes *wishes)
{
    static char *keys[] = {"device",
                           "context",
                           "limit",
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
    moiety_pool_options *options = &wishes->options;
    struct native_setting limit = {"limit", &options->limit_bytes, 0};
    struct native_setting first = {"first_segment_bytes",
                                   &options->first_segment_bytes, 0};
    struct native_setting largest = {"largest_segment_bytes",
                                     &options->largest_segment_bytes, 0};
    struct native_setting thread_cache = {
        "thread_cache_bytes", &options->thread_cache_bytes, MOIETY_BYTES_NONE};
    struct native_setting cache = {"cache_bytes", &options->cache_bytes, 0};
    struct native_setting watermark = {"watermark_bytes",
                                       &options->watermark_bytes, 0};
    struct native_setting quarantine = {
        "quarantine_bytes", &options->quarantine_bytes, MOIETY_BYTES_NONE};
    uint64_t context = 0;
    if (!native_parse(
            arguments, names, "|O&$O&O&O&O&O&O&O&O&O&O&ppppO&O&:Pool", keys,
            native_device_from, &options->device, native_context_from, &context,
            native_setting_from, &limit, native_setting_from, &first,
            native_setting_from, &largest, native_setting_from, &thread_cache,
            native_setting_from, &cache, native_u64_from,
            &options->history_entries, native_setting_from, &watermark,
            native_setting_from, &quarantine, native_wait_from,
            &options->wait_ms, &wishes->is_exportable, &wishes->is_checked,
            &wishes->is_passed_through, &wishes->has_auto_scopes,
            py_pool_memory_from, &options->memory, py_pool_peers_from,
            &options->peer_devices))
        return -1;
    options->context = (moiety_context)(uintptr_t)context;
    py_pool_set_kind(wishes);
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
    PyObject *made = native_object_new(state->pool_type);
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
    moiety_status status = moiety_pool_get_options(pool, &options);
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

static PyObject *stats_of(const moiety_pool_stats *stats)
{
    PyObject *made = PyDict_New();
    uint64_t value = 0;
    const char *key;
    for (uint32_t i = 0;
         made && (key = moiety_pool_stats_entry(stats, i, &value)) != NULL; i++)
        if (native_put_u64(made, key, value))
            Py_CLEAR(made);
    return made;
}

PyObject *native_stats_of(PyObject *self, moiety_pool *pool)
{
    moiety_pool_stats stats = {.struct_size = sizeof stats};
    moiety_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_pool_get_stats(pool, &stats);
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
    PyObject *numbers = native_stats_of(self, pool);
    native_leave(space);
    return numbers ? native_call_python("moiety._support.stats", "PoolStats",
                                        numbers)
                   : NULL;
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

static PyObject *pool_release_exports(PyObject *self, PyObject *arguments,
                                      PyObject *names)
{
    static char *keys[] = {"address", NULL};
    struct native_space *space = (struct native_space *)self;
    PyObject *argument = Py_None;
    uint64_t address = 0;
    moiety_status status;
    if (!native_parse(arguments, names, "|O:release_exports", keys,
                      &argument) ||
        (argument != Py_None && !native_address_from(argument, &address)))
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

static PyObject *pool_tenant(PyObject *self, PyObject *arguments,
                             PyObject *names)
{
    return native_tenant_new(self, arguments, names, true);
}

/* A pool whose memory is auto may have fallen back meanwhile. */
static void py_pool_look_again(struct native_space *space)
{
    moiety_pool_options options = {.struct_size = sizeof options};
    moiety_pool *pool = native_enter_open(space);
    if (!pool)
        return;
    if (moiety_pool_get_options(pool, &options) == MOIETY_OK)
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
     "The kind of memory that the pool has: \"driver\" or \"mapped\".", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"stats", pool_stats, METH_NOARGS,
     "stats($self)\n"
     "--\n"
     "\n"
     "Returns the pool's numbers as a PoolStats."},
    {"snapshot", native_snapshot, METH_NOARGS,
     "snapshot($self)\n"
     "--\n"
     "\n"
     "Returns all segments and their intervals at one moment, as a "
     "dictionary."},
    {"history", native_history, METH_NOARGS,
     "history($self)\n"
     "--\n"
     "\n"
     "Returns the newest operations of all threads as a dictionary, at most "
     "65536, oldest first: \"entries\", and the counts \"noted\" and "
     "\"lost\".\n"
     "\n"
     "Raises UnsupportedError for a pool without `history_entries`."},
    {"tenant", NATIVE_METHOD(pool_tenant), METH_VARARGS | METH_KEYWORDS,
     "tenant($self, name='', budget=None, *, pausable=False)\n"
     "--\n"
     "\n"
     "Returns a new Tenant: a part of the program with a budget of its own.\n"
     "\n"
     "`name` is for people, up to 31 bytes. `budget` is the most bytes that "
     "its blocks hold: a number, text such as \"8GiB\", or None for no budget. "
     "With `pausable` the tenant has memory for itself, and pause() and "
     "resume().\n"
     "\n"
     "Raises UnsupportedError for `pausable` in a pool that is not mapped, is "
     "checked, or is a pass-through pool."},
    {"export", pool_export, METH_O,
     "export($self, address, /)\n"
     "--\n"
     "\n"
     "Returns a C handle, as bytes, of any address in a block in use, for "
     "moiety_ipc_import(). For an array, use moiety.ipc.export().\n"
     "\n"
     "Raises UnsupportedError if the memory is mapped or the pool is not "
     "exportable."},
    {"ticket", pool_ticket, METH_O,
     "ticket($self, address, /)\n"
     "--\n"
     "\n"
     "Returns the same handle as export(). For mapped memory, the handle is "
     "for a process that has received the memory."},
    {"send", pool_send, METH_VARARGS,
     "send($self, address, socket, /)\n"
     "--\n"
     "\n"
     "Sends a block in use through a socket, given by its descriptor, for "
     "moiety_ipc_receive(). For an array, use moiety.ipc.send()."},
    {"release_exports", NATIVE_METHOD(pool_release_exports),
     METH_VARARGS | METH_KEYWORDS,
     "release_exports($self, address=None)\n"
     "--\n"
     "\n"
     "Declares that no other process has exported memory open any more. The "
     "handles become stale, and freed memory is reused.\n"
     "\n"
     "`address` limits the call to the segment that it is in. Raises "
     "InUseError "
     "while this process itself has an import of the memory."},
    {"release_scopes", pool_release_scopes, METH_NOARGS,
     "release_scopes($self)\n"
     "--\n"
     "\n"
     "Releases the memory of all ended capture scopes, and of those that "
     "`auto_scope` opened. No graph that uses it may be launched any more.\n"
     "\n"
     "Raises InUseError while another thread does the same."},
    {"reserve", NATIVE_METHOD(native_reserve), METH_VARARGS | METH_KEYWORDS,
     "reserve($self, nbytes)\n"
     "--\n"
     "\n"
     "Reserves memory until `nbytes` are reserved, in use or not."},
    {"capture_scope", native_capture_scope, METH_O,
     "capture_scope($self, stream, /)\n"
     "--\n"
     "\n"
     "Opens a scope for one graph that is about to be captured on `stream`, "
     "and returns a CaptureScope.\n"
     "\n"
     "Memory that the capture allocates stays reserved until release() of the "
     "scope, so that the graph can be launched again. Use it as a with-block "
     "around the capture."},
    {"add_peer", pool_add_peer, METH_O,
     "add_peer($self, device, /)\n"
     "--\n"
     "\n"
     "Lets one more device access all memory of the pool. The pool must be "
     "mapped."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_init, pool_init},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_repr, pool_repr},
    {Py_tp_doc,
     "Pool(device=0, *, context=None, limit=None, first_segment_bytes=..., "
     "largest_segment_bytes=..., thread_cache_bytes=..., cache_bytes=..., "
     "history_entries=..., watermark_bytes=..., quarantine_bytes=..., "
     "wait_ms=..., exportable=False, checked=False, pass_through=False, "
     "auto_scope=False, memory='auto', peers=())\n"
     "--\n"
     "\n"
     "A pool of device memory.\n"
     "\n"
     "`device` is the ordinal of the device. `context` is the address of a "
     "CUcontext of that device; None is the primary context.\n"
     "\n"
     "`limit` is the most bytes that the pool reserves: a number, text such as "
     "\"8GiB\", or None for all that the device has. Options that end in "
     "`_bytes` take the same forms.\n"
     "\n"
     "`memory` is \"auto\", \"driver\" or \"mapped\". The first is mapped "
     "memory if the "
     "device supports it and the pool is not exportable. Memory of the driver "
     "comes from "
     "cuMemAlloc(). The pool maps mapped memory piece by piece, which wastes "
     "less.\n"
     "\n"
     "`exportable` lets other processes open the memory. `checked` finds wrong "
     "frees and writes after a free. `pass_through` calls the driver for each "
     "block. `auto_scope` lets graphs allocate while they are captured. "
     "`peers` are devices that may also access mapped memory.\n"
     "\n"
     "docs/configuration.md describes the other options. MOIETY_CONF overrides "
     "all options. Threads: any.\n"
     "\n"
     "Raises Error for an option that is not accepted, and UnsupportedError "
     "for mapped memory without support."},
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
