/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of segments.
 */
#include "moiety/segment.h"

#include <string.h>

#include "pool/base/failure.h"
#include "pool/base/handles.h"
#include "pool/cache/gate.h"
#include "pool/core/body.h"
#include "pool/core/outside.h"

/* The struct's first version. */
#define INFO_BYTES_MIN sizeof(moiety_segment_info)
#define WATCHER_BYTES_MIN sizeof(moiety_segment_watcher)

static moiety_status segment_begin(moiety_pool *pool, struct moietyi_call *call)
{
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, call);
    if (status != MOIETY_OK || !moietyi_is_passing(pool->body))
        return status;
    moietyi_call_leave(call);
    return moietyi_fail(MOIETY_E_UNSUPPORTED,
                        "the pool passes all through: each block is a "
                        "reservation");
}

static moiety_segment_info
segment_info_of(const struct moietyi_pool_body *body,
                const struct moietyi_segment_info *found, uint64_t hold_count)
{
    return (moiety_segment_info){
        .struct_size = (uint32_t)sizeof(moiety_segment_info),
        .flags = found->is_fixed ? 0 : MOIETY_SEGMENT_MAPPED,
        .id = found->id,
        .address = found->memory,
        .size_bytes = found->memory_bytes,
        .hold_count = hold_count,
        .device = body->device,
    };
}

static moiety_status segment_find(const struct moietyi_pool_body *body,
                                  moiety_devptr address,
                                  moiety_segment_info *out)
{
    struct moietyi_segment_info found;
    uint64_t hold_count;
    if (!moietyi_segments_find(body->segments, address, &found, &hold_count))
        return moietyi_fail(MOIETY_E_FOREIGN,
                            "no segment ends behind address 0x%llx", address);
    *out = segment_info_of(body, &found, hold_count);
    return MOIETY_OK;
}

moiety_status moiety_segment_find(moiety_pool *pool, moiety_devptr address,
                                  moiety_segment_info *out)
{
    struct moietyi_call call;
    if (!out || out->struct_size < INFO_BYTES_MIN) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_segment_find: out is NULL or its "
                            "struct_size below %zu",
                            INFO_BYTES_MIN);
    }
    moiety_status status = segment_begin(pool, &call);
    if (status != MOIETY_OK)
        return status;
    status = segment_find(pool->body, address, out);
    moietyi_call_leave(&call);
    return status;
}

static moiety_status segment_change(moiety_pool *pool, moiety_devptr address,
                                    size_t size_bytes, bool is_hold)
{
    struct moietyi_call call;
    moiety_status status = segment_begin(pool, &call);
    if (status != MOIETY_OK)
        return status;
    status = size_bytes
                 ? moietyi_segments_hold_range(pool->body->segments, address,
                                               size_bytes, is_hold)
                 : moietyi_fail(MOIETY_E_INVALID,
                                "a range of 0 bytes; accepted is 1 at "
                                "least");
    moietyi_call_leave(&call);
    return status;
}

moiety_status moiety_segment_hold(moiety_pool *pool, moiety_devptr address,
                                  size_t size_bytes)
{
    return segment_change(pool, address, size_bytes, true);
}

moiety_status moiety_segment_unhold(moiety_pool *pool, moiety_devptr address,
                                    size_t size_bytes)
{
    return segment_change(pool, address, size_bytes, false);
}

/* --- watching --- */

static void watch_call(const struct moietyi_watch *watch,
                       const struct moietyi_segment_info *info,
                       uint64_t hold_count, bool is_added)
{
    const struct moietyi_pool_body *body = watch->context;
    const moiety_segment_watcher *watcher = &watch->watcher;
    moiety_segment_callback function =
        is_added ? watcher->added : watcher->releasing;
    if (!function)
        return;
    const moiety_segment_info told = segment_info_of(body, info, hold_count);
    struct moietyi_outside outside;
    moietyi_step_out(body->pool, &outside);
    function(watcher->user, &told);
    moietyi_step_in(&outside);
}

static moiety_status watch_check(const moiety_segment_watcher *watcher,
                                 const moiety_watch *out)
{
    if (!watcher || !out || watcher->struct_size < WATCHER_BYTES_MIN) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_segment_watch: watcher or out is NULL, or "
                            "the watcher's struct_size below %zu",
                            WATCHER_BYTES_MIN);
    }
    if (watcher->flags) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_segment_watch: flags are 0x%x; accepted is "
                            "0",
                            watcher->flags);
    }
    if (!watcher->added && !watcher->releasing)
        return moietyi_fail(
            MOIETY_E_INVALID,
            "moiety_segment_watch: added and releasing are NULL");
    return MOIETY_OK;
}

/* For a call that waits, and may call the program: others go on with theirs, but
 * the pool is not destroyed. */
static void watch_wait_begin(const struct moietyi_call *call,
                             struct moietyi_served *out)
{
    moietyi_thread_serve(call->thread, call->pool, out);
    moietyi_slow_path_end(call->thread_state);
}

static void watch_wait_end(struct moietyi_call *call,
                           const struct moietyi_served *served)
{
    moietyi_call_resume(call);
    moietyi_thread_serve_end(call->thread, served);
}

moiety_status moiety_segment_watch(moiety_pool *pool,
                                   const moiety_segment_watcher *watcher,
                                   moiety_watch *out)
{
    struct moietyi_call call;
    moiety_status status = watch_check(watcher, out);
    if (status == MOIETY_OK)
        status = segment_begin(pool, &call);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_watch watch = {.context = pool->body, .tell = watch_call};
    memcpy(&watch.watcher, watcher, sizeof(watch.watcher));
    struct moietyi_served served;
    uint64_t id = 0;
    watch_wait_begin(&call, &served);
    status = moietyi_segments_watch(pool->body->segments, &watch, &id);
    watch_wait_end(&call, &served);
    moietyi_call_leave(&call);
    if (status == MOIETY_OK)
        *out = moietyi_watch_of_number(id);
    return status;
}

moiety_status moiety_segment_unwatch(moiety_pool *pool, moiety_watch watch)
{
    struct moietyi_call call;
    moiety_status status = segment_begin(pool, &call);
    if (status != MOIETY_OK)
        return status;
    struct moietyi_served served;
    watch_wait_begin(&call, &served);
    status = moietyi_segments_unwatch(pool->body->segments,
                                      moietyi_number_of_watch(watch));
    watch_wait_end(&call, &served);
    moietyi_call_leave(&call);
    return status;
}
