/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The way out of memory: what is tried, in which order, before an allocation
 * fails. docs/oom.md explains it.
 */
#ifndef BINADE_POOL_OOM_ESCALATE_H_
#define BINADE_POOL_OOM_ESCALATE_H_

#include <stdbool.h>

#include "binade/oom.h"
#include "pool/core/body.h"

/* Counted in binade_stats: the steps of binade/oom.h, and what became of it. */
enum binadei_escalation_count {
    BINADEI_ESCALATION_FAILED = BINADE_OOM_STEPS,
    BINADEI_ESCALATION_COUNTS
};

/* Takes a block, from the caches or by escalating. `may_wait` is false for
 * binade_try_alloc(). The statuses of binade_alloc(). */
BINADE_MUST_USE binade_status binadei_alloc_escalating(
    struct binadei_call *call, const struct binadei_request *request,
    bool may_wait, binade_devptr *out);

#endif
