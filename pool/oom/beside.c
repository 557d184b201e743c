/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Meanwhile the thread has no hits in any pool, because nothing may stay in
 * caches that others cannot take.
 */
#include "pool/oom/beside.h"

#include "pool/base/cancel.h"
#include "pool/cache/gate.h"

bool moietyi_is_beside(const struct moietyi_call *call)
{
    /* relaxed: asked by its own thread. */
    return atomic_load_explicit(&call->thread_state->is_calling_back,
                                memory_order_relaxed);
}

/* Before the thread goes out, and after it is inside again. */
void moietyi_set_beside(struct moietyi_call *call, bool is_beside)
{
    /* OU.release: a thread that sees the end sees that what was asked meanwhile
     * was settled. */
    atomic_store_explicit(&call->thread_state->is_calling_back, is_beside,
                          memory_order_release);
}

/* Returns whether the thread was in such a function already, in any pool. */
static bool beside_begin(struct moietyi_thread *thread)
{
    /* relaxed: read by this thread; others only keep the bit. */
    return atomic_fetch_or_explicit(&thread->revocation, MOIETYI_REVOKE_BESIDE,
                                    memory_order_relaxed) &
           MOIETYI_REVOKE_BESIDE;
}

static void beside_end(struct moietyi_thread *thread, bool is_inner)
{
    /* relaxed: as above. */
    if (!is_inner)
        atomic_fetch_and_explicit(&thread->revocation, ~MOIETYI_REVOKE_BESIDE,
                                  memory_order_relaxed);
}

/* The old call has the values that the new one needs. */
static void beside_go_on(struct moietyi_call *call, struct moietyi_call *again)
{
    again->has_missed = true;
    again->is_pressed = call->is_pressed;
    again->may_wait = call->may_wait;
    again->cancel_state = call->cancel_state;
    *call = *again;
    moietyi_call_pass_gate(call);
}

moiety_status moietyi_call_beside(struct moietyi_call *call,
                                  moietyi_beside_fn *function, void *context)
{
    struct moietyi_thread_state *thread_state = call->thread_state;
    struct moietyi_call again;
    bool was_beside = moietyi_is_beside(call);
    moietyi_set_beside(call, true);
    bool is_inner = beside_begin(call->thread);
    /* The end restores it, but the allocation goes on. */
    moietyi_call_end(call);
    (void)moietyi_cancel_hold();
    function(context);
    beside_end(call->thread, is_inner);
    moiety_status status = moietyi_call_begin(call->pool, call->stream, &again);
    if (status != MOIETY_OK) {
        /* So that it can be ended as any other. */
        moietyi_thread_reenter(call->thread);
        moietyi_slow_path_begin(thread_state);
    }
    moietyi_set_beside(call, was_beside);
    if (status == MOIETY_OK)
        beside_go_on(call, &again);
    return status;
}
