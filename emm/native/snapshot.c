/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The heap walk of moiety/heap.h, and the history of moiety/history.h, as
 * dictionaries.
 */
#include "emm/native/native.h"
#include "moiety/heap.h"
#include "moiety/history.h"

#include <stdlib.h>

/* --- the heap --- */

static PyObject *segment_of(const moiety_heap_segment *segment)
{
    return Py_BuildValue(
        "{sKsKsKsKsK}", "id", (unsigned long long)segment->id, "address",
        segment->address, "size_bytes", (unsigned long long)segment->size_bytes,
        "first_interval", (unsigned long long)segment->first_interval,
        "interval_count", (unsigned long long)segment->interval_count);
}

static PyObject *interval_of(const moiety_heap_interval *interval)
{
    return Py_BuildValue("{sKsKsssKsKsksk}", "address", interval->address,
                         "size_bytes", (unsigned long long)interval->size_bytes,
                         "kind", moiety_heap_kind_name(interval->kind),
                         "stream",
                         (unsigned long long)(uintptr_t)interval->stream,
                         "age_ns", (unsigned long long)interval->age_ns,
                         "thread_id", (unsigned long)interval->thread_id,
                         "segment", (unsigned long)interval->segment);
}

static int py_snapshot_append(PyObject *list, PyObject *item)
{
    int error = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return error;
}

static PyObject *segments_of(const moiety_heap_snapshot *snapshot)
{
    size_t count = 0;
    const moiety_heap_segment *segments =
        moiety_heap_snapshot_segments(snapshot, &count);
    PyObject *made = PyList_New(0);
    for (size_t i = 0; made && i < count; i++)
        if (py_snapshot_append(made, segment_of(&segments[i])))
            Py_CLEAR(made);
    return made;
}

static PyObject *intervals_of(const moiety_heap_snapshot *snapshot)
{
    size_t count = 0;
    const moiety_heap_interval *intervals =
        moiety_heap_snapshot_intervals(snapshot, &count);
    PyObject *made = PyList_New(0);
    for (size_t i = 0; made && i < count; i++)
        if (py_snapshot_append(made, interval_of(&intervals[i])))
            Py_CLEAR(made);
    return made;
}

static PyObject *py_snapshot_dictionary_of(const moiety_heap_snapshot *snapshot)
{
    moiety_heap_summary summary = {.struct_size = sizeof summary};
    PyObject *made = PyDict_New();
    if (moiety_heap_snapshot_summary(snapshot, &summary) != MOIETY_OK)
        Py_CLEAR(made);
    if (made && (native_put_u64(made, "time_ns", summary.time_ns) ||
                 native_put_u64(made, "stopped_ns", summary.stopped_ns) ||
                 native_put(made, "source",
                            PyUnicode_FromString(summary.source_name)) ||
                 native_put(made, "segments", segments_of(snapshot)) ||
                 native_put(made, "intervals", intervals_of(snapshot))))
        Py_CLEAR(made);
    return made;
}

PyObject *native_snapshot(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_space *space = (struct native_space *)self;
    moiety_heap_snapshot *snapshot = NULL;
    moiety_status status;
    moiety_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_heap_snapshot_create(pool, &snapshot);
    Py_END_ALLOW_THREADS;
    PyObject *made = status == MOIETY_OK
                         ? py_snapshot_dictionary_of(snapshot)
                         : native_refuse(native_state_of(self), NULL, status);
    if (snapshot)
        moiety_heap_snapshot_destroy(snapshot);
    native_leave(space);
    return made;
}

/* --- the history --- */

/* Newest entries that are read: what a picture can show. */
#define ENTRIES_MAX ((size_t)1 << 16)

static PyObject *py_history_entry_of(const moiety_history_entry *entry)
{
    return Py_BuildValue(
        "{sKsssssKsKsKsk}", "time_ns", (unsigned long long)entry->time_ns,
        "kind", moiety_history_kind_name(entry->kind), "status",
        moiety_status_name((moiety_status)entry->status), "address",
        entry->address, "size_bytes", (unsigned long long)entry->size_bytes,
        "stream", (unsigned long long)(uintptr_t)entry->stream, "thread_id",
        (unsigned long)entry->thread_id);
}

static PyObject *py_history_list_of(const moiety_history_entry *entries,
                                    uint64_t count)
{
    PyObject *made = PyList_New((Py_ssize_t)count);
    for (uint64_t i = 0; made && i < count; i++) {
        PyObject *entry = py_history_entry_of(&entries[i]);
        if (!entry || PyList_SetItem(made, (Py_ssize_t)i, entry))
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *py_history_dictionary_of(const moiety_history_entry *entries,
                                          const moiety_history_summary *summary)
{
    PyObject *made = PyDict_New();
    if (made && (native_put_u64(made, "noted", summary->noted_count) ||
                 native_put_u64(made, "lost", summary->lost_count) ||
                 native_put(made, "entries",
                            py_history_list_of(entries, summary->count))))
        Py_CLEAR(made);
    return made;
}

PyObject *native_history(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_space *space = (struct native_space *)self;
    moiety_history_summary summary = {.struct_size = sizeof summary};
    moiety_status status;
    moiety_history_entry *entries = malloc(ENTRIES_MAX * sizeof *entries);
    if (!entries)
        return PyErr_NoMemory();
    moiety_pool *pool = native_enter(space);
    if (!pool) {
        free(entries);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_history_read(pool, entries, ENTRIES_MAX, &summary);
    Py_END_ALLOW_THREADS;
    PyObject *made = status == MOIETY_OK
                         ? py_history_dictionary_of(entries, &summary)
                         : native_refuse(native_state_of(self), NULL, status);
    native_leave(space);
    free(entries);
    return made;
}
