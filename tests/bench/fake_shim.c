/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * An allocator for the benchmarks that misbehaves on purpose, in the place of
 * PyTorch's: FAKE_SHIM says how, and FAKE_SHIM_SIZE at which size.
 *
 *   refuse       says that it cannot run
 *   no-attach    takes no thread
 *   hang-start   never starts
 *   hang-alloc   never returns from an allocation of that size
 *   crash-alloc  ends the process there
 *   no-memory    has none for that size
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/subjects/shims/shim.h"

static size_t chosen_bytes;
static uint64_t bytes_limit;
static _Atomic uint64_t block_count;
static const char *fault = "none";

static void hang(void)
{
    for (;;)
        (void)pause();
}

static int is_fault(const char *name)
{
    return strcmp(fault, name) == 0;
}

const char *moiety_shim_start(const char *shim, uint64_t limit_bytes)
{
    const char *size = getenv("FAKE_SHIM_SIZE");
    const char *name = getenv("FAKE_SHIM");
    chosen_bytes = size ? strtoul(size, NULL, 10) : 0;
    fault = name ? name : "none";
    bytes_limit = limit_bytes;
    if (strcmp(shim, "torch") != 0)
        return "the fake is PyTorch's";
    if (is_fault("hang-start"))
        hang();
    return is_fault("refuse") ? "the fake refuses" : NULL;
}

int moiety_shim_attach(void)
{
    return !is_fault("no-attach");
}

void *moiety_shim_alloc(size_t size_bytes, void *stream)
{
    if (!stream)
        abort();
    if (size_bytes == chosen_bytes) {
        if (is_fault("hang-alloc"))
            hang();
        if (is_fault("crash-alloc"))
            abort();
        if (is_fault("no-memory"))
            return NULL;
    }
    if (bytes_limit && size_bytes > bytes_limit)
        return NULL;
    block_count++;
    return malloc(size_bytes);
}

void moiety_shim_free(void *block, size_t size_bytes, void *stream)
{
    (void)size_bytes;
    (void)stream;
    free(block);
}

void moiety_shim_measure(struct moiety_shim_memory *out)
{
    *out = (struct moiety_shim_memory){.allocated_bytes = 1,
                                       .reserved_bytes = 3,
                                       .segments_made = block_count};
}

void moiety_shim_stop(void) {}
