/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for the device's work, where it is not for memory.
 */
#ifndef MOIETY_POOL_CORE_WORK_H_
#define MOIETY_POOL_CORE_WORK_H_

#include "pool/cache/cache.h"

/* The end of a wait for work, on the clock of moietyi_now_ns(); and how long
 * the wait may last while its event cannot be recorded although no earlier one
 * is in flight: a guard is held, or a capture without a guard is open. */
struct moietyi_patience {
    uint64_t work_end_ns;
    uint64_t event_ns;
};
/* For both as long as the pool's wait_ms says, but 200 ms at least. */
struct moietyi_patience
moietyi_patience_from_now(const struct moietyi_call *call);
/* Waits for all work that was queued until now; outside of sections, and others
 * go on meanwhile. MOIETY_OK; MOIETY_E_TIMEOUT when the patience is at its end;
 * MOIETY_E_CAPTURING when a capture is why; MOIETY_E_INTERRUPTED; or why the
 * context is lost. */
MOIETY_MUST_USE moiety_status moietyi_wait_for_work(
    struct moietyi_call *call, const struct moietyi_patience *patience);

#endif
