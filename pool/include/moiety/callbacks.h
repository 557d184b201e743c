/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the program's that the library calls: a log of what happens rarely,
 * and what a pool tells of each allocation. Those that are called before an
 * allocation fails are in moiety/oom.h. docs/observability.md has examples.
 */
#ifndef MOIETY_CALLBACKS_H_
#define MOIETY_CALLBACKS_H_

#include <stdint.h>

#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Levels of messages: moiety_set_log(). */

/** Something that the program asked for was not done: an allocation failed for want
 *  of memory, with its report; what a checked pool found; a trace that was lost; a
 *  context that is gone. */
#define MOIETY_LOG_ERROR 1
/** It was done, but not as was asked for, or something goes wrong elsewhere: pinned
 *  memory without huge pages or on another node, no fabric handles, the driver has
 *  no memory left, a source that takes nothing back, blocks that were never freed. */
#define MOIETY_LOG_WARNING 2
/** Good to know: a limit was reached, a pool gave memory back for another, memory
 *  that was to be mapped if possible is not. */
#define MOIETY_LOG_INFO 3

/**
 * Told what happened. It is called after the call of the library in which that was,
 * by the same thread, which then is in no call: so it may call every function, also
 * on the same pool, but moiety_set_log(). Messages of its own calls are dropped. It
 * must return: no longjmp(), no C++ exception, no end of the thread. Several threads
 * may be in it at once.
 *
 * @param level    MOIETY_LOG_
 * @param message  A text without a newline at its end; an allocation that failed has
 *                 several lines, as moiety_oom_text(). Valid until it returns.
 * @param user     As it was set.
 *
 * Threads:   any that calls the library. The library holds no lock.
 * Streams:   none.
 * Context:   the caller's; leave it as it was.
 */
typedef void (*moiety_log_callback)(uint32_t level, const char *message,
                                    void *user);

/**
 * Sets the log function of the process, instead of the one before. Without one,
 * which is how it begins, a few messages go to stderr; with one, they go there
 * alone, but for those made as the process exits. After MOIETY_OK the one before is
 * not running in any thread, and is never called again.
 *
 * @param level     Messages up to this level are wanted: MOIETY_LOG_. Ignored where
 *                  `callback` is NULL.
 * @param callback  NULL: none any more.
 * @param user      Passed to it.
 *
 * @return MOIETY_E_INVALID  `level` is none of those above.
 * @return MOIETY_E_REENTRANT  This thread is inside a log function: nothing has
 *         changed.
 * @return MOIETY_E_FORKED
 *
 * Ownership: what `user` points to stays the caller's, and must last until another
 *            function is set.
 * Threads:   any. May block, on the function that was set before: so the caller holds
 *            nothing that it may wait for.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_set_log(uint32_t level, moiety_log_callback callback, void *user);

/**
 * Gives the log function a message of the program's, or prints it to stderr if there
 * is none: for code between a program and the library that can report a failure
 * in no other way, such as a destructor. Does nothing in the child of a fork.
 *
 * @param level    MOIETY_LOG_; with any other value the message is dropped.
 * @param message  As a log function gets it; NULL does nothing.
 *
 * Ownership: the caller's; copied.
 * Threads:   any. The log function is called before this returns, but after the call
 *            of the library that the thread is in.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
MOIETY_API void moiety_log(uint32_t level, const char *message);

/** A block that was allocated, or is about to be freed. */
typedef struct moiety_allocation {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** 0. */
    uint32_t reserved;
    moiety_pool *pool;
    moiety_devptr address;
    /** Bytes of the block, the same at its allocation and its free. */
    uint64_t size_bytes;
    /** Bytes that were requested; 0 at a free. */
    uint64_t requested_bytes;
    /** As the caller named it, or found for it by moiety_free_on_alloc_stream();
     *  MOIETY_STREAM_ANY for moiety_free_on_event(). */
    moiety_stream stream;
} moiety_allocation;

/**
 * Told of one block. It is called in the middle of the call that it tells of, so
 * calls on that pool are refused with MOIETY_E_REENTRANT; others may be made, also on
 * other pools. It must return: no longjmp(), no C++ exception, no end of the thread.
 * Several threads may be in it at once.
 *
 * @param user        As the pool was given it.
 * @param allocation  Valid until it returns.
 *
 * Threads:   the calling one. The library holds no lock. It must not wait for another
 *            thread's call on the pool.
 * Streams:   none are waited for. What `allocated` is told of may be in use still by
 *            work that is queued on its stream.
 * Context:   the caller's; leave it as it was.
 */
typedef void (*moiety_allocation_callback)(void *user,
                                           const moiety_allocation *allocation);

/**
 * A pool calls these at all of its allocations and frees, if
 * moiety_pool_options.allocation_callbacks names them.
 * Of two lives of an address the first one's `freeing` is told before the second
 * one's `allocated`. A free that is refused although a block was there is followed by
 * `allocated` for the same block. What a pool's end finds unfreed is not told.
 */
typedef struct moiety_allocation_callbacks {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** 0. */
    uint32_t flags;
    /** Passed to both; it must last until the pool is destroyed. */
    void *user;
    /** After a block was allocated, before the caller has it; or NULL. */
    moiety_allocation_callback allocated;
    /** Before a block is freed, while it still is the caller's; or NULL. */
    moiety_allocation_callback freeing;
} moiety_allocation_callbacks;

/**
 * Asked by a thread that waits, about 20 times a second, whether it is to go on. It
 * returns 0, or another number, which ends the wait, and the thread's later waits too,
 * until moiety_set_interrupt() is called again. A call that only waits returns
 * MOIETY_E_INTERRUPTED then; an allocation goes on as if its time were over. Calls of
 * the library that it makes are refused with MOIETY_E_REENTRANT. It must return: no
 * longjmp(), no C++ exception, no end of the thread.
 *
 * @param user  As it was set.
 */
typedef int moiety_interrupt_fn(void *user);

/**
 * Sets the function that ends the calling thread's waits for the device's work:
 * those of allocations, moiety_pool_reserve(), moiety_host_reserve(),
 * moiety_pool_synchronize(), moiety_pool_destroy(), moiety_tenant_pause() and
 * resume(), and moiety_ipc_wait().
 * It is for bindings to languages in which a signal ends a call. A call of the driver is not interrupted.
 *
 * @param function  NULL for none, which is how a thread begins and has to end: the
 *                  library allocates for one, and has none where that fails.
 * @param user      Given to the function.
 *
 * Ownership: `user` stays the caller's.
 * Threads:   of the calling thread alone. Never waits.
 * Streams, Context: none.
 */
MOIETY_API void moiety_set_interrupt(moiety_interrupt_fn *function, void *user);

#ifdef __cplusplus
}
#endif

#endif
