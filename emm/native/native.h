/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the C module share. Everything here is called with the GIL
 * held. Functions that return an object or an int follow Python: NULL or -1
 * after an error that is set.
 */
#ifndef MOIETY_EMM_NATIVE_NATIVE_H_
#define MOIETY_EMM_NATIVE_NATIVE_H_

#define PY_SSIZE_T_CLEAN
#include <pyconfig.h>
#ifndef Py_GIL_DISABLED
/* The stable ABI of CPython 3.10: docs/dev/adr/0015-python-package.md. A
 * free-threaded CPython has none. */
#define Py_LIMITED_API 0x030A0000
#endif
#include <Python.h>

#include <structmember.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moiety/moiety.h"
#include "moiety/segment.h"

/* Through void (*)(void): CPython tells by flags which signature it is. */
#define NATIVE_METHOD(function) ((PyCFunction)(void (*)(void))(function))

/* What is guarded by "the GIL" below has a lock where there is none: that of the
 * object it is a part of, unless it says another. A thread that waits gives the
 * object's lock up, as it does the GIL: between NATIVE_LOCK() and NATIVE_UNLOCK()
 * nothing calls Python code, waits or returns. */
#ifdef Py_GIL_DISABLED
#define NATIVE_LOCK(object) Py_BEGIN_CRITICAL_SECTION((PyObject *)(object))
#define NATIVE_UNLOCK() Py_END_CRITICAL_SECTION()
#else
#define NATIVE_LOCK(object) ((void)0)
#define NATIVE_UNLOCK() ((void)0)
#endif

/* For lists that have no object of their own. */
struct native_mutex {
#ifdef Py_GIL_DISABLED
    PyMutex mutex;
#else
    char none;
#endif
};

static inline void native_mutex_lock(struct native_mutex *mutex)
{
#ifdef Py_GIL_DISABLED
    PyMutex_Lock(&mutex->mutex);
#else
    (void)mutex;
#endif
}

static inline void native_mutex_unlock(struct native_mutex *mutex)
{
#ifdef Py_GIL_DISABLED
    PyMutex_Unlock(&mutex->mutex);
#else
    (void)mutex;
#endif
}

/* The exceptions: errors.c has which status is which. */
enum native_error_kind {
    NATIVE_ERROR,
    NATIVE_OUT_OF_MEMORY,
    NATIVE_BUDGET_EXCEEDED,
    NATIVE_CAPTURING,
    NATIVE_CLOSED,
    NATIVE_CONTEXT_LOST,
    NATIVE_DOUBLE_FREE,
    NATIVE_DRIVER,
    NATIVE_FORKED,
    NATIVE_IN_USE,
    NATIVE_PAUSED,
    NATIVE_PEER_GONE,
    NATIVE_REENTRANT,
    NATIVE_TIMED_OUT,
    NATIVE_UNSUPPORTED,
    NATIVE_WOULD_BLOCK,
    NATIVE_ERROR_KINDS
};

/* The module's own objects, one set for each interpreter. */
struct native_state {
    PyObject *errors[NATIVE_ERROR_KINDS];
    PyTypeObject *pool_type;
    PyTypeObject *arena_type;
    PyTypeObject *block_type;
    PyTypeObject *host_block_type;
    PyTypeObject *import_type;
    PyTypeObject *tenant_type;
    PyTypeObject *watch_type;
    PyTypeObject *hold_type;
    PyTypeObject *scope_type;
    PyTypeObject *growth_type;
    /* The GIL, or else this lock: the list of pools that were made, and whose
     * watches are whose. */
    struct native_mutex lists;
    struct native_space *pools;
};

/* An object of a type that is on the heap, by the slots of the type; NULL: an error is
 * set. */
static inline PyObject *native_object_new(PyTypeObject *type)
{
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return make(type, 0);
}

/* The end of its dealloc. */
static inline void native_object_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static inline struct native_state *native_state_of(PyObject *object)
{
    return PyType_GetModuleState(Py_TYPE(object));
}

/* In a thread's list of what it does later; postpone.c. */
struct native_postponed {
    struct native_postponed *next;
    void *object;
    void (*finish)(void *object);
};

/* A Pool, or a HostArena, whose memory is a pool's as well. */
/* What refers weakly to an object of `type`, for its slots. */
#define NATIVE_WEAK_MEMBERS(type)                                              \
    {                                                                          \
        {"__weaklistoffset__", T_PYSSIZET, offsetof(type, weak_references),    \
         READONLY, NULL},                                                      \
            {NULL, 0, 0, 0, NULL},                                             \
    }

/* First in a dealloc, as nobody may get at the object any more. Again: nothing
 * happens. */
static inline void native_clear_weak(PyObject *self, PyObject *references)
{
    if (references)
        PyObject_ClearWeakRefs(self);
}

struct native_space {
    PyObject_HEAD
        /* Edge PO: __init__() (release) -> a call (acquire). Edge PU: close()
         * takes it away -> a call that has counted itself. NULL where __init__()
         * has not made it or close() has destroyed it. */
        _Atomic(moiety_pool *) pool;
    moiety_host *host; /* NULL for a Pool; for who is in a call */
    bool is_host;      /* a HostArena; __init__() */
    /* Edge: none; relaxed: of a Pool that is borrowed they may change, when the
     * program's own has ended and another came to be there. */
    atomic_int device;
    atomic_bool is_mapped;
    /* Edge: none; relaxed: whether __init__() was called. */
    atomic_bool is_made;
    /* A Pool that another part of the program has made, and ends. The object
     * never ends: whatever was begun with it has somebody to belong to. */
    bool is_borrowed;
    /* Edge PU: a call counts itself -> close() looks, after it has taken the
     * pool away. Threads that are in a call of the library on it, GIL or not. */
    atomic_uint user_count;
    /* In native_state.pools; native_state.lists. */
    struct native_space *next;
    /* Those that are told of a Pool's segments; native_state.lists. */
    struct native_watch *watches;
    /* Of a HostArena; the GIL. Blocks of which the CPU's address was handed out,
     * by an interface that keeps them; and the pool of one that was closed while
     * there were any, which ends with the last of them. */
    size_t shown_count;
    moiety_pool *left;
    PyObject *weak_references;
    /* For who finds it in a list: whether nobody refers to it any more; the GIL.
     * Where there is none, a weak reference to a Pool instead. */
    bool is_ending;
    PyObject *weak_self;
};

/* A reference for who found it in a list, under native_state.lists; NULL: it is
 * in its end. */
static inline PyObject *native_space_keep(struct native_space *space)
{
#ifdef Py_GIL_DISABLED
    PyObject *self = NULL;
    if (!space->weak_self || PyWeakref_GetRef(space->weak_self, &self) < 0)
        PyErr_Clear();
    return self;
#else
    return space->is_ending ? NULL : Py_NewRef((PyObject *)space);
#endif
}

/* For now: another thread may close it at any time. */
static inline bool native_space_is_open(const struct native_space *space)
{
    /* PO.acquire: the pool is whole. */
    return atomic_load_explicit(&space->pool, memory_order_acquire) != NULL;
}

/* Memory of a space that it keeps a reference to. */
struct native_block {
    PyObject_HEAD struct native_space *space;
    PyObject *tenant; /* a Tenant, or NULL */
    uint64_t address;
    size_t nbytes;
    /* Edge: none; relaxed: a free names the stream that was named last. */
    _Atomic(moiety_stream) stream;
    _Atomic uint64_t stream_thread; /* of PER_THREAD: whose */
    /* Edge: none; relaxed: it only says whether a free came first. */
    atomic_bool is_live;
    /* Edge: none; relaxed: counted in the space, under whose lock it changes. */
    atomic_bool is_shown;
    /* The GIL. Views by the buffer protocol, and whether a free came while there
     * were any: the last of them does it. */
    size_t view_count;
    bool is_left;
    struct native_postponed postponed; /* its free or its end; who claimed it */
    PyObject *weak_references;
};

/* A SegmentWatch: functions of the program, or NULL; native_state.lists. */
struct native_watch {
    PyObject_HEAD
        /* Until the watch is over, then NULL. Borrowed: it has us in its list. */
        struct native_space *space;
    PyObject *added;
    PyObject *releasing;
    moiety_watch handle; /* NULL: it has not begun */
    struct native_watch *next;
};

/* errors.c */
int native_errors_add(PyObject *module, struct native_state *state);
/* Sets the error for what a call of this thread on a pool returned; `pool` may
 * be NULL. One that is set stays: it has ended the call's wait. */
void native_raise(const struct native_state *state, moiety_pool *pool,
                  moiety_status status);
/* The same, as the result of a function. */
PyObject *native_refuse(const struct native_state *state, moiety_pool *pool,
                        moiety_status status);
/* The same for what the module says itself. */
PyObject *native_refuse_as(const struct native_state *state,
                           moiety_status status, const char *text);
/* ClosedError, for an object that was closed or freed. */
void native_raise_closed(const struct native_state *state, const char *text);
/* A function of the module: the exception for a status, to be raised. */
PyObject *native_error_for(PyObject *module, PyObject *arguments);
/* An error that is set, put aside while a finalizer works. */
struct native_error {
    PyObject *kind;
    PyObject *value;
    PyObject *trace;
};
struct native_error native_error_keep(void);
void native_error_restore(struct native_error error);
/* Ends __exit__(kind, error, trace): steals the result of what ends the object,
 * which may have been refused. A program's exception goes on all the same, with
 * the refusal as a note. None, or NULL after an error. */
PyObject *native_exit_with(PyObject *self, PyObject *arguments,
                           PyObject *result);
/* __enter__() of an object that needs nothing for it. */
PyObject *native_enter_self(PyObject *self, PyObject *none);
/* A function of the module, for what has its __exit__() in Python: the refusal
 * becomes a note of the error. */
PyObject *native_note_refusal(PyObject *module, PyObject *arguments);
/* The report of the calling thread's last failure, or None. */
PyObject *native_oom_report(moiety_pool *pool);

/* values.c: PyArg_ParseTupleAndKeywords(), whose error for a name that it does not
 * know has the one that is most like it, and all others. */
int native_parse(PyObject *arguments, PyObject *names, const char *format,
                 char **keys, ...);

/* For "O&" of PyArg_Parse...(). Numbers: OverflowError for those that
 * do not fit. */
int native_u64_from(PyObject *object, void *out);
/* An int; TypeError names the argument, as other libraries have texts there. */
int native_device_from(PyObject *object, void *out);
/* A context's address as a number; None is 0, the primary one. */
int native_context_from(PyObject *object, void *out);
int native_u32_from(PyObject *object, void *out);
/* For a field of options: 0 is none, and the largest number a large one. */
int native_wait_from(PyObject *object, void *out);
int native_stream_from(PyObject *object, void *out);
/* A number of bytes for `*into`: a whole number, text as in MOIETY_CONF ("8GiB"), or
 * None for 0. `name` is the argument's, for the error; `none` is 0, or the value of
 * 0 as a field of options. */
struct native_setting {
    const char *name;
    uint64_t *into;
    uint64_t none;
};
int native_setting_from(PyObject *object, void *out);
/* Seconds as milliseconds, rounded up; None: for ever. */
int native_timeout_from(PyObject *object, void *out);
/* A function of the module: the same bytes, for settings that Python reads. */
PyObject *native_bytes_of(PyObject *module, PyObject *arguments);
/* Calls a function or class of a module of the package, with `argument`, which it
 * steals, or without where that is NULL. */
PyObject *native_call_python(const char *module, const char *name,
                             PyObject *argument);
/* Two whole numbers; TypeError for anything else. 0, or -1 after an error. */
int native_pair_from(PyObject *object, const char *name, int *first,
                     int *second);
/* The first argument of a fast call: its name, and what it is read by. */
struct native_first {
    const char *name;
    int (*from)(PyObject *object, void *out);
};
/* (number, stream) of a fast call, by position or by name. A stream that is not
 * given stays as it is. */
int native_number_and_stream(PyObject *const *arguments, Py_ssize_t count,
                             PyObject *names, struct native_first first,
                             uint64_t *out_number, moiety_stream *stream);
/* A dictionary gets one more entry; steals `value`. */
int native_put(PyObject *dictionary, const char *key, PyObject *value);
int native_put_u64(PyObject *dictionary, const char *key, uint64_t value);
/* What a notebook shows of a pool, an arena, a tenant or a block: a method. */
PyObject *native_repr_html(PyObject *self, PyObject *none);
/* A segment as a dictionary. */
PyObject *native_segment_of(const moiety_segment_info *info);

/* space.c: life of a pool or an arena. */
/* The pool, to be used until native_leave(); NULL where it is closed. */
moiety_pool *native_enter_open(struct native_space *space);
/* The same; NULL after an error. */
moiety_pool *native_enter(struct native_space *space);
/* Then does what the thread has postponed, by which the library's message of this
 * call's failure may be lost: raise before. */
void native_leave(struct native_space *space);
/* Ends a call of a space's that gives nothing: None, or NULL and an exception. */
PyObject *native_leave_with(PyObject *self, moiety_status status);
/* Calls the library without the GIL on a pool that was entered (NULL: after an
 * error), and ends so. */
PyObject *native_call(PyObject *self, moiety_pool *pool,
                      moiety_status (*call)(moiety_pool *pool));
/* Of a space that was entered, and is left with the capsule: it cannot be closed
 * meanwhile. */
PyObject *native_space_capsule(struct native_space *space, void *handle,
                               const char *name);
/* MOIETY_OK: the address is in its memory, used or not; MOIETY_E_FOREIGN: it is
 * not; or what the library said. */
moiety_status native_space_look(struct native_space *space, uint64_t address);
/* __init__(), by `make`; refuses a second one. */
int native_space_init(PyObject *self, PyObject *arguments, PyObject *names,
                      initproc make);
/* Their close() and their end. */
PyObject *native_space_close(PyObject *self, PyObject *none);
/* A block that was shown is gone. */
void native_space_unshow(struct native_space *space);
/* Into the list of pools; 0, or -1 after an error. */
int native_space_list(struct native_space *space);
int native_space_device(const struct native_space *space);
void native_space_set_device(struct native_space *space, int device);

/* Whether a pool has met a capture within the last two seconds, and no guard is
 * held: its holder knows. */
bool native_is_capture_seen(void);

/* settings.c: methods of Pool and HostArena, and a property. */
PyObject *native_set_limit(PyObject *self, PyObject *arguments,
                           PyObject *names);
PyObject *native_reserve(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *native_trim(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *native_reset_peaks(PyObject *self, PyObject *none);
PyObject *native_used_bytes(PyObject *self, void *none);
PyObject *native_total_bytes(PyObject *self, void *none);
PyObject *native_limit(PyObject *self, void *none);
void native_space_dealloc(PyObject *self);
/* By the garbage collector: the pool ends before what its functions refer to. */
void native_space_finalize(PyObject *self);
int native_space_traverse(PyObject *self, visitproc visit, void *arg);

/* space_type.c: what pools and arenas have in common, as their base type. */
PyTypeObject *native_space_type_new(PyObject *module);
/* A function of the module: frees an address as RMM does. */
PyObject *native_free_for_rmm(PyObject *module, PyObject *const *arguments,
                              Py_ssize_t count);

/* memory.c: the library's calls, with the GIL released where they need it. */
/* For a tenant of the pool, or 0. */
moiety_status native_take(moiety_pool *pool, moiety_tenant tenant,
                          size_t nbytes, moiety_stream stream,
                          moiety_devptr *out);
moiety_status native_give(moiety_pool *pool, moiety_devptr address,
                          moiety_stream stream);
/* A call that may wait, between native_wait_begin() and native_wait_end(): the
 * thread that Python gives signals runs their handlers meanwhile, and what one
 * raises ends the wait. */
struct native_wait {
    struct native_wait *outer;
    bool has_failed;
    struct native_error error;
};
void native_wait_begin(struct native_wait *wait);
/* A function that the call has called back has raised: the wait ends. */
void native_wait_fail(struct native_wait *wait);
/* The status of the call; not MOIETY_OK where a handler has raised, which is set
 * then: native_raise() leaves it. */
moiety_status native_wait_end(struct native_wait *wait, moiety_status status);
/* True once the interpreter is on its way out: nothing is given back any more.
 */
bool native_is_over(void);
int native_watch_exit(PyObject *module);

/* postpone.c: frees that a thread puts off. */
/* Around a function that the library calls in the middle of a call: takes the GIL, and
 * gives it back. */
struct native_told {
    PyGILState_STATE gil;
    bool is_foreign; /* the thread is not Python's, and may never call us */
};
void native_told_begin(struct native_told *told);
void native_told_end(const struct native_told *told);
/* Whether the thread runs one: then it frees later. */
bool native_is_told(void);
/* `finish` is called with the object when the thread runs none and leaves a call
 * on a pool; for a thread that is not Python's, any other thread does. */
void native_postpone(struct native_postponed *entry, void *object,
                     void (*finish)(void *object));
void native_do_postponed(void);

/* watch.c: who is told of segments. */
/* MOIETY_OK: from now on, and of what is there before this returns. */
moiety_status native_watch_begin(struct native_watch *watch, moiety_pool *pool);
/* The space has it from now on. */
void native_watch_link(struct native_watch *watch, struct native_space *space);
/* Takes it from the space, if that has it still. The library has forgotten it. */
void native_watch_unlink(struct native_watch *watch);
void native_watch_drop_functions(struct native_watch *watch);
/* A reference to its space; NULL: the watch is over, or the space is in its end. */
PyObject *native_watch_space(struct native_watch *watch, bool *out_is_open);
/* The pool is gone. */
void native_watches_end(struct native_space *space);
/* The space is going, and the library keeps its pool: nothing of what it may call
 * ends. */
void native_watches_abandon(struct native_space *space);
int native_watches_visit(const struct native_space *space, visitproc visit,
                         void *arg);

/* watch_type.c */
int native_watch_type_add(PyObject *module, struct native_state *state);
PyObject *native_watch_segments(PyObject *self, PyObject *arguments,
                                PyObject *names);

/* block.c: life of a block. */
/* For "O&" of PyArg_Parse...(). An address: a number, or a block that lives. */
int native_address_from(PyObject *object, void *out);
/* An address that nobody owns: blocks, which free themselves, are refused. */
int native_bare_from(PyObject *object, void *out);
/* Refuses a block that was freed, or whose pool was closed. */
int native_block_check(const struct native_block *block);
/* The same. Whoever has its address from now on keeps the block, and with it the
 * memory of an arena, whatever is closed; of blocks of a Pool that is all. */
int native_block_show(struct native_block *block);
/* The same, and until native_block_unview() a free waits. */
int native_block_view(struct native_block *block);
void native_block_unview(struct native_block *block);
/* Takes memory of the space: for a Tenant, which the block keeps, and its
 * handle; or NULL and 0. */
PyObject *native_block_new(struct native_space *space, PyObject *tenant,
                           moiety_tenant handle, size_t nbytes,
                           moiety_stream stream);
/* What a free without a stream names; PER_THREAD means the calling thread's. */
void native_block_set_stream(struct native_block *block, moiety_stream stream);
/* That stream; ANY where it is another thread's, which has no name here. */
moiety_stream native_block_own_stream(const struct native_block *block);
bool native_block_is_live(const struct native_block *block);
/* Frees now, or with the last view; again: nothing happens. None, or NULL after
 * an error. */
PyObject *native_block_free(PyObject *self, moiety_stream stream);
void native_block_dealloc(PyObject *self);

/* block_type.c */
int native_block_types_add(PyObject *module, struct native_state *state);
/* A function of the module: a block's address, for an object that keeps it. */
PyObject *native_show(PyObject *module, PyObject *block);

/* cupy.c */
int native_cupy_type_add(PyObject *module);

/* dlpack.c */
PyObject *native_dlpack(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *native_dlpack_device(PyObject *self, PyObject *none);
/* Functions of the module: a capsule of any memory, and what a capsule has. */
PyObject *native_dlpack_make(PyObject *module, PyObject *arguments);
PyObject *native_dlpack_read(PyObject *module, PyObject *capsule);

/* pool.c, arena.c: types with the base that native_space_type_new() made. */
int native_pool_type_add(PyObject *module, struct native_state *state,
                         PyTypeObject *base);
int native_arena_type_add(PyObject *module, struct native_state *state,
                          PyTypeObject *base);

/* A function of the module: whether Pool() takes such options. */
PyObject *native_check_options(PyObject *module, PyObject *arguments,
                               PyObject *names);

/* The Pool that has the address, in use or not, or None. */
PyObject *native_pool_of(PyObject *module, PyObject *address);
/* moiety_default_pool(), as a Pool that Python does not close. */
PyObject *native_default_pool(PyObject *module, PyObject *device);

/* tenant.c */
int native_tenant_type_add(PyObject *module, struct native_state *state);
/* A method of Pool (`has_pausable`) and HostArena. */
PyObject *native_tenant_new(PyObject *self, PyObject *arguments,
                            PyObject *names, bool has_pausable);
/* A capsule of its handle, which keeps it open. */
PyObject *native_tenant_capsule(PyObject *self);

/* scope.c: what a with-block holds of a Pool. */
int native_scope_type_add(PyObject *module, struct native_state *state);
PyObject *native_hold(PyObject *self, PyObject *arguments, PyObject *names);
PyObject *native_capture_scope(PyObject *self, PyObject *named);

/* import.c */
int native_import_type_add(PyObject *module, struct native_state *state);
/* Closes the imports that could not be closed when their object went. */
void native_import_close_left(void);
/* A function of the module: what came through a socket. */
PyObject *native_import_receive(PyObject *module, PyObject *arguments);

/* The numbers of a pool that was entered, as a dictionary. */
PyObject *native_stats_of(PyObject *self, moiety_pool *pool);

/* snapshot.c */
PyObject *native_snapshot(PyObject *self, PyObject *none);
PyObject *native_history(PyObject *self, PyObject *none);

/* probe.c, sharing.c: functions of the module. */
PyObject *native_probe(PyObject *module, PyObject *arguments, PyObject *names);
PyObject *native_topology(PyObject *module, PyObject *arguments,
                          PyObject *names);
extern PyMethodDef native_sharing_methods[];

#endif
