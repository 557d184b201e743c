/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of a Pool or HostArena that lives, and changed in it.
 */
#include "emm/native/native.h"

static struct native_space *settings_space_of(PyObject *self)
{
    return (struct native_space *)self;
}

PyObject *native_set_limit(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keys[] = {"limit", NULL};
    uint64_t limit_bytes = 0;
    struct native_setting limit = {"limit", &limit_bytes, 0};
    moiety_status status;
    if (!native_parse(arguments, names, "O&:set_limit", keys,
                      native_setting_from, &limit))
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
    struct native_setting total = {"nbytes", &total_bytes, 0};
    moiety_status status;
    if (!native_parse(arguments, names, "O&:reserve", keys, native_setting_from,
                      &total))
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

PyObject *native_trim(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keys[] = {"keep_bytes", "wait", NULL};
    uint64_t keep_bytes = 0;
    struct native_setting keep = {"keep_bytes", &keep_bytes, 0};
    int is_waiting = 0;
    uint64_t given_bytes = 0;
    moiety_status status = MOIETY_OK;
    if (!native_parse(arguments, names, "|O&$p:trim", keys, native_setting_from,
                      &keep, &is_waiting))
        return NULL;
    moiety_pool *pool = native_enter(settings_space_of(self));
    if (!pool)
        return NULL;
    struct native_wait wait;
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    /* Either would end a capture: there is nothing to give yet. What is not done
     * while one begins stays. */
    if (!native_is_capture_seen()) {
        if (is_waiting)
            status = moiety_pool_synchronize(pool, UINT32_MAX);
        if (!wait.has_failed)
            status = moiety_pool_trim(pool, keep_bytes, &given_bytes);
    }
    Py_END_ALLOW_THREADS;
    status = native_wait_end(&wait, status);
    PyObject *result = status == MOIETY_OK
                           ? PyLong_FromUnsignedLongLong(given_bytes)
                           : native_refuse(native_state_of(self), NULL, status);
    native_leave(settings_space_of(self));
    return result;
}

PyObject *native_reset_peaks(PyObject *self, PyObject *none)
{
    (void)none;
    return native_call(self, native_enter(settings_space_of(self)),
                       moiety_pool_reset_peaks);
}

/* One number of moiety_pool_get_stats(), at this offset. */
static PyObject *settings_stat(PyObject *self, size_t offset)
{
    moiety_pool_stats stats = {.struct_size = sizeof stats};
    uint64_t value = 0;
    moiety_status status;
    moiety_pool *pool = native_enter(settings_space_of(self));
    if (!pool)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_pool_get_stats(pool, &stats);
    Py_END_ALLOW_THREADS;
    memcpy(&value, (char *)&stats + offset, sizeof value);
    PyObject *result = status == MOIETY_OK
                           ? PyLong_FromUnsignedLongLong(value)
                           : native_refuse(native_state_of(self), NULL, status);
    native_leave(settings_space_of(self));
    return result;
}

PyObject *native_used_bytes(PyObject *self, void *none)
{
    (void)none;
    return settings_stat(self,
                         offsetof(moiety_pool_stats, allocated_bytes_current));
}

PyObject *native_total_bytes(PyObject *self, void *none)
{
    (void)none;
    return settings_stat(self,
                         offsetof(moiety_pool_stats, reserved_bytes_current));
}

PyObject *native_limit(PyObject *self, void *none)
{
    (void)none;
    return settings_stat(self, offsetof(moiety_pool_stats, limit_bytes));
}
