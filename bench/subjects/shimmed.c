/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocators of others that are libraries of C++, where they are installed:
 * PyTorch's caching allocator, RMM's pool and RMM's arena (shims/). PyTorch's
 * returns a block to the stream that it was allocated for; RMM's to the stream
 * that is named, or to stream 0 where none is.
 */
#include "bench/base/device.h"
#include "bench/subjects/segments.h"
#include "bench/subjects/shims/shim_library.h"

/* One runs at a time. */
static struct shim_library library;
/* Its counts are of the process. */
static uint64_t calls_before;

static uint64_t calls_now(void)
{
    struct moiety_shim_memory memory;
    library.measure(&memory);
    return memory.segments_made + memory.segments_freed;
}

static const char *start(const char *variable, const char *name,
                         const struct subject_setup *setup)
{
    const char *why = shim_library_open(variable, &library);
    if (!why)
        why = subject_streams_start(setup);
    if (why)
        return why;
    why = library.start(name, setup->limit_bytes);
    if (why)
        bench_device_stop();
    else
        calls_before = calls_now();
    return why;
}

static const char *start_torch(const struct subject_setup *setup)
{
    return start("MOIETY_TORCH_SHIM", "torch", setup);
}

static const char *start_rmm_pool(const struct subject_setup *setup)
{
    return start("MOIETY_RMM_SHIM", "rmm-pool", setup);
}

static const char *start_rmm_arena(const struct subject_setup *setup)
{
    return start("MOIETY_RMM_SHIM", "rmm-arena", setup);
}

static bool attach(uint32_t thread)
{
    (void)thread;
    return library.attach() != 0;
}

static uint64_t alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    return (uintptr_t)library.alloc(size_bytes, bench_device_streams[stream]);
}

static void free_block(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    (void)thread;
    bool is_named =
        stream != SUBJECT_STREAM_ANY && stream != SUBJECT_STREAM_DONE;
    library.free((void *)(uintptr_t)address, size_bytes,
                 bench_device_streams[is_named ? stream : 0]);
}

static void measure(struct subject_memory *out)
{
    struct moiety_shim_memory memory;
    library.measure(&memory);
    *out = (struct subject_memory){
        .handed_bytes = memory.allocated_bytes,
        .cached_bytes = memory.reserved_bytes - memory.allocated_bytes,
        .reserved_bytes = memory.reserved_bytes,
        .driver_calls = calls_now() - calls_before,
    };
}

static void stop(void)
{
    library.stop();
    bench_device_stop();
}

#define SHIMMED(which, is_named, says)                                         \
    const struct subject subject_##which = {                                   \
        .name = (is_named),                                                    \
        .description = (says),                                                 \
        .needs_driver = true,                                                  \
        .has_streams = true,                                                   \
        .blocks_max = 140000,                                                  \
        .has_limit = true,                                                     \
        .start = start_##which,                                                \
        .attach = attach,                                                      \
        .alloc = alloc,                                                        \
        .free = free_block,                                                    \
        .measure = measure,                                                    \
        .stop = stop,                                                          \
    }

SHIMMED(torch, "torch",
        "PyTorch's caching allocator (MOIETY_TORCH_SHIM names it)");
SHIMMED(rmm_pool, "rmm-pool",
        "RMM's pool_memory_resource (MOIETY_RMM_SHIM names it)");
SHIMMED(rmm_arena, "rmm-arena",
        "RMM's arena_memory_resource (MOIETY_RMM_SHIM names it)");
