/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Life of a Block or HostBlock: memory that is freed with the last reference to
 * it, in C, whichever thread that is. They keep their pool, but not open: what
 * close() took away is dead, unless it is host memory that somebody may look at.
 *
 * An array interface or DLPack keeps the block for whom it gave the address, and a
 * free that the program asks for takes the memory all the same. The buffer
 * protocol tells when a view ends: there such a free waits for the last one.
 */
#include "emm/native/native.h"

static struct native_block *native_block_of(PyObject *self)
{
    return (struct native_block *)self;
}

/* Whether it is a Block or a HostBlock, live or not. */
static bool py_block_is_one(PyObject *object)
{
    PyTypeObject *base = PyLong_Check(object)
                             ? NULL
                             : PyType_GetSlot(Py_TYPE(object), Py_tp_base);
    return base &&
           PyType_GetSlot(base, Py_tp_dealloc) == (void *)native_block_dealloc;
}

bool native_block_is_live(const struct native_block *block)
{
    /* relaxed: only says whether a free came first. */
    return atomic_load_explicit(&block->is_live, memory_order_relaxed) &&
           /* relaxed: it says whether close() was before it. */
           (native_space_is_open(block->space) ||
            atomic_load_explicit(&block->is_shown, memory_order_relaxed));
}

static int py_block_answer(const struct native_block *block, bool is_live)
{
    if (!is_live)
        native_raise_closed(native_state_of((PyObject *)block->space),
                            "the block was freed");
    return is_live ? 0 : -1;
}

int native_block_check(const struct native_block *block)
{
    return py_block_answer(block, native_block_is_live(block));
}

int native_address_from(PyObject *object, void *out)
{
    const struct native_block *block = (const struct native_block *)object;
    if (!py_block_is_one(object))
        return native_u64_from(object, out);
    if (native_block_check(block))
        return 0;
    *(uint64_t *)out = block->address;
    return 1;
}

int native_bare_from(PyObject *object, void *out)
{
    if (!py_block_is_one(object))
        return native_u64_from(object, out);
    PyErr_Format(PyExc_TypeError,
                 "%R frees its memory itself: call its free(), or drop it",
                 object);
    return 0;
}

int native_block_show(struct native_block *block)
{
    struct native_space *space = block->space;
    bool is_live;
    /* Against close(), which counts what was shown. */
    NATIVE_LOCK(space);
    is_live = native_block_is_live(block);
    /* relaxed: the space's lock orders it. */
    if (is_live && space->is_host &&
        !atomic_exchange_explicit(&block->is_shown, true, memory_order_relaxed))
        space->shown_count++;
    NATIVE_UNLOCK();
    return py_block_answer(block, is_live);
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

void native_block_set_stream(struct native_block *block, moiety_stream stream)
{
    /* relaxed: of two threads that name one, either is right; a PER_THREAD that
     * is not the reader's is ANY to it. */
    atomic_store_explicit(&block->stream, stream, memory_order_relaxed);
    if (stream == MOIETY_STREAM_PER_THREAD)
        atomic_store_explicit(&block->stream_thread, py_block_thread_number(),
                              memory_order_relaxed);
}

moiety_stream native_block_own_stream(const struct native_block *block)
{
    /* relaxed: as above. */
    moiety_stream stream =
        atomic_load_explicit(&block->stream, memory_order_relaxed);
    if (stream != MOIETY_STREAM_PER_THREAD ||
        atomic_load_explicit(&block->stream_thread, memory_order_relaxed) ==
            py_block_thread_number())
        return stream;
    return MOIETY_STREAM_ANY;
}

static PyTypeObject *type_for(struct native_space *space)
{
    const struct native_state *state = native_state_of((PyObject *)space);
    return space->is_host ? state->host_block_type : state->block_type;
}

static struct native_block *py_block_new_object(struct native_space *space,
                                                PyObject *tenant)
{
    struct native_block *block =
        (struct native_block *)native_object_new(type_for(space));
    if (block) {
        block->space = space;
        Py_INCREF((PyObject *)space);
        block->tenant = tenant;
        Py_XINCREF(tenant);
    }
    return block;
}

static PyObject *py_block_fill(struct native_block *block, moiety_pool *pool,
                               moiety_tenant handle, size_t nbytes,
                               moiety_stream stream)
{
    moiety_devptr address = 0;
    moiety_status status = native_take(pool, handle, nbytes, stream, &address);
    if (status != MOIETY_OK) {
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
                           moiety_tenant handle, size_t nbytes,
                           moiety_stream stream)
{
    moiety_pool *pool = native_enter(space);
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
static moiety_status py_block_give_back(struct native_block *block,
                                        moiety_stream stream, bool is_raised)
{
    moiety_status status = MOIETY_OK;
    moiety_pool *pool = native_enter_open(block->space);
    if (!pool)
        return MOIETY_OK;
    status = native_give(pool, block->address, stream);
    /* relaxed: as above; what was refused is still the caller's. */
    if (status != MOIETY_OK)
        atomic_store_explicit(&block->is_live, true, memory_order_relaxed);
    if (status != MOIETY_OK && is_raised)
        native_raise(native_state_of((PyObject *)block), NULL, status);
    native_leave(block->space);
    return status;
}

static moiety_status py_block_drop(struct native_block *block,
                                   moiety_stream stream)
{
    return py_block_claim(block) ? py_block_give_back(block, stream, false)
                                 : MOIETY_OK;
}

static void py_block_finish_end(void *block)
{
    native_block_dealloc(block);
}

void native_block_dealloc(PyObject *self)
{
    struct native_block *block = native_block_of(self);
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
            MOIETY_E_CAPTURING)
            (void)py_block_drop(block, MOIETY_STREAM_ANY);
        native_error_restore(error);
    }
    /* relaxed: nobody else refers to it. */
    if (atomic_load_explicit(&block->is_shown, memory_order_relaxed) &&
        !native_is_over())
        native_space_unshow(block->space);
    Py_XDECREF(block->tenant); /* which may end it */
    Py_XDECREF((PyObject *)block->space);
    native_object_free(self);
}

/* free() has returned by then: nobody catches what is raised. The last reference
 * frees what was refused, and not by the stream that was. */
static void py_block_free_unseen(struct native_block *block)
{
    struct native_error error = native_error_keep();
    if (py_block_give_back(block, native_block_own_stream(block), true) !=
        MOIETY_OK) {
        native_block_set_stream(block, MOIETY_STREAM_ANY);
        PyErr_WriteUnraisable((PyObject *)block);
    }
    native_error_restore(error);
}

static void py_block_finish_free(void *object)
{
    py_block_free_unseen(object);
    Py_DECREF((PyObject *)object);
}

/* Of a block that is claimed. */
static void py_block_free_later(struct native_block *block)
{
    Py_INCREF((PyObject *)block);
    native_postpone(&block->postponed, block, py_block_finish_free);
}

PyObject *native_block_free(PyObject *self, moiety_stream stream)
{
    struct native_block *block = native_block_of(self);
    bool is_claimed;
    bool is_left;
    NATIVE_LOCK(block);
    is_claimed = py_block_claim(block);
    is_left = is_claimed && block->view_count;
    block->is_left |= is_left;
    NATIVE_UNLOCK();
    if (!is_claimed)
        Py_RETURN_NONE;
    if (is_left || native_is_told())
        native_block_set_stream(block, stream);
    if (!is_left && native_is_told())
        py_block_free_later(block);
    else if (!is_left && py_block_give_back(block, stream, true) != MOIETY_OK)
        return NULL;
    Py_RETURN_NONE;
}

/* --- views --- */

int native_block_view(struct native_block *block)
{
    bool is_live;
    NATIVE_LOCK(block);
    is_live = native_block_is_live(block);
    block->view_count += is_live;
    NATIVE_UNLOCK();
    if (py_block_answer(block, is_live))
        return -1;
    if (!native_block_show(block))
        return 0;
    native_block_unview(block);
    return -1;
}

void native_block_unview(struct native_block *block)
{
    bool is_due;
    NATIVE_LOCK(block);
    is_due = !--block->view_count && block->is_left;
    block->is_left = block->is_left && !is_due;
    NATIVE_UNLOCK();
    if (!is_due || native_is_over())
        return;
    if (native_is_told())
        py_block_free_later(block);
    else
        py_block_free_unseen(block);
}
