/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pools of one device help each other: when the driver has no memory for one,
 * the others give back what nobody uses (docs/adr/0031-what-a-pool-tells-and-asks.md).
 */
#ifndef MOIETY_POOL_OOM_OTHERS_H_
#define MOIETY_POOL_OOM_OTHERS_H_

#include <stdbool.h>
#include <stdint.h>

#include "pool/core/body.h"

/* Pools that were asked so far, and what they gave back to the driver. */
struct moietyi_others {
    uint64_t last_id; /* of the one that was asked last; 0: none */
    uint64_t pool_count;
    uint64_t bytes;
    bool is_held_up; /* one has something, and the device works */
};

/* Lets one pool after the other give back what it can, until one gave something.
 * The call ends and begins anew meanwhile. Waits for growers, for no work of the
 * device. False: there is none left, nothing has changed, or `out_status`
 * says why the call cannot go on; it can be ended as any other. */
bool moietyi_others_ask(struct moietyi_call *call,
                        struct moietyi_others *others,
                        moiety_status *out_status);
/* The same after the source was asked, which ended with `*status`, if it was the
 * driver that had no memory: its refusals were `refusals` before. True: ask
 * again. */
bool moietyi_others_help(struct moietyi_call *call, uint64_t refusals,
                         struct moietyi_others *others, moiety_status *status);

#endif
