/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * By questions: a thread that blocks in the driver cannot tell its patience.
 */
#include "pool/core/work.h"

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/base/interrupt.h"
#include "pool/cache/handle.h"
#include "pool/cache/uses.h"
#include "pool/core/body.h"
#include "pool/driver/context.h"
#include "pool/stream/epoch.h"

#define NAP_NS 20000L
#define NAP_MOST_NS 500000L
/* Work that is over may be asked for twice before the driver says so. */
#define WAIT_LEAST_NS UINT64_C(200000000)

struct moietyi_patience
moietyi_patience_from_now(const struct moietyi_call *call)
{
    uint64_t wait_ns = call->pool->body->options.wait_ms * UINT64_C(1000000);
    uint64_t end_ns =
        moietyi_now_ns() + (wait_ns > WAIT_LEAST_NS ? wait_ns : WAIT_LEAST_NS);
    return (struct moietyi_patience){end_ns, end_ns};
}

static moiety_status check_patience(const struct moietyi_call *call,
                                    const struct moietyi_wait *wait,
                                    const struct moietyi_patience *patience)
{
    if (moietyi_is_overdue(patience->work_end_ns))
        return moietyi_fail(MOIETY_E_BUSY, "work of the device is not over");
    return moietyi_now_ns() >= patience->event_end_ns &&
                   !moietyi_epochs_are_recorded(&call->engine->streams,
                                                wait->number)
               ? moietyi_fail(MOIETY_E_BUSY,
                              "no event can be recorded: a graph is captured")
               : MOIETY_OK;
}

moiety_status moietyi_wait_for_work(struct moietyi_call *call,
                                    const struct moietyi_patience *patience)
{
    const struct moietyi_wait wait = moietyi_wait_for_all(call);
    long nap_ns = NAP_NS;
    while (!moietyi_wait_ask(call, &wait, true)) {
        if (moietyi_is_lost(call->pool))
            return moietyi_context_refuse(call->engine->streams.own_context);
        moiety_status status = check_patience(call, &wait, patience);
        if (status != MOIETY_OK)
            return status;
        moietyi_call_nap(call, &nap_ns, NAP_MOST_NS);
    }
    return MOIETY_OK;
}
