/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Making and destroying arenas, and the way from one to its pool.
 */
#include "numa/arena/arena.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "moiety/pool.h"
#include "numa/arena/growth.h"
#include "numa/arena/place.h"
#include "pool/api/arena.h"
#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/base/later.h"
#include "pool/driver/probe.h"
#include "pool/driver/section.h"

static moiety_status arena_open_context(struct moiety_host *host,
                                        const moiety_host_options *options)
{
    const struct moietyi_driver *driver = host->driver;
    CUcontext context = options->context;
    moiety_status status = MOIETY_OK;
    if (context) {
        status = moietyi_context_check(driver, context);
    } else {
        status =
            MOIETYI_CALL(driver, cuDeviceGet, (&host->device, options->device));
        if (status == MOIETY_OK)
            status = MOIETYI_CALL(driver, cuDevicePrimaryCtxRetain,
                                  (&context, host->device));
        host->has_primary = status == MOIETY_OK;
    }
    return status == MOIETY_OK
               ? moietyi_context_init(&host->own_context, driver, context,
                                      &host->mark, 1)
               : status;
}

static moiety_status make_source(struct moiety_host *host,
                                 const moiety_host_options *options)
{
    const struct moietyi_topology *topology;
    moiety_status status = moietyi_topology_get(&topology);
    if (status != MOIETY_OK)
        return status;
    bool is_foreign = !moietyi_topology_is_this_system(topology);
    if (is_foreign && host->place.is_strict) {
        return moietyi_fail(MOIETY_E_UNSUPPORTED,
                            "a strict arena: memory cannot be bound by a "
                            "topology that is not this machine's, %s",
                            moietyi_topology_source(topology));
    }
    const struct moietyi_pinned_options pinned = {
        .own_context = &host->own_context,
        .topology = moietyi_topology_hwloc(topology),
        .nodes = host->place.nodes,
        .is_interleaved = host->place.is_interleaved,
        .is_foreign = is_foreign,
        .flags = options->flags,
        .thread_max = options->touch_threads,
        .cancels = &host->cancels,
    };
    /* The bytes that may be reserved: a strict arena has only its nodes. */
    host->limit_bytes = options->limit_bytes;
    if (!host->limit_bytes) {
        host->limit_bytes = moietyi_host_bytes(
            topology, host->place.is_strict
                          ? &host->place.nodes
                          : moietyi_topology_allowed(topology));
    }
    host->limit_bytes &= ~(MOIETYI_PIECE_UNIT - 1);
    status = moietyi_pieces_find(options, host->limit_bytes, &host->pieces);
    return status == MOIETY_OK ? moietyi_pinned_create(&pinned, &host->pinned)
                               : status;
}

static moiety_status make_pool(struct moiety_host *host,
                               const moiety_host_options *options)
{
    const moiety_source source = moietyi_pinned_source(host->pinned);
    moiety_pool_options pool = MOIETY_POOL_OPTIONS_INIT;
    pool.context = host->own_context.handle;
    pool.device = options->device; /* for who looks at it: moiety/expose.h */
    pool.source = &source;
    pool.limit_bytes = host->limit_bytes;
    pool.first_segment_bytes = host->pieces.first_bytes;
    pool.largest_segment_bytes = host->pieces.most_bytes;
    pool.thread_cache_bytes = options->thread_cache_bytes;
    pool.wait_ms = options->wait_ms;
    if (options->flags & MOIETY_HOST_REPORT_LEAKS)
        pool.flags |= MOIETY_POOL_REPORT_LEAKS;
    /* The keys of MOIETY_CONF that are for pools mean device memory. */
    return moietyi_arena_pool_create(&pool, &host->pool);
}

static moiety_status arena_make(struct moiety_host *host,
                                const moiety_host_options *options)
{
    int device_count;
    moiety_status status = moietyi_driver_open(&host->driver);
    if (status == MOIETY_OK)
        status =
            moietyi_check_device(host->driver, options->device, &device_count);
    if (status == MOIETY_OK)
        status = moietyi_host_place(host->driver, options, &host->place);
    if (status == MOIETY_OK)
        status = arena_open_context(host, options);
    if (status == MOIETY_OK)
        status = make_source(host, options);
    if (status == MOIETY_OK)
        status = make_pool(host, options);
    return status;
}

/* A context that was reset is no longer ours to release; entering it finds
 * out. */
static bool is_context_there(struct moiety_host *host)
{
    struct moietyi_section section;
    if (moietyi_context_watch(&host->own_context, &section) != MOIETY_OK)
        return false;
    (void)moietyi_section_leave(&section);
    return true;
}

/* Frees all parts but the pool and the handle. */
static void arena_unmake(struct moiety_host *host)
{
    moietyi_pinned_destroy(host->pinned);
    host->pinned = NULL;
    if (host->has_primary && is_context_there(host))
        (void)MOIETYI_CALL(host->driver, cuDevicePrimaryCtxRelease,
                           (host->device));
}

/* Edge: none; relaxed: never followed. Handles of arenas that are gone. Nobody
 * reads the list: it keeps what stays behind on purpose from looking like a
 * leak. */
static _Atomic(struct moiety_host *) gone;

static void arena_retain_handle(struct moiety_host *host)
{
    /* relaxed: compared and stored, never followed. */
    struct moiety_host *seen =
        atomic_load_explicit(&gone, memory_order_relaxed);
    do {
        host->next_gone = seen;
    } while (!atomic_compare_exchange_weak_explicit(
        &gone, &seen, host, memory_order_relaxed, memory_order_relaxed));
}

static moiety_status arena_create(const moiety_host_options *resolved,
                                  moiety_host **out)
{
    struct moiety_host *host = calloc(1, sizeof(*host));
    if (!host)
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory for a host arena");
    (void)pthread_mutex_init(&host->lock, NULL);
    (void)pthread_cond_init(&host->growth_left, NULL);
    moiety_status status = arena_make(host, resolved);
    if (status == MOIETY_OK) {
        *out = host;
    } else {
        arena_unmake(host);
        (void)pthread_cond_destroy(&host->growth_left);
        (void)pthread_mutex_destroy(&host->lock);
        free(host);
    }
    return status;
}

moiety_status moiety_host_create(const moiety_host_options *options,
                                 moiety_host **out)
{
    moiety_host_options resolved;
    if (!out)
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_host_create: out is NULL");
    /* Before memory is asked for, as in moiety_pool_create(). */
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    moietyi_later_run(MOIETYI_END_LOOKS);
    int cancel_state = moietyi_cancel_hold();
    moiety_status status =
        moietyi_host_resolve(options, getenv("MOIETY_CONF"), &resolved);
    if (status == MOIETY_OK)
        status = moietyi_expose_by_conf(getenv("MOIETY_CONF"));
    if (status == MOIETY_OK)
        status = arena_create(&resolved, out);
    moietyi_cancel_restore(cancel_state);
    return status;
}

/* By the one thread that may end it. */
static moiety_status arena_close(struct moiety_host *host)
{
    pthread_mutex_lock(&host->lock);
    host->is_ending = host->reserve_count == 0;
    bool is_ending = host->is_ending;
    pthread_mutex_unlock(&host->lock);
    return is_ending ? MOIETY_OK
                     : moietyi_fail(MOIETY_E_IN_USE,
                                    "moiety_host_reserve() is under way in "
                                    "some thread");
}

static void arena_reopen(struct moiety_host *host)
{
    pthread_mutex_lock(&host->lock);
    host->is_ending = false;
    pthread_mutex_unlock(&host->lock);
}

/* Ends the pool in its way and then the arena; or the pool refuses that, and nothing
 * has changed. */
static moiety_status arena_end(struct moiety_host *host, enum moietyi_end how,
                               bool is_later, moiety_leaks *out_leaks)
{
    moiety_status status = arena_close(host);
    if (status != MOIETY_OK)
        return status;
    status = is_later ? moietyi_pool_end_later(host->pool, how)
                      : moietyi_pool_end(host->pool, how, out_leaks);
    if (moietyi_end_is_refused(status)) {
        arena_reopen(host);
        return status;
    }
    int cancel_state = moietyi_cancel_hold();
    arena_unmake(host);
    arena_retain_handle(host);
    moietyi_cancel_restore(cancel_state);
    return status;
}

moiety_status moiety_host_destroy(moiety_host *host, moiety_leaks *out_leaks)
{
    if (!host)
        return MOIETY_OK;
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    if (out_leaks && out_leaks->struct_size < sizeof(*out_leaks)) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "moiety_host_destroy: struct_size is %u, must be "
                            "%zu or more",
                            (unsigned)out_leaks->struct_size,
                            sizeof(*out_leaks));
    }
    /* A function that the pool has called must not wait for a growth, which may wait
     * for it. */
    moiety_status status = moiety_pool_reserve(host->pool, 0);
    if (status == MOIETY_E_REENTRANT)
        return status;
    moietyi_growths_end(host);
    status = moietyi_pool_take(host->pool);
    if (status != MOIETY_OK)
        return status;
    status = arena_end(host, MOIETYI_END_WAITS, false, out_leaks);
    moietyi_pool_release(host->pool);
    moietyi_later_run(MOIETYI_END_GLANCES);
    return status;
}

static moiety_status host_end_later(void *handle, enum moietyi_end how)
{
    return arena_end(handle, how, true, NULL);
}

moiety_status moiety_host_destroy_later(moiety_host *host)
{
    if (!host)
        return MOIETY_OK;
    if (!moietyi_is_forked())
        moietyi_growths_cancel(host);
    return moietyi_pool_destroy_later(host->pool, host_end_later, host);
}

static __attribute__((noinline)) moiety_status refuse(const char *function,
                                                      const char *argument)
{
    return moietyi_fail(MOIETY_E_INVALID, "%s: %s is NULL", function, argument);
}

moiety_status moiety_host_alloc(moiety_host *host, size_t size_bytes,
                                moiety_stream stream, void **out)
{
    moiety_devptr address;
    if (!host || !out)
        return refuse("moiety_host_alloc", host ? "out" : "host");
    moiety_status status =
        moiety_alloc(host->pool, size_bytes, stream, &address);
    if (status == MOIETY_OK)
        *out = (void *)(uintptr_t)address;
    return status;
}

moiety_status moiety_host_alloc_with(moiety_host *host, size_t size_bytes,
                                     moiety_stream stream,
                                     const moiety_alloc_options *options,
                                     void **out)
{
    moiety_devptr address;
    if (!host || !out)
        return refuse("moiety_host_alloc_with", host ? "out" : "host");
    moiety_status status =
        moiety_alloc_with(host->pool, size_bytes, stream, options, &address);
    if (status == MOIETY_OK)
        *out = (void *)(uintptr_t)address;
    return status;
}

moiety_status moiety_host_free(moiety_host *host, void *address,
                               moiety_stream stream)
{
    if (!host)
        return refuse("moiety_host_free", "host");
    return moiety_free(host->pool, (uintptr_t)address, stream);
}

moiety_status moiety_host_free_sized(moiety_host *host, void *address,
                                     size_t size_bytes, moiety_stream stream)
{
    if (!host)
        return refuse("moiety_host_free_sized", "host");
    return moiety_free_sized(host->pool, (uintptr_t)address, size_bytes,
                             stream);
}

moiety_status moiety_host_resize(moiety_host *host, void *address,
                                 size_t size_bytes, moiety_stream stream)
{
    if (!host)
        return refuse("moiety_host_resize", "host");
    return moiety_resize(host->pool, (uintptr_t)address, size_bytes, stream);
}

moiety_status moiety_host_free_all(moiety_host *host, moiety_stream stream,
                                   uint64_t *out_freed)
{
    if (!host)
        return refuse("moiety_host_free_all", "host");
    return moiety_free_all(host->pool, stream, out_freed);
}

moiety_pool *moiety_host_pool(const moiety_host *host)
{
    return host ? host->pool : NULL;
}

moiety_status moiety_host_device_address(moiety_host *host, const void *address,
                                         moiety_devptr *out)
{
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    moiety_status status =
        moietyi_host_check(host, "moiety_host_device_address");
    if (status != MOIETY_OK)
        return status;
    if (!out)
        return refuse("moiety_host_device_address", "out");
    return moietyi_pinned_device_address(host->pinned, address, out);
}

moiety_status moiety_host_copy_to_children(moiety_host *host)
{
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    moiety_status status =
        moietyi_host_check(host, "moiety_host_copy_to_children");
    if (status == MOIETY_OK)
        moietyi_pinned_open_to_children(host->pinned);
    return status;
}

moiety_status moiety_host_trim(moiety_host *host, uint64_t keep_bytes,
                               uint64_t *out_bytes)
{
    if (!host)
        return refuse("moiety_host_trim", "host");
    if (!moietyi_is_forked())
        moietyi_growths_cancel(host);
    return moiety_pool_trim(host->pool, keep_bytes, out_bytes);
}
