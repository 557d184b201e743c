/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for what a freed block waits for, without its block.
 */
#include "pool/cache/wait.h"

#include "pool/cache/epoch.h"
#include "pool/cache/guard.h"
#include "pool/cache/record.h"

struct binadei_wait binadei_wait_for_all(const struct binadei_call *call)
{
    return (struct binadei_wait){binadei_epochs_next(call->engine)};
}

bool binadei_wait_is_over(struct binadei_call *call,
                          const struct binadei_wait *wait)
{
    return !wait->number || binadei_epochs_have_passed(call, wait->number);
}

bool binadei_wait_needs_synchronise(const struct binadei_call *call,
                                    const struct binadei_wait *wait)
{
    return wait->number && !call->engine->driver->cuCtxRecordEvent;
}

bool binadei_wait_synchronise(struct binadei_call *call)
{
    if (!binadei_guard_recorder_begin())
        return false;
    binade_status status = binadei_synchronise(call->engine);
    binadei_guard_recorder_end();
    return status == BINADE_OK;
}

bool binadei_wait_is_capturing(const struct binadei_call *call)
{
    const struct binadei_slot *slot = call->push->slot;
    if (call->is_capturing)
        return true;
    return slot->kind == BINADEI_SLOT_STREAM &&
           slot->stream != BINADE_STREAM_LEGACY &&
           binadei_is_capturing(call->engine, slot->stream);
}

CUstream binadei_wait_stream(const struct binadei_call *call)
{
    const struct binadei_slot *slot = call->push->slot;
    bool is_own = slot->kind == BINADEI_SLOT_PER_THREAD
                      ? slot->member == call->member
                      : slot->kind == BINADEI_SLOT_STREAM;
    return is_own && slot->context == call->engine->contexts[0] &&
                   !binadei_is_capturing(call->engine, slot->stream)
               ? slot->stream
               : NULL;
}

bool binadei_wait_is_of_stranger(const struct binadei_call *call)
{
    const struct binadei_slot *slot = call->push->slot;
    if (slot->kind != BINADEI_SLOT_STREAM)
        return false;
    /* CX.acquire: the contexts that are counted. */
    unsigned count = atomic_load_explicit(&call->engine->context_count,
                                          memory_order_acquire);
    for (unsigned i = 0; i < count; i++)
        if (call->engine->contexts[i] == slot->context)
            return false;
    return true;
}
