/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * How calls of Binade report: one status enum, whose values are never
 * renumbered, and per thread the details of the last failure: a sentence for
 * people, and the CUDA driver's own code where the driver was the cause.
 */
#ifndef BINADE_STATUS_H_
#define BINADE_STATUS_H_

#include "binade/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What became of a call. 0 is success. Device, pinned and host memory run out
 * for different reasons and have different remedies, so they are apart.
 */
typedef enum binade_status {
    /** The call did what it says. */
    BINADE_OK = 0,
    /** An argument or a setting has a value that is not accepted. */
    BINADE_E_INVALID = 1,
    /** The size is above what the callee can ever serve. */
    BINADE_E_TOO_LARGE = 2,
    /** Device memory is exhausted. */
    BINADE_E_NO_DEVICE_MEMORY = 3,
    /** Host memory that is pinned for the device is exhausted. */
    BINADE_E_NO_PINNED_MEMORY = 4,
    /** Ordinary host memory is exhausted. */
    BINADE_E_NO_HOST_MEMORY = 5,
    /** The pointer does not belong to what it was passed to. */
    BINADE_E_FOREIGN = 6,
    /** In use, or it would have to wait and was told not to. */
    BINADE_E_BUSY = 7,
    /** This driver, device or machine cannot do it. */
    BINADE_E_UNSUPPORTED = 8,
    /** The CUDA driver failed; binade_last_driver_error() has its code. */
    BINADE_E_DRIVER = 9,
    /** No usable CUDA driver library was found. */
    BINADE_E_NO_DRIVER = 10,
    /** A driver is there, but no device that may be used. */
    BINADE_E_NO_DEVICE = 11,
    /** This process is the child of a fork after first use of the library. */
    BINADE_E_FORKED = 12,
    /** The driver is shutting down, as it does while the process exits. */
    BINADE_E_DEINITIALIZED = 13,
    /** The CUDA context was destroyed or its device was reset. */
    BINADE_E_CONTEXT_DESTROYED = 14,
    /** The bytes are not as they were made: cut, changed or made up. */
    BINADE_E_CORRUPT = 15,
    /** What was named is not there any more, or was taken back. */
    BINADE_E_STALE = 16,
    /** The process that it came from has ended. */
    BINADE_E_PEER_GONE = 17,
    /** The stream captures a graph, outside any scope: binade/scope.h. */
    BINADE_E_CAPTURING = 18,
    /** A tenant has used up its budget; the memory itself may be there. */
    BINADE_E_BUDGET = 19
} binade_status;

/**
 * Names a status.
 *
 * @param status  Any value, also one that this library does not know.
 *
 * @return The enumerator's name ("BINADE_E_INVALID"), or "BINADE_E_UNKNOWN" for
 *         a value that is not in the enum; never NULL.
 *
 * Ownership: the library's; valid as long as the library is loaded.
 * Threads:   any, concurrently. Wait-free.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
BINADE_API const char *binade_status_name(binade_status status);

/**
 * Describes a status in general. What went wrong in one particular call is
 * told by binade_last_error_message().
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
BINADE_API const char *binade_status_text(binade_status status);

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
BINADE_API const char *binade_last_error_message(void);

/** A CUresult that the driver returned, and where. */
typedef struct binade_driver_error {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** The CUresult; 0 if the driver refused nothing to this thread yet. */
    int32_t code;
    /** Its name ("CUDA_ERROR_OUT_OF_MEMORY"); "" for 0; never NULL. */
    const char *name;
    /** Driver entry that returned it ("cuMemAlloc"); "" for 0; never NULL. */
    const char *entry;
} binade_driver_error;

/**
 * Tells the last error that the CUDA driver returned to this thread through
 * Binade. Calls that succeed leave it in place.
 *
 * @param out  [in,out] `struct_size` says how much the caller has room for.
 *             The fields are written only when BINADE_OK is returned, and none
 *             past `struct_size`, which then holds the bytes filled in.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  `out` is NULL, or `struct_size` is less than that
 *         of version 0.1.0.
 *
 * Ownership: the caller's struct; the texts are the library's and valid until
 *            the process ends.
 * Threads:   any, concurrently; each sees its own. Wait-free.
 * Streams:   none.
 * Context:   none; the driver is not touched.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_last_driver_error(binade_driver_error *out);

#ifdef __cplusplus
}
#endif

#endif
