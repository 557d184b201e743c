/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One thread at a time ends a handle. The process has a list of handles
 * whose owners have gone, but which could not be ended yet. Threads that come by
 * try again: none of them waits for a device.
 */
#ifndef MOIETY_POOL_BASE_LATER_H_
#define MOIETY_POOL_BASE_LATER_H_

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/status.h"

/* How a thread ends a handle. */
enum moietyi_end {
    MOIETYI_END_WAITS,  /* waits for the device: in a call of the owner's */
    MOIETYI_END_LOOKS,  /* waits only where a driver cannot be asked */
    MOIETYI_END_GLANCES /* and not even then, nor for the list */
};

/* Ends a handle that this thread has taken. moietyi_end_is_refused() says whether
 * it is unchanged; otherwise it has ended. */
typedef moiety_status moietyi_end_fn(void *handle, enum moietyi_end how);
/* Whether an end with this status has changed nothing: something uses the handle,
 * a capture is near, its work goes on, the wait was stopped, or the thread is in
 * another call. All other statuses tell of a handle that has ended. */
static inline bool moietyi_end_is_refused(moiety_status status)
{
    return status == MOIETY_E_IN_USE || status == MOIETY_E_CAPTURING ||
           status == MOIETY_E_WOULD_BLOCK || status == MOIETY_E_INTERRUPTED ||
           status == MOIETY_E_REENTRANT;
}

/* A part of a handle, and as permanent; 0 at first. The list's lock guards all
 * of it. */
struct moietyi_later {
    struct moietyi_later *next;
    moietyi_end_fn *end;
    void *handle;
    uint64_t tried; /* the last look that it was tried for */
    bool is_listed;
    bool is_taken; /* some thread ends it, or has */
};

/* False: another thread ends it, or has. */
bool moietyi_later_take(struct moietyi_later *one);
/* After that: it has ended, and is never taken again, or is unchanged. */
void moietyi_later_release(struct moietyi_later *one, bool is_gone);

/* Edge LA. How many handles are on the list. */
extern atomic_uint moietyi_later_count __attribute__((visibility("hidden")));

void moietyi_later_try(enum moietyi_end how);
/* Ends the handles that can end by now; `how` is not MOIETYI_END_WAITS. If
 * another thread has a handle just then, that thread tries it after this,
 * unless this thread only glances. No lock is held, and the thread is in no
 * call of a pool. */
static inline void moietyi_later_run(enum moietyi_end how)
{
    /* LA.seq_cst: after the caller has ended what may have kept a handle. */
    if (atomic_load_explicit(&moietyi_later_count, memory_order_seq_cst) != 0)
        moietyi_later_try(how);
}

/* Ends a handle now or, if that is refused, later. Returns the status of
 * `end`; MOIETY_OK for later, also if it is on the list already or another thread
 * ends it. */
moiety_status moietyi_later_end(struct moietyi_later *one, moietyi_end_fn *end,
                                void *handle);

#endif
