/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Life of a Pool or HostArena. close() may be called while other threads are in
 * a call: each call counts itself before it reads the pool, and
 * close() takes the pool away before it reads the count, so one of the two sees
 * the other.
 */
#include "emm/native/native.h"

static struct native_space *native_space_of(PyObject *self)
{
    return (struct native_space *)self;
}

int native_space_device(const struct native_space *space)
{
    /* relaxed: see the field. */
    return atomic_load_explicit(&space->device, memory_order_relaxed);
}

void native_space_set_device(struct native_space *space, int device)
{
    /* relaxed: see the field. */
    atomic_store_explicit(&space->device, device, memory_order_relaxed);
}

/* --- calls --- */

moiety_pool *native_enter_open(struct native_space *space)
{
    /* PU.seq_cst, here and in take_away(): of a call and a close() that meet, at
     * least one sees the other's store. */
    atomic_fetch_add_explicit(&space->user_count, 1, memory_order_seq_cst);
    /* PU.seq_cst: after we are counted. PO.acquire: the pool is whole. */
    moiety_pool *pool =
        atomic_load_explicit(&space->pool, memory_order_seq_cst);
    if (!pool)
        native_leave(space);
    return pool;
}

moiety_pool *native_enter(struct native_space *space)
{
    moiety_pool *pool = native_enter_open(space);
    if (!pool)
        native_raise_closed(native_state_of((PyObject *)space), "it is closed");
    return pool;
}

static void py_space_leave(struct native_space *space)
{
    /* PU.release: what was done with the pool comes before its end. */
    atomic_fetch_sub_explicit(&space->user_count, 1, memory_order_release);
}

void native_leave(struct native_space *space)
{
    py_space_leave(space);
    native_do_postponed();
}

PyObject *native_leave_with(PyObject *self, moiety_status status)
{
    PyObject *result = status == MOIETY_OK
                           ? Py_NewRef(Py_None)
                           : native_refuse(native_state_of(self), NULL, status);
    native_leave((struct native_space *)self);
    return result;
}

PyObject *native_call(PyObject *self, moiety_pool *pool,
                      moiety_status (*call)(moiety_pool *pool))
{
    moiety_status status;
    if (!pool)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = call(pool);
    Py_END_ALLOW_THREADS;
    return native_leave_with(self, status);
}

static void py_space_release_capsule(PyObject *capsule)
{
    PyObject *self = PyCapsule_GetContext(capsule);
    if (!self)
        return;
    native_leave((struct native_space *)self);
    Py_DECREF(self);
}

PyObject *native_space_capsule(struct native_space *space, void *handle,
                               const char *name)
{
    PyObject *capsule = PyCapsule_New(handle, name, py_space_release_capsule);
    if (capsule && PyCapsule_SetContext(capsule, space) == 0) {
        Py_INCREF((PyObject *)space);
        return capsule;
    }
    Py_XDECREF(capsule);
    native_leave(space);
    return NULL;
}

/* --- its list --- */

int native_space_list(struct native_space *space)
{
    struct native_state *state = native_state_of((PyObject *)space);
#ifdef Py_GIL_DISABLED
    space->weak_self = PyWeakref_NewRef((PyObject *)space, NULL);
    if (!space->weak_self)
        return -1;
#endif
    native_mutex_lock(&state->lists);
    space->next = state->pools;
    state->pools = space;
    native_mutex_unlock(&state->lists);
    return 0;
}

/* Before anything else of its end: who finds it takes a reference. */
static void py_space_unlist(struct native_space *space)
{
    struct native_state *state = native_state_of((PyObject *)space);
    native_mutex_lock(&state->lists);
    struct native_space **at = &state->pools;
    while (*at && *at != space)
        at = &(*at)->next;
    if (*at)
        *at = space->next;
    native_mutex_unlock(&state->lists);
}

/* --- its begin and its end --- */

int native_space_init(PyObject *self, PyObject *arguments, PyObject *names,
                      initproc make)
{
    atomic_bool *is_made = &native_space_of(self)->is_made;
    /* relaxed: of two that make it, one is refused. */
    if (atomic_exchange_explicit(is_made, true, memory_order_relaxed)) {
        PyErr_SetString(PyExc_TypeError, "__init__() was called before");
        return -1;
    }
    int error = make(self, arguments, names);
    /* relaxed: as above. */
    if (error)
        atomic_store_explicit(is_made, false, memory_order_relaxed);
    return error;
}

/* Takes the pool out of the space: then it is the caller's alone. NULL: it is
 * not open, or *is_used. */
static moiety_pool *take_away(struct native_space *space, bool *is_used)
{
    /* Not while pool_of() looks for an address: that is no use. */
    struct native_mutex *lists = &native_state_of((PyObject *)space)->lists;
    native_mutex_lock(lists);
    /* PU.seq_cst: before the look at the count; see native_enter_open(). */
    moiety_pool *pool =
        atomic_exchange_explicit(&space->pool, NULL, memory_order_seq_cst);
    /* PU.seq_cst, which acquires: what the calls that are over did. */
    *is_used = pool && atomic_load_explicit(&space->user_count,
                                            memory_order_seq_cst) != 0;
    /* PO.release: as it was. */
    if (*is_used)
        atomic_store_explicit(&space->pool, pool, memory_order_release);
    native_mutex_unlock(lists);
    return *is_used ? NULL : pool;
}

/* A stream is named to the pool, and so seen to capture, more often. */
#define LATELY_NS UINT64_C(2000000000)

bool native_is_capture_seen(void)
{
    uint64_t age_ns = moiety_capture_age_ns();
    return age_ns && age_ns < LATELY_NS;
}

static bool py_space_is_gone(moiety_pool *pool)
{
    moiety_pool_stats stats = {.struct_size = sizeof stats};
    return moiety_pool_get_stats(pool, &stats) == MOIETY_E_DESTROYED;
}

/* It ends now or later, and nobody hears what the end says. */
static void py_space_end_unseen(struct native_space *space, moiety_pool *pool)
{
    moiety_status status;
    bool is_gone;
    Py_BEGIN_ALLOW_THREADS;
    status = space->is_host ? moiety_host_destroy_later(space->host)
                            : moiety_pool_destroy_later(pool);
    (void)status;
    is_gone = py_space_is_gone(pool);
    Py_END_ALLOW_THREADS;
    space->host = NULL;
    if (is_gone)
        native_watches_end(space);
    else
        native_watches_abandon(space); /* they are told when it ends */
}

/* Blocks that arrays look at are not counted: their memory stays until the last of
 * them goes. */
static PyObject *py_space_count_left(moiety_pool *pool, size_t shown_count)
{
    moiety_pool_stats stats = {.struct_size = sizeof stats};
    moiety_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = moiety_pool_get_stats(pool, &stats);
    Py_END_ALLOW_THREADS;
    uint64_t live_count = status == MOIETY_OK ? stats.allocation_current : 0;
    return PyLong_FromUnsignedLongLong(
        live_count > shown_count ? live_count - shown_count : 0);
}

/* As an end: the count of live blocks. */
static PyObject *py_space_end_later(struct native_space *space,
                                    moiety_pool *pool)
{
    PyObject *count = py_space_count_left(pool, 0);
    struct native_error error = native_error_keep();
    py_space_end_unseen(space, pool);
    native_error_restore(error);
    return count;
}

/* Whether a pool that is destroyed is as it was: something uses it, a capture is
 * near, or the wait was stopped. */
static bool py_space_is_refused(moiety_status status)
{
    return status == MOIETY_E_IN_USE || status == MOIETY_E_CAPTURING ||
           status == MOIETY_E_INTERRUPTED || status == MOIETY_E_REENTRANT;
}

/* The count of live blocks, or NULL after an error: it is as it was if that is what
 * a signal's handler has raised, or a refusal. */
static PyObject *py_space_end(struct native_space *space, moiety_pool *pool)
{
    moiety_leaks leaks = {.struct_size = sizeof leaks};
    struct native_wait wait;
    moiety_status status;
    native_wait_begin(&wait);
    Py_BEGIN_ALLOW_THREADS;
    status = space->is_host ? moiety_host_destroy(space->host, &leaks)
                            : moiety_pool_destroy(pool, &leaks);
    Py_END_ALLOW_THREADS;
    bool is_refused = py_space_is_refused(status);
    status = native_wait_end(&wait, status);
    if (is_refused && !wait.has_failed && native_is_capture_seen())
        return py_space_end_later(space, pool);
    PyObject *answer = NULL;
    if (status == MOIETY_OK)
        answer = PyLong_FromUnsignedLongLong(leaks.block_count);
    else if (!wait.has_failed)
        native_refuse(native_state_of((PyObject *)space), NULL, status);
    if (is_refused) {
        /* PO.release: it is as it was. */
        atomic_store_explicit(&space->pool, pool, memory_order_release);
        return NULL;
    }
    struct native_error error = native_error_keep();
    space->host = NULL;
    native_watches_end(space);
    native_error_restore(error);
    return answer;
}

void native_space_unshow(struct native_space *space)
{
    moiety_pool *pool = NULL;
    NATIVE_LOCK(space);
    if (!--space->shown_count) {
        pool = space->left;
        space->left = NULL;
    }
    NATIVE_UNLOCK();
    if (!pool)
        return;
    struct native_error error = native_error_keep();
    py_space_end_unseen(space, pool);
    native_error_restore(error);
}

PyObject *native_space_close(PyObject *self, PyObject *none)
{
    (void)none;
    struct native_space *space = native_space_of(self);
    bool is_used = false;
    size_t shown_count = 0;
    moiety_pool *pool;
    if (space->is_borrowed)
        return native_refuse_as(native_state_of(self), MOIETY_E_UNSUPPORTED,
                                "another part of the program has made the "
                                "pool, and ends it");
    native_do_postponed(); /* no leak, but late */
    NATIVE_LOCK(space);
    pool = take_away(space, &is_used);
    if (pool && space->shown_count) {
        shown_count = space->shown_count;
        space->left = pool;
    }
    NATIVE_UNLOCK();
    if (shown_count)
        return py_space_count_left(pool, shown_count);
    if (is_used) {
        return native_refuse_as(native_state_of(self), MOIETY_E_IN_USE,
                                "it is in use: by a call that has not "
                                "returned, by a handler of "
                                "NumPy's, or by ONNX Runtime");
    }
    PyObject *answer = !pool ? PyLong_FromLong(0)
                       : native_is_capture_seen()
                           ? py_space_end_later(space, pool)
                           : py_space_end(space, pool);
    native_do_postponed();
    return answer;
}

void native_space_finalize(PyObject *self)
{
    struct native_space *space = native_space_of(self);
    bool is_used = false;
    if (native_is_over() || space->is_borrowed)
        return;
    moiety_pool *pool = take_away(space, &is_used);
    if (pool) {
        struct native_error error = native_error_keep();
        py_space_end_unseen(space, pool);
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
    PyObject_GC_UnTrack(self);
    space->is_ending = true;
    py_space_unlist(space);
    native_clear_weak(self, space->weak_references);
    Py_XDECREF(space->weak_self);
    native_space_finalize(self);
    native_watches_abandon(space);
    native_object_free(self);
}

moiety_status native_space_look(struct native_space *space, uint64_t address)
{
    size_t nbytes = 0;
    moiety_pool *pool = native_enter_open(space);
    if (!pool)
        return MOIETY_E_FOREIGN;
    moiety_status status = moiety_usable_size(pool, address, &nbytes);
    py_space_leave(space); /* without frees that wait: it is within a list */
    /* INVALID: it is inside a block, or free. */
    return status == MOIETY_E_INVALID ? MOIETY_OK : status;
}
