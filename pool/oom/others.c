/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pool visits another one by a call of its own, as if the program had
 * trimmed it; that pool is not destroyed meanwhile. The allocating thread may
 * hold a lock of the program's, so no function of the program is called for
 * another pool.
 */
#include "pool/oom/others.h"

#include "pool/base/clock.h"
#include "pool/cache/gate.h"
#include "pool/core/recorded.h"
#include "pool/driver/section.h"
#include "pool/oom/beside.h"
#include "pool/oom/give_back.h"

#define NAP_NS 20000L
#define NAP_MOST_NS 1000000L

/* Only pools with the driver's memory, in segments. */
static bool others_are_kin(const struct moietyi_pool_body *body)
{
    return !body->options.source && !moietyi_is_passing(body);
}

/* The list's lock is held. A pool in the middle of a call of this thread is
 * skipped: a lock of the program, or a role, may be held around it. */
static bool others_choose(const struct moietyi_pool_body *body,
                          const void *context)
{
    const struct moietyi_pool_body *asker = context;
    return body != asker && body->device == asker->device &&
           others_are_kin(body) &&
           moietyi_segments_reserved_bytes(body->segments) &&
           !moietyi_is_lost(body->pool) &&
           !moietyi_thread_serves(moietyi_thread_self, body->pool);
}

/* Whether it has enough to be worth its misses. Running sums: exact at rest. */
static bool has_unused(const struct moietyi_pool_body *body)
{
    struct moietyi_sums sums;
    moietyi_engine_sums(body->engine, NULL, &sums);
    uint64_t live_bytes = sums.counts[MOIETYI_COUNT_ALLOC_BYTES] -
                          sums.counts[MOIETYI_COUNT_FREE_BYTES];
    return moietyi_segments_reserved_bytes(body->segments) >= live_bytes &&
           moietyi_segments_reserved_bytes(body->segments) - live_bytes >=
               MOIETYI_PAGE_BYTES;
}

static void note_trim(struct moietyi_call *call, moiety_status status,
                      uint64_t bytes)
{
    const struct moietyi_note note = {
        .kind = MOIETY_HISTORY_TRIM, .status = status, .size_bytes = bytes};
    moietyi_count(call->thread_state, MOIETYI_COUNT_OTHERS_GIVEN_BYTES, bytes);
    moietyi_note(call, &note);
}

/* As moiety_pool_trim(), but waits for no work. */
static struct moietyi_given_back trim_in(struct moietyi_call *call,
                                         uint32_t wait_ms)
{
    struct moietyi_given_back given = {0, false};
    moietyi_call_pass_gate(call);
    call->is_pressed = true;
    (void)moietyi_reclaim_abandoned(call);
    (void)moietyi_reclaim_own(call);
    if (moietyi_steal_caches(call))
        (void)moietyi_reclaim_done(call);
    moiety_status status = moietyi_give_back_unwatched(call, wait_ms, &given);
    note_trim(call, status, given.bytes);
    return given;
}

/* Bytes that it could give back if the device were idle. */
static uint64_t others_idle_bytes(struct moietyi_segments *segments)
{
    struct moietyi_segments_stats stats;
    moietyi_segments_stats(segments, &stats);
    return moietyi_segments_whole_bytes(segments) + stats.unreleased_bytes;
}

/* Returns what it gave. */
static uint64_t others_visit(struct moietyi_pool_body *body, uint32_t wait_ms,
                             uint64_t *held_up_bytes)
{
    struct moietyi_call call;
    if (moietyi_segments_are_watched(body->segments) || !has_unused(body) ||
        moietyi_call_begin(body->pool, MOIETY_STREAM_DONE, &call) != MOIETY_OK)
        return 0;
    const struct moietyi_given_back given = trim_in(&call, wait_ms);
    if (given.is_held_up)
        *held_up_bytes += others_idle_bytes(body->segments);
    moietyi_call_end(&call);
    return given.bytes;
}

struct round {
    const struct moietyi_pool_body *asker;
    struct moietyi_others *others;
    uint64_t pool_count;
    uint64_t bytes;
};

/* Until one pool gave something. */
static void others_go_round(void *context)
{
    struct round *round = context;
    struct moietyi_pool_body *body;
    struct moietyi_served served;
    /* So that no function of the program is called meanwhile. */
    moietyi_thread_serve(moietyi_thread_self, round->asker->pool, &served);
    while (!round->bytes &&
           (body = moietyi_exposed_visit(round->others->last_id + 1,
                                         others_choose, round->asker))) {
        round->others->last_id = body->exposed.id;
        round->bytes = others_visit(body, round->asker->options.wait_ms,
                                    &round->others->held_up_bytes);
        round->pool_count++;
        if (round->bytes) {
            moietyi_log(MOIETY_LOG_INFO,
                        "pool %p gave %llu bytes back for pool %p",
                        (void *)body->pool, (unsigned long long)round->bytes,
                        (void *)round->asker->pool);
        }
        moietyi_exposed_leave(body);
    }
    moietyi_thread_serve_end(moietyi_thread_self, &served);
}

/* So that the call does not end if there is no other pool. */
static bool is_anyone(struct round *round)
{
    struct moietyi_pool_body *body = moietyi_exposed_visit(
        round->others->last_id + 1, others_choose, round->asker);
    if (body)
        moietyi_exposed_leave(body);
    return body != NULL;
}

/* Outside of slow paths, so that no thread waits for the driver. */
static void note_device_free(struct moietyi_call *call,
                             struct moietyi_others *others)
{
    struct moietyi_pool_body *body = call->pool->body;
    struct moietyi_section section;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    others->is_device_free_known = false;
    moietyi_slow_path_end(call->thread_state);
    if (moietyi_context_enter(&body->own_context, &section) == MOIETY_OK) {
        others->is_device_free_known =
            body->driver->cuMemGetInfo(&free_bytes, &total_bytes) ==
                CUDA_SUCCESS &&
            total_bytes && free_bytes <= total_bytes;
        others->device_free_bytes = free_bytes;
        (void)moietyi_section_leave(&section);
    }
    moietyi_call_resume(call);
    moietyi_call_pass_gate(call);
}

bool moietyi_others_ask(struct moietyi_call *call,
                        struct moietyi_others *others,
                        moiety_status *out_status)
{
    struct round round = {.asker = call->pool->body, .others = others};
    *out_status = MOIETY_OK;
    if (!others_are_kin(round.asker) ||
        moietyi_segments_are_watched(round.asker->segments))
        return false;
    if (!is_anyone(&round)) {
        note_device_free(call, others);
        return false;
    }
    *out_status = moietyi_call_beside(call, others_go_round, &round);
    others->pool_count += round.pool_count;
    others->bytes += round.bytes;
    if (*out_status != MOIETY_OK)
        return false;
    moietyi_count(call->thread_state, MOIETYI_COUNT_OTHERS_ASKED,
                  round.pool_count);
    moietyi_count(call->thread_state, MOIETYI_COUNT_OTHERS_GOT_BYTES,
                  round.bytes);
    if (!round.bytes)
        note_device_free(call, others);
    return round.bytes != 0;
}

bool moietyi_others_help(struct moietyi_call *call, uint64_t refusals,
                         struct moietyi_others *others, moiety_status *status)
{
    const struct moietyi_segments *segments = call->pool->body->segments;
    moiety_status begun = MOIETY_OK;
    if (*status != MOIETY_E_NO_DEVICE_MEMORY ||
        moietyi_segments_refusals(segments) == refusals)
        return false;
    bool is_helped = moietyi_others_ask(call, others, &begun);
    if (begun != MOIETY_OK)
        *status = begun;
    return is_helped;
}

bool moietyi_others_may_do(const struct moietyi_others *others,
                           uint64_t own_bytes, uint64_t bytes)
{
    uint64_t idle_bytes = others->held_up_bytes + own_bytes;
    return !others->is_device_free_known || idle_bytes >= bytes ||
           others->device_free_bytes >= bytes - idle_bytes;
}

bool moietyi_others_begin_again(struct moietyi_call *call,
                                struct moietyi_others *others)
{
    if (!others->held_up_bytes || !moietyi_reclaim_is_device_idle(call))
        return false;
    others->last_id = 0;
    others->held_up_bytes = 0;
    return true;
}

bool moietyi_others_await(struct moietyi_call *call,
                          struct moietyi_others *others, uint64_t bytes,
                          uint64_t end_ns)
{
    long nap_ns = NAP_NS;
    while (others->held_up_bytes && moietyi_others_may_do(others, 0, bytes) &&
           !moietyi_is_overdue(end_ns)) {
        if (moietyi_others_begin_again(call, others))
            return true;
        moietyi_call_nap(call, &nap_ns, NAP_MOST_NS);
    }
    return false;
}
