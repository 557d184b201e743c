/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's caching allocator itself, where it is installed (torch_library.h).
 * A block goes back to the stream that it was allocated for, whichever stream
 * is named when it is freed.
 */
#include "bench/base/device.h"
#include "bench/subjects/segments.h"
#include "bench/subjects/torch/torch_library.h"

static struct torch_library library;
/* Its counts are of the process. */
static uint64_t calls_before;

static uint64_t calls_now(void)
{
    struct moiety_torch_memory memory;
    library.measure(&memory);
    return memory.segments_made + memory.segments_freed;
}

static const char *start(const struct subject_setup *setup)
{
    const char *why = torch_library_open(&library);
    if (!why)
        why = subject_streams_start(setup);
    if (why)
        return why;
    why = library.start();
    if (!why)
        why = library.limit(setup->limit_bytes);
    if (why)
        bench_device_stop();
    else
        calls_before = calls_now();
    return why;
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
    (void)size_bytes;
    (void)stream;
    library.free((void *)(uintptr_t)address);
}

static void measure(struct subject_memory *out)
{
    struct moiety_torch_memory memory;
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
    library.empty();
    bench_device_stop();
}

const struct subject subject_torch = {
    .name = "torch",
    .description = "PyTorch's caching allocator (MOIETY_TORCH_SHIM names it)",
    .needs_driver = true,
    .has_streams = true,
    .blocks_max = 140000,
    .has_limit = true,
    .start = start,
    .attach = attach,
    .alloc = alloc,
    .free = free_block,
    .measure = measure,
    .stop = stop,
};
