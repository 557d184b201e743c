/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "tests/numa_vm/pages.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Pages that are asked about in one call. */
#define BATCH 512

#define PAGE_BYTES ((size_t)4096)

static void add(struct page_count *count, int where)
{
    if (where >= 0 && where < PAGES_NODE_COUNT)
        count->on_node[where]++;
    else
        count->nowhere++;
}

bool pages_count(const void *area, size_t size_bytes, struct page_count *out)
{
    const void *pages[BATCH];
    int where[BATCH];
    const char *at = area;
    *out = (struct page_count){.asked = size_bytes / PAGE_BYTES};
    for (size_t done = 0; done < out->asked;) {
        size_t batch = out->asked - done < BATCH ? out->asked - done : BATCH;
        for (size_t i = 0; i < batch; i++)
            pages[i] = at + (done + i) * PAGE_BYTES;
        if (syscall(SYS_move_pages, 0, batch, pages, NULL, where, 0))
            return false;
        for (size_t i = 0; i < batch; i++)
            add(out, where[i]);
        done += batch;
    }
    return true;
}

void pages_print(const struct page_count *count)
{
    printf("asked %zu", count->asked);
    for (unsigned node = 0; node < PAGES_NODE_COUNT; node++)
        if (count->on_node[node])
            printf(", node %u: %zu", node, count->on_node[node]);
    if (count->nowhere)
        printf(", nowhere: %zu", count->nowhere);
    puts("");
}
