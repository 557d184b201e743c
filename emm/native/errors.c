/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the library returned, as exceptions.
 */
#include "emm/native/native.h"
#include "moiety/oom.h"

#include <string.h>

static const char *const step_names[MOIETY_OOM_STEPS] = {
    [MOIETY_OOM_DONE] = "done",
    [MOIETY_OOM_GROW] = "grow",
    [MOIETY_OOM_OWN_CACHE] = "own_cache",
    [MOIETY_OOM_ORPHANS] = "orphans",
    [MOIETY_OOM_IDLE_THREADS] = "idle_threads",
    [MOIETY_OOM_TRIM] = "trim",
    [MOIETY_OOM_HAND_OVER] = "hand_over",
    [MOIETY_OOM_CALLBACKS] = "callbacks",
    [MOIETY_OOM_WAIT] = "wait",
    [MOIETY_OOM_LAST_LOOK] = "last_look",
};

/* Bases are of this table too, before what is made of them, or Python's own. */
struct exception {
    const char *name;
    const char *text;
    int base;
    PyObject **also;
};

static const struct exception exceptions[NATIVE_ERROR_KINDS] = {
    [NATIVE_ERROR] = {"moiety.Error",
                      "A call failed. `status` is the name of the C status, "
                      "such as \"E_FOREIGN\".\n\nIts subclasses are the "
                      "failures that programs handle.",
                      -1, &PyExc_RuntimeError},
    [NATIVE_OUT_OF_MEMORY] = {"moiety.OutOfMemoryError",
                              "There is no memory. `status` names the kind of "
                              "memory.\n\n`report` is a dictionary that says "
                              "why, or None if the pool refused the request "
                              "before it looked for memory.",
                              NATIVE_ERROR, &PyExc_MemoryError},
    [NATIVE_BUDGET_EXCEEDED] = {"moiety.BudgetExceededError",
                                "The request exceeds the budget of a Tenant.",
                                NATIVE_OUT_OF_MEMORY, NULL},
    [NATIVE_CAPTURING] = {"moiety.CapturingError",
                          "The call is not allowed while a CUDA graph is "
                          "captured.",
                          NATIVE_ERROR, NULL},
    [NATIVE_CLOSED] = {"moiety.ClosedError",
                       "The object was closed or freed before the call.",
                       NATIVE_ERROR, &PyExc_ValueError},
    [NATIVE_CONTEXT_LOST] = {"moiety.ContextLostError",
                             "The CUDA context was destroyed, or the driver "
                             "shuts down.",
                             NATIVE_ERROR, NULL},
    [NATIVE_DOUBLE_FREE] = {"moiety.DoubleFreeError",
                            "The memory was freed before.", NATIVE_ERROR, NULL},
    [NATIVE_DRIVER] = {"moiety.DriverError",
                       "The CUDA driver failed, or no driver or device was "
                       "found.",
                       NATIVE_ERROR, NULL},
    [NATIVE_FORKED] = {"moiety.ForkedError",
                       "The process is the child of a fork, in which the "
                       "library is not usable.",
                       NATIVE_ERROR, NULL},
    [NATIVE_IN_USE] = {"moiety.InUseError",
                       "Something uses the object. The call changed nothing.",
                       NATIVE_ERROR, NULL},
    [NATIVE_PAUSED] = {"moiety.PausedError",
                       "The Tenant is paused: resume() it first.", NATIVE_ERROR,
                       NULL},
    [NATIVE_PEER_GONE] = {"moiety.PeerGoneError",
                          "The process that shared the memory has ended, or "
                          "released it.",
                          NATIVE_ERROR, NULL},
    [NATIVE_REENTRANT] = {"moiety.ReentrantError",
                          "The call was made in a function that the pool has "
                          "called.",
                          NATIVE_ERROR, NULL},
    [NATIVE_TIMED_OUT] = {"moiety.TimedOutError",
                          "The call waited as long as it was allowed.",
                          NATIVE_ERROR, &PyExc_TimeoutError},
    [NATIVE_UNSUPPORTED] = {"moiety.UnsupportedError",
                            "The device, the driver or the pool does not "
                            "support the call.",
                            NATIVE_ERROR, NULL},
    [NATIVE_WOULD_BLOCK] = {"moiety.WouldBlockError",
                            "The call would have to wait, and may not.",
                            NATIVE_ERROR, NULL},
};

/* By the name of the status, so that a status that the library does not have yet
 * is a line here. What is not here is an Error. */
static const struct {
    const char *status;
    enum native_error_kind kind;
} kind_of_status[] = {
    {"E_TOO_LARGE", NATIVE_OUT_OF_MEMORY},
    {"E_NO_DEVICE_MEMORY", NATIVE_OUT_OF_MEMORY},
    {"E_NO_PINNED_MEMORY", NATIVE_OUT_OF_MEMORY},
    {"E_NO_HOST_MEMORY", NATIVE_OUT_OF_MEMORY},
    {"E_BUDGET", NATIVE_BUDGET_EXCEEDED},
    {"E_CAPTURING", NATIVE_CAPTURING},
    {"E_CLOSED", NATIVE_CLOSED},
    {"E_CONTEXT_DESTROYED", NATIVE_CONTEXT_LOST},
    {"E_DEINITIALIZED", NATIVE_CONTEXT_LOST},
    {"E_DESTROYED", NATIVE_CLOSED},
    {"E_DOUBLE_FREE", NATIVE_DOUBLE_FREE},
    {"E_DRIVER", NATIVE_DRIVER},
    {"E_NO_DRIVER", NATIVE_DRIVER},
    {"E_NO_DEVICE", NATIVE_DRIVER},
    {"E_FORKED", NATIVE_FORKED},
    {"E_IN_USE", NATIVE_IN_USE},
    {"E_PAUSED", NATIVE_PAUSED},
    {"E_PEER_GONE", NATIVE_PEER_GONE},
    {"E_REENTRANT", NATIVE_REENTRANT},
    {"E_STALE", NATIVE_PEER_GONE},
    {"E_TIMEOUT", NATIVE_TIMED_OUT},
    {"E_UNSUPPORTED", NATIVE_UNSUPPORTED},
    {"E_WOULD_BLOCK", NATIVE_WOULD_BLOCK},
};

static enum native_error_kind py_errors_kind_of(const char *status)
{
    for (size_t i = 0; i < sizeof kind_of_status / sizeof *kind_of_status; i++)
        if (strcmp(kind_of_status[i].status, status) == 0)
            return kind_of_status[i].kind;
    return NATIVE_ERROR;
}

static PyObject *py_errors_bases_of(const struct native_state *state,
                                    const struct exception *from)
{
    if (from->base < 0)
        return PyTuple_Pack(1, *from->also);
    return from->also ? PyTuple_Pack(2, state->errors[from->base], *from->also)
                      : PyTuple_Pack(1, state->errors[from->base]);
}

static PyObject *py_errors_new(PyObject *module,
                               const struct native_state *state,
                               const struct exception *from)
{
    PyObject *bases = py_errors_bases_of(state, from);
    PyObject *members =
        Py_BuildValue("{sOsO}", "status", Py_None, "report", Py_None);
    PyObject *made =
        bases && members
            ? PyErr_NewExceptionWithDoc(from->name, from->text, bases, members)
            : NULL;
    Py_XDECREF(members);
    Py_XDECREF(bases);
    if (made &&
        PyModule_AddObjectRef(module, strrchr(from->name, '.') + 1, made))
        Py_CLEAR(made);
    return made;
}

int native_errors_add(PyObject *module, struct native_state *state)
{
    for (size_t i = 0; i < NATIVE_ERROR_KINDS; i++) {
        state->errors[i] = py_errors_new(module, state, &exceptions[i]);
        if (!state->errors[i])
            return -1;
    }
    return 0;
}

static const char *py_errors_text_of(moiety_status status)
{
    return moiety_status_name(status) + sizeof "MOIETY_" - 1;
}

/* "E_IN_USE": without the prefix that C needs. */
static PyObject *py_errors_name_of(moiety_status status)
{
    return PyUnicode_FromString(py_errors_text_of(status));
}

static int set_attribute(PyObject *object, const char *name, PyObject *value)
{
    int error = value ? PyObject_SetAttrString(object, name, value) : -1;
    Py_XDECREF(value);
    return error;
}

static PyObject *steps_of(const moiety_oom_report *report)
{
    PyObject *steps = PyDict_New();
    for (int i = 0; steps && i < MOIETY_OOM_STEPS; i++) {
        PyObject *step = Py_BuildValue(
            "{sKsK}", "tries", (unsigned long long)report->steps[i].tries,
            "gave_bytes", (unsigned long long)report->steps[i].gave_bytes);
        if (native_put(steps, step_names[i], step))
            Py_CLEAR(steps);
    }
    return steps;
}

static PyObject *streams_of(const moiety_oom_report *report)
{
    static const char *const kinds[] = {"stream", "per_thread", "context"};
    PyObject *streams = PyList_New(0);
    for (uint32_t i = 0; streams && i < report->stream_count; i++) {
        const moiety_oom_stream *from = &report->streams[i];
        PyObject *entry = Py_BuildValue(
            "{sKsKsssKsK}", "stream",
            (unsigned long long)(uintptr_t)from->stream, "context",
            (unsigned long long)(uintptr_t)from->context, "kind",
            kinds[from->kind], "retiring_bytes",
            (unsigned long long)from->retiring_bytes, "oldest_ns",
            (unsigned long long)from->oldest_ns);
        int error = entry ? PyList_Append(streams, entry) : -1;
        Py_XDECREF(entry);
        if (error)
            Py_CLEAR(streams);
    }
    return streams;
}

static PyObject *text_of(const moiety_oom_report *report)
{
    char text[4096];
    size_t length = moiety_oom_text(report, text, sizeof text);
    return PyUnicode_DecodeUTF8(
        text, (Py_ssize_t)(length < sizeof text ? length : sizeof text - 1),
        "replace");
}

static int put_numbers(PyObject *into, const moiety_oom_report *report)
{
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"stream", (uintptr_t)report->stream},
        {"requested_bytes", report->requested_bytes},
        {"needed_bytes", report->needed_bytes},
        {"alignment_bytes", report->alignment_bytes},
        {"limit_bytes", report->limit_bytes},
        {"reserved_bytes", report->reserved_bytes},
        {"unreleased_bytes", report->unreleased_bytes},
        {"segment_count", report->segment_count},
        {"live_bytes", report->live_bytes},
        {"live_count", report->live_count},
        {"retiring_bytes", report->retiring_bytes},
        {"cached_own_bytes", report->cached_own_bytes},
        {"cached_others_bytes", report->cached_others_bytes},
        {"cached_ended_bytes", report->cached_ended_bytes},
        {"free_bytes", report->free_bytes},
        {"largest_free_bytes", report->largest_free_bytes},
        {"device_free_bytes", report->device_free_bytes},
        {"device_total_bytes", report->device_total_bytes},
        {"callback_calls", report->callback_calls},
        {"callback_successes", report->callback_successes},
        {"duration_ns", report->duration_ns},
        {"waiting_stream_count", report->waiting_stream_count},
        {"unrecorded_bytes", report->unrecorded_bytes},
        {"held_up_bytes", report->held_up_bytes},
    };
    int error = 0;
    for (size_t i = 0; !error && i < sizeof numbers / sizeof *numbers; i++)
        error = native_put_u64(into, numbers[i].key, numbers[i].value);
    return error;
}

static PyObject *py_errors_dictionary_of(const moiety_oom_report *report)
{
    PyObject *made = PyDict_New();
    if (made &&
        (put_numbers(made, report) ||
         native_put(made, "status",
                    py_errors_name_of((moiety_status)report->status)) ||
         native_put(made, "grow_status",
                    py_errors_name_of((moiety_status)report->grow_status)) ||
         native_put(made, "grow_reason",
                    PyUnicode_DecodeUTF8(
                        report->grow_reason,
                        (Py_ssize_t)strlen(report->grow_reason), "replace")) ||
         native_put(made, "driver_code",
                    PyLong_FromLong(report->driver_code)) ||
         native_put(made, "source",
                    PyUnicode_DecodeUTF8(
                        report->source_name,
                        (Py_ssize_t)strlen(report->source_name), "replace")) ||
         native_put(made, "is_exact", PyBool_FromLong(report->is_exact != 0)) ||
         native_put(made, "steps", steps_of(report)) ||
         native_put(made, "streams", streams_of(report)) ||
         native_put(made, "text", text_of(report))))
        Py_CLEAR(made);
    return made;
}

PyObject *native_oom_report(moiety_pool *pool)
{
    moiety_oom_report report = {.struct_size = sizeof report};
    if (!pool || moiety_pool_last_oom(pool, &report) != MOIETY_OK ||
        report.status == MOIETY_OK)
        Py_RETURN_NONE;
    return py_errors_dictionary_of(&report);
}

/* The library makes a report of what its pool could not give, and of nothing
 * else: one that is there is of an earlier failure. */
static PyObject *report_of(moiety_pool *pool, moiety_status status)
{
    if (status == MOIETY_E_NO_DEVICE_MEMORY ||
        status == MOIETY_E_NO_PINNED_MEMORY)
        return native_oom_report(pool);
    Py_RETURN_NONE;
}

/* What the library calls by names that Python has others for; the longer of two
 * before what it contains. */
static const struct {
    const char *in_c;
    const char *here;
} renamed[] = {
    {"exportable is 1; accepted is 0 where checked or pass_through is 1",
     "exportable is True; accepted is False where checked or pass_through is "
     "True"},
    {"memory is mapped; accepted are auto and driver where pass_through is 1",
     "memory is 'mapped'; accepted are 'auto' and 'driver' where pass_through "
     "is True"},
    {"where memory is driver or pass_through is 1",
     "where memory is not 'mapped' or pass_through is True"},
    {"thread_cache is 0", "thread_cache_bytes is 0"},
    {"than thread_cache,", "than thread_cache_bytes,"},
    {"cache is ", "cache_bytes is "},
    {"first_segment is ", "first_segment_bytes is "},
    {"than largest_segment,", "than largest_segment_bytes,"},
    {"watermark is ", "watermark_bytes is "},
    {"host option flags: ", ""},
    {"host option ", "option "},
    {"limit_bytes is", "limit is"},
    {"address is NULL", "address is 0"},
    {"size_bytes is 0", "nbytes is 0"},
    {"private arena", "tenant"},
    {"MOIETY_POOL_EXPORTABLE", "exportable=True"},
    {"MOIETY_MEMORY_MAPPED", "memory='mapped'"},
    {"the pool's mode is not a checked one", "the pool is not checked=True"},
    {"call moiety_scope_begin() before the capture, or make the pool with "
     "MOIETY_POOL_AUTO_SCOPE",
     "make the pool with auto_scope=True"},
    {"WRITE_COMBINED", "write_combined"},
    {"READ_ONLY", "read_only"},
    {"BY_DRIVER", "by_driver"},
    {"HUGE_2MIB", "huge='2M'"},
    {"HUGE_1GIB", "huge='1G'"},
    {"thread_count is", "threads is"},
    {"moiety_pool_last_oom() has", ".report has"},
    {"moiety_ipc_send()", "moiety.ipc.send()"},
    {"moiety_ipc_ticket()", "Pool.ticket()"},
    {"moiety_segment_hold()", "Pool.hold()"},
};

/* "moiety_record_use: ..." without the function, which the traceback has. */
static const char *py_errors_skip_function(const char *said)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
    size_t length = strspn(said, letters);
    return strncmp(said, "moiety_", 7) == 0 &&
                   strncmp(said + length, ": ", 2) == 0
               ? said + length + 2
               : said;
}

static PyObject *py_errors_rename(PyObject *words, const char *in_c,
                                  const char *here)
{
    PyObject *old = PyUnicode_FromString(in_c);
    PyObject *new = PyUnicode_FromString(here);
    PyObject *made = old && new ? PyUnicode_Replace(words, old, new, -1) : NULL;
    Py_XDECREF(old);
    Py_XDECREF(new);
    Py_DECREF(words);
    return made;
}

/* What the library said, in Python's words. It may name a file as it is. */
static PyObject *py_errors_words_of(const char *said)
{
    said = py_errors_skip_function(said);
    PyObject *words =
        PyUnicode_DecodeUTF8(said, (Py_ssize_t)strlen(said), "replace");
    /* The variable's keys are those of C. */
    if (strncmp(said, "MOIETY_CONF:", 12) == 0)
        return words;
    for (size_t i = 0; words && i < sizeof renamed / sizeof *renamed; i++)
        if (strstr(said, renamed[i].in_c))
            words = py_errors_rename(words, renamed[i].in_c, renamed[i].here);
    return words;
}

/* Steals the words. NULL after another error. */
static PyObject *new_error(const struct native_state *state, const char *status,
                           PyObject *words)
{
    PyObject *type = state->errors[py_errors_kind_of(status)];
    PyObject *error =
        words ? PyObject_CallFunctionObjArgs(type, words, NULL) : NULL;
    Py_XDECREF(words);
    if (error && set_attribute(error, "status", PyUnicode_FromString(status)))
        Py_CLEAR(error);
    return error;
}

static void py_errors_set(PyObject *error)
{
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
}

void native_raise(const struct native_state *state, moiety_pool *pool,
                  moiety_status status)
{
    if (PyErr_Occurred())
        return;
    /* Of this thread, and read before anything else calls the library. */
    const char *said = moiety_last_error_message();
    PyObject *error = new_error(
        state, py_errors_text_of(status),
        py_errors_words_of(*said ? said : moiety_status_text(status)));
    if (error && set_attribute(error, "report", report_of(pool, status)))
        Py_CLEAR(error);
    py_errors_set(error);
}

void native_raise_closed(const struct native_state *state, const char *text)
{
    py_errors_set(new_error(state, "E_CLOSED", PyUnicode_FromString(text)));
}

PyObject *native_error_for(PyObject *module, PyObject *arguments)
{
    const char *status;
    PyObject *words;
    if (!PyArg_ParseTuple(arguments, "sU:_error_for", &status, &words))
        return NULL;
    return new_error(PyModule_GetState(module), status, Py_NewRef(words));
}

PyObject *native_refuse(const struct native_state *state, moiety_pool *pool,
                        moiety_status status)
{
    native_raise(state, pool, status);
    return NULL;
}

/* "<moiety.Tenant ...> was not closed: ..." 0, or -1 after an error. */
static int py_errors_add_note(PyObject *error, PyObject *object,
                              PyObject *refusal)
{
    PyObject *text =
        PyUnicode_FromFormat("%R was not closed: %S", object, refusal);
    PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
    PyObject *added = bytes && PyObject_HasAttrString(error, "add_note")
                          ? PyObject_CallMethod(error, "add_note", "O", text)
                          : NULL;
    /* CPython 3.10 has no notes. */
    int failed = !bytes || PyErr_Occurred() ? -1 : 0;
    if (!failed && !added)
        failed = PyErr_WarnEx(PyExc_RuntimeWarning, PyBytes_AsString(bytes), 1);
    Py_XDECREF(text);
    Py_XDECREF(bytes);
    Py_XDECREF(added);
    return failed;
}

PyObject *native_note_refusal(PyObject *module, PyObject *arguments)
{
    PyObject *error;
    PyObject *object;
    PyObject *refusal;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOO:_note_refusal", &error, &object,
                          &refusal))
        return NULL;
    if (py_errors_add_note(error, object, refusal))
        PyErr_WriteUnraisable(object);
    Py_RETURN_NONE;
}

PyObject *native_enter_self(PyObject *self, PyObject *none)
{
    (void)none;
    return Py_NewRef(self);
}

PyObject *native_exit_with(PyObject *self, PyObject *arguments,
                           PyObject *result)
{
    PyObject *error =
        PyTuple_Size(arguments) > 1 ? PyTuple_GetItem(arguments, 1) : Py_None;
    Py_XDECREF(result);
    if (result)
        Py_RETURN_NONE;
    /* Ctrl-C during the end is no refusal. */
    if (error == Py_None ||
        !PyErr_ExceptionMatches(native_state_of(self)->errors[NATIVE_ERROR]))
        return NULL;
    struct native_error refusal = native_error_keep();
    PyErr_NormalizeException(&refusal.kind, &refusal.value, &refusal.trace);
    if (py_errors_add_note(error, self, refusal.value))
        PyErr_WriteUnraisable(self);
    Py_XDECREF(refusal.kind);
    Py_XDECREF(refusal.value);
    Py_XDECREF(refusal.trace);
    Py_RETURN_NONE;
}

struct native_error native_error_keep(void)
{
    struct native_error error;
    PyErr_Fetch(&error.kind, &error.value, &error.trace);
    return error;
}

void native_error_restore(struct native_error error)
{
    PyErr_Restore(error.kind, error.value, error.trace);
}

PyObject *native_refuse_as(const struct native_state *state,
                           moiety_status status, const char *text)
{
    py_errors_set(new_error(state, py_errors_text_of(status),
                            PyUnicode_FromString(text)));
    return NULL;
}
