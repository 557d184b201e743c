/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Making and destroying arenas, and the way from one to its pool.
 */
#include "numa/arena/arena.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "binade/pool.h"
#include "numa/arena/place.h"
#include "pool/api/arena.h"
#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/driver/probe.h"
#include "pool/driver/section.h"

#define SEGMENT_BYTES (UINT64_C(2) << 20)

static binade_status arena_open_context(struct binade_host *host,
                                        const binade_host_options *options)
{
    const struct binadei_driver *driver = host->driver;
    CUcontext context = options->context;
    binade_status status = BINADE_OK;
    if (context) {
        status = binadei_context_check(driver, context);
    } else {
        status =
            BINADEI_CALL(driver, cuDeviceGet, (&host->device, options->device));
        if (status == BINADE_OK)
            status = BINADEI_CALL(driver, cuDevicePrimaryCtxRetain,
                                  (&context, host->device));
        host->has_primary = status == BINADE_OK;
    }
    return status == BINADE_OK
               ? binadei_context_init(&host->own_context, driver, context,
                                      &host->mark, 1)
               : status;
}

static binade_status make_source(struct binade_host *host,
                                 const binade_host_options *options)
{
    const struct binadei_topology *topology;
    binade_status status = binadei_topology_get(&topology);
    if (status != BINADE_OK)
        return status;
    bool is_foreign = !binadei_topology_is_this_system(topology);
    if (is_foreign && host->place.is_strict) {
        return binadei_fail(BINADE_E_UNSUPPORTED,
                            "a strict arena: memory cannot be bound by a "
                            "topology that is not this machine's, %s",
                            binadei_topology_source(topology));
    }
    const struct binadei_pinned_options pinned = {
        .own_context = &host->own_context,
        .topology = binadei_topology_hwloc(topology),
        .nodes = host->place.nodes,
        .is_interleaved = host->place.is_interleaved,
        .is_foreign = is_foreign,
        .flags = options->flags,
        .thread_max = options->touch_threads,
    };
    /* What may be reserved at all: a strict arena has its nodes alone. */
    host->limit_bytes = options->limit_bytes;
    if (!host->limit_bytes) {
        host->limit_bytes = binadei_host_bytes(
            topology, host->place.is_strict
                          ? &host->place.nodes
                          : binadei_topology_allowed(topology));
    }
    host->limit_bytes &= ~(SEGMENT_BYTES - 1);
    return binadei_pinned_create(&pinned, &host->pinned);
}

static binade_status make_pool(struct binade_host *host,
                               const binade_host_options *options)
{
    const binade_source source = binadei_pinned_source(host->pinned);
    binade_pool_options pool = BINADE_POOL_OPTIONS_INIT;
    pool.context = host->own_context.handle;
    pool.device = options->device; /* for who looks at it: binade/expose.h */
    pool.source = &source;
    pool.limit_bytes = host->limit_bytes;
    pool.first_segment_bytes = options->first_segment_bytes;
    pool.largest_segment_bytes = options->largest_segment_bytes;
    pool.thread_cache_bytes = options->thread_cache_bytes;
    pool.wait_ms = options->wait_ms;
    if (options->flags & BINADE_HOST_REPORT_LEAKS)
        pool.flags |= BINADE_POOL_REPORT_LEAKS;
    /* The keys of BINADE_CONF that are for pools mean device memory. */
    return binadei_arena_pool_create(&pool, &host->pool);
}

static binade_status arena_make(struct binade_host *host,
                                const binade_host_options *options)
{
    int device_count;
    binade_status status = binadei_driver_open(&host->driver);
    if (status == BINADE_OK)
        status =
            binadei_check_device(host->driver, options->device, &device_count);
    if (status == BINADE_OK)
        status = binadei_host_place(host->driver, options, &host->place);
    if (status == BINADE_OK)
        status = arena_open_context(host, options);
    if (status == BINADE_OK)
        status = make_source(host, options);
    if (status == BINADE_OK)
        status = make_pool(host, options);
    return status;
}

/* A context that was reset is not ours to release any more; entering it asks. */
static bool is_context_there(struct binade_host *host)
{
    struct binadei_section section;
    if (binadei_context_watch(&host->own_context, &section) != BINADE_OK)
        return false;
    (void)binadei_section_leave(&section);
    return true;
}

/* Whatever there is of it, but for the pool and the handle. */
static void arena_unmake(struct binade_host *host)
{
    binadei_pinned_destroy(host->pinned);
    host->pinned = NULL;
    if (host->has_primary && is_context_there(host))
        (void)BINADEI_CALL(host->driver, cuDevicePrimaryCtxRelease,
                           (host->device));
}

/* Edge: none; relaxed: never followed. Handles of arenas that are gone. Nobody
 * reads the list: it keeps what stays behind on purpose from looking like a
 * leak. */
static _Atomic(struct binade_host *) gone;

static void arena_retain_handle(struct binade_host *host)
{
    /* relaxed: compared and stored, never followed. */
    struct binade_host *seen =
        atomic_load_explicit(&gone, memory_order_relaxed);
    do {
        host->next_gone = seen;
    } while (!atomic_compare_exchange_weak_explicit(
        &gone, &seen, host, memory_order_relaxed, memory_order_relaxed));
}

static binade_status arena_create(const binade_host_options *resolved,
                                  binade_host **out)
{
    struct binade_host *host = calloc(1, sizeof(*host));
    if (!host)
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory for a host arena");
    binade_status status = arena_make(host, resolved);
    if (status == BINADE_OK) {
        *out = host;
    } else {
        arena_unmake(host);
        free(host);
    }
    return status;
}

binade_status binade_host_create(const binade_host_options *options,
                                 binade_host **out)
{
    binade_host_options resolved;
    if (!out)
        return binadei_fail(BINADE_E_INVALID,
                            "binade_host_create: out is NULL");
    /* Before memory is asked for, as in binade_pool_create(). */
    if (binadei_is_forked())
        return binadei_refuse_child();
    int cancel_state = binadei_cancel_hold();
    binade_status status =
        binadei_host_resolve(options, getenv("BINADE_CONF"), &resolved);
    if (status == BINADE_OK)
        status = binadei_expose_by_conf(getenv("BINADE_CONF"));
    if (status == BINADE_OK)
        status = arena_create(&resolved, out);
    binadei_cancel_restore(cancel_state);
    return status;
}

binade_status binadei_host_check(const struct binade_host *host,
                                 const char *function)
{
    if (host && host->pinned)
        return BINADE_OK;
    return binadei_fail(BINADE_E_INVALID, "%s: %s", function,
                        host ? "the arena was destroyed" : "host is NULL");
}

binade_status binade_host_destroy(binade_host *host, binade_leaks *out_leaks)
{
    if (!host)
        return BINADE_OK;
    if (binadei_is_forked())
        return binadei_refuse_child();
    binade_status status = binadei_host_check(host, "binade_host_destroy");
    if (status != BINADE_OK)
        return status;
    if (out_leaks && out_leaks->struct_size < sizeof(*out_leaks)) {
        return binadei_fail(BINADE_E_INVALID,
                            "binade_host_destroy: struct_size is %u, must be "
                            "%zu or more",
                            (unsigned)out_leaks->struct_size,
                            sizeof(*out_leaks));
    }
    status = binadei_pool_destroy(host->pool, out_leaks);
    /* Refused, all is as it was. */
    if (status == BINADE_E_BUSY)
        return status;
    int cancel_state = binadei_cancel_hold();
    arena_unmake(host);
    arena_retain_handle(host);
    binadei_cancel_restore(cancel_state);
    return status;
}

static __attribute__((noinline)) binade_status refuse(const char *function,
                                                      const char *argument)
{
    return binadei_fail(BINADE_E_INVALID, "%s: %s is NULL", function, argument);
}

static inline binade_status
arena_alloc_block(binade_status (*from)(binade_pool *, size_t, binade_stream,
                                        binade_devptr *),
                  binade_host *host, size_t size_bytes, binade_stream stream,
                  void **out)
{
    binade_devptr address;
    if (!host || !out)
        return refuse("binade_host_alloc", host ? "out" : "host");
    binade_status status = from(host->pool, size_bytes, stream, &address);
    if (status == BINADE_OK)
        *out = (void *)(uintptr_t)address;
    return status;
}

binade_status binade_host_alloc(binade_host *host, size_t size_bytes,
                                binade_stream stream, void **out)
{
    return arena_alloc_block(binade_alloc, host, size_bytes, stream, out);
}

binade_status binade_host_try_alloc(binade_host *host, size_t size_bytes,
                                    binade_stream stream, void **out)
{
    return arena_alloc_block(binade_try_alloc, host, size_bytes, stream, out);
}

binade_status binade_host_free(binade_host *host, void *address,
                               binade_stream stream)
{
    if (!host)
        return refuse("binade_host_free", "host");
    return binade_free(host->pool, (uintptr_t)address, stream);
}

binade_status binade_host_free_sized(binade_host *host, void *address,
                                     size_t size_bytes, binade_stream stream)
{
    if (!host)
        return refuse("binade_host_free_sized", "host");
    return binade_free_sized(host->pool, (uintptr_t)address, size_bytes,
                             stream);
}

binade_status binade_host_resize(binade_host *host, void *address,
                                 size_t size_bytes, binade_stream stream)
{
    if (!host)
        return refuse("binade_host_resize", "host");
    return binade_resize(host->pool, (uintptr_t)address, size_bytes, stream);
}

binade_status binade_host_free_all(binade_host *host, binade_stream stream,
                                   uint64_t *out_freed)
{
    if (!host)
        return refuse("binade_host_free_all", "host");
    return binade_free_all(host->pool, stream, out_freed);
}

binade_pool *binade_host_pool(const binade_host *host)
{
    return host ? host->pool : NULL;
}

binade_status binade_host_device_address(binade_host *host, const void *address,
                                         binade_devptr *out)
{
    if (binadei_is_forked())
        return binadei_refuse_child();
    binade_status status =
        binadei_host_check(host, "binade_host_device_address");
    if (status != BINADE_OK)
        return status;
    if (!out)
        return refuse("binade_host_device_address", "out");
    return binadei_pinned_device_address(host->pinned, address, out);
}

binade_status binade_host_trim(binade_host *host, uint64_t keep_bytes,
                               uint64_t *out_bytes)
{
    if (!host)
        return refuse("binade_host_trim", "host");
    return binade_pool_trim(host->pool, keep_bytes, out_bytes);
}
