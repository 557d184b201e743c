/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Gives memory back in a call whose wait is bounded. cuMemFree,
 * cuMemHostUnregister and similar calls wait on the host for all work of the
 * device, and hold up every other thread's launches meanwhile. So memory goes
 * back here only if the device is idle. Calls that may wait (a trim, the pool's
 * end) use moietyi_trim_for().
 */
#ifndef MOIETY_POOL_OOM_GIVE_BACK_H_
#define MOIETY_POOL_OOM_GIVE_BACK_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/core/body.h"

/* The result. */
struct moietyi_given_back {
    uint64_t bytes;
    bool is_held_up; /* something stayed because the device works */
};

/* Down to `keep_bytes`; as moietyi_segments_trim(). */
moiety_status moietyi_give_back(struct moietyi_call *call, uint64_t keep_bytes,
                                struct moietyi_given_back *out);
/* All; as moietyi_segments_trim_unwatched(). `wait_ms` is of the call that needs
 * the memory. */
moiety_status moietyi_give_back_unwatched(struct moietyi_call *call,
                                          uint32_t wait_ms,
                                          struct moietyi_given_back *out);

#endif
