/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's caching allocator, where PyTorch is installed. It is reached
 * through a library that bench/subjects/torch/build_torch_shim.sh makes there, and that
 * BINADE_TORCH_SHIM names. A block goes back to the stream that it was
 * allocated for, whichever stream a workload names when it frees.
 */
#include "bench/base/device.h"
#include "bench/subjects/subject.h"
#include "bench/subjects/torch/torch_library.h"

static struct torch_library library;

static const char *start(unsigned thread_count, unsigned stream_count)
{
    (void)thread_count;
    const char *why = torch_library_open(&library);
    if (!why)
        why = bench_device_start(stream_count);
    return why ? why : library.start();
}

static bool attach(unsigned thread)
{
    (void)thread;
    return library.attach() != 0;
}

static uint64_t alloc(unsigned thread, size_t size_bytes, unsigned stream)
{
    (void)thread;
    return (uintptr_t)library.alloc(size_bytes, bench_device_streams[stream]);
}

static void free_block(unsigned thread, uint64_t address, size_t size_bytes,
                       unsigned stream)
{
    (void)thread;
    (void)size_bytes;
    (void)stream;
    library.free((void *)(uintptr_t)address);
}

const struct subject subject_torch = {
    .name = "torch",
    .description = "PyTorch's caching allocator (BINADE_TORCH_SHIM names it)",
    .has_streams = true,
    .has_driver = true,
    .blocks_max = 140000,
    .start = start,
    .attach = attach,
    .alloc = alloc,
    .free = free_block,
    .stop = bench_device_stop,
};
