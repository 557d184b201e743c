/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The program's own functions that a pool calls in the middle of a call of its own:
 * a source's, those of who watches segments, and allocation callbacks. They may use other pools, so no
 * call is inside meanwhile; a call on this pool is refused, and no hit is had.
 */
#ifndef MOIETY_POOL_CORE_OUTSIDE_H_
#define MOIETY_POOL_CORE_OUTSIDE_H_

#include <stdbool.h>
#include <stddef.h>

#include "pool/cache/thread.h"

struct moietyi_outside {
    struct moietyi_thread *thread; /* NULL: no call is inside */
    struct moietyi_served served;
    bool is_inner; /* it had no hits before */
};

/* `out` stays where it is until the step in. */
static inline void moietyi_step_out(const struct moiety_pool *pool,
                                    struct moietyi_outside *out)
{
    struct moietyi_thread *thread = moietyi_thread_self;
    out->thread = NULL;
    if (!moietyi_thread_is_inside(thread))
        return;
    out->thread = thread;
    moietyi_thread_serve(thread, pool, &out->served);
    /* relaxed: read by this thread; others only keep it. */
    out->is_inner =
        atomic_fetch_or_explicit(&thread->revocation, MOIETYI_REVOKE_BESIDE,
                                 memory_order_relaxed) &
        MOIETYI_REVOKE_BESIDE;
    moietyi_thread_leave(thread);
}

static inline void moietyi_step_in(const struct moietyi_outside *outside)
{
    struct moietyi_thread *thread = outside->thread;
    if (!thread)
        return;
    /* relaxed: as above. */
    if (!outside->is_inner)
        atomic_fetch_and_explicit(&thread->revocation, ~MOIETYI_REVOKE_BESIDE,
                                  memory_order_relaxed);
    moietyi_thread_reenter(thread);
    moietyi_thread_serve_end(thread, &outside->served);
}

#endif
