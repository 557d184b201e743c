/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Life of a Pool or HostArena. close() may be called while other threads are in
 * a call: each call counts itself before it reads the pool, and
 * close() takes the pool away before it reads the count, so one of the two sees
 * the other.
 */
#include "emm/native/native.h"

struct native_state *native_state_of(PyObject *object)
{
    return PyType_GetModuleState(Py_TYPE(object));
}

static struct native_space *native_space_of(PyObject *self)
{
    return (struct native_space *)self;
}

binade_pool *native_enter_open(struct native_space *space)
{
    /* PU.seq_cst, here and in take_away(): of a call and a close() that meet, at
     * least one sees the other's store. */
    atomic_fetch_add_explicit(&space->user_count, 1, memory_order_seq_cst);
    /* PU.seq_cst: after we are counted. PO.acquire: the pool is whole. */
    binade_pool *pool =
        atomic_load_explicit(&space->pool, memory_order_seq_cst);
    if (!pool)
        native_leave(space);
    return pool;
}

binade_pool *native_enter(struct native_space *space)
{
    binade_pool *pool = native_enter_open(space);
    if (!pool)
        PyErr_SetString(PyExc_ValueError, "it is closed");
    return pool;
}

void native_leave(struct native_space *space)
{
    /* PU.release: what was done with the pool comes before its end. */
    atomic_fetch_sub_explicit(&space->user_count, 1, memory_order_release);
    native_do_postponed();
}

int native_space_check_new(struct native_space *space)
{
    /* relaxed: an object that is being made is its maker's. */
    if (!atomic_load_explicit(&space->pool, memory_order_relaxed))
        return 0;
    PyErr_SetString(PyExc_TypeError, "__init__() was called before");
    return -1;
}

/* Takes the pool out of the space: then it is the caller's alone. NULL: it is
 * not open, or *is_used. */
static binade_pool *take_away(struct native_space *space, bool *is_used)
{
    /* PU.seq_cst: before the look at the count; see native_enter_open(). */
    binade_pool *pool =
        atomic_exchange_explicit(&space->pool, NULL, memory_order_seq_cst);
    /* PU.seq_cst, which acquires: what the calls that are over did. */
    *is_used = pool && atomic_load_explicit(&space->user_count,
                                            memory_order_seq_cst) != 0;
    if (!*is_used)
        return pool;
    /* PO.release: as it was. */
    atomic_store_explicit(&space->pool, pool, memory_order_release);
    return NULL;
}

static binade_status py_space_destroy(struct native_space *space,
                                      binade_pool *pool, binade_leaks *leaks)
{
    binade_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = space->host ? binade_host_destroy(space->host, leaks)
                         : binade_pool_destroy(pool, leaks);
    Py_END_ALLOW_THREADS;
    if (status == BINADE_E_BUSY) {
        /* PO.release: refused, it is as it was. */
        atomic_store_explicit(&space->pool, pool, memory_order_release);
        return status;
    }
    space->host = NULL;
    native_watches_end(space);
    return status;
}

/* Arrays look at memory of it: that stays until the last of them goes. */
static PyObject *leave(struct native_space *space, binade_pool *pool)
{
    binade_stats stats = {.struct_size = sizeof stats};
    binade_status status;
    space->left = pool;
    Py_BEGIN_ALLOW_THREADS;
    status = binade_pool_stats(pool, &stats);
    Py_END_ALLOW_THREADS;
    uint64_t live_count = status == BINADE_OK ? stats.allocation_current : 0;
    return PyLong_FromUnsignedLongLong(
        live_count > space->shown_count ? live_count - space->shown_count : 0);
}

void native_space_unshow(struct native_space *space)
{
    binade_pool *pool = space->left;
    if (--space->shown_count || !pool)
        return;
    struct native_error error = native_error_keep();
    space->left = NULL;
    /* Nobody is told what it says, as when an arena ends by itself. */
    (void)py_space_destroy(space, pool, NULL);
    native_error_restore(error);
}

PyObject *native_space_close(PyObject *self, PyObject *none)
{
    (void)none;
    bool is_used = false;
    binade_leaks leaks = {.struct_size = sizeof leaks};
    if (native_space_of(self)->is_borrowed)
        return native_refuse_as(native_state_of(self), BINADE_E_UNSUPPORTED,
                                "another part of the program has made the "
                                "pool, and ends it");
    native_do_postponed(); /* no leak, but late */
    binade_pool *pool = take_away(native_space_of(self), &is_used);
    if (pool && native_space_of(self)->shown_count)
        return leave(native_space_of(self), pool);
    if (is_used)
        return native_refuse_as(native_state_of(self), BINADE_E_BUSY,
                                "it is in use: by a call that has not "
                                "returned, or by a handler of NumPy's");
    binade_status status =
        pool ? py_space_destroy(native_space_of(self), pool, &leaks)
             : BINADE_OK;
    PyObject *answer = status == BINADE_OK
                           ? PyLong_FromUnsignedLongLong(leaks.block_count)
                           : native_refuse(native_state_of(self), NULL, status);
    native_do_postponed();
    return answer;
}

/* Before anything else of its end: who finds it takes a reference. */
static void py_space_unlist(struct native_space *space)
{
    struct native_space **at = &native_state_of((PyObject *)space)->pools;
    while (*at && *at != space)
        at = &(*at)->next;
    if (*at)
        *at = space->next;
}

void native_space_finalize(PyObject *self)
{
    struct native_space *space = native_space_of(self);
    bool is_used = false;
    if (native_is_over() || space->is_borrowed)
        return;
    binade_pool *pool = take_away(space, &is_used);
    if (pool) {
        struct native_error error = native_error_keep();
        /* There is nobody left to tell what it says. */
        (void)py_space_destroy(space, pool, NULL);
        native_do_postponed();
        native_error_restore(error);
    }
}

/* The type is not visited: it and the module, which our end needs, are never
 * collected with us. */
int native_space_traverse(PyObject *self, visitproc visit, void *arg)
{
    return native_watches_visit(native_space_of(self), visit, arg);
}

void native_space_dealloc(PyObject *self)
{
    struct native_space *space = native_space_of(self);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    native_clear_weak(self, space->weak_references);
    py_space_unlist(space);
    native_space_finalize(self);
    native_watches_abandon(space);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

binade_status native_space_look(struct native_space *space, uint64_t address)
{
    size_t nbytes = 0;
    binade_pool *pool = native_enter_open(space);
    if (!pool)
        return BINADE_E_FOREIGN;
    binade_status status = binade_usable_size(pool, address, &nbytes);
    native_leave(space);
    /* INVALID: it is inside a block, or free. */
    return status == BINADE_E_INVALID ? BINADE_OK : status;
}
