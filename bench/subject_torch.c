/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's caching allocator, where PyTorch is installed. It is reached
 * through a library that bench/build_torch_shim.sh makes there, and that
 * BINADE_TORCH_SHIM names. A block goes back to the stream that it was
 * allocated for, whichever stream a workload names when it frees.
 */
#include "bench/torch_shim.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/device.h"
#include "bench/subject.h"

static const char *(*shim_start)(void);
static int (*shim_attach)(void);
static void *(*shim_alloc)(size_t size_bytes, void *stream);
static void (*shim_free)(void *block);
static char reason[1024];

/* POSIX has dlsym() return functions as pointers to objects; C has no cast for
 * that, only a copy. */
static bool find(void *library, const char *name, void *out, size_t size_bytes)
{
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, size_bytes);
    return symbol != NULL;
}

static const char *open_shim(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
    const char *path = getenv("BINADE_TORCH_SHIM");
    if (!path || !*path)
        return "BINADE_TORCH_SHIM names no library; "
               "bench/build_torch_shim.sh makes one where PyTorch is";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread so far. */
        (void)snprintf(reason, sizeof(reason), "%s", dlerror());
        return reason;
    }
    if (!find(library, "binade_torch_shim_start", &shim_start,
              sizeof(shim_start)) ||
        !find(library, "binade_torch_shim_attach", &shim_attach,
              sizeof(shim_attach)) ||
        !find(library, "binade_torch_shim_alloc", &shim_alloc,
              sizeof(shim_alloc)) ||
        !find(library, "binade_torch_shim_free", &shim_free, sizeof(shim_free)))
        return "the library that BINADE_TORCH_SHIM names is no such shim";
    return NULL;
}

static const char *start(unsigned thread_count, unsigned stream_count)
{
    (void)thread_count;
    const char *why = open_shim();
    if (!why)
        why = bench_device_start(stream_count);
    return why ? why : shim_start();
}

static bool attach(unsigned thread)
{
    (void)thread;
    return shim_attach() != 0;
}

static uint64_t alloc(unsigned thread, size_t size_bytes, unsigned stream)
{
    (void)thread;
    return (uintptr_t)shim_alloc(size_bytes, bench_device_streams[stream]);
}

static void free_block(unsigned thread, uint64_t address, size_t size_bytes,
                       unsigned stream)
{
    (void)thread;
    (void)size_bytes;
    (void)stream;
    shim_free((void *)(uintptr_t)address);
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
