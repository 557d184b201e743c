/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The public side of segments.
 */
#include "binade/segment.h"

#include <string.h>

#include "pool/base/failure.h"
#include "pool/cache/gate.h"
#include "pool/core/body.h"
#include "pool/core/outside.h"

/* The struct's first version. */
#define INFO_BYTES_MIN sizeof(binade_segment_info)
#define WATCHER_BYTES_MIN sizeof(binade_segment_watcher)

static binade_status segment_begin(binade_pool *pool, struct binadei_call *call)
{
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, call);
    if (status != BINADE_OK ||
        !(pool->body->options.flags & BINADE_POOL_PASS_THROUGH))
        return status;
    binadei_call_leave(call);
    return binadei_fail(BINADE_E_UNSUPPORTED,
                        "the pool passes all through: each block is a "
                        "reservation");
}

static binade_segment_info
segment_info_of(const struct binadei_pool_body *body,
                const struct binadei_segment_info *found, uint64_t hold_count)
{
    return (binade_segment_info){
        .struct_size = (uint32_t)sizeof(binade_segment_info),
        .flags = binadei_segments_are_mapped(body->segments)
                     ? BINADE_SEGMENT_MAPPED
                     : 0,
        .id = found->id,
        .address = found->memory,
        .size_bytes = found->memory_bytes,
        .hold_count = hold_count,
        .device = body->device,
    };
}

static binade_status segment_find(const struct binadei_pool_body *body,
                                  binade_devptr address,
                                  binade_segment_info *out)
{
    struct binadei_segment_info found;
    uint64_t hold_count;
    if (!binadei_segments_find(body->segments, address, &found, &hold_count))
        return binadei_fail(BINADE_E_FOREIGN,
                            "no segment ends behind address 0x%llx", address);
    *out = segment_info_of(body, &found, hold_count);
    return BINADE_OK;
}

binade_status binade_segment_find(binade_pool *pool, binade_devptr address,
                                  binade_segment_info *out)
{
    struct binadei_call call;
    if (!out || out->struct_size < INFO_BYTES_MIN) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_segment_find: out is NULL or its "
                            "struct_size below %zu",
                            INFO_BYTES_MIN);
    }
    binade_status status = segment_begin(pool, &call);
    if (status != BINADE_OK)
        return status;
    status = segment_find(pool->body, address, out);
    binadei_call_leave(&call);
    return status;
}

typedef binade_status hold_fn(struct binadei_segments *segments,
                              binade_devptr address, uint64_t size_bytes);

static binade_status segment_change(binade_pool *pool, binade_devptr address,
                                    size_t size_bytes, hold_fn *change)
{
    struct binadei_call call;
    binade_status status = segment_begin(pool, &call);
    if (status != BINADE_OK)
        return status;
    status = size_bytes ? change(pool->body->segments, address, size_bytes)
                        : binadei_fail(BINADE_E_INVALID,
                                       "a range of 0 bytes; accepted is 1 at "
                                       "least");
    binadei_call_leave(&call);
    return status;
}

binade_status binade_segment_hold(binade_pool *pool, binade_devptr address,
                                  size_t size_bytes)
{
    return segment_change(pool, address, size_bytes,
                          binadei_segments_hold_range);
}

binade_status binade_segment_release(binade_pool *pool, binade_devptr address,
                                     size_t size_bytes)
{
    return segment_change(pool, address, size_bytes,
                          binadei_segments_release_range);
}

/* --- watching --- */

static void watch_call(const struct binadei_watch *watch,
                       const struct binadei_segment_info *info,
                       uint64_t hold_count, bool is_added)
{
    const struct binadei_pool_body *body = watch->context;
    const binade_segment_watcher *watcher = &watch->watcher;
    binade_segment_callback function =
        is_added ? watcher->added : watcher->releasing;
    if (!function)
        return;
    const binade_segment_info told = segment_info_of(body, info, hold_count);
    struct binadei_outside outside;
    binadei_step_out(body->pool, &outside);
    function(watcher->user, &told);
    binadei_step_in(&outside);
}

static binade_status watch_check(const binade_segment_watcher *watcher,
                                 const uint64_t *out_id)
{
    if (!watcher || !out_id || watcher->struct_size < WATCHER_BYTES_MIN) {
        return binadei_fail(
            BINADE_E_INVALID,
            "binade_segment_watch: watcher or out_id is NULL, or "
            "the watcher's struct_size below %zu",
            WATCHER_BYTES_MIN);
    }
    if (watcher->flags) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_segment_watch: flags are 0x%x; accepted is "
                            "0",
                            watcher->flags);
    }
    if (!watcher->added && !watcher->releasing)
        return binadei_fail(
            BINADE_E_INVALID,
            "binade_segment_watch: added and releasing are NULL");
    return BINADE_OK;
}

/* For a call that waits, and may call the program: others go on with theirs, but
 * the pool is not destroyed. */
static void watch_wait_begin(const struct binadei_call *call,
                             struct binadei_served *out)
{
    binadei_thread_serve(call->thread, call->pool, out);
    binadei_slow_path_end(call->thread_state);
}

static void watch_wait_end(struct binadei_call *call,
                           const struct binadei_served *served)
{
    binadei_call_resume(call);
    binadei_thread_serve_end(call->thread, served);
}

binade_status binade_segment_watch(binade_pool *pool,
                                   const binade_segment_watcher *watcher,
                                   uint64_t *out_id)
{
    struct binadei_call call;
    binade_status status = watch_check(watcher, out_id);
    if (status == BINADE_OK)
        status = segment_begin(pool, &call);
    if (status != BINADE_OK)
        return status;
    struct binadei_watch watch = {.context = pool->body, .tell = watch_call};
    memcpy(&watch.watcher, watcher, sizeof(watch.watcher));
    struct binadei_served served;
    watch_wait_begin(&call, &served);
    status = binadei_segments_watch(pool->body->segments, &watch, out_id);
    watch_wait_end(&call, &served);
    binadei_call_leave(&call);
    return status;
}

binade_status binade_segment_unwatch(binade_pool *pool, uint64_t id)
{
    struct binadei_call call;
    binade_status status = segment_begin(pool, &call);
    if (status != BINADE_OK)
        return status;
    struct binadei_served served;
    watch_wait_begin(&call, &served);
    status = binadei_segments_unwatch(pool->body->segments, id);
    watch_wait_end(&call, &served);
    binadei_call_leave(&call);
    return status;
}
