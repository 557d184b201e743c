/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the library returned, as exceptions.
 */
#include "emm/native/native.h"

#include <string.h>

static const char *const step_names[MOIETY_OOM_STEPS] = {
    [MOIETY_OOM_FINISHED_BATCHES] = "finished_batches",
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

static PyObject *new_exception(PyObject *module, const char *name,
                               const char *text, PyObject *bases)
{
    PyObject *members =
        Py_BuildValue("{sOsO}", "status", Py_None, "report", Py_None);
    PyObject *made =
        members ? PyErr_NewExceptionWithDoc(name, text, bases, members) : NULL;
    Py_XDECREF(members);
    if (made && PyModule_AddObjectRef(module, strrchr(name, '.') + 1, made)) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}

int native_errors_add(PyObject *module, struct native_state *state)
{
    state->error = new_exception(
        module, "moiety.Error",
        "A call that failed: .status is the name of its moiety_status.",
        PyExc_RuntimeError);
    PyObject *bases =
        state->error ? PyTuple_Pack(2, state->error, PyExc_MemoryError) : NULL;
    if (!bases)
        return -1;
    state->out_of_memory = new_exception(
        module, "moiety.OutOfMemoryError",
        "No memory: .status says of which kind, .report why, or is None.",
        bases);
    Py_DECREF(bases);
    return state->out_of_memory ? 0 : -1;
}

static bool is_out_of_memory(moiety_status status)
{
    return status == MOIETY_E_NO_DEVICE_MEMORY ||
           status == MOIETY_E_NO_PINNED_MEMORY ||
           status == MOIETY_E_NO_HOST_MEMORY || status == MOIETY_E_TOO_LARGE ||
           status == MOIETY_E_BUDGET;
}

/* "E_BUSY": without the prefix that C needs. */
static PyObject *py_errors_name_of(moiety_status status)
{
    return PyUnicode_FromString(moiety_status_name(status) + sizeof "MOIETY_" -
                                1);
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
            "{sKsKsssKsKsK}", "stream",
            (unsigned long long)(uintptr_t)from->stream, "context",
            (unsigned long long)(uintptr_t)from->context, "kind",
            kinds[from->kind], "retiring_bytes",
            (unsigned long long)from->retiring_bytes, "batch_count",
            (unsigned long long)from->batch_count, "oldest_ns",
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
    if (!pool || moiety_last_oom(pool, &report) != MOIETY_OK ||
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
    {"than limit,", "than limit_bytes,"},
    {"host option flags: ", ""},
    {"host option ", "option "},
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
    {"HUGE_2MIB", "huge='2M'"},
    {"HUGE_1GIB", "huge='1G'"},
    {"thread_count is", "threads is"},
    {"moiety_last_oom() has", ".report has"},
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
static PyObject *new_error(PyObject *type, moiety_status status,
                           PyObject *words)
{
    PyObject *error =
        words ? PyObject_CallFunctionObjArgs(type, words, NULL) : NULL;
    Py_XDECREF(words);
    if (error && set_attribute(error, "status", py_errors_name_of(status)))
        Py_CLEAR(error);
    return error;
}

void native_raise(const struct native_state *state, moiety_pool *pool,
                  moiety_status status)
{
    if (PyErr_Occurred())
        return;
    bool is_memory = is_out_of_memory(status);
    PyObject *type = is_memory ? state->out_of_memory : state->error;
    /* Of this thread, and read before anything else calls the library. */
    const char *said = moiety_last_error_message();
    PyObject *error = new_error(
        type, status,
        py_errors_words_of(*said ? said : moiety_status_text(status)));
    if (error && (!is_memory ||
                  !set_attribute(error, "report", report_of(pool, status))))
        PyErr_SetObject(type, error);
    Py_XDECREF(error);
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
        !PyErr_ExceptionMatches(native_state_of(self)->error))
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
    PyObject *error =
        new_error(state->error, status, PyUnicode_FromString(text));
    if (error)
        PyErr_SetObject(state->error, error);
    Py_XDECREF(error);
    return NULL;
}
