/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Controls of the stand-in driver, for tests and for users' own CI. Never link
 * the stand-in: a second copy would hold a second state. Open it as a driver
 * (MOIETY_DRIVER=standin, or libcuda.so.1 on LD_LIBRARY_PATH) and find these
 * functions with dlsym() on that handle; the typedefs give their types.
 *
 * All functions may be called from any thread; none needs a context. `entry`
 * is a symbol ("cuMemAlloc_v2") or a base name ("cuMemAlloc": its newest
 * version that is implemented, either stream flavour).
 */
#ifndef MOIETY_POOL_STANDIN_STANDIN_H_
#define MOIETY_POOL_STANDIN_STANDIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the stand-in's version, "MAJOR.MINOR.PATCH". Its presence tells the
 * stand-in from a real driver. */
typedef const char *moiety_standin_version_fn(void);

/* Replaces the fault plan; NULL or "" clears it. The text is what
 * MOIETY_STANDIN_FAULTS takes, rules separated by commas:
 *   ENTRY:nth=N:code=CODE    the N-th call from now on fails (once)
 *   ENTRY:every=K:code=CODE  every K-th call fails
 *   ENTRY:from=N:code=CODE   the N-th call and all behind it fail
 *   event:late=MICROSECONDS  events complete that much after their work
 *   stream:delay=MICROSECONDS  every piece of stream work takes that longer
 *   memory:free=BYTES, memory:total=BYTES  what cuMemGetInfo() says, whatever is
 *                              so; may be below 0
 *   wait:code=CODE           a call that would wait for queued work fails
 * CODE is a number or a CUDA_ERROR_ name. ENTRY "*" counts calls of every
 * entry together. Returns 0, or -1 when a word is unknown: then nothing
 * changed and moiety_standin_fault_error() names the word and what is
 * accepted. */
typedef int moiety_standin_set_faults_fn(const char *plan);
typedef const char *moiety_standin_fault_error_fn(void);

/* Calls of `entry` since the last reset, failed ones included; UINT64_MAX for
 * an unknown name. "*" is the sum over all entries. */
typedef uint64_t moiety_standin_calls_fn(const char *entry);
/* Calls of entries that are not implemented. */
typedef uint64_t moiety_standin_unimplemented_calls_fn(void);
typedef void moiety_standin_reset_calls_fn(void);
/* Calls so far that had to wait for queued work, or that the plan let fail
 * instead: frees of memory, synchronisations, copies that block. */
typedef uint64_t moiety_standin_waits_fn(void);
/* 1 implemented, 0 a stub that returns NOT_SUPPORTED, -1 unknown name. */
typedef int moiety_standin_is_implemented_fn(const char *entry);

/* Has each entry call `called` first, with its name, in the thread that made the
 * call; NULL: nothing. */
typedef void moiety_standin_watch_fn(void (*called)(const char *entry));

/* Holds `stream` (any handle, NULL is the legacy stream of the current
 * context): queued work does not start until released. Holds are counted.
 * Returns 0, or -1 when the handle names no stream. */
typedef int moiety_standin_hold_fn(void *stream);
typedef int moiety_standin_release_fn(void *stream);

/* Bytes of device memory now allocated on `device`, in the driver's own
 * granules; SIZE_MAX for an unknown device. For leak checks. */
typedef size_t moiety_standin_used_bytes_fn(int device);
/* Live objects over all devices: "contexts", "streams", "events",
 * "allocations", "host", "vmm", "ipc", "graphs"; and "blocked", calls that wait
 * for room in a launch queue or for such a call. -1 for an unknown kind. */
typedef int64_t moiety_standin_live_fn(const char *kind);

#ifdef __cplusplus
}
#endif

#endif
