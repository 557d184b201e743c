/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The history of moiety/history.h as dictionaries.
 */
#include <stdlib.h>

#include "emm/native/native.h"

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
