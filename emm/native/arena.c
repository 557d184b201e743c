/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * HostArena, and Growth: its memory that is being pinned.
 */
#include "emm/native/native.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct wishes {
    moiety_host_options options;
    PyObject *place;
    int is_strict;
    int is_write_combined;
    int is_by_driver;
    int is_read_only;
    const char *huge;
};

/* `accepted`: the words, for people. */
static int py_arena_index_of(const char *word, const char *const *words,
                             size_t count, const char *accepted)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return (int)i;
    PyErr_Format(PyExc_ValueError, accepted, word);
    return -1;
}

static int py_arena_set_huge(struct wishes *wishes)
{
    static const char *const kinds[] = {"", "2M", "1G"};
    static const uint32_t flags[] = {0, MOIETY_HOST_HUGE_2MIB,
                                     MOIETY_HOST_HUGE_1GIB};
    int found = py_arena_index_of(
        wishes->huge, kinds, 3, "huge is '%s'; accepted are '', '2M' and '1G'");
    wishes->options.flags |= found < 0 ? 0 : flags[found];
    return found < 0 ? -1 : 0;
}

static int set_node(moiety_host_options *options, PyObject *item)
{
    uint32_t node = 0;
    if (!native_u32_from(item, &node))
        return -1;
    if (node >= 64 * sizeof options->nodes / sizeof *options->nodes) {
        PyErr_Format(PyExc_ValueError,
                     "place has %lu; accepted are numbers from 0 to 255",
                     (unsigned long)node);
        return -1;
    }
    options->nodes[node / 64] |= UINT64_C(1) << node % 64;
    return 0;
}

/* Of any iterable of numbers; at least one. */
static int set_nodes(moiety_host_options *options, PyObject *nodes)
{
    PyObject *items = PyObject_GetIter(nodes);
    PyObject *item;
    int count = 0;
    int error = items ? 0 : -1;
    while (!error && (item = PyIter_Next(items)) != NULL) {
        error = set_node(options, item);
        Py_DECREF(item);
        count++;
    }
    Py_XDECREF(items);
    if (error || PyErr_Occurred())
        return -1;
    if (count)
        return 0;
    PyErr_SetString(PyExc_ValueError, "place names no NUMA node");
    return -1;
}

/* "0+2": digits with + between them. */
static bool py_arena_read_nodes(moiety_host_options *options, const char *text)
{
    enum { NODES = 64 * sizeof options->nodes / sizeof *options->nodes };
    for (;;) {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        unsigned long node = strtoul(text, &end, 10);
        if (node >= NODES || (*end && *end != '+'))
            return false;
        options->nodes[node / 64] |= UINT64_C(1) << node % 64;
        if (!*end)
            return true;
        text = end + 1;
    }
}

static bool py_arena_read_place(moiety_host_options *options, const char *text)
{
    static const char interleave[] = "interleave:";
    static const struct {
        const char *name;
        uint32_t policy;
    } policies[] = {
        {"nearest", MOIETY_HOST_NEAREST},
        {"caller", MOIETY_HOST_CALLER},
    };
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        options->policy = policies[i].policy;
        if (strcmp(text, policies[i].name) == 0)
            return true;
    }
    options->policy = MOIETY_HOST_INTERLEAVE;
    return strncmp(text, interleave, sizeof interleave - 1) == 0 &&
           py_arena_read_nodes(options, text + sizeof interleave - 1);
}

static int py_arena_set_place(struct wishes *wishes)
{
    moiety_host_options *options = &wishes->options;
    PyObject *place = wishes->place;
    if (!place)
        return 0;
    options->policy = MOIETY_HOST_EXPLICIT;
    if (PyIndex_Check(place) && !PyBool_Check(place))
        return set_node(options, place);
    if (!PyUnicode_Check(place))
        return set_nodes(options, place);
    PyObject *text = PyUnicode_AsUTF8String(place);
    bool is_fine = text && py_arena_read_place(options, PyBytes_AsString(text));
    PyErr_Clear(); /* surrogates are no place */
    Py_XDECREF(text);
    if (!is_fine) {
        PyErr_Format(PyExc_ValueError,
                     "place is %R; accepted are 'nearest', 'caller', "
                     "'interleave:0+2', and numbers of NUMA "
                     "nodes from 0 to 255",
                     place);
    }
    return is_fine ? 0 : -1;
}

static void py_arena_set_flags(struct wishes *wishes)
{
    uint32_t *flags = &wishes->options.flags;
    *flags |= wishes->is_strict ? MOIETY_HOST_STRICT : 0;
    *flags |= wishes->is_write_combined ? MOIETY_HOST_WRITE_COMBINED : 0;
    *flags |= wishes->is_by_driver ? MOIETY_HOST_BY_DRIVER : 0;
    *flags |= wishes->is_read_only ? MOIETY_HOST_READ_ONLY : 0;
}

static int py_arena_parse(PyObject *arguments, PyObject *names,
                          struct wishes *wishes)
{
    static char *keys[] = {"device",
                           "context",
                           "place",
                           "limit",
                           "first_segment_bytes",
                           "largest_segment_bytes",
                           "thread_cache_bytes",
                           "touch_threads",
                           "wait_ms",
                           "max_block_bytes",
                           "stall_ms",
                           "strict",
                           "write_combined",
                           "read_only",
                           "huge",
                           "by_driver",
                           NULL};
    moiety_host_options *options = &wishes->options;
    struct native_setting limit = {"limit", &options->limit_bytes, 0};
    struct native_setting first = {"first_segment_bytes",
                                   &options->first_segment_bytes, 0};
    struct native_setting largest = {"largest_segment_bytes",
                                     &options->largest_segment_bytes, 0};
    struct native_setting thread_cache = {
        "thread_cache_bytes", &options->thread_cache_bytes, MOIETY_BYTES_NONE};
    struct native_setting max_block = {"max_block_bytes",
                                       &options->max_block_bytes, 0};
    uint64_t context = 0;
    if (!native_parse(
            arguments, names, "|O&$O&OO&O&O&O&O&O&O&O&pppsp:HostArena", keys,
            native_device_from, &options->device, native_context_from, &context,
            &wishes->place, native_setting_from, &limit, native_setting_from,
            &first, native_setting_from, &largest, native_setting_from,
            &thread_cache, native_u32_from, &options->touch_threads,
            native_wait_from, &options->wait_ms, native_setting_from,
            &max_block, native_u32_from, &options->stall_ms, &wishes->is_strict,
            &wishes->is_write_combined, &wishes->is_read_only, &wishes->huge,
            &wishes->is_by_driver))
        return -1;
    options->context = (moiety_context)(uintptr_t)context;
    py_arena_set_flags(wishes);
    return py_arena_set_place(wishes) || py_arena_set_huge(wishes) ? -1 : 0;
}

static int py_arena_make(PyObject *self, PyObject *arguments, PyObject *names)
{
    struct native_space *space = (struct native_space *)self;
    struct wishes wishes = {.options = MOIETY_HOST_OPTIONS_INIT, .huge = ""};
    moiety_host *host = NULL;
    moiety_status status;
    if (py_arena_parse(arguments, names, &wishes))
        return -1;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_host_create(&wishes.options, &host);
    Py_END_ALLOW_THREADS;
    if (status != MOIETY_OK) {
        native_raise(native_state_of(self), NULL, status);
        return -1;
    }
    native_space_set_device(space, wishes.options.device);
    space->host = host;
    space->is_host = true;
    /* PO.release: the arena is whole before others find it. */
    atomic_store_explicit(&space->pool, moiety_host_pool(host),
                          memory_order_release);
    return 0;
}

static int arena_init(PyObject *self, PyObject *arguments, PyObject *names)
{
    return native_space_init(self, arguments, names, py_arena_make);
}

/* Calls of a progress function that Python made. The library is in the middle of a
 * call: frees wait, as in a watcher. */
struct progress {
    PyObject *function;
    struct native_wait wait;
};

static void report_progress(void *user_data, uint64_t done_bytes,
                            uint64_t total_bytes)
{
    struct progress *progress = user_data;
    /* An interpreter that ends lets no thread have the GIL any more. */
    if (native_is_over())
        return;
    struct native_told told;
    native_told_begin(&told);
    if (!progress->wait.has_failed) {
        PyObject *result = PyObject_CallFunction(
            progress->function, "KK", (unsigned long long)done_bytes,
            (unsigned long long)total_bytes);
        if (!result)
            native_wait_fail(&progress->wait);
        Py_XDECREF(result);
    }
    native_told_end(&told);
}

static PyObject *arena_reserve(PyObject *self, PyObject *arguments,
                               PyObject *names)
{
    static char *keys[] = {"nbytes", "threads", "progress", NULL};
    struct native_space *space = (struct native_space *)self;
    struct progress progress = {.function = Py_None};
    uint64_t total_bytes = 0;
    struct native_setting total = {"nbytes", &total_bytes, 0};
    uint32_t thread_count = 0;
    moiety_status status;
    if (!native_parse(arguments, names, "O&|O&O:reserve", keys,
                      native_setting_from, &total, native_u32_from,
                      &thread_count, &progress.function) ||
        !native_enter(space))
        return NULL;
    moiety_host_progress_fn *call =
        progress.function == Py_None ? NULL : report_progress;
    native_wait_begin(&progress.wait);
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_host_reserve(space->host, total_bytes, thread_count, call,
                                 &progress);
    Py_END_ALLOW_THREADS;
    status = native_wait_end(&progress.wait, status);
    if (status != MOIETY_OK)
        native_raise(native_state_of(self), moiety_host_pool(space->host),
                     status);
    native_leave(space);
    return status == MOIETY_OK ? Py_NewRef(Py_None) : NULL;
}

/* --- Growth --- */

/* Memory that is being pinned in a thread of the library, which knows nothing of
 * Python. */
struct native_growth {
    PyObject_HEAD struct native_space *space;
    moiety_growth *growth;
};

static struct native_growth *growth_of(PyObject *self)
{
    return (struct native_growth *)self;
}

static PyObject *arena_reserve_async(PyObject *self, PyObject *arguments,
                                     PyObject *names)
{
    static char *keys[] = {"nbytes", "threads", NULL};
    struct native_space *space = (struct native_space *)self;
    struct native_state *state = native_state_of(self);
    uint64_t total_bytes = 0;
    struct native_setting total = {"nbytes", &total_bytes, 0};
    uint32_t thread_count = 0;
    if (!native_parse(arguments, names, "O&|O&:reserve_async", keys,
                      native_setting_from, &total, native_u32_from,
                      &thread_count))
        return NULL;
    PyObject *made = native_object_new(state->growth_type);
    if (!made || !native_enter(space)) {
        Py_XDECREF(made);
        return NULL;
    }
    moiety_status status = moiety_host_reserve_async(
        space->host, total_bytes, thread_count, &growth_of(made)->growth);
    if (status == MOIETY_OK) {
        growth_of(made)->space = (struct native_space *)Py_NewRef(self);
    } else {
        native_raise(state, moiety_host_pool(space->host), status);
        Py_CLEAR(made);
    }
    native_leave(space);
    return made;
}

static PyObject *growth_wait(PyObject *self, PyObject *arguments,
                             PyObject *names)
{
    static char *keys[] = {"timeout", NULL};
    uint32_t timeout_ms = UINT32_MAX;
    struct native_wait wait;
    moiety_status status;
    if (!native_parse(arguments, names, "|O&:wait", keys, native_timeout_from,
                      &timeout_ms))
        return NULL;
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_growth_wait(growth_of(self)->growth, timeout_ms);
    Py_END_ALLOW_THREADS;
    status = native_wait_end(&wait, status);
    return status == MOIETY_OK
               ? Py_NewRef(Py_None)
               : native_refuse(native_state_of(self), NULL, status);
}

static PyObject *growth_cancel(PyObject *self, PyObject *none)
{
    (void)none;
    moiety_growth_cancel(growth_of(self)->growth);
    Py_RETURN_NONE;
}

/* Its end says why: wait() does, for those that ask. */
static PyObject *growth_exit(PyObject *self, PyObject *arguments)
{
    (void)arguments;
    struct native_wait wait;
    moiety_growth *growth = growth_of(self)->growth;
    moiety_status status;
    moiety_growth_cancel(growth);
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_growth_wait(growth, UINT32_MAX);
    Py_END_ALLOW_THREADS;
    if (!wait.has_failed && status != MOIETY_E_FORKED)
        status = MOIETY_OK;
    status = native_wait_end(&wait, status);
    return status == MOIETY_OK
               ? Py_NewRef(Py_False)
               : native_refuse(native_state_of(self), NULL, status);
}

static PyObject *growth_fileno(PyObject *self, PyObject *none)
{
    (void)none;
    return PyLong_FromLong(moiety_growth_descriptor(growth_of(self)->growth));
}

static PyObject *arena_growth_await(PyObject *self)
{
    return native_call_python("moiety._support.growth", "await_growth",
                              Py_NewRef(self));
}

static PyObject *growth_ready_bytes(PyObject *self, void *none)
{
    (void)none;
    return PyLong_FromUnsignedLongLong(
        moiety_growth_ready_bytes(growth_of(self)->growth));
}

static PyObject *growth_is_over(PyObject *self, void *none)
{
    struct pollfd one = {.fd =
                             moiety_growth_descriptor(growth_of(self)->growth),
                         .events = POLLIN};
    (void)none;
    return PyBool_FromLong(poll(&one, 1, 0) == 1);
}

static void growth_dealloc(PyObject *self)
{
    struct native_growth *own = growth_of(self);
    struct native_error error = native_error_keep();
    /* It joins the thread, which may tell watchers of its last work. */
    Py_BEGIN_ALLOW_THREADS;
    (void)moiety_growth_destroy(own->growth);
    Py_END_ALLOW_THREADS;
    native_error_restore(error);
    Py_XDECREF((PyObject *)own->space);
    native_object_free(self);
}

static PyMethodDef growth_methods[] = {
    {"wait", NATIVE_METHOD(growth_wait), METH_VARARGS | METH_KEYWORDS,
     "wait($self, timeout=None)\n"
     "--\n\n"
     "Returns when all is reserved.\n\n`timeout` is in seconds; None waits "
     "without a limit. Raises TimedOutError after the timeout, and the error "
     "of reserve() if the growth ended with one. A signal's handler that "
     "raises ends the wait, not the growth."},
    {"cancel", growth_cancel, METH_NOARGS,
     "cancel($self)\n"
     "--\n\n"
     "Ends the growth within one piece. Memory that is reserved stays."},
    {"fileno", growth_fileno, METH_NOARGS,
     "fileno($self)\n"
     "--\n\n"
     "Returns a descriptor that is readable once the growth is over, for "
     "select() and event loops. It belongs to the object."},
    {"__enter__", native_enter_self, METH_NOARGS,
     "__enter__($self)\n"
     "--\n\n"
     "Returns the object."},
    {"__exit__", growth_exit, METH_VARARGS,
     "__exit__($self, kind, error, trace, /)\n"
     "--\n\n"
     "Cancels the growth and waits for its end."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef growth_properties[] = {
    {"ready_bytes", growth_ready_bytes, NULL,
     "The bytes that it has reserved until now, which can be used.", NULL},
    {"is_over", growth_is_over, NULL, "Whether it has ended.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot growth_slots[] = {
    {Py_tp_dealloc, growth_dealloc},
    {Py_am_await, arena_growth_await},
    {Py_tp_methods, growth_methods},
    {Py_tp_getset, growth_properties},
    {Py_tp_doc,
     "Memory of a HostArena that is being reserved. HostArena.reserve_async() "
     "makes it.\n\nA coroutine can await it, which raises as wait() does. The "
     "growth is cancelled if the object is dropped, or at the end of its "
     "with-block. Threads: any."},
    {0, NULL},
};

static PyType_Spec growth_spec = {
    .name = "moiety.Growth",
    .basicsize = sizeof(struct native_growth),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = growth_slots,
};

/* --- HostArena --- */

static PyObject *arena_report(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_space *space = (struct native_space *)self;
    char text[1024];
    if (!native_enter(space))
        return NULL;
    moiety_status status = moiety_host_report(space->host, text, sizeof text);
    PyObject *result = status == MOIETY_OK
                           ? PyUnicode_FromString(text)
                           : native_refuse(native_state_of(self), NULL, status);
    native_leave(space);
    return result;
}

static PyObject *arena_device_address(PyObject *self, PyObject *argument)
{
    struct native_space *space = (struct native_space *)self;
    uint64_t address = 0;
    moiety_devptr found = 0;
    if (!native_address_from(argument, &address) || !native_enter(space))
        return NULL;
    moiety_status status = moiety_host_device_address(
        space->host, (const void *)(uintptr_t)address, &found);
    PyObject *result = status == MOIETY_OK
                           ? PyLong_FromUnsignedLongLong(found)
                           : native_refuse(native_state_of(self), NULL, status);
    native_leave(space);
    return result;
}

static PyObject *nodes_of(const uint64_t *words, size_t count)
{
    PyObject *nodes = PyList_New(0);
    for (size_t i = 0; nodes && i < 64 * count; i++) {
        if (!(words[i / 64] >> i % 64 & 1))
            continue;
        PyObject *node = PyLong_FromSize_t(i);
        int error = node ? PyList_Append(nodes, node) : -1;
        Py_XDECREF(node);
        if (error)
            Py_CLEAR(nodes);
    }
    return nodes;
}

static int put_each(PyObject *into, const char *key, const char *const *names,
                    const uint64_t *values, size_t count)
{
    PyObject *made = PyDict_New();
    for (size_t i = 0; made && i < count; i++)
        if (native_put_u64(made, names[i], values[i]))
            Py_CLEAR(made);
    return native_put(into, key, made);
}

static int put_placement(PyObject *into, const moiety_host_stats *stats)
{
    static const char *const kinds[MOIETY_HOST_PAGES_COUNT] = {
        "small", "transparent", "2M", "1G", "driver"};
    static const char *const stages[MOIETY_HOST_STAGE_COUNT] = {
        "map", "bind", "touch", "register", "read_back"};
    return native_put(into, "nodes",
                      nodes_of(stats->nodes,
                               sizeof stats->nodes / sizeof *stats->nodes)) ||
           put_each(into, "page_kind_bytes", kinds, stats->page_kind_bytes,
                    MOIETY_HOST_PAGES_COUNT) ||
           put_each(into, "stage_ns", stages, stats->stage_ns,
                    MOIETY_HOST_STAGE_COUNT);
}

static PyObject *host_stats_of(const moiety_host_stats *stats)
{
    PyObject *made = PyDict_New();
    if (made &&
        (native_put_u64(made, "fallbacks", stats->fallbacks) ||
         native_put_u64(made, "pinned_bytes", stats->pinned_bytes) ||
         native_put_u64(made, "region_count", stats->region_count) ||
         native_put_u64(made, "pages_asked", stats->pages_asked) ||
         native_put_u64(made, "pages_near", stats->pages_near) ||
         native_put_u64(made, "pages_elsewhere", stats->pages_elsewhere) ||
         native_put_u64(made, "touch_threads", stats->touch_threads) ||
         native_put_u64(made, "unreleased_count", stats->unreleased_count) ||
         put_placement(made, stats)))
        Py_CLEAR(made);
    return made;
}

static PyObject *arena_stats(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_space *space = (struct native_space *)self;
    moiety_host_stats stats = {.struct_size = sizeof stats};
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    moiety_status status = moiety_host_get_stats(space->host, &stats);
    PyObject *made = status == MOIETY_OK
                         ? native_stats_of(self, pool)
                         : native_refuse(native_state_of(self), NULL, status);
    if (made && native_put(made, "host", host_stats_of(&stats)))
        Py_CLEAR(made);
    native_leave(space);
    return made
               ? native_call_python("moiety._support.stats", "ArenaStats", made)
               : NULL;
}

static PyObject *arena_tenant(PyObject *self, PyObject *arguments,
                              PyObject *names)
{
    return native_tenant_new(self, arguments, names, false);
}

static PyMethodDef methods[] = {
    {"reserve", NATIVE_METHOD(arena_reserve), METH_VARARGS | METH_KEYWORDS,
     "reserve($self, nbytes, threads=0, progress=None)\n"
     "--\n"
     "\n"
     "Reserves memory until `nbytes` are reserved, in use or not. The call "
     "invokes progress(done_bytes, total_bytes) meanwhile. A signal's handler "
     "or `progress` that raises ends the call; memory that is reserved stays."},
    {"reserve_async", NATIVE_METHOD(arena_reserve_async),
     METH_VARARGS | METH_KEYWORDS,
     "reserve_async($self, nbytes, threads=0)\n"
     "--\n"
     "\n"
     "Begins the same in a thread of the library, and returns a Growth at "
     "once."},
    {"tenant", NATIVE_METHOD(arena_tenant), METH_VARARGS | METH_KEYWORDS,
     "tenant($self, name='', budget=None)\n"
     "--\n"
     "\n"
     "Returns a new Tenant: a part of the program with a budget of its own.\n"
     "\n"
     "`name` is for people, up to 31 bytes. `budget` is the most bytes that "
     "its blocks hold: a number, text such as \"8GiB\", or None for no "
     "budget."},
    {"stats", arena_stats, METH_NOARGS,
     "stats($self)\n"
     "--\n"
     "\n"
     "Returns the arena's numbers as an ArenaStats."},
    {"report", arena_report, METH_NOARGS,
     "report($self)\n"
     "--\n"
     "\n"
     "Returns a text that says where the memory is, why, and which requests "
     "were not met."},
    {"device_address", arena_device_address, METH_O,
     "device_address($self, address, /)\n"
     "--\n"
     "\n"
     "Returns the device's address of memory that the CPU has at `address`."},
    {NULL, NULL, 0, NULL},
};

static PyObject *arena_repr(PyObject *self)
{
    struct native_space *space = (struct native_space *)self;
    return PyUnicode_FromFormat("<moiety.HostArena at %p: near device %d%s>",
                                (void *)self, native_space_device(space),
                                native_space_is_open(space) ? "" : ", closed");
}

static PyType_Slot slots[] = {
    {Py_tp_init, arena_init},
    {Py_tp_repr, arena_repr},
    {Py_tp_methods, methods},
    {Py_tp_doc,
     "HostArena(device=0, *, context=None, place='nearest', limit=None, "
     "first_segment_bytes=..., largest_segment_bytes=..., "
     "thread_cache_bytes=..., touch_threads=..., wait_ms=..., "
     "max_block_bytes=..., stall_ms=..., strict=False, "
     "write_combined=False, read_only=False, huge='', by_driver=False)\n"
     "--\n"
     "\n"
     "Pinned host memory on chosen NUMA nodes.\n"
     "\n"
     "`device` is the ordinal of the device. `context` is the address of a "
     "CUcontext of that device; None is the primary context.\n"
     "\n"
     "`place` names the NUMA nodes. \"nearest\" is the nodes next to the "
     "device. \"caller\" is the node of the CPU that runs the constructor. A "
     "number, or several as in [0, 2], names nodes. \"interleave:0+2\" spreads "
     "the pages over nodes 0 and 2. "
     "`strict` makes the constructor fail instead of using other nodes.\n"
     "\n"
     "`limit` is the most bytes that are pinned: a number, text such as "
     "\"8GiB\", or None for no limit. `huge` is \"2M\" or \"1G\" for huge "
     "pages.\n"
     "\n"
     "`max_block_bytes` is the longest block that memory of reserve() is for. "
     "`stall_ms` is how long other calls of the driver wait for reserve() at a "
     "time.\n"
     "\n"
     "docs/numa.md describes the other options. MOIETY_CONF overrides all "
     "options. Threads: any."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "moiety.HostArena",
    .basicsize = sizeof(struct native_space),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int native_arena_type_add(PyObject *module, struct native_state *state,
                          PyTypeObject *base)
{
    state->growth_type =
        (PyTypeObject *)PyType_FromModuleAndSpec(module, &growth_spec, NULL);
    if (!state->growth_type || PyModule_AddType(module, state->growth_type))
        return -1;
    state->arena_type = (PyTypeObject *)PyType_FromModuleAndSpec(
        module, &spec, (PyObject *)base);
    return state->arena_type ? PyModule_AddType(module, state->arena_type) : -1;
}
