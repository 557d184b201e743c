/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The program's own functions that a pool calls in the middle of a call of its own:
 * a source's, those of who watches segments, and allocation callbacks. They may use other pools, so no
 * call is inside meanwhile; a call on this pool is refused, and no hit is had.
 */
#ifndef BINADE_POOL_CORE_OUTSIDE_H_
#define BINADE_POOL_CORE_OUTSIDE_H_

#include <stdbool.h>
#include <stddef.h>

#include "pool/cache/thread.h"

struct binadei_outside {
    struct binadei_thread *thread; /* NULL: no call is inside */
    struct binadei_served served;
    bool is_inner; /* it had no hits before */
};

/* `out` stays where it is until the step in. */
static inline void binadei_step_out(const struct binade_pool *pool,
                                    struct binadei_outside *out)
{
    struct binadei_thread *thread = binadei_thread_self;
    out->thread = NULL;
    if (!binadei_thread_is_inside(thread))
        return;
    out->thread = thread;
    binadei_thread_serve(thread, pool, &out->served);
    /* relaxed: read by this thread; others only keep it. */
    out->is_inner =
        atomic_fetch_or_explicit(&thread->revocation, BINADEI_REVOKE_BESIDE,
                                 memory_order_relaxed) &
        BINADEI_REVOKE_BESIDE;
    binadei_thread_leave(thread);
}

static inline void binadei_step_in(const struct binadei_outside *outside)
{
    struct binadei_thread *thread = outside->thread;
    if (!thread)
        return;
    /* relaxed: as above. */
    if (!outside->is_inner)
        atomic_fetch_and_explicit(&thread->revocation, ~BINADEI_REVOKE_BESIDE,
                                  memory_order_relaxed);
    binadei_thread_reenter(thread);
    binadei_thread_serve_end(thread, &outside->served);
}

#endif
