/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The one lock over all state of the stand-in, and the life of the process:
 * initialised, forked, torn down; and what is kept per thread.
 */
#ifndef MOIETY_POOL_STANDIN_BASE_PROCESS_H_
#define MOIETY_POOL_STANDIN_BASE_PROCESS_H_

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pool/driver/cuda_abi.h"

/* Nothing that runs a user's function or sleeps holds the lock, except
 * standin_wait(), which releases it. */
void standin_lock(void);
void standin_unlock(void);
/* Waits, lock held, until some state changed: woken by standin_notify(). */
void standin_wait(void);
/* The same, for at most `timeout_ns`. */
void standin_wait_for(long timeout_ns);
/* Wakes all waiters; lock held. */
void standin_notify(void);

/* What every call answers in the child of a fork and after the library was
 * torn down; CUDA_SUCCESS before. */
CUresult standin_refusal(void);
/* True in the child of a fork and after the library was torn down: state may
 * be half-made, touch nothing. */
bool standin_is_dead(void);

/* cuInit has succeeded in this process. */
bool standin_is_initialised(void);
void standin_mark_initialised(void);

/* Returns `code` and releases the lock: `return standin_leave(code);` */
CUresult standin_leave(CUresult code);

/* When a process started, as the kernel says (field 22 of /proc/PID/stat): tells
 * it from one that had its pid before. 0 when there is none. No lock needed. */
uint64_t standin_start_ticks(pid_t pid);

/* What is kept per thread of the program. */
struct thread_state {
    uint64_t serial; /* from 1; never used again */
    CUstreamCaptureMode capture_mode;
    bool is_in_callback; /* it runs a host function of some stream: then every
                            entry returns NOT_PERMITTED */
};

/* The calling thread's; the lock need not be held. */
struct thread_state *thread_state(void);

#endif
