/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Making and destroying a pool: context, source, segments, caches.
 */
#include "moiety/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/api/arena.h"
#include "pool/api/plain.h"
#include "pool/api/settings.h"
#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/later.h"
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
#include "pool/stream/capture_guard.h"
#include "pool/tenant/directory.h"

#define LEAST_CACHE_BYTES (UINT64_C(64) << 20)
#define CACHE_SHARE 8U

/* Who may destroy a pool. */
enum owner { OWNER_CALLER, OWNER_ARENA, OWNER_PROCESS };

static moiety_status pool_no_memory(void)
{
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for a pool");
}

static moiety_status pool_open_context(struct moietyi_pool_body *body)
{
    const struct moietyi_driver *driver = body->driver;
    body->context = body->options.context;
    if (body->context)
        return moietyi_context_check(driver, body->context);
    int count = 0;
    moiety_status status =
        moietyi_check_device(driver, body->options.device, &count);
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDeviceGet,
                              (&body->device, body->options.device));
    if (status == MOIETY_OK)
        status = MOIETYI_CALL(driver, cuDevicePrimaryCtxRetain,
                              (&body->context, body->device));
    body->has_primary = status == MOIETY_OK;
    return status;
}

/* That of the program's own context. */
static moiety_status find_device(struct moietyi_pool_body *body)
{
    struct moietyi_section section;
    if (body->has_primary)
        return MOIETY_OK;
    moiety_status status = moietyi_context_enter(&body->own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = MOIETYI_CALL(body->driver, cuCtxGetDevice, (&body->device));
    (void)moietyi_section_leave(&section);
    return status;
}

static moiety_status pool_reserve(void *context, size_t size_bytes,
                                  moiety_devptr *out)
{
    const struct moietyi_pool_body *body = context;
    struct moietyi_outside outside;
    moietyi_step_out(body->pool, &outside);
    moiety_status status =
        body->source.reserve(body->source.context, size_bytes, out);
    moietyi_step_in(&outside);
    return status;
}

static moiety_status pool_release(void *context, moiety_devptr address,
                                  size_t size_bytes)
{
    const struct moietyi_pool_body *body = context;
    struct moietyi_outside outside;
    moietyi_step_out(body->pool, &outside);
    moiety_status status =
        body->source.release(body->source.context, address, size_bytes);
    moietyi_step_in(&outside);
    return status;
}

/* The caller's source, called through the two functions above. A wrong table is
 * copied as it is: moietyi_segments_create() refuses it. */
static moiety_source pool_wrap(struct moietyi_pool_body *body)
{
    const moiety_source *given = body->options.source;
    size_t bytes = given->struct_size;
    if (bytes > sizeof(body->source))
        bytes = sizeof(body->source);
    memcpy(&body->source, given, bytes);
    moiety_source wrapped = body->source;
    wrapped.context = body;
    if (wrapped.reserve)
        wrapped.reserve = pool_reserve;
    if (wrapped.release)
        wrapped.release = pool_release;
    return wrapped;
}

static bool is_mapped(const struct moietyi_pool_body *body)
{
    return body->options.memory == MOIETY_MEMORY_MAPPED;
}

/* Not a lack or a refusal of the driver, but an error that ends the pool
 * anyway. */
static bool is_fatal(moiety_status status)
{
    return status == MOIETY_E_CONTEXT_DESTROYED ||
           status == MOIETY_E_DEINITIALIZED || status == MOIETY_E_FORKED;
}

/* Whether the driver maps memory: it may say that it does, and refuse. */
static moiety_status ask_for_mapped(struct moietyi_pool_body *body)
{
    moiety_status status = moietyi_device_mapper_probe(&body->own_context);
    bool is_known = status == MOIETY_E_UNSUPPORTED;
    if (status == MOIETY_OK)
        status = moietyi_device_mapper_try(&body->own_context);
    if (status == MOIETY_OK || is_fatal(status))
        return status;
    static const char words[] =
        "memory is auto, and the pool has the driver's: %s";
    if (is_known)
        moietyi_log(MOIETY_LOG_INFO, words, moietyi_failure_message());
    else
        moietyi_log_or_print(MOIETY_LOG_WARNING, words,
                             moietyi_failure_message());
    return MOIETY_E_UNSUPPORTED;
}

static moiety_status choose_memory(struct moietyi_pool_body *body)
{
    const moiety_pool_options *options = &body->options;
    if (!options->source && !(options->flags & MOIETY_POOL_EXPORTABLE) &&
        !moietyi_is_passing(body))
        return ask_for_mapped(body);
    moietyi_log(MOIETY_LOG_INFO,
                "memory is auto, and the pool has the driver's: "
                "it has a source, is exportable, or passes "
                "all through");
    return MOIETY_E_UNSUPPORTED;
}

/* Memory is mapped from here on, or the driver's: then it lacks nothing that was
 * asked for. */
static moiety_status settle_memory(struct moietyi_pool_body *body)
{
    moiety_pool_options *options = &body->options;
    if (options->memory != MOIETY_MEMORY_AUTO)
        return MOIETY_OK;
    moiety_status status = choose_memory(body);
    body->may_fall_back = status == MOIETY_OK;
    options->memory =
        status == MOIETY_OK ? MOIETY_MEMORY_MAPPED : MOIETY_MEMORY_DRIVER;
    if (status == MOIETY_E_UNSUPPORTED && options->peer_devices)
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "the pool's memory is not mapped, so that it can "
                            "have no peers");
    return status == MOIETY_E_UNSUPPORTED ? MOIETY_OK : status;
}

static moiety_status make_mapper(struct moietyi_pool_body *body)
{
    moiety_status status = settle_memory(body);
    if (status != MOIETY_OK || !is_mapped(body))
        return status;
    if (body->options.source)
        return moietyi_fail(MOIETY_E_INVALID,
                            "memory is mapped; accepted are auto and driver "
                            "where the pool has a source of its own");
    bool is_shared = (body->options.flags & MOIETY_POOL_EXPORTABLE) != 0;
    body->mapped_device.context = &body->own_context;
    body->mapper = moietyi_device_mapper_init(&body->mapped_device, is_shared);
    status = is_shared
                 ? moietyi_device_mapper_probe_shared(&body->mapped_device)
                 : moietyi_device_mapper_probe(&body->own_context);
    return status == MOIETY_OK
               ? moietyi_device_mapper_probe_peers(&body->own_context,
                                                   body->options.peer_devices)
               : status;
}

static moiety_source source_of(struct moietyi_pool_body *body)
{
    if (body->options.source)
        return pool_wrap(body);
    return is_mapped(body) ? moietyi_mapped_source_init(&body->mapper)
                           : moietyi_device_source_init(&body->own_context);
}

static moiety_status make_segments(struct moietyi_pool_body *body)
{
    const moiety_source source = source_of(body);
    const moiety_source fallback =
        moietyi_device_source_init(&body->own_context);
    const struct moietyi_segments_options options = {
        .source = &source,
        .fallback = body->may_fall_back ? &fallback : NULL,
        .mapper = is_mapped(body) ? &body->mapper : NULL,
        .peers = body->options.peer_devices,
        .page_capacity = body->page_capacity,
        .limit_bytes = body->first_limit_bytes,
        .is_limited = body->options.limit_bytes != 0,
        .first_bytes = body->options.first_segment_bytes,
        .largest_bytes = body->options.largest_segment_bytes,
        .watermark_bytes = body->options.watermark_bytes,
    };
    struct moietyi_segments_options with_space = options;
    body->space = moietyi_space_create(options.page_capacity);
    if (!body->space) {
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no addresses for the tables of a pool of %llu "
                            "bytes at most (vm.overcommit_memory, ulimit -v)",
                            (unsigned long long)body->first_limit_bytes);
    }
    if (body->options.flags & MOIETY_POOL_HUGE_TABLES &&
        body->first_limit_bytes >= MOIETYI_HUGE_LIMIT_BYTES)
        moietyi_space_prefer_huge(body->space);
    body->any_heap = moietyi_heap_create(body->space);
    if (!body->any_heap)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY, "no memory for a pool");
    with_space.space = body->space;
    return moietyi_segments_create(&with_space, &body->segments);
}

/* The bytes that all threads' caches together may hold. */
static uint64_t cache_bytes(const struct moietyi_pool_body *body)
{
    uint64_t bytes = body->first_limit_bytes / CACHE_SHARE;
    if (body->options.cache_bytes)
        return body->options.cache_bytes;
    return bytes < LEAST_CACHE_BYTES ? LEAST_CACHE_BYTES : bytes;
}

static moiety_status make_engine(struct moietyi_pool_body *body,
                                 struct moiety_pool *pool)
{
    const struct moietyi_engine_options options = {
        .pool = pool,
        .driver = body->driver,
        .segments = body->segments,
        .space = body->space,
        .own_context = &body->own_context,
        .thread_cache_bytes = body->options.thread_cache_bytes,
        .cache_bytes = cache_bytes(body),
        .history_entries = body->options.history_entries,
        .any_heap = body->any_heap,
        .noted_pages = body->options.flags & MOIETY_POOL_NOTE_STREAMS
                           ? body->page_capacity
                           : 0,
    };
    return moietyi_engine_create(&options, &body->engine);
}

static moiety_status make_exports(struct moietyi_pool_body *body)
{
    const struct moietyi_exports_options options = {
        .driver = body->driver,
        .own_context = &body->own_context,
        .segments = body->segments,
        .space = body->space,
        .mapper = is_mapped(body) ? &body->mapper : NULL,
    };
    if (!(body->options.flags & MOIETY_POOL_EXPORTABLE))
        return MOIETY_OK;
    if (body->options.source &&
        !(body->source.flags & MOIETY_SOURCE_LEGACY_IPC)) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "source '%s' does not say that its memory can be "
                            "shared (MOIETY_SOURCE_LEGACY_IPC)",
                            body->source.name);
    }
    return moietyi_exports_create(&options, &body->exports);
}

static moiety_status make_checked(struct moietyi_pool_body *body,
                                  struct moiety_pool *pool)
{
    if (body->options.mode == MOIETY_MODE_PLAIN)
        return MOIETY_OK;
    const moiety_source source = source_of(body);
    /* AT, relaxed: nobody else has the handle yet. */
    atomic_fetch_or_explicit(&pool->attention, MOIETYI_ATTENTION_WATCHED,
                             memory_order_relaxed);
    body->ops = &moietyi_checked_ops;
    return moietyi_checked_create(body, &source);
}

static moiety_status pool_make_body(struct moietyi_pool_body *body,
                                    struct moiety_pool *pool)
{
    moiety_status status = moietyi_driver_open(&body->driver);
    if (status == MOIETY_OK)
        status = pool_open_context(body);
    if (status == MOIETY_OK)
        status = moietyi_context_init(&body->own_context, body->driver,
                                      body->context, &pool->attention,
                                      MOIETYI_ATTENTION_LOST);
    if (status == MOIETY_OK)
        status = find_device(body);
    if (status == MOIETY_OK)
        status = moietyi_limit_find(body, body->options.limit_bytes,
                                    &body->first_limit_bytes);
    body->page_capacity = moietyi_page_capacity_of(body->first_limit_bytes);
    if (status == MOIETY_OK)
        status = make_mapper(body);
    if (status == MOIETY_OK)
        status = make_segments(body);
    if (status == MOIETY_OK)
        status = make_exports(body);
    if (status == MOIETY_OK)
        status = make_checked(body, pool);
    if (status == MOIETY_OK)
        status = moietyi_told_create(body);
    if (status == MOIETY_OK)
        status = make_engine(body, pool);
    return status;
}

/* Frees all parts but the engine. MOIETY_OK, or the first refusal. */
static moiety_status pool_unmake(struct moietyi_pool_body *body)
{
    moiety_status status = moietyi_checked_destroy(body->checked);
    moietyi_exports_destroy(body->exports);
    moiety_status gone = moietyi_segments_destroy(body->segments);
    if (status == MOIETY_OK)
        status = gone;
    moietyi_callbacks_fini(body->callbacks);
    moietyi_scopes_fini(body->scopes);
    moietyi_privates_fini(body->privates);
    moietyi_told_destroy(body->told);
    moietyi_heap_destroy(body->any_heap);
    if (body->space)
        moietyi_space_destroy(body->space);
    /* A context that was reset is no longer ours to release. */
    if (body->has_primary && !moietyi_context_is_lost(&body->own_context)) {
        moiety_status released = MOIETYI_CALL(
            body->driver, cuDevicePrimaryCtxRelease, (body->device));
        if (status == MOIETY_OK)
            status = released;
    }
    free(body);
    return status;
}

/* The body comes first, and is freed for all of it. */
struct whole {
    struct moietyi_pool_body body;
    struct moietyi_callbacks callbacks;
    struct moietyi_scopes scopes;
    struct moietyi_privates privates;
};

/* Without a context or memory so far; NULL: no memory. */
static struct moietyi_pool_body *make_body(void)
{
    struct whole *whole = calloc(1, sizeof(*whole));
    if (!whole)
        return NULL;
    whole->body.ops = &moietyi_plain_ops;
    whole->body.callbacks = &whole->callbacks;
    whole->body.scopes = &whole->scopes;
    whole->body.privates = &whole->privates;
    return &whole->body;
}

static moiety_status create_by(const moiety_pool_options *resolved,
                               const char *conf, enum owner owner,
                               moiety_pool **out)
{
    struct moiety_pool *pool =
        aligned_alloc(alignof(struct moiety_pool), sizeof(*pool));
    struct moietyi_pool_body *body = make_body();
    if (!pool || !body) {
        free(pool);
        free(body);
        return pool_no_memory();
    }
    memset(pool, 0, sizeof(*pool));
    body->options = *resolved;
    body->pool = pool;
    pool->is_arena = owner == OWNER_ARENA;
    pool->is_default = owner == OWNER_PROCESS;
    moietyi_callbacks_init(body->callbacks);
    moietyi_scopes_init(body->scopes);
    moietyi_privates_init(body->privates);
    pool->body = body;
    struct moietyi_trace_file *trace = NULL;
    moiety_status status = moietyi_record_open(conf, &trace);
    if (status == MOIETY_OK)
        status = pool_make_body(body, pool);
    if (status == MOIETY_OK) {
        moietyi_record_begin(body->engine->history, trace);
        moietyi_exposed_add(body);
        *out = pool;
        return MOIETY_OK;
    }
    moietyi_record_leave(trace);
    (void)pool_unmake(body);
    free(pool);
    return status;
}

static moiety_status pool_create(const moiety_pool_options *options,
                                 const char *conf, enum owner owner,
                                 moiety_pool **out)
{
    moiety_pool_options resolved;
    struct moietyi_thread_call call;
    /* Before memory is asked for: a lock of it may be held by a thread that the
     * child does not have. */
    moiety_status status = moietyi_thread_call_begin(&call);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_options_resolve(options, conf, &resolved);
    if (status == MOIETY_OK)
        status = moietyi_expose_by_conf(conf);
    if (status == MOIETY_OK)
        status = create_by(&resolved, conf, owner, out);
    moietyi_thread_call_end(&call);
    return status;
}

moiety_status moiety_pool_create(const moiety_pool_options *options,
                                 moiety_pool **out)
{
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_pool_create: out is NULL");
    if (!moietyi_is_forked())
        moietyi_later_run(MOIETYI_END_LOOKS);
    return pool_create(options, getenv("MOIETY_CONF"), OWNER_CALLER, out);
}

moiety_status moietyi_default_pool_create(const moiety_pool_options *options,
                                          moiety_pool **out)
{
    moietyi_later_run(MOIETYI_END_LOOKS);
    return pool_create(options, getenv("MOIETY_CONF"), OWNER_PROCESS, out);
}

moiety_status moiety_pool_options_check(const moiety_pool_options *options)
{
    moiety_pool_options resolved;
    return moietyi_options_resolve(options, getenv("MOIETY_CONF"), &resolved);
}

moiety_status moietyi_arena_pool_create(const moiety_pool_options *options,
                                        moiety_pool **out)
{
    return pool_create(options, NULL, OWNER_ARENA, out);
}

static moiety_status add_peer(struct moietyi_pool_body *body, int32_t device)
{
    if (device < 0 || device > 63) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_pool_add_peer: device %d; accepted are "
                            "ordinals from 0 to 63",
                            device);
    }
    if (!is_mapped(body))
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "peers are of a pool that is mapped");
    moiety_status status = moietyi_device_mapper_probe_peers(
        &body->own_context, UINT64_C(1) << device);
    return status == MOIETY_OK
               ? moietyi_segments_add_peer(body->segments, device)
               : status;
}

moiety_status moiety_pool_add_peer(moiety_pool *pool, int32_t device)
{
    struct moietyi_call call;
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, &call);
    if (status != MOIETY_OK)
        return status;
    status = add_peer(pool->body, device);
    moietyi_call_leave(&call);
    return status;
}

#define LEAK_BYTES 20U /* " 0x" and 16 digits */

/* A log function gets it in any case. */
static void pool_report_leaks(const struct moietyi_pool_body *body,
                              const moiety_leaks *leaks)
{
    char list[sizeof(leaks->addresses) / sizeof(leaks->addresses[0]) *
              LEAK_BYTES] = "";
    size_t length = 0;
    if (!leaks->block_count ||
        !(body->options.flags & MOIETY_POOL_REPORT_LEAKS ||
          moietyi_log_wants(MOIETY_LOG_WARNING)))
        return;
    for (uint32_t i = 0; i < leaks->address_count; i++)
        length += (size_t)snprintf(list + length, sizeof(list) - length,
                                   " 0x%llx", leaks->addresses[i]);
    moietyi_log_or_print(MOIETY_LOG_WARNING,
                         "%llu blocks of %s, %llu bytes, were not freed:%s%s",
                         (unsigned long long)leaks->block_count,
                         moietyi_segments_source_name(body->segments),
                         (unsigned long long)leaks->bytes, list,
                         leaks->address_count < leaks->block_count ? " ..."
                                                                   : "");
}

/* Edge: none; relaxed: never followed. Handles of pools that are gone. Nobody
 * reads the list: it keeps what stays behind on purpose from looking like a
 * leak. */
static _Atomic(struct moiety_pool *) gone;

static void pool_retain_handle(struct moiety_pool *pool)
{
    /* relaxed: compared and stored, never followed. */
    struct moiety_pool *seen =
        atomic_load_explicit(&gone, memory_order_relaxed);
    do {
        pool->next_gone = seen;
    } while (!atomic_compare_exchange_weak_explicit(
        &gone, &seen, pool, memory_order_relaxed, memory_order_relaxed));
}

static moiety_status refuse_used(void)
{
    return moietyi_fail(MOIETY_E_IN_USE,
                        "a call on the pool is under way in some thread");
}

/* Late calls find the pool dead, unless the end is refused (later.h): then it
 * is as it was. */
static moiety_status close_and_drain(struct moiety_pool *pool, bool is_over)
{
    struct moietyi_engine *engine = pool->body->engine;
    /* Checked before the mark is set, so that a call under way does not meet
     * it. */
    if (moietyi_engine_is_used(engine))
        return refuse_used();
    /* IN.seq_cst: of a call that begins and us, one sees the other. */
    (void)atomic_fetch_or_explicit(&pool->attention, MOIETYI_ATTENTION_DEAD,
                                   memory_order_seq_cst);
    moiety_status status = moietyi_engine_is_used(engine)
                               ? refuse_used()
                               : moietyi_engine_drain(engine, is_over);
    /* IN.seq_cst: as above. */
    if (moietyi_end_is_refused(status))
        (void)atomic_fetch_and_explicit(
            &pool->attention, ~MOIETYI_ATTENTION_DEAD, memory_order_seq_cst);
    return status;
}

static moiety_status refuse_scope(void)
{
    return moietyi_fail(MOIETY_E_IN_USE, "a capture scope is open");
}

static moiety_status pool_destroy(struct moiety_pool *pool, bool is_over,
                                  moiety_leaks *leaks)
{
    struct moietyi_pool_body *body = pool->body;
    if (moietyi_scopes_are_open(body->scopes))
        return refuse_scope();
    moiety_status drained = close_and_drain(pool, is_over);
    if (moietyi_end_is_refused(drained))
        return drained;
    /* The rest may report more errors of a context that is lost by now. */
    struct moietyi_failure why;
    moietyi_failure_keep(&why);
    moietyi_exports_drain(body->exports, body->engine);
    body->ops->end(body, drained == MOIETY_OK, leaks);
    pool_report_leaks(body, leaks);
    moietyi_tenants_end(pool);
    moietyi_record_end(body->engine->history);
    moietyi_engine_destroy(body->engine);
    pool->lookup = NULL;
    pool->classes = NULL;
    pool->engine = NULL;
    pool->body = NULL;
    pool_retain_handle(pool);
    moiety_status status = pool_unmake(body);
    if (drained == MOIETY_OK)
        return status;
    moietyi_failure_restore(&why);
    return drained;
}

/* The driver waits for the device when it takes back memory that is not mapped;
 * a checked pool waits for what it has written. */
static bool pool_needs_rest(const struct moietyi_pool_body *body)
{
    return body->checked || !moietyi_segments_are_mapped(body->segments);
}

/* Whether the pool can end without a wait; refused (later.h) if it cannot, or if
 * that is unknown. */
static moiety_status pool_look(const struct moiety_pool *pool,
                               enum moietyi_end how, bool *out_is_over)
{
    struct moietyi_pool_body *body = pool->body;
    if (moietyi_scopes_are_open(body->scopes))
        return refuse_scope();
    if (moietyi_engine_is_used(body->engine))
        return refuse_used();
    *out_is_over = body->driver->cuCtxRecordEvent != NULL;
    if (*out_is_over)
        return moietyi_engine_look(body->engine, pool_needs_rest(body));
    return how == MOIETYI_END_LOOKS
               ? MOIETY_OK
               : moietyi_fail(MOIETY_E_WOULD_BLOCK,
                              "the driver has no events of a context");
}

static moiety_status pool_end_in_call(moiety_pool *pool, enum moietyi_end how,
                                      moiety_leaks *leaks)
{
    bool is_over = false;
    moiety_status looked =
        how == MOIETYI_END_WAITS ? MOIETY_OK : pool_look(pool, how, &is_over);
    if (moietyi_end_is_refused(looked))
        return looked;
    /* A program that looks at the pool from outside does not keep it. */
    moietyi_exposed_remove(pool->body);
    moiety_status status = pool_destroy(pool, is_over, leaks);
    if (pool->body)
        moietyi_exposed_add(pool->body);
    return status == MOIETY_OK ? looked : status;
}

moiety_status moietyi_pool_end(moiety_pool *pool, enum moietyi_end how,
                               moiety_leaks *out_leaks)
{
    moiety_leaks leaks = {.struct_size = sizeof(leaks)};
    struct moietyi_thread_call call;
    moiety_status status = moietyi_thread_call_begin(&call);
    if (status != MOIETY_OK)
        return status;
    status = pool_end_in_call(pool, how, &leaks);
    moietyi_thread_call_end(&call);
    if (out_leaks && !moietyi_end_is_refused(status))
        *out_leaks = leaks;
    return status;
}

moiety_status moietyi_pool_take(moiety_pool *pool)
{
    const char *what = pool->is_arena ? "arena" : "pool";
    bool is_taken = !moietyi_is_dead(pool) && moietyi_later_take(&pool->later);
    if (is_taken)
        return MOIETY_OK;
    return moietyi_is_dead(pool)
               ? moietyi_fail(MOIETY_E_DESTROYED, "the %s was destroyed", what)
               : moietyi_fail(MOIETY_E_IN_USE,
                              "another call that destroys is under way");
}

void moietyi_pool_release(moiety_pool *pool)
{
    moietyi_later_release(&pool->later, moietyi_is_dead(pool));
}

/* Whether the caller may end it: MOIETY_OK, or whose it is. */
static moiety_status check_owner(const struct moiety_pool *pool)
{
    if (moietyi_is_dead(pool))
        return MOIETY_OK;
    if (pool->is_default)
        return moietyi_fail(MOIETY_E_INVALID,
                            "the pool is the process's, of "
                            "moiety_default_pool(): nobody destroys it");
    return pool->is_arena ? moietyi_fail(MOIETY_E_INVALID,
                                         "the pool is a host arena's: "
                                         "moiety_host_destroy() ends both")
                          : MOIETY_OK;
}

moiety_status moiety_pool_destroy(moiety_pool *pool, moiety_leaks *out_leaks)
{
    if (!pool)
        return MOIETY_OK;
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    if (out_leaks && out_leaks->struct_size < sizeof(*out_leaks)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_pool_destroy: struct_size is %u, must be "
                            "%zu or more",
                            (unsigned)out_leaks->struct_size,
                            sizeof(*out_leaks));
    }
    moiety_status status = check_owner(pool);
    if (status == MOIETY_OK)
        status = moietyi_pool_take(pool);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_pool_end(pool, MOIETYI_END_WAITS, out_leaks);
    moietyi_pool_release(pool);
    moietyi_later_run(MOIETYI_END_GLANCES);
    return status;
}

moiety_status moietyi_pool_end_later(void *handle, enum moietyi_end how)
{
    if (moietyi_capture_is_near())
        return moietyi_fail(MOIETY_E_CAPTURING,
                            "a capture guard is held, or a pool met a capture "
                            "within the last two seconds");
    return moietyi_pool_end(handle, how, NULL);
}

moiety_status moiety_pool_destroy_later(moiety_pool *pool)
{
    moiety_status status = pool ? check_owner(pool) : MOIETY_OK;
    return status == MOIETY_OK
               ? moietyi_pool_destroy_later(pool, moietyi_pool_end_later, pool)
               : status;
}

moiety_status moietyi_pool_destroy_later(moiety_pool *pool, moietyi_end_fn *end,
                                         void *handle)
{
    if (!pool)
        return MOIETY_OK;
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    if (moietyi_is_dead(pool))
        return moietyi_fail(MOIETY_E_DESTROYED, "the %s was destroyed",
                            pool->is_arena ? "arena" : "pool");
    int cancel_state = moietyi_cancel_hold();
    moiety_status status = moietyi_later_end(&pool->later, end, handle);
    moietyi_thread_tell(moietyi_thread_self);
    moietyi_cancel_restore(cancel_state);
    return status;
}
