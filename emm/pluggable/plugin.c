/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pools by device, and the graphs that they have memory of. All is under one
 * lock, as PyTorch calls under one anyway. Each capture has a scope of its own,
 * and all are released with the device's last graph: a filter of streams is a C++
 * object, which C cannot ask.
 */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include "emm/pluggable/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "moiety/moiety.h"
#include "moiety/probe.h"
#include "moiety/scope.h"
#include "moiety/segment.h"

#define MESSAGE_BYTES 1024

static struct {
    pthread_mutex_t lock; /* of all below */
    uint32_t pool_flags;
    uint32_t memory; /* a moiety_memory */
    uint64_t limit_bytes;
    struct {
        moiety_pool *pool; /* NULL: no block was allocated yet */
        uint64_t graph_count;
    } devices[MOIETY_PLUGGABLE_DEVICES_MAX];
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

void moiety_pluggable_set(uint32_t pool_flags, uint32_t memory,
                          uint64_t limit_bytes)
{
    (void)pthread_mutex_lock(&plugin.lock);
    plugin.pool_flags = pool_flags;
    plugin.memory = memory;
    plugin.limit_bytes = limit_bytes;
    (void)pthread_mutex_unlock(&plugin.lock);
}

static uint64_t plugin_limit(void)
{
    (void)pthread_mutex_lock(&plugin.lock);
    uint64_t limit_bytes = plugin.limit_bytes;
    (void)pthread_mutex_unlock(&plugin.lock);
    return limit_bytes;
}

/* By the function of libstdc++ that throws std::runtime_error: where the process
 * has no such library there is nobody to catch it either. Returns then. */
static void throw_error(const char *text)
{
    void (*throw_runtime_error)(const char *) = NULL;
    void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (library)
        *(void **)&throw_runtime_error =
            dlsym(library, "_ZSt21__throw_runtime_errorPKc");
    if (throw_runtime_error)
        throw_runtime_error(text);
    (void)fprintf(stderr, "moiety: %s\n", text);
}

static void throw_if(moiety_status status, const char *what)
{
    char text[MESSAGE_BYTES];
    if (status == MOIETY_OK)
        return;
    (void)snprintf(text, sizeof(text), "Moiety: %s: %s", what,
                   moiety_last_error_message());
    throw_error(text);
}

static void throw_allocation_error(moiety_status status, size_t size_bytes,
                                   int device)
{
    char text[MESSAGE_BYTES];
    if (status != MOIETY_E_NO_DEVICE_MEMORY && status != MOIETY_E_TOO_LARGE &&
        status != MOIETY_E_BUDGET) {
        throw_if(status, "no memory for a tensor");
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "CUDA out of memory. Tried to allocate %zu bytes on device "
                   "%d. Moiety: %s",
                   size_bytes, device, moiety_last_error_message());
    throw_error(text);
}

static moiety_status make_pool_locked(int device)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.device = device;
    options.flags = plugin.pool_flags | MOIETY_POOL_AUTO_SCOPE;
    options.memory = (moiety_memory)plugin.memory;
    options.limit_bytes = plugin.limit_bytes;
    return moiety_pool_create(&options, &plugin.devices[device].pool);
}

/* NULL, and why. */
static moiety_pool *plugin_pool(int device, moiety_status *out_status)
{
    moiety_pool *pool = NULL;
    *out_status = MOIETY_E_INVALID;
    if (device < 0 || device >= MOIETY_PLUGGABLE_DEVICES_MAX)
        return NULL;
    (void)pthread_mutex_lock(&plugin.lock);
    *out_status =
        plugin.devices[device].pool ? MOIETY_OK : make_pool_locked(device);
    pool = plugin.devices[device].pool;
    (void)pthread_mutex_unlock(&plugin.lock);
    return pool;
}

void *moiety_pluggable_alloc(size_t size_bytes, int device, void *stream)
{
    moiety_devptr address = 0;
    moiety_status status;
    moiety_pool *pool = plugin_pool(device, &status);
    if (pool)
        status = moiety_alloc(pool, size_bytes, stream, &address);
    if (status != MOIETY_OK)
        throw_allocation_error(status, size_bytes, device);
    return (void *)(uintptr_t)address;
}

void moiety_pluggable_free(void *block, size_t size_bytes, int device,
                           void *stream)
{
    moiety_status status;
    moiety_pool *pool = plugin_pool(device, &status);
    (void)size_bytes;
    if (pool)
        status = moiety_free(pool, (uintptr_t)block, stream);
    /* A child frees what is its parent's. */
    if (status != MOIETY_OK && status != MOIETY_E_FORKED)
        (void)fprintf(stderr, "moiety: a tensor's memory was not freed: %s\n",
                      moiety_last_error_message());
}

void moiety_pluggable_init(int device_count)
{
    (void)device_count;
}

void moiety_pluggable_reset(void)
{
    for (int i = 0; i < MOIETY_PLUGGABLE_DEVICES_MAX; i++) {
        moiety_pool *pool;
        (void)pthread_mutex_lock(&plugin.lock);
        pool = plugin.devices[i].pool;
        (void)pthread_mutex_unlock(&plugin.lock);
        if (!pool)
            continue;
        /* While a graph is captured, what is not done stays. */
        moiety_status status = moiety_pool_synchronize(pool, UINT32_MAX);
        (void)status;
        throw_if(moiety_pool_trim(pool, 0, NULL), "memory was not given back");
    }
}

void moiety_pluggable_memory_fraction(double fraction, int device)
{
    moiety_caps caps = {.struct_size = sizeof(caps)};
    moiety_status status;
    moiety_pool *pool = plugin_pool(device, &status);
    uint64_t limit_bytes = plugin_limit();
    if (pool && fraction < 1) {
        status = moiety_probe(device, &caps);
        limit_bytes = (uint64_t)(fraction * (double)caps.total_memory_bytes);
    }
    if (status == MOIETY_OK)
        status = moiety_pool_set_limit(pool, limit_bytes);
    throw_if(status, "the limit is not accepted");
}

void *moiety_pluggable_base_alloc(void *block, size_t *out_bytes)
{
    moiety_segment_info segment = {.struct_size = sizeof(segment)};
    moiety_pool *pool = NULL;
    moiety_status status = moiety_pool_of((uintptr_t)block, &pool);
    if (status == MOIETY_OK)
        status = moiety_segment_find(pool, (uintptr_t)block, &segment);
    throw_if(status, "the block's segment is not known");
    if (out_bytes)
        *out_bytes = segment.size_bytes;
    return (void *)(uintptr_t)segment.address;
}

void moiety_pluggable_record_stream(void *block, void *stream)
{
    moiety_pool *pool = NULL;
    if (moiety_pool_of((uintptr_t)block, &pool) == MOIETY_OK)
        throw_if(moiety_record_use(pool, (uintptr_t)block, stream),
                 "a use of the tensor's memory cannot be noted");
}

void moiety_pluggable_begin_allocate_to_pool(int device,
                                             moiety_pluggable_pool_id id,
                                             void *filter)
{
    moiety_status status;
    /* Now, as a capture is no time to make one. */
    moiety_pool *pool = plugin_pool(device, &status);
    (void)id;
    (void)filter;
    if (pool)
        status = moiety_capture_guard_begin();
    throw_if(status, "no capture can be served");
    if (status != MOIETY_OK)
        return;
    (void)pthread_mutex_lock(&plugin.lock);
    plugin.devices[device].graph_count++;
    (void)pthread_mutex_unlock(&plugin.lock);
}

void moiety_pluggable_end_allocate_to_pool(int device,
                                           moiety_pluggable_pool_id id)
{
    (void)device;
    (void)id;
    throw_if(moiety_capture_guard_end(), "the capture's end");
}

/* Each graph releases its pool once, also where several share one. Which scopes
 * are whose is not known: they go when the last graph does. */
void moiety_pluggable_release_pool(int device, moiety_pluggable_pool_id id)
{
    moiety_pool *pool = NULL;
    (void)id;
    (void)pthread_mutex_lock(&plugin.lock);
    if (device >= 0 && device < MOIETY_PLUGGABLE_DEVICES_MAX &&
        plugin.devices[device].graph_count &&
        !--plugin.devices[device].graph_count)
        pool = plugin.devices[device].pool;
    (void)pthread_mutex_unlock(&plugin.lock);
    if (pool && moiety_scope_release_all(pool) != MOIETY_OK)
        (void)fprintf(stderr, "moiety: memory of graphs was not freed: %s\n",
                      moiety_last_error_message());
}
