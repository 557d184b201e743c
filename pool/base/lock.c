/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/base/lock.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local int held_count;

void moietyi_locks_count(int by)
{
    held_count += by;
}

void moietyi_locks_check(const char *what)
{
    if (!held_count)
        return;
    held_count = 0; /* what follows may allocate */
    (void)fprintf(stderr,
                  "moiety: %s while a lock is held that others' first "
                  "calls need\n",
                  what);
    abort();
}

#if MOIETYI_WATCH_LOCKS
/* The sanitizers that replace malloc() call it. */
__attribute__((visibility("default"))) void
__sanitizer_malloc_hook(const volatile void *memory, size_t size_bytes);
void __sanitizer_malloc_hook(const volatile void *memory, size_t size_bytes)
{
    (void)memory;
    (void)size_bytes;
    moietyi_locks_check("an allocation");
}
#endif
