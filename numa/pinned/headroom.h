/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Whether there is memory for a further region, before its pages are touched:
 * exceeding the memory of a bound node or a control group triggers the OOM
 * killer, not an error. The answer is an estimate: another process may take the
 * memory first.
 */
#ifndef MOIETY_NUMA_PINNED_HEADROOM_H_
#define MOIETY_NUMA_PINNED_HEADROOM_H_

#include "numa/pinned/region.h"

/* MOIETY_OK, or MOIETY_E_NO_PINNED_MEMORY and what has no room: the nodes, if
 * `is_exact`, or the control group. Numbers that the system does not report are
 * no obstacle. */
MOIETY_MUST_USE moiety_status moietyi_headroom_check(
    const struct moietyi_place *place, size_t size_bytes, bool is_exact);

#endif
