/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of a Pool or HostArena that lives, and changed in it. Names that
 * CuPy's pools have mean here what they mean there.
 */
#include "emm/native/native.h"

static struct native_space *settings_space_of(PyObject *self)
{
    return (struct native_space *)self;
}

PyObject *native_set_limit(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keys[] = {"limit_bytes", NULL};
    uint64_t limit_bytes = 0;
    moiety_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&:set_limit", keys,
                                     native_u64_from, &limit_bytes))
        return NULL;
    moiety_pool *pool = native_enter(settings_space_of(self));
    if (!pool)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_pool_set_limit(pool, limit_bytes);
    Py_END_ALLOW_THREADS;
    return native_leave_with(self, status);
}

PyObject *native_reserve(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keys[] = {"nbytes", NULL};
    uint64_t total_bytes = 0;
    moiety_status status;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O&:reserve", keys,
                                     native_u64_from, &total_bytes))
        return NULL;
    moiety_pool *pool = native_enter(settings_space_of(self));
    if (!pool)
        return NULL;
    struct native_wait wait;
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_pool_reserve(pool, total_bytes);
    Py_END_ALLOW_THREADS;
    return native_leave_with(self, native_wait_end(&wait, status));
}

PyObject *native_free_all_blocks(PyObject *self, PyObject *none)
{
    (void)none;
    moiety_status status;
    moiety_pool *pool = native_enter(settings_space_of(self));
    if (!pool)
        return NULL;
    if (native_is_capture_seen())
        return native_leave_with(self, MOIETY_OK);
    struct native_wait wait;
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    /* While a graph is captured, what is not done stays. */
    status = moiety_pool_synchronize(pool, UINT32_MAX);
    status = wait.has_failed ? status : moiety_pool_trim(pool, 0, NULL);
    Py_END_ALLOW_THREADS;
    return native_leave_with(self, native_wait_end(&wait, status));
}

PyObject *native_reset_peaks(PyObject *self, PyObject *none)
{
    (void)none;
    return native_call(self, native_enter(settings_space_of(self)),
                       moiety_pool_reset_peaks);
}

/* One number of moiety_pool_stats(), at this offset. */
static PyObject *settings_stat(PyObject *self, size_t offset)
{
    moiety_stats stats = {.struct_size = sizeof stats};
    uint64_t value = 0;
    moiety_status status;
    moiety_pool *pool = native_enter(settings_space_of(self));
    if (!pool)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_pool_stats(pool, &stats);
    Py_END_ALLOW_THREADS;
    memcpy(&value, (char *)&stats + offset, sizeof value);
    PyObject *result = status == MOIETY_OK
                           ? PyLong_FromUnsignedLongLong(value)
                           : native_refuse(native_state_of(self), NULL, status);
    native_leave(settings_space_of(self));
    return result;
}

PyObject *native_used_bytes(PyObject *self, PyObject *none)
{
    (void)none;
    return settings_stat(self, offsetof(moiety_stats, allocated_bytes_current));
}

PyObject *native_total_bytes(PyObject *self, PyObject *none)
{
    (void)none;
    return settings_stat(self, offsetof(moiety_stats, reserved_bytes_current));
}

PyObject *native_limit_bytes(PyObject *self, void *none)
{
    (void)none;
    return settings_stat(self, offsetof(moiety_stats, limit_bytes));
}
