/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The way out of memory: what is tried, in which order, before an allocation
 * fails. docs/oom.md explains it.
 */
#ifndef MOIETY_POOL_OOM_ESCALATE_H_
#define MOIETY_POOL_OOM_ESCALATE_H_

#include <stdbool.h>

#include "moiety/oom.h"
#include "pool/core/body.h"

/* Counted in moiety_stats: the steps of moiety/oom.h, and what became of it. */
enum moietyi_escalation_count {
    MOIETYI_ESCALATION_FAILED = MOIETY_OOM_STEPS,
    MOIETYI_ESCALATION_COUNTS
};

/* Takes a block of what is free now, without escalating. False: nothing is found. */
bool moietyi_take_free(struct moietyi_call *call,
                       const struct moietyi_request *request,
                       moiety_devptr *out);
/* Takes a block, from the caches or by escalating. `may_wait` is false for
 * moiety_try_alloc(). The statuses of moiety_alloc(). */
MOIETY_MUST_USE moiety_status moietyi_alloc_escalating(
    struct moietyi_call *call, const struct moietyi_request *request,
    bool may_wait, moiety_devptr *out);

#endif
