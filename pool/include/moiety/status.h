/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How calls of Moiety report: one status enum, whose values are never
 * renumbered, and per thread the details of the last failure: a sentence for
 * people, and the CUDA driver's own code where the driver was the cause.
 */
#ifndef MOIETY_STATUS_H_
#define MOIETY_STATUS_H_

#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What became of a call. 0 is success. Device, pinned and host memory run out
 * for different reasons and have different remedies, so they are apart.
 */
typedef enum moiety_status {
    /** The call did what it says. */
    MOIETY_OK = 0,
    /** An argument or a setting has a value that is not accepted. */
    MOIETY_E_INVALID = 1,
    /** The size is above what the callee can ever serve. */
    MOIETY_E_TOO_LARGE = 2,
    /** Device memory is exhausted. */
    MOIETY_E_NO_DEVICE_MEMORY = 3,
    /** Host memory that is pinned for the device is exhausted. */
    MOIETY_E_NO_PINNED_MEMORY = 4,
    /** Ordinary host memory is exhausted. */
    MOIETY_E_NO_HOST_MEMORY = 5,
    /** The pointer does not belong to what it was passed to. */
    MOIETY_E_FOREIGN = 6,
    /** The call would have to wait or to call the driver, and may not: call again
     *  later, or a function that may. */
    MOIETY_E_WOULD_BLOCK = 7,
    /** This driver, device or machine cannot do it. */
    MOIETY_E_UNSUPPORTED = 8,
    /** The CUDA driver failed; moiety_last_driver_error() has its code. */
    MOIETY_E_DRIVER = 9,
    /** No usable CUDA driver library was found. */
    MOIETY_E_NO_DRIVER = 10,
    /** A driver is there, but no device that may be used. */
    MOIETY_E_NO_DEVICE = 11,
    /** This process is the child of a fork after first use of the library. */
    MOIETY_E_FORKED = 12,
    /** The driver is shutting down, as it does while the process exits. */
    MOIETY_E_DEINITIALIZED = 13,
    /** The CUDA context was destroyed or its device was reset. */
    MOIETY_E_CONTEXT_DESTROYED = 14,
    /** The bytes are not as they were made: cut, changed or made up. */
    MOIETY_E_CORRUPT = 15,
    /** What was named is not there any more, or was taken back. */
    MOIETY_E_STALE = 16,
    /** The process that it came from has ended. */
    MOIETY_E_PEER_GONE = 17,
    /** A graph is captured, or a capture guard is held, and the call cannot be part
     *  of that: call again after it, or use a scope (moiety/scope.h). */
    MOIETY_E_CAPTURING = 18,
    /** A tenant has used up its budget; the memory itself may be there. */
    MOIETY_E_BUDGET = 19,
    /** The call waited as long as it was allowed: call again to wait longer. */
    MOIETY_E_TIMEOUT = 20,
    /** The function of moiety_set_interrupt() stopped the wait: set it again, then
     *  call again. Or moiety_host_cancel() stopped a growth: call again. */
    MOIETY_E_INTERRUPTED = 21,
    /** Something uses the object, or another thread changes it: end that use, then
     *  call again. */
    MOIETY_E_IN_USE = 22,
    /** The private arena is paused: resume it, then call again. */
    MOIETY_E_PAUSED = 23,
    /** The thread is in a callback, or in a signal handler that interrupted another
     *  call: call again after that has returned. */
    MOIETY_E_REENTRANT = 24,
    /** A table is full, or a block cannot change its length where it lies: free an
     *  entry, or take another block. */
    MOIETY_E_NO_ROOM = 25,
    /** The block was freed before: mend the caller, and free a block once. */
    MOIETY_E_DOUBLE_FREE = 26,
    /** The object was destroyed or ended before: drop its handle. */
    MOIETY_E_DESTROYED = 27
} moiety_status;

/**
 * Names a status.
 *
 * @param status  Any value, also one that this library does not know.
 *
 * @return The enumerator's name ("MOIETY_E_INVALID"), or "MOIETY_E_UNKNOWN" for
 *         a value that is not in the enum; never NULL.
 *
 * Ownership: the library's; valid as long as the library is loaded.
 * Threads:   any, concurrently. Wait-free.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
MOIETY_API const char *moiety_status_name(moiety_status status);

/**
 * Describes a status in general. What went wrong in one particular call is
 * told by moiety_last_error_message().
 *
 * @param status  Any value, also one that this library does not know.
 *
 * @return One line without a full stop, such as "device memory is exhausted";
 *         never NULL.
 *
 * Ownership: the library's; valid as long as the library is loaded.
 * Threads:   any, concurrently. Wait-free.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
MOIETY_API const char *moiety_status_text(moiety_status status);

/**
 * Says why the last failed call of this thread failed: for a setting, its name,
 * the value it had and the values it accepts. A call that succeeds leaves the
 * message of an earlier failure in place.
 *
 * @return One line, at most 1023 bytes; "" if no call of this thread failed
 *         yet; never NULL.
 *
 * Ownership: the library's; valid until the next failure in this thread, and no
 *            longer than the thread lives.
 * Threads:   any, concurrently; each sees its own. Wait-free.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
MOIETY_API const char *moiety_last_error_message(void);

/**
 * Sets the message of a call that fails, for code on top of the library whose own
 * functions return a moiety_status: bindings, and allocators of frameworks.
 *
 * @param status   What the caller is about to return.
 * @param message  One line, cut to 1023 bytes; it may be the message before. NULL
 *                 leaves that in place.
 *
 * @return `status`
 *
 * Ownership: the caller's; copied.
 * Threads:   any, concurrently; each has its own. Takes no lock.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
MOIETY_API moiety_status moiety_fail(moiety_status status, const char *message);

/** A CUresult that the driver returned, and where. */
typedef struct moiety_driver_error {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** The CUresult; 0 if the driver refused nothing to this thread yet. */
    int32_t code;
    /** Its name ("CUDA_ERROR_OUT_OF_MEMORY"); "" for 0; never NULL. */
    const char *name;
    /** Driver entry that returned it ("cuMemAlloc"); "" for 0; never NULL. */
    const char *entry;
} moiety_driver_error;

/**
 * Tells the last error that the CUDA driver returned to this thread through
 * Moiety. Calls that succeed leave it in place.
 *
 * @param out  [in,out] `struct_size` says how much the caller has room for.
 *             The fields are written only when MOIETY_OK is returned, and none
 *             past `struct_size`, which then holds the bytes filled in.
 *
 * @return MOIETY_E_INVALID  `out` is NULL, or `struct_size` is less than that
 *         of version 0.1.0.
 *
 * Ownership: the caller's struct; the texts are the library's and valid until
 *            the process ends.
 * Threads:   any, concurrently; each sees its own. Wait-free.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_last_driver_error(moiety_driver_error *out);

#ifdef __cplusplus
}
#endif

#endif
