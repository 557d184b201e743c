/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Other threads may queue work between the event's answer and the driver's
 * call, which then waits for that work. Nothing can prevent that.
 */
#include "pool/oom/give_back.h"

#include "pool/stream/capture_guard.h"

struct question {
    struct moietyi_call *call;
    uint32_t wait_ms;
    bool is_refused;
};

/* Without events of contexts, or while a capture guard forbids them, nothing
 * shows whether the device works: then a call that may wait at all waits as
 * long as the driver does. */
static bool is_at_rest(void *context)
{
    struct question *question = context;
    struct moietyi_call *call = question->call;
    bool is_told = call->pool->body->driver->cuCtxRecordEvent &&
                   !moietyi_capture_guard_is_held();
    bool may =
        is_told ? moietyi_reclaim_is_device_idle(call) : question->wait_ms != 0;
    question->is_refused |= !may;
    return may;
}

moiety_status moietyi_give_back(struct moietyi_call *call, uint64_t keep_bytes,
                                struct moietyi_given_back *out)
{
    struct question question = {call, call->pool->body->options.wait_ms, false};
    const struct moietyi_release_rule rule = {is_at_rest, &question};
    moiety_status status =
        moietyi_trim_by(call, keep_bytes, &rule, &out->bytes);
    out->is_held_up = question.is_refused;
    return status;
}

moiety_status moietyi_give_back_unwatched(struct moietyi_call *call,
                                          uint32_t wait_ms,
                                          struct moietyi_given_back *out)
{
    struct question question = {call, wait_ms, false};
    const struct moietyi_release_rule rule = {is_at_rest, &question};
    moiety_status status = moietyi_trim_unwatched(call, &rule, &out->bytes);
    out->is_held_up = question.is_refused;
    return status;
}
