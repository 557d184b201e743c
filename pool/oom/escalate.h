/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Escalation: the steps before an allocation fails, and their order.
 * docs/out-of-memory.md explains them.
 */
#ifndef MOIETY_POOL_OOM_ESCALATE_H_
#define MOIETY_POOL_OOM_ESCALATE_H_

#include <stdbool.h>

#include "moiety/oom.h"
#include "pool/cache/magazine.h"
#include "pool/core/body.h"

/* Takes a block that is free now, without escalating. False: there is none. */
static inline bool moietyi_take_free(struct moietyi_call *call,
                                     const struct moietyi_request *request,
                                     moiety_devptr *out)
{
    if (moietyi_is_any_abandoned(call->engine))
        moietyi_reclaim_some_abandoned(call);
    if (!moietyi_take(call, request, out))
        return false;
    /* Threads share the count only while the bounds are halved. */
    if (moietyi_halvings(call->engine))
        moietyi_bounds_stay_calm(call->thread_state);
    return true;
}

/* Takes a block, from the caches or by escalating. `may_wait` is false with
 * MOIETY_ALLOC_NO_WAIT. The statuses of moiety_alloc(). */
MOIETY_MUST_USE moiety_status moietyi_alloc_escalating(
    struct moietyi_call *call, const struct moietyi_request *request,
    bool may_wait, moiety_devptr *out);

#endif
