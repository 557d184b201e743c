/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Handles whose owners have gone, but which could not be destroyed yet: a list of
 * the process, tried again where what keeps them may have ended.
 */
#ifndef MOIETY_POOL_BASE_LATER_H_
#define MOIETY_POOL_BASE_LATER_H_

#include <stdatomic.h>

#include "moiety/status.h"

/* Returns MOIETY_E_BUSY: the handle is as it was. Any other: it is gone, or was
 * before; a handle stays recognisable. */
typedef moiety_status moietyi_destroy_fn(void *handle);

/* Edge LA. Handles on the list, and those that a thread tries just now. */
extern atomic_uint moietyi_later_count __attribute__((visibility("hidden")));

void moietyi_later_try(void);
/* Destroys what can be destroyed by now. No lock is held, and the thread is in no
 * call of the pool that shall end by it. */
static inline void moietyi_later_run(void)
{
    /* LA.seq_cst: after the caller has ended what may have kept a handle. */
    if (atomic_load_explicit(&moietyi_later_count, memory_order_seq_cst) != 0)
        moietyi_later_try();
}

/* Destroys a handle, at once or later. What `destroy` returned; MOIETY_OK for
 * later; MOIETY_E_NO_HOST_MEMORY: neither. */
moiety_status moietyi_later_destroy(moietyi_destroy_fn *destroy, void *handle);

#endif
