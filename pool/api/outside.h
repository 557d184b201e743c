/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The program's own functions that a pool calls in the middle of a call of its own:
 * a source's, and those of who watches segments. They may use other pools, so no
 * call is inside meanwhile; a call on this pool is refused, and no hit is had.
 */
#ifndef BINADE_POOL_API_OUTSIDE_H_
#define BINADE_POOL_API_OUTSIDE_H_

#include <stdbool.h>
#include <stddef.h>

#include "pool/cache/thread.h"

struct binadei_outside {
    struct binadei_thread *thread; /* NULL: no call is inside */
    const struct binade_pool *outer;
    bool is_inner; /* it had no hits before */
};

static inline struct binadei_outside
binadei_step_out(const struct binade_pool *pool)
{
    struct binadei_outside outside = {.thread = binadei_thread_self};
    struct binadei_thread *thread = outside.thread;
    if (!binadei_thread_is_inside(thread))
        return (struct binadei_outside){.thread = NULL};
    outside.outer = binadei_thread_serving(thread);
    binadei_thread_serve(thread, pool);
    /* relaxed: read by this thread; others only keep it. */
    outside.is_inner =
        atomic_fetch_or_explicit(&thread->revocation, BINADEI_REVOKE_BESIDE,
                                 memory_order_relaxed) &
        BINADEI_REVOKE_BESIDE;
    binadei_thread_leave(thread);
    return outside;
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
    binadei_thread_serve(thread, outside->outer);
}

#endif
