/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * By questions: a thread that blocks in the driver cannot tell its patience.
 */
#include "pool/core/work.h"

#include "pool/base/clock.h"
#include "pool/base/failure.h"
#include "pool/cache/handle.h"
#include "pool/cache/uses.h"
#include "pool/core/body.h"
#include "pool/driver/context.h"
#include "pool/stream/capture_guard.h"
#include "pool/stream/epoch.h"
#include "pool/stream/event.h"

#define NAP_NS 20000L
#define NAP_MOST_NS 500000L
/* Work that is over may be asked for twice before the driver says so. */
#define WAIT_LEAST_NS UINT64_C(200000000)

struct moietyi_patience
moietyi_patience_from_now(const struct moietyi_call *call)
{
    uint64_t wait_ns = call->pool->body->options.wait_ms * UINT64_C(1000000);
    if (wait_ns < WAIT_LEAST_NS)
        wait_ns = WAIT_LEAST_NS;
    return (struct moietyi_patience){moietyi_now_ns() + wait_ns, wait_ns};
}

static uint64_t disturbed_count(const struct moietyi_call *call)
{
    return moietyi_count_read(
        &call->thread_state
             ->counts[MOIETYI_COUNT_STREAM + MOIETYI_STREAM_DISTURBED]);
}

static bool is_legacy_capturing(const struct moietyi_streams *streams)
{
    struct moietyi_section section;
    if (moietyi_context_enter(streams->own_context, &section) != MOIETY_OK)
        return false;
    bool is_capturing = moietyi_is_capturing(streams, MOIETY_STREAM_LEGACY);
    (void)moietyi_section_leave(&section);
    return is_capturing;
}

/* The thread's last failure is that of the last attempt to record one. */
static moiety_status explain_no_event(const struct moietyi_call *call,
                                      bool is_disturbed)
{
    if (moietyi_capture_guard_is_held())
        return moietyi_fail(MOIETY_E_CAPTURING,
                            "no event is recorded while a capture guard or a "
                            "scope is held");
    if (is_disturbed || is_legacy_capturing(&call->engine->streams))
        return moietyi_fail(MOIETY_E_CAPTURING,
                            "no event can be recorded: a graph is captured");
    return moietyi_fail(MOIETY_E_TIMEOUT, "no event could be recorded: %s",
                        moietyi_failure_message());
}

static bool is_recorded_or_in_flight(const struct moietyi_call *call,
                                     const struct moietyi_wait *wait)
{
    const struct moietyi_streams *streams = &call->engine->streams;
    return moietyi_epochs_are_recorded(streams, wait->number) ||
           moietyi_epochs_are_in_flight(streams);
}

/* Becomes the cause if nothing else does. */
static bool is_work_over(struct moietyi_call *call,
                         const struct moietyi_wait *wait)
{
    (void)moietyi_fail(MOIETY_E_TIMEOUT, "other threads were at it");
    return moietyi_wait_ask(call, wait, true);
}

moiety_status moietyi_wait_for_work(struct moietyi_call *call,
                                    const struct moietyi_patience *patience)
{
    const struct moietyi_wait wait = moietyi_wait_for_all(call);
    const uint64_t disturbed = disturbed_count(call);
    uint64_t stuck_since_ns = moietyi_now_ns();
    long nap_ns = NAP_NS;
    while (!is_work_over(call, &wait)) {
        uint64_t now_ns = moietyi_now_ns();
        if (moietyi_is_lost(call->pool))
            return moietyi_context_refuse(call->engine->streams.own_context);
        if (moietyi_is_interrupted())
            return moietyi_fail(MOIETY_E_INTERRUPTED,
                                "the wait was interrupted");
        bool is_stuck = !is_recorded_or_in_flight(call, &wait);
        if (!is_stuck)
            stuck_since_ns = now_ns;
        if (moietyi_is_overdue(patience->work_end_ns) ||
            now_ns - stuck_since_ns >= patience->event_ns) {
            return is_stuck ? explain_no_event(call, disturbed_count(call) !=
                                                         disturbed)
                            : moietyi_fail(MOIETY_E_TIMEOUT,
                                           "work of the device is not over");
        }
        moietyi_call_nap(call, &nap_ns, NAP_MOST_NS);
    }
    return MOIETY_OK;
}
