/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for the device's work, where it is not for memory.
 */
#ifndef BINADE_POOL_CORE_WORK_H_
#define BINADE_POOL_CORE_WORK_H_

#include "pool/cache/cache.h"

/* Until when on the clock of binadei_now_ns() somebody waits: for work, and for
 * its event, which nobody can record while a guard is held or a capture that no
 * guard told of is open. */
struct binadei_patience {
    uint64_t work_end_ns;
    uint64_t event_end_ns;
};
/* For both as long as the pool's wait_ms says, but 200 ms at least. */
struct binadei_patience
binadei_patience_from_now(const struct binadei_call *call);
/* Waits for all work that was queued until now; outside of sections, and others
 * go on meanwhile. BINADE_OK, BINADE_E_BUSY when the patience is at its end, or
 * why the context is lost. */
BINADE_MUST_USE binade_status binadei_wait_for_work(
    struct binadei_call *call, const struct binadei_patience *patience);

#endif
