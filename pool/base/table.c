/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE, madvise() */

#include "pool/base/table.h"

#include <sys/mman.h>

#include "pool/base/lock.h"

void *moietyi_table_reserve(size_t bytes)
{
    MOIETYI_LOCKS_CHECK("an allocation");
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return table == MAP_FAILED ? NULL : table;
}

void moietyi_table_release(void *table, size_t bytes)
{
    munmap(table, bytes);
}

void moietyi_table_prefer_huge(void *table, size_t bytes)
{
    /* A kernel without huge pages refuses; small ones work too. */
    (void)madvise(table, bytes, MADV_HUGEPAGE);
}
