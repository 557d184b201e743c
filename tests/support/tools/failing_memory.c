/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/tools/failing_memory.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>

/* The linker's names for the C library's functions and for ours. */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t item_bytes);
void *__wrap_calloc(size_t count, size_t item_bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment_bytes, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment_bytes, size_t bytes);
void *__real_mmap(void *wish, size_t bytes, int protection, int flags, int file,
                  off_t offset);
void *__wrap_mmap(void *wish, size_t bytes, int protection, int flags, int file,
                  off_t offset);

static _Thread_local unsigned calls_left; /* until the one that fails; 0: off */

void failing_memory_arm(unsigned n)
{
    calls_left = n;
}

bool failing_memory_disarm(void)
{
    bool is_armed = calls_left != 0;
    calls_left = 0;
    return is_armed;
}

static bool fails_now(void)
{
    return calls_left && --calls_left == 0;
}

void *__wrap_malloc(size_t bytes)
{
    return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t item_bytes)
{
    return fails_now() ? NULL : __real_calloc(count, item_bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return fails_now() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t alignment_bytes, size_t bytes)
{
    return fails_now() ? NULL : __real_aligned_alloc(alignment_bytes, bytes);
}

void *__wrap_mmap(void *wish, size_t bytes, int protection, int flags, int file,
                  off_t offset)
{
    return fails_now()
               ? MAP_FAILED
               : __real_mmap(wish, bytes, protection, flags, file, offset);
}
