/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Life of a Block or HostBlock: memory that is freed with the last reference to
 * it, in C, whichever thread that is. They keep their pool, but not open: what
 * close() took away is dead, unless it is host memory that somebody may look at.
 */
#include "emm/native/native.h"

static struct native_block *native_block_of(PyObject *self)
{
    return (struct native_block *)self;
}

bool native_block_is_live(const struct native_block *block)
{
    /* relaxed: only says whether a free came first. */
    return atomic_load_explicit(&block->is_live, memory_order_relaxed) &&
           (native_space_is_open(block->space) || block->is_shown);
}

void native_block_show(struct native_block *block)
{
    if (block->is_shown || !block->space->host)
        return;
    block->is_shown = true;
    block->space->shown_count++;
}

int native_block_check(const struct native_block *block)
{
    if (native_block_is_live(block))
        return 0;
    PyErr_SetString(PyExc_ValueError, "the block was freed");
    return -1;
}

/* Of the calling thread, and of no other, also when it has ended. */
static uint64_t py_block_thread_number(void)
{
    static _Thread_local uint64_t own;
    /* Edge: none; relaxed: numbers that differ, no more. */
    static _Atomic uint64_t last;
    if (!own)
        own = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return own;
}

void native_block_set_stream(struct native_block *block, binade_stream stream)
{
    block->stream = stream;
    block->stream_thread =
        stream == BINADE_STREAM_PER_THREAD ? py_block_thread_number() : 0;
}

binade_stream native_block_own_stream(const struct native_block *block)
{
    return block->stream != BINADE_STREAM_PER_THREAD ||
                   block->stream_thread == py_block_thread_number()
               ? block->stream
               : BINADE_STREAM_ANY;
}

static PyTypeObject *type_for(struct native_space *space)
{
    const struct native_state *state = native_state_of((PyObject *)space);
    return space->host ? state->host_block_type : state->block_type;
}

static struct native_block *py_block_new_object(struct native_space *space,
                                                PyObject *tenant)
{
    PyTypeObject *type = type_for(space);
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct native_block *block = (struct native_block *)make(type, 0);
    if (block) {
        block->space = space;
        Py_INCREF((PyObject *)space);
        block->tenant = tenant;
        Py_XINCREF(tenant);
    }
    return block;
}

static PyObject *py_block_fill(struct native_block *block, binade_pool *pool,
                               binade_tenant handle, size_t nbytes,
                               binade_stream stream)
{
    binade_devptr address = 0;
    binade_status status = native_take(pool, handle, nbytes, stream, &address);
    if (status != BINADE_OK) {
        native_raise(native_state_of((PyObject *)block), pool, status);
        Py_DECREF((PyObject *)block);
        return NULL;
    }
    block->address = address;
    block->nbytes = nbytes;
    native_block_set_stream(block, stream);
    /* relaxed: nobody else has the block yet. */
    atomic_store_explicit(&block->is_live, true, memory_order_relaxed);
    return (PyObject *)block;
}

PyObject *native_block_new(struct native_space *space, PyObject *tenant,
                           binade_tenant handle, size_t nbytes,
                           binade_stream stream)
{
    binade_pool *pool = native_enter(space);
    if (!pool)
        return NULL;
    struct native_block *block = py_block_new_object(space, tenant);
    PyObject *made =
        block ? py_block_fill(block, pool, handle, nbytes, stream) : NULL;
    native_leave(space);
    return made;
}

/* Once for each block, however many threads are at it: whoever it lets gives the
 * block back. */
static bool py_block_claim(struct native_block *block)
{
    /* relaxed: the block's bytes are ordered by its stream. */
    return atomic_exchange_explicit(&block->is_live, false,
                                    memory_order_relaxed);
}

/* Of a block that is claimed. An error is set where it is to be raised. */
static binade_status py_block_give_back(struct native_block *block,
                                        binade_stream stream, bool is_raised)
{
    binade_status status = BINADE_OK;
    binade_pool *pool = native_enter_open(block->space);
    if (!pool)
        return BINADE_OK;
    status = native_give(pool, block->address, stream);
    /* relaxed: as above; what was refused is still the caller's. */
    if (status != BINADE_OK)
        atomic_store_explicit(&block->is_live, true, memory_order_relaxed);
    if (status != BINADE_OK && is_raised)
        native_raise(native_state_of((PyObject *)block), NULL, status);
    native_leave(block->space);
    return status;
}

static binade_status py_block_drop(struct native_block *block,
                                   binade_stream stream)
{
    return py_block_claim(block) ? py_block_give_back(block, stream, false)
                                 : BINADE_OK;
}

static void py_block_finish_end(void *block)
{
    native_block_dealloc(block);
}

void native_block_dealloc(PyObject *self)
{
    struct native_block *block = native_block_of(self);
    PyTypeObject *type = Py_TYPE(self);
    native_clear_weak(self, block->weak_references);
    if (block->space && !native_is_over() && native_is_told()) {
        /* Nobody refers to it: its memory waits, and ends here again. */
        native_postpone(&block->postponed, self, py_block_finish_end);
        return;
    }
    if (block->space && !native_is_over()) {
        struct native_error error = native_error_keep();
        /* A stream that captures cannot be waited for: all of them then. Who
         * drops the last reference can be told of nothing. */
        if (py_block_drop(block, native_block_own_stream(block)) ==
            BINADE_E_BUSY)
            (void)py_block_drop(block, BINADE_STREAM_ANY);
        native_error_restore(error);
    }
    if (block->is_shown && !native_is_over())
        native_space_unshow(block->space);
    Py_XDECREF(block->tenant); /* which may end it */
    Py_XDECREF((PyObject *)block->space);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* free() has returned by then: nobody catches what is raised. */
static void py_block_finish_free(void *object)
{
    struct native_block *block = object;
    struct native_error error = native_error_keep();
    if (py_block_give_back(block, block->stream, true) != BINADE_OK)
        PyErr_WriteUnraisable(object);
    native_error_restore(error);
    Py_DECREF((PyObject *)block);
}

PyObject *native_block_free(PyObject *self, binade_stream stream)
{
    struct native_block *block = native_block_of(self);
    if (!py_block_claim(block))
        Py_RETURN_NONE;
    if (native_is_told()) {
        native_block_set_stream(block, stream);
        Py_INCREF(self);
        native_postpone(&block->postponed, self, py_block_finish_free);
        Py_RETURN_NONE;
    }
    if (py_block_give_back(block, stream, true) != BINADE_OK)
        return NULL;
    Py_RETURN_NONE;
}
