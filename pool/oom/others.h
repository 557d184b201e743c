/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pools of one device help each other: when the driver has no memory for one,
 * the others give back what nobody uses
 * (docs/dev/adr/0031-what-a-pool-tells-and-asks.md).
 */
#ifndef MOIETY_POOL_OOM_OTHERS_H_
#define MOIETY_POOL_OOM_OTHERS_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/core/body.h"

/* The pools that were asked so far, and what they gave back to the driver. */
struct moietyi_others {
    uint64_t last_id; /* of the one that was asked last; 0: none */
    uint64_t pool_count;
    uint64_t bytes;
    uint64_t held_up_bytes; /* that they keep because the device works */
    uint64_t
        device_free_bytes; /* where it is known, when none was left to ask */
    bool is_device_free_known;
};

/* Makes one pool after the other give back what it can, until one gave
 * something. The call ends and begins anew meanwhile. Waits for growers, but
 * not for the device. False: no pool is left, nothing has changed, or
 * `out_status` says why the call cannot go on; it can be ended like any
 * other. */
bool moietyi_others_ask(struct moietyi_call *call,
                        struct moietyi_others *others,
                        moiety_status *out_status);
/* The same after the source was asked, which ended with `*status`, if the
 * driver had no memory: its refusals were `refusals` before. True: ask
 * again. */
bool moietyi_others_help(struct moietyi_call *call, uint64_t refusals,
                         struct moietyi_others *others, moiety_status *status);
/* Whether `bytes` more may be free once the device is idle: of other pools, of
 * the driver, and of the `own_bytes` that the pool could give back itself. */
bool moietyi_others_may_do(const struct moietyi_others *others,
                           uint64_t own_bytes, uint64_t bytes);
/* If the device is idle, moietyi_others_ask() asks the pools again that it held
 * up. False: it works, or it held up none. */
bool moietyi_others_begin_again(struct moietyi_call *call,
                                struct moietyi_others *others);
/* Naps until then, as long as that memory may be enough for `bytes`, the thread
 * is not interrupted, and the time is not over. */
bool moietyi_others_await(struct moietyi_call *call,
                          struct moietyi_others *others, uint64_t bytes,
                          uint64_t end_ns);

#endif
