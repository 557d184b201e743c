/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Another pool is visited by a call of its own, as if the program had trimmed it,
 * and is not destroyed meanwhile. The thread that allocates may hold a lock of the
 * program's, so no function of the program's is called for another pool's sake.
 */
#include "pool/oom/others.h"

#include "pool/core/recorded.h"
#include "pool/oom/beside.h"

/* Memory of the driver's alone, and as segments. */
static bool others_are_kin(const struct binadei_pool_body *body)
{
    return !body->options.source &&
           !(body->options.flags & BINADE_POOL_PASS_THROUGH);
}

/* The list's lock is held. A pool that this thread is in the middle of has a lock
 * of the program's around it, or a role. */
static bool others_choose(const struct binadei_pool_body *body,
                          const void *context)
{
    const struct binadei_pool_body *asker = context;
    return body != asker && body->device == asker->device &&
           others_are_kin(body) &&
           binadei_segments_reserved_bytes(body->segments) &&
           !binadei_is_lost(body->pool) &&
           !binadei_thread_serves(binadei_thread_self, body->pool);
}

/* Whether it is worth anybody's misses. Running sums: exact at rest. */
static bool has_unused(const struct binadei_pool_body *body)
{
    struct binadei_sums sums;
    binadei_engine_sums(body->engine, NULL, &sums);
    uint64_t live_bytes = sums.counts[BINADEI_COUNT_ALLOC_BYTES] -
                          sums.counts[BINADEI_COUNT_FREE_BYTES];
    return binadei_segments_reserved_bytes(body->segments) >= live_bytes &&
           binadei_segments_reserved_bytes(body->segments) - live_bytes >=
               BINADEI_PAGE_BYTES;
}

static void note_trim(struct binadei_call *call, binade_status status,
                      uint64_t bytes)
{
    const struct binadei_note note = {
        .kind = BINADE_HISTORY_TRIM, .status = status, .size_bytes = bytes};
    binadei_count(call->thread_state, BINADEI_COUNT_OTHERS_GIVEN_BYTES, bytes);
    binadei_note(call, &note);
}

/* As binade_pool_trim(), but waits for no work. */
static uint64_t trim_in(struct binadei_call *call)
{
    uint64_t bytes = 0;
    binadei_call_pass_gate(call);
    call->is_pressed = true;
    (void)binadei_reclaim_abandoned(call);
    (void)binadei_reclaim_own(call);
    if (binadei_steal_caches(call))
        (void)binadei_reclaim_done(call);
    binade_status status = binadei_trim_unwatched(call, &bytes);
    note_trim(call, status, bytes);
    return bytes;
}

static uint64_t others_visit(struct binadei_pool_body *body)
{
    struct binadei_call call;
    uint64_t bytes = 0;
    if (binadei_segments_are_watched(body->segments) || !has_unused(body) ||
        binadei_call_begin(body->pool, BINADE_STREAM_DONE, &call) != BINADE_OK)
        return 0;
    bytes = trim_in(&call);
    binadei_call_end(&call);
    return bytes;
}

struct round {
    const struct binadei_pool_body *asker;
    struct binadei_others *others;
    uint64_t pool_count;
    uint64_t bytes;
};

/* Until one gave something. */
static void others_go_round(void *context)
{
    struct round *round = context;
    struct binadei_pool_body *body;
    struct binadei_served served;
    /* So that no function of the program's is told anything meanwhile. */
    binadei_thread_serve(binadei_thread_self, round->asker->pool, &served);
    while (!round->bytes &&
           (body = binadei_exposed_visit(round->others->last_id + 1,
                                         others_choose, round->asker))) {
        round->others->last_id = body->exposed.id;
        round->bytes = others_visit(body);
        round->pool_count++;
        if (round->bytes) {
            binadei_log(BINADE_LOG_INFO,
                        "pool %p gave %llu bytes back for pool %p",
                        (void *)body->pool, (unsigned long long)round->bytes,
                        (void *)round->asker->pool);
        }
        binadei_exposed_leave(body);
    }
    binadei_thread_serve_end(binadei_thread_self, &served);
}

/* So that the call is not ended where there is nobody. */
static bool is_anyone(struct round *round)
{
    struct binadei_pool_body *body = binadei_exposed_visit(
        round->others->last_id + 1, others_choose, round->asker);
    if (body)
        binadei_exposed_leave(body);
    return body != NULL;
}

bool binadei_others_ask(struct binadei_call *call,
                        struct binadei_others *others,
                        binade_status *out_status)
{
    struct round round = {.asker = call->pool->body, .others = others};
    *out_status = BINADE_OK;
    if (!others_are_kin(round.asker) ||
        binadei_segments_are_watched(round.asker->segments) ||
        !is_anyone(&round))
        return false;
    *out_status = binadei_call_beside(call, others_go_round, &round);
    others->pool_count += round.pool_count;
    others->bytes += round.bytes;
    if (*out_status != BINADE_OK)
        return false;
    binadei_count(call->thread_state, BINADEI_COUNT_OTHERS_ASKED,
                  round.pool_count);
    binadei_count(call->thread_state, BINADEI_COUNT_OTHERS_GOT_BYTES,
                  round.bytes);
    return round.bytes != 0;
}

bool binadei_others_help(struct binadei_call *call, uint64_t refusals,
                         struct binadei_others *others, binade_status *status)
{
    const struct binadei_segments *segments = call->pool->body->segments;
    binade_status begun = BINADE_OK;
    if (*status != BINADE_E_NO_DEVICE_MEMORY ||
        binadei_segments_refusals(segments) == refusals)
        return false;
    bool is_helped = binadei_others_ask(call, others, &begun);
    if (begun != BINADE_OK)
        *status = begun;
    return is_helped;
}
