/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Between Python's values and C's: numbers and streams from arguments, and
 * entries of dictionaries. A stream is a number, or the object of a framework.
 */
#include "emm/native/native.h"
#include "moiety/segment.h"

#include <stdarg.h>
#include <string.h>

/* A new list of the names that are accepted; one that is "" has a position alone. */
static PyObject *py_values_names(char **keys)
{
    PyObject *list = PyList_New(0);
    while (*keys && !**keys)
        keys++;
    for (size_t i = 0; list && keys[i]; i++) {
        PyObject *name = PyUnicode_FromString(keys[i]);
        if (!name || PyList_Append(list, name))
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* Replaces the error for a name that is not accepted. */
static void py_values_refuse_name(PyObject *name, PyObject *accepted,
                                  const char *format)
{
    const char *function = strchr(format, ':');
    PyObject *named =
        Py_BuildValue("sOO", function ? function + 1 : "it", name, accepted);
    PyObject *words = named ? native_call_python("moiety._support.arguments",
                                                 "refusal", named)
                            : NULL;
    if (words)
        PyErr_SetObject(PyExc_TypeError, words);
    Py_XDECREF(words);
}

/* After a TypeError. */
static void py_values_look_at_names(PyObject *names, char **keys,
                                    const char *format)
{
    PyObject *kind;
    PyObject *error;
    PyObject *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyObject *accepted = py_values_names(keys);
    PyObject *name;
    PyObject *value;
    Py_ssize_t at = 0;
    while (accepted && !PyErr_Occurred() &&
           PyDict_Next(names, &at, &name, &value)) {
        if (PySequence_Contains(accepted, name) == 0)
            py_values_refuse_name(name, accepted, format);
    }
    Py_XDECREF(accepted);
    if (!PyErr_Occurred()) {
        PyErr_Restore(kind, error, trace);
        return;
    }
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(trace);
}

int native_parse(PyObject *arguments, PyObject *names, const char *format,
                 char **keys, ...)
{
    va_list values;
    va_start(values, keys);
    int is_fine =
        PyArg_VaParseTupleAndKeywords(arguments, names, format, keys, values);
    va_end(values);
    if (!is_fine && names && PyErr_ExceptionMatches(PyExc_TypeError))
        py_values_look_at_names(names, keys, format);
    return is_fine;
}

int native_device_from(PyObject *object, void *out)
{
    if (PyIndex_Check(object))
        return PyArg_Parse(object, "i", out);
    PyErr_Format(PyExc_TypeError,
                 "device is %R; accepted are numbers of devices, as 0", object);
    return 0;
}

int native_u64_from(PyObject *object, void *out)
{
    PyObject *number =
        PyLong_CheckExact(object) ? Py_NewRef(object) : PyNumber_Index(object);
    if (!number && PyUnicode_Check(object))
        PyErr_Format(PyExc_TypeError,
                     "%R: accepted are whole numbers from 0 to 2**64 - 1",
                     object);
    if (!number)
        return 0;
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    bool is_fine = value != (unsigned long long)-1 || !PyErr_Occurred();
    if (!is_fine && PyErr_ExceptionMatches(PyExc_OverflowError))
        PyErr_Format(PyExc_OverflowError,
                     "%R: accepted are whole numbers from 0 to 2**64 - 1",
                     number);
    Py_DECREF(number);
    if (is_fine)
        *(uint64_t *)out = value;
    return is_fine;
}

/* Text as in MOIETY_CONF: digits, then nothing, K, M, G, KiB, MiB or GiB. */
static bool py_values_parse(const char *text, uint64_t *out)
{
    static const char *const ends[] = {"", "K", "M", "G", "KiB", "MiB", "GiB"};
    static const unsigned orders[] = {0, 10, 20, 30, 10, 20, 30};
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    for (size_t i = 0; at != text && i < sizeof ends / sizeof *ends; i++) {
        if (strcmp(at, ends[i]) == 0) {
            *out = value << orders[i];
            return value <= UINT64_MAX >> orders[i];
        }
    }
    return false;
}

/* In a field of options 0 is the default, so that a program's 0 is `none` there. */
static void py_values_keep_none(struct native_setting *setting)
{
    if (!setting->none)
        return;
    if (!*setting->into)
        *setting->into = setting->none;
    else if (*setting->into == setting->none)
        *setting->into = setting->none - 1;
}

static bool py_values_parse_text(PyObject *object,
                                 struct native_setting *setting)
{
    bool is_fine = false;
    PyObject *text = PyUnicode_AsUTF8String(object);
    if (text)
        is_fine = py_values_parse(PyBytes_AsString(text), setting->into);
    else
        PyErr_Clear(); /* surrogates are no digits */
    Py_XDECREF(text);
    if (!is_fine) {
        PyErr_Format(PyExc_ValueError,
                     "%s is %R; accepted are digits, with K, M, G, KiB, MiB or "
                     "GiB behind them, as in '8GiB'",
                     setting->name, object);
    }
    return is_fine;
}

int native_setting_from(PyObject *object, void *out)
{
    struct native_setting *setting = out;
    if (object == Py_None) {
        *setting->into = 0;
        return 1;
    }
    if (PyBool_Check(object) ||
        (!PyUnicode_Check(object) && !PyIndex_Check(object))) {
        PyErr_Format(PyExc_TypeError,
                     "%s is %R; accepted are bytes, text such as '8GiB', and "
                     "None",
                     setting->name, object);
        return 0;
    }
    bool is_fine = PyUnicode_Check(object)
                       ? py_values_parse_text(object, setting)
                       : native_u64_from(object, setting->into);
    if (is_fine)
        py_values_keep_none(setting);
    return is_fine;
}

PyObject *native_bytes_of(PyObject *module, PyObject *arguments)
{
    uint64_t bytes = 0;
    struct native_setting setting = {NULL, &bytes, 0};
    PyObject *value;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "sO:_bytes_of", &setting.name, &value) ||
        !native_setting_from(value, &setting))
        return NULL;
    return PyLong_FromUnsignedLongLong(bytes);
}

int native_timeout_from(PyObject *object, void *out)
{
    uint32_t *timeout_ms = out;
    *timeout_ms = UINT32_MAX;
    if (object == Py_None)
        return 1;
    double ms = 1000 * PyFloat_AsDouble(object);
    if (PyErr_Occurred())
        return 0;
    if (!(ms >= 0)) {
        PyErr_Format(PyExc_ValueError,
                     "timeout is %R; accepted are seconds from 0 on, and None",
                     object);
        return 0;
    }
    if (ms < UINT32_MAX) {
        *timeout_ms = (uint32_t)ms;
        *timeout_ms += ms > *timeout_ms;
    }
    return 1;
}

PyObject *native_call_python(const char *module, const char *name,
                             PyObject *argument)
{
    PyObject *holder = PyImport_ImportModule(module);
    PyObject *function = holder ? PyObject_GetAttrString(holder, name) : NULL;
    PyObject *result =
        function ? PyObject_CallFunctionObjArgs(function, argument, NULL)
                 : NULL;
    Py_XDECREF(function);
    Py_XDECREF(holder);
    Py_XDECREF(argument);
    return result;
}

int native_pair_from(PyObject *object, const char *name, int *first,
                     int *second)
{
    if (PyTuple_Check(object) && PyTuple_Size(object) == 2)
        return PyArg_ParseTuple(object, "ii", first, second) ? 0 : -1;
    PyErr_Format(PyExc_TypeError, "%s is %R; accepted are two whole numbers",
                 name, object);
    return -1;
}

int native_context_from(PyObject *object, void *out)
{
    if (object != Py_None)
        return native_u64_from(object, out);
    *(uint64_t *)out = 0;
    return 1;
}

int native_u32_from(PyObject *object, void *out)
{
    uint64_t value = 0;
    if (!native_u64_from(object, &value))
        return 0;
    if (value > UINT32_MAX) {
        PyErr_Format(PyExc_OverflowError,
                     "%R: accepted are whole numbers from 0 to 2**32 - 1",
                     object);
        return 0;
    }
    *(uint32_t *)out = (uint32_t)value;
    return 1;
}

int native_wait_from(PyObject *object, void *out)
{
    uint32_t *wait_ms = out;
    if (!native_u32_from(object, out))
        return 0;
    if (!*wait_ms)
        *wait_ms = MOIETY_WAIT_NONE;
    else if (*wait_ms == MOIETY_WAIT_NONE)
        *wait_ms = MOIETY_WAIT_NONE - 1;
    return 1;
}

/* A new reference, NULL without an error where there is no such attribute. */
static PyObject *py_values_attribute_of(PyObject *object, const char *name)
{
    PyObject *found = PyObject_GetAttrString(object, name);
    if (!found && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return found;
}

/* cuda.core's protocol: (version, handle). */
static PyObject *handle_of_protocol(PyObject *object)
{
    PyObject *method = py_values_attribute_of(object, "__cuda_stream__");
    PyObject *pair = method ? PyObject_CallObject(method, NULL) : NULL;
    PyObject *handle = pair ? PySequence_GetItem(pair, 1) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(pair);
    return handle;
}

/* What a framework's stream has its handle in: a new reference. */
static PyObject *handle_of(PyObject *object)
{
    static const char *const names[] = {
        "ptr",         /* CuPy */
        "cuda_stream", /* torch */
        "handle",      /* numba, cuda.core */
    };
    PyObject *handle = handle_of_protocol(object);
    for (size_t i = 0;
         !handle && !PyErr_Occurred() && i < sizeof names / sizeof *names; i++)
        handle = py_values_attribute_of(object, names[i]);
    if (!handle && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%R is no stream", object);
    return handle;
}

/* Handles are integers, objects that convert to one, or ctypes pointers, which
 * have a .value that is None for 0. */
static int number_of(PyObject *handle, uint64_t *out)
{
    /* To look for an attribute that is not there costs as much as the call. */
    if (PyLong_Check(handle))
        return native_u64_from(handle, out);
    PyObject *value = py_values_attribute_of(handle, "value");
    PyObject *number = NULL;
    if (value == Py_None)
        number = PyLong_FromLong(0);
    else if (!PyErr_Occurred())
        number = PyNumber_Long(value ? value : handle);
    int is_number = number && native_u64_from(number, out);
    Py_XDECREF(value);
    Py_XDECREF(number);
    return is_number;
}

/* Of a stream whose handle is 0. To CuPy, torch and numba that is the legacy
 * stream; cuda.core has 1 for it, and 0 is a stream that was closed. */
static int py_values_check_open(PyObject *object)
{
    PyObject *module =
        PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__module__");
    PyObject *name = module ? PyUnicode_AsUTF8String(module) : NULL;
    const char *text = name ? PyBytes_AsString(name) : NULL;
    bool is_closed = text && strncmp(text, "cuda.core", 9) == 0;
    Py_XDECREF(module);
    Py_XDECREF(name);
    if (is_closed) {
        PyErr_Format(PyExc_ValueError,
                     "%R has no handle: it is closed, or names the legacy "
                     "stream, which is moiety.LEGACY",
                     object);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* All but text. */
static int py_values_stream_of(PyObject *object, void *out)
{
    uint64_t number = (uintptr_t)MOIETY_STREAM_ANY;
    /* True would be the legacy stream. */
    if (PyBool_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%R is no stream", object);
        return 0;
    }
    if (PyLong_CheckExact(object) ||
        (object != Py_None && PyIndex_Check(object))) {
        if (!native_u64_from(object, &number))
            return 0;
    } else if (object != Py_None) {
        PyObject *handle = handle_of(object);
        int is_number = handle && number_of(handle, &number);
        Py_XDECREF(handle);
        if (!is_number || (!number && py_values_check_open(object)))
            return 0;
    }
    *(moiety_stream *)out = (moiety_stream)(uintptr_t)number;
    return 1;
}

/* "current": what the frameworks that are loaded work on now. */
static int py_values_stream_named(PyObject *object, void *out)
{
    if (PyUnicode_CompareWithASCIIString(object, "current") != 0) {
        PyErr_Format(PyExc_ValueError,
                     "stream is %R; accepted are 'current', numbers and "
                     "objects with a stream",
                     object);
        return 0;
    }
    PyObject *stream =
        native_call_python("moiety._support.streams", "stream", NULL);
    int is_fine = stream && py_values_stream_of(stream, out);
    Py_XDECREF(stream);
    return is_fine;
}

int native_stream_from(PyObject *object, void *out)
{
    return PyUnicode_Check(object) ? py_values_stream_named(object, out)
                                   : py_values_stream_of(object, out);
}

/* The arguments of one fast call, the number first. */
struct pair {
    PyObject *number;
    PyObject *stream;
};

static int set_once(PyObject **slot, PyObject *value, const char *name)
{
    if (*slot)
        PyErr_Format(PyExc_TypeError, "%s is given twice", name);
    else
        *slot = value;
    return PyErr_Occurred() ? -1 : 0;
}

static int set_named(struct pair *pair, PyObject *name, PyObject *value,
                     const char *number_name)
{
    if (PyUnicode_CompareWithASCIIString(name, "stream") == 0)
        return set_once(&pair->stream, value, "stream");
    if (PyUnicode_CompareWithASCIIString(name, number_name) == 0)
        return set_once(&pair->number, value, number_name);
    PyErr_Format(PyExc_TypeError,
                 "there is no argument %R; accepted are %s and stream", name,
                 number_name);
    return -1;
}

static int py_values_set_all(struct pair *pair, PyObject *const *arguments,
                             Py_ssize_t count, PyObject *names,
                             const char *number_name)
{
    Py_ssize_t name_count = names ? PyTuple_Size(names) : 0;
    if (count > 2) {
        PyErr_Format(PyExc_TypeError, "takes %s and stream, not %zd arguments",
                     number_name, count);
        return -1;
    }
    pair->number = count > 0 ? arguments[0] : NULL;
    pair->stream = count > 1 ? arguments[1] : NULL;
    for (Py_ssize_t i = 0; i < name_count; i++)
        if (set_named(pair, PyTuple_GetItem(names, i), arguments[count + i],
                      number_name))
            return -1;
    return 0;
}

int native_number_and_stream(PyObject *const *arguments, Py_ssize_t count,
                             PyObject *names, struct native_first first,
                             uint64_t *out_number, moiety_stream *stream)
{
    struct pair pair = {NULL, NULL};
    if (py_values_set_all(&pair, arguments, count, names, first.name))
        return -1;
    if (!pair.number) {
        PyErr_Format(PyExc_TypeError, "%s is missing", first.name);
        return -1;
    }
    if (!first.from(pair.number, out_number))
        return -1;
    return pair.stream && !native_stream_from(pair.stream, stream) ? -1 : 0;
}

int native_put(PyObject *dictionary, const char *key, PyObject *value)
{
    int error = value ? PyDict_SetItemString(dictionary, key, value) : -1;
    Py_XDECREF(value);
    return error;
}

int native_put_u64(PyObject *dictionary, const char *key, uint64_t value)
{
    return native_put(dictionary, key, PyLong_FromUnsignedLongLong(value));
}

PyObject *native_repr_html(PyObject *self, PyObject *none)
{
    (void)none;
    return native_call_python("moiety._observe.notebook", "html_of",
                              Py_NewRef(self));
}

PyObject *native_segment_of(const moiety_segment_info *info)
{
    return Py_BuildValue(
        "{sKsKsKsKsisO}", "id", (unsigned long long)info->id, "address",
        (unsigned long long)info->address, "nbytes",
        (unsigned long long)info->size_bytes, "hold_count",
        (unsigned long long)info->hold_count, "device", (int)info->device,
        "is_mapped", info->flags & MOIETY_SEGMENT_MAPPED ? Py_True : Py_False);
}
