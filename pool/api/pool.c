/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Making and destroying a pool: context, source, segments, caches.
 */
#include "binade/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/api/arena.h"
#include "pool/api/plain.h"
#include "pool/api/settings.h"
#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/log.h"
#include "pool/cache/gate.h"
#include "pool/cache/thread.h"
#include "pool/checked/checked.h"
#include "pool/config/options.h"
#include "pool/core/body.h"
#include "pool/core/exposed.h"
#include "pool/core/ops.h"
#include "pool/core/outside.h"
#include "pool/driver/probe.h"
#include "pool/driver/section.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"
#include "pool/ipc/exports.h"
#include "pool/observe/expose/expose.h"
#include "pool/observe/history/record.h"
#include "pool/observe/told/told.h"
#include "pool/oom/callbacks.h"
#include "pool/segment/device_source.h"
#include "pool/tenant/directory.h"

#define LEAST_CACHE_BYTES (UINT64_C(64) << 20)
#define CACHE_SHARE 8U

static binade_status pool_no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY, "no memory for a pool");
}

static binade_status pool_open_context(struct binadei_pool_body *body)
{
    const struct binadei_driver *driver = body->driver;
    body->context = body->options.context;
    if (body->context)
        return binadei_context_check(driver, body->context);
    int count = 0;
    binade_status status =
        binadei_check_device(driver, body->options.device, &count);
    if (status == BINADE_OK)
        status = BINADEI_CALL(driver, cuDeviceGet,
                              (&body->device, body->options.device));
    if (status == BINADE_OK)
        status = BINADEI_CALL(driver, cuDevicePrimaryCtxRetain,
                              (&body->context, body->device));
    body->has_primary = status == BINADE_OK;
    return status;
}

/* That of the program's own context. */
static binade_status find_device(struct binadei_pool_body *body)
{
    struct binadei_section section;
    if (body->has_primary)
        return BINADE_OK;
    binade_status status = binadei_context_enter(&body->own_context, &section);
    if (status != BINADE_OK)
        return status;
    status = BINADEI_CALL(body->driver, cuCtxGetDevice, (&body->device));
    (void)binadei_section_leave(&section);
    return status;
}

static binade_status pool_reserve(void *context, size_t size_bytes,
                                  binade_devptr *out)
{
    const struct binadei_pool_body *body = context;
    struct binadei_outside outside;
    binadei_step_out(body->pool, &outside);
    binade_status status =
        body->source.reserve(body->source.context, size_bytes, out);
    binadei_step_in(&outside);
    return status;
}

static binade_status pool_release(void *context, binade_devptr address,
                                  size_t size_bytes)
{
    const struct binadei_pool_body *body = context;
    struct binadei_outside outside;
    binadei_step_out(body->pool, &outside);
    binade_status status =
        body->source.release(body->source.context, address, size_bytes);
    binadei_step_in(&outside);
    return status;
}

/* The caller's source, called through the two above. What is wrong with it is
 * left as it is, for the segments to refuse. */
static binade_source pool_wrap(struct binadei_pool_body *body)
{
    const binade_source *given = body->options.source;
    size_t bytes = given->struct_size;
    if (bytes > sizeof(body->source))
        bytes = sizeof(body->source);
    memcpy(&body->source, given, bytes);
    binade_source wrapped = body->source;
    wrapped.context = body;
    if (wrapped.reserve)
        wrapped.reserve = pool_reserve;
    if (wrapped.release)
        wrapped.release = pool_release;
    return wrapped;
}

static bool is_mapped(const struct binadei_pool_body *body)
{
    return (body->options.flags & BINADE_POOL_MAPPED) != 0;
}

/* What is preferred is mapped from here on, or not: then it lacks nothing that
 * was asked for. */
static binade_status settle_preference(struct binadei_pool_body *body)
{
    binade_pool_options *options = &body->options;
    if (is_mapped(body) || !(options->flags & BINADE_POOL_PREFER_MAPPED))
        return BINADE_OK;
    binade_status status =
        options->source || options->flags & BINADE_POOL_EXPORTABLE
            ? BINADE_E_UNSUPPORTED
            : binadei_device_mapper_probe(&body->own_context);
    if (status == BINADE_OK)
        options->flags |= BINADE_POOL_MAPPED;
    if (status == BINADE_E_UNSUPPORTED) {
        binadei_log(BINADE_LOG_INFO,
                    "a pool that prefers mapped memory has cuMemAlloc's: %s",
                    options->source || options->flags & BINADE_POOL_EXPORTABLE
                        ? "it has a source, or is exportable"
                        : binadei_failure_message());
    }
    if (status == BINADE_E_UNSUPPORTED && options->peer_devices)
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "the pool's memory is not mapped, so that it can "
                            "have no peers");
    return status == BINADE_E_UNSUPPORTED ? BINADE_OK : status;
}

static binade_status make_mapper(struct binadei_pool_body *body)
{
    binade_status status = settle_preference(body);
    if (status != BINADE_OK || !is_mapped(body))
        return status;
    if (body->options.source)
        return binadei_fail(BINADE_E_INVALID,
                            "mapped is 1; accepted is 0 where the pool has a "
                            "source of its own");
    bool is_shared = (body->options.flags & BINADE_POOL_EXPORTABLE) != 0;
    body->mapped_device.context = &body->own_context;
    body->mapper = binadei_device_mapper_init(&body->mapped_device, is_shared);
    status = is_shared
                 ? binadei_device_mapper_probe_shared(&body->mapped_device)
                 : binadei_device_mapper_probe(&body->own_context);
    return status == BINADE_OK
               ? binadei_device_mapper_probe_peers(&body->own_context,
                                                   body->options.peer_devices)
               : status;
}

static binade_source source_of(struct binadei_pool_body *body)
{
    if (body->options.source)
        return pool_wrap(body);
    return is_mapped(body) ? binadei_mapped_source_init(&body->mapper)
                           : binadei_device_source_init(&body->own_context);
}

static binade_status make_segments(struct binadei_pool_body *body)
{
    const binade_source source = source_of(body);
    const struct binadei_segments_options options = {
        .source = &source,
        .mapper = is_mapped(body) ? &body->mapper : NULL,
        .peers = body->options.peer_devices,
        .page_capacity = body->page_capacity,
        .limit_bytes = body->first_limit_bytes,
        .is_limited = body->options.limit_bytes != 0,
        .first_bytes = body->options.first_segment_bytes,
        .largest_bytes = body->options.largest_segment_bytes,
        .watermark_bytes = body->options.watermark_bytes,
    };
    struct binadei_segments_options with_buddy = options;
    body->source_name = source.name;
    binade_status status =
        binadei_buddy_create(options.page_capacity, &body->buddy);
    if (status != BINADE_OK) {
        return binadei_fail(status,
                            "no addresses for the tables of a pool of %llu "
                            "bytes at most (vm.overcommit_memory, ulimit -v)",
                            (unsigned long long)body->first_limit_bytes);
    }
    if (body->options.flags & BINADE_POOL_HUGE_TABLES)
        binadei_buddy_prefer_huge(body->buddy);
    body->any_maps = binadei_maps_create(body->buddy);
    if (!body->any_maps)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY, "no memory for a pool");
    with_buddy.buddy = body->buddy;
    with_buddy.maps = body->any_maps;
    return binadei_segments_create(&with_buddy, &body->segments);
}

/* What all threads' caches together may hold. */
static uint64_t cache_bytes(const struct binadei_pool_body *body)
{
    uint64_t bytes = body->first_limit_bytes / CACHE_SHARE;
    if (body->options.cache_bytes)
        return body->options.cache_bytes;
    return bytes < LEAST_CACHE_BYTES ? LEAST_CACHE_BYTES : bytes;
}

static binade_status make_engine(struct binadei_pool_body *body,
                                 struct binade_pool *pool)
{
    const struct binadei_engine_options options = {
        .pool = pool,
        .driver = body->driver,
        .segments = body->segments,
        .buddy = body->buddy,
        .own_context = &body->own_context,
        .thread_cache_bytes = body->options.thread_cache_bytes,
        .cache_bytes = cache_bytes(body),
        .history_entries = body->options.history_entries,
        .any_maps = body->any_maps,
        .noted_pages = body->options.flags & BINADE_POOL_NOTE_STREAMS
                           ? body->page_capacity
                           : 0,
    };
    return binadei_engine_create(&options, &body->engine);
}

static binade_status make_exports(struct binadei_pool_body *body)
{
    const struct binadei_exports_options options = {
        .driver = body->driver,
        .own_context = &body->own_context,
        .segments = body->segments,
        .buddy = body->buddy,
        .mapper = is_mapped(body) ? &body->mapper : NULL,
    };
    if (!(body->options.flags & BINADE_POOL_EXPORTABLE))
        return BINADE_OK;
    if (body->options.source &&
        !(body->source.flags & BINADE_SOURCE_LEGACY_IPC)) {
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "source '%s' does not say that its memory can be "
                            "shared (BINADE_SOURCE_LEGACY_IPC)",
                            body->source.name);
    }
    return binadei_exports_create(&options, &body->exports);
}

static binade_status make_checked(struct binadei_pool_body *body,
                                  struct binade_pool *pool)
{
    const uint32_t flags = BINADE_POOL_CHECKED | BINADE_POOL_PASS_THROUGH;
    if (!(body->options.flags & flags))
        return BINADE_OK;
    const binade_source source = source_of(body);
    /* AT, relaxed: nobody else has the handle yet. */
    atomic_fetch_or_explicit(&pool->attention, BINADEI_ATTENTION_WATCHED,
                             memory_order_relaxed);
    body->ops = &binadei_checked_ops;
    return binadei_checked_create(body, &source);
}

static binade_status pool_make_body(struct binadei_pool_body *body,
                                    struct binade_pool *pool)
{
    binade_status status = binadei_driver_open(&body->driver);
    if (status == BINADE_OK)
        status = pool_open_context(body);
    if (status == BINADE_OK)
        status = binadei_context_init(&body->own_context, body->driver,
                                      body->context, &pool->attention,
                                      BINADEI_ATTENTION_LOST);
    if (status == BINADE_OK)
        status = find_device(body);
    if (status == BINADE_OK)
        status = binadei_limit_find(body, body->options.limit_bytes,
                                    &body->first_limit_bytes);
    body->page_capacity = binadei_page_capacity_of(body->first_limit_bytes);
    if (status == BINADE_OK)
        status = make_mapper(body);
    if (status == BINADE_OK)
        status = make_segments(body);
    if (status == BINADE_OK)
        status = make_exports(body);
    if (status == BINADE_OK)
        status = make_checked(body, pool);
    if (status == BINADE_OK)
        status = binadei_told_create(body);
    if (status == BINADE_OK)
        status = make_engine(body, pool);
    return status;
}

/* Whatever there is of it, but for the engine. BINADE_OK, or the first thing
 * that was refused. */
static binade_status pool_unmake(struct binadei_pool_body *body)
{
    binade_status status = binadei_checked_destroy(body->checked);
    binadei_exports_destroy(body->exports);
    binade_status gone = binadei_segments_destroy(body->segments);
    if (status == BINADE_OK)
        status = gone;
    binadei_callbacks_fini(body->callbacks);
    binadei_scopes_fini(body->scopes);
    binadei_privates_fini(body->privates);
    binadei_told_destroy(body->told);
    binadei_maps_destroy(body->any_maps);
    if (body->buddy)
        binadei_buddy_destroy(body->buddy);
    /* A context that was reset is not ours to release any more. */
    if (body->has_primary && !binadei_context_is_lost(&body->own_context)) {
        binade_status released = BINADEI_CALL(
            body->driver, cuDevicePrimaryCtxRelease, (body->device));
        if (status == BINADE_OK)
            status = released;
    }
    free(body);
    return status;
}

/* The body comes first, and is freed for all of it. */
struct whole {
    struct binadei_pool_body body;
    struct binadei_callbacks callbacks;
    struct binadei_scopes scopes;
    struct binadei_privates privates;
};

/* Without a context or memory so far; NULL: no memory. */
static struct binadei_pool_body *make_body(void)
{
    struct whole *whole = calloc(1, sizeof(*whole));
    if (!whole)
        return NULL;
    whole->body.ops = &binadei_plain_ops;
    whole->body.callbacks = &whole->callbacks;
    whole->body.scopes = &whole->scopes;
    whole->body.privates = &whole->privates;
    return &whole->body;
}

static binade_status create_by(const binade_pool_options *resolved,
                               const char *conf, bool is_arena,
                               binade_pool **out)
{
    struct binade_pool *pool =
        aligned_alloc(alignof(struct binade_pool), sizeof(*pool));
    struct binadei_pool_body *body = make_body();
    if (!pool || !body) {
        free(pool);
        free(body);
        return pool_no_memory();
    }
    memset(pool, 0, sizeof(*pool));
    body->options = *resolved;
    body->pool = pool;
    body->is_arena = is_arena;
    binadei_callbacks_init(body->callbacks);
    binadei_scopes_init(body->scopes);
    binadei_privates_init(body->privates);
    pool->body = body;
    struct binadei_trace_file *trace = NULL;
    binade_status status = binadei_record_open(conf, &trace);
    if (status == BINADE_OK)
        status = pool_make_body(body, pool);
    if (status == BINADE_OK) {
        binadei_record_begin(body->engine->history, trace);
        binadei_exposed_add(body);
        *out = pool;
        return BINADE_OK;
    }
    binadei_record_leave(trace);
    (void)pool_unmake(body);
    free(pool);
    return status;
}

static binade_status pool_create(const binade_pool_options *options,
                                 const char *conf, bool is_arena,
                                 binade_pool **out)
{
    binade_pool_options resolved;
    /* Before memory is asked for: a lock of it may be held by a thread that the
     * child does not have. */
    if (binadei_is_forked())
        return binadei_refuse_child();
    int cancel_state = binadei_cancel_hold();
    binade_status status = binadei_options_resolve(options, conf, &resolved);
    if (status == BINADE_OK)
        status = binadei_expose_by_conf(conf);
    if (status == BINADE_OK)
        status = create_by(&resolved, conf, is_arena, out);
    binadei_thread_tell(binadei_thread_self);
    binadei_cancel_restore(cancel_state);
    return status;
}

binade_status binade_pool_create(const binade_pool_options *options,
                                 binade_pool **out)
{
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_pool_create: out is NULL");
    return pool_create(options, getenv("BINADE_CONF"), false, out);
}

binade_status binadei_arena_pool_create(const binade_pool_options *options,
                                        binade_pool **out)
{
    return pool_create(options, NULL, true, out);
}

static binade_status add_peer(struct binadei_pool_body *body, int32_t device)
{
    if (device < 0 || device > 63) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_pool_add_peer: device %d; accepted are "
                            "ordinals from 0 to 63",
                            device);
    }
    if (!is_mapped(body) || body->options.flags & BINADE_POOL_PASS_THROUGH)
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "peers are of a pool that is mapped and does not "
                            "pass all through");
    binade_status status = binadei_device_mapper_probe_peers(
        &body->own_context, UINT64_C(1) << device);
    return status == BINADE_OK
               ? binadei_segments_add_peer(body->segments, device)
               : status;
}

binade_status binade_pool_add_peer(binade_pool *pool, int32_t device)
{
    struct binadei_call call;
    binade_status status = binadei_call_begin(pool, BINADE_STREAM_DONE, &call);
    if (status != BINADE_OK)
        return status;
    status = add_peer(pool->body, device);
    binadei_call_leave(&call);
    return status;
}

#define LEAK_BYTES 20U /* " 0x" and 16 digits */

/* Whoever has a log is told in any case. */
static void pool_report_leaks(const struct binadei_pool_body *body,
                              const binade_leaks *leaks)
{
    char list[sizeof(leaks->addresses) / sizeof(leaks->addresses[0]) *
              LEAK_BYTES] = "";
    size_t length = 0;
    if (!leaks->block_count ||
        !(body->options.flags & BINADE_POOL_REPORT_LEAKS ||
          binadei_log_wants(BINADE_LOG_WARNING)))
        return;
    for (uint32_t i = 0; i < leaks->address_count; i++)
        length += (size_t)snprintf(list + length, sizeof(list) - length,
                                   " 0x%llx", leaks->addresses[i]);
    binadei_log_or_print(
        BINADE_LOG_WARNING,
        "%llu blocks of %s, %llu bytes, were not freed:%s%s",
        (unsigned long long)leaks->block_count, body->source_name,
        (unsigned long long)leaks->bytes, list,
        leaks->address_count < leaks->block_count ? " ..." : "");
}

/* Edge: none; relaxed: never followed. Handles of pools that are gone. Nobody
 * reads the list: it keeps what stays behind on purpose from looking like a
 * leak. */
static _Atomic(struct binade_pool *) gone;

static void pool_retain_handle(struct binade_pool *pool)
{
    /* relaxed: compared and stored, never followed. */
    struct binade_pool *seen =
        atomic_load_explicit(&gone, memory_order_relaxed);
    do {
        pool->next_gone = seen;
    } while (!atomic_compare_exchange_weak_explicit(
        &gone, &seen, pool, memory_order_relaxed, memory_order_relaxed));
}

static binade_status refuse_used(void)
{
    return binadei_fail(BINADE_E_BUSY,
                        "a call on the pool is under way in some thread");
}

/* Late calls find the pool dead. BINADE_E_BUSY: it is as it was. */
static binade_status close_and_drain(struct binade_pool *pool)
{
    struct binadei_engine *engine = pool->body->engine;
    /* First without the mark, which a call that goes on may run into. */
    if (binadei_engine_is_used(engine))
        return refuse_used();
    /* IN.seq_cst: of a call that begins and us, one sees the other. */
    (void)atomic_fetch_or_explicit(&pool->attention, BINADEI_ATTENTION_DEAD,
                                   memory_order_seq_cst);
    binade_status status = binadei_engine_is_used(engine)
                               ? refuse_used()
                               : binadei_engine_drain(engine);
    /* IN.seq_cst: as above. */
    if (status == BINADE_E_BUSY)
        (void)atomic_fetch_and_explicit(
            &pool->attention, ~BINADEI_ATTENTION_DEAD, memory_order_seq_cst);
    return status;
}

static binade_status pool_destroy(struct binade_pool *pool, binade_leaks *leaks)
{
    struct binadei_pool_body *body = pool->body;
    if (binadei_scopes_are_open(body->scopes))
        return binadei_fail(BINADE_E_BUSY, "a capture scope is open");
    binade_status drained = close_and_drain(pool);
    if (drained == BINADE_E_BUSY)
        return drained;
    binadei_exports_drain(body->exports, body->engine);
    body->ops->end(body, drained == BINADE_OK, leaks);
    pool_report_leaks(body, leaks);
    binadei_tenants_end(pool);
    binadei_record_end(body->engine->history);
    binadei_engine_destroy(body->engine);
    pool->lookup = NULL;
    pool->classes = NULL;
    pool->engine = NULL;
    pool->body = NULL;
    pool_retain_handle(pool);
    binade_status status = pool_unmake(body);
    return drained == BINADE_OK ? status : drained;
}

binade_status binadei_pool_destroy(binade_pool *pool, binade_leaks *out_leaks)
{
    binade_leaks leaks = {.struct_size = sizeof(leaks)};
    if (binadei_is_dead(pool))
        return binadei_fail(BINADE_E_INVALID, "the pool was destroyed");
    int cancel_state = binadei_cancel_hold();
    /* A program that looks at the pool from outside does not keep it. */
    binadei_exposed_remove(pool->body);
    binade_status status = pool_destroy(pool, &leaks);
    if (pool->body)
        binadei_exposed_add(pool->body);
    binadei_thread_tell(binadei_thread_self);
    binadei_cancel_restore(cancel_state);
    if (out_leaks && status != BINADE_E_BUSY)
        *out_leaks = leaks;
    return status;
}

binade_status binade_pool_destroy(binade_pool *pool, binade_leaks *out_leaks)
{
    if (!pool)
        return BINADE_OK;
    if (binadei_is_forked())
        return binadei_refuse_child();
    if (out_leaks && out_leaks->struct_size < sizeof(*out_leaks)) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_pool_destroy: struct_size is %u, must be "
                            "%zu or more",
                            (unsigned)out_leaks->struct_size,
                            sizeof(*out_leaks));
    }
    if (!binadei_is_dead(pool) && pool->body->is_arena) {
        return binadei_fail(BINADE_E_INVALID,
                            "the pool is a host arena's: "
                            "binade_host_destroy() ends both");
    }
    return binadei_pool_destroy(pool, out_leaks);
}
