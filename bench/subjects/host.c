/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The best of the host's allocators, on host memory: the bar that no GPU
 * allocator has come near. Blocks are never written, so that no page of theirs
 * is paid for beyond what the allocator itself touches. mimalloc is looked for
 * when the program runs; nothing of it is needed to build.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "bench/subjects/subject.h"

#define MIMALLOC "libmimalloc.so.2"

static void *(*mimalloc_alloc)(size_t size_bytes);
static void (*mimalloc_free)(void *block);

static const char *start_malloc(const struct subject_setup *setup)
{
    (void)setup;
    return NULL;
}

static uint64_t alloc_malloc(uint32_t thread, size_t size_bytes,
                             uint32_t stream)
{
    (void)thread;
    (void)stream;
    return (uintptr_t)malloc(size_bytes);
}

static void free_malloc(uint32_t thread, uint64_t address, size_t size_bytes,
                        uint32_t stream)
{
    (void)thread;
    (void)size_bytes;
    (void)stream;
    free((void *)(uintptr_t)address);
}

static void stop(void) {}

/* POSIX has dlsym() return functions as pointers to objects; C has no cast for
 * that, only a copy. */
static bool find(void *library, const char *name, void *out, size_t size_bytes)
{
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, size_bytes);
    return symbol != NULL;
}

static const char *start_mimalloc(const struct subject_setup *setup)
{
    (void)setup;
    void *library = dlopen(MIMALLOC, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return MIMALLOC " is not installed (Debian: libmimalloc2.0)";
    if (!find(library, "mi_malloc", &mimalloc_alloc, sizeof(mimalloc_alloc)) ||
        !find(library, "mi_free", &mimalloc_free, sizeof(mimalloc_free)))
        return MIMALLOC " has no mi_malloc() or mi_free()";
    return NULL;
}

static uint64_t alloc_mimalloc(uint32_t thread, size_t size_bytes,
                               uint32_t stream)
{
    (void)thread;
    (void)stream;
    return (uintptr_t)mimalloc_alloc(size_bytes);
}

static void free_mimalloc(uint32_t thread, uint64_t address, size_t size_bytes,
                          uint32_t stream)
{
    (void)thread;
    (void)size_bytes;
    (void)stream;
    mimalloc_free((void *)(uintptr_t)address);
}

const struct subject subject_malloc = {
    .name = "malloc",
    .description = "the C library's malloc(), on host memory",
    .has_host_memory = true,
    .start = start_malloc,
    .alloc = alloc_malloc,
    .free = free_malloc,
    .stop = stop,
};

const struct subject subject_mimalloc = {
    .name = "mimalloc",
    .description = "mimalloc 2 as packaged (" MIMALLOC "), on host memory",
    .has_host_memory = true,
    .start = start_mimalloc,
    .alloc = alloc_mimalloc,
    .free = free_mimalloc,
    .stop = stop,
};
