/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE
#include "tests/numa_vm/pages.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Pages that are asked about in one call. */
#define BATCH 512

#define PAGE_BYTES ((size_t)4096)

/* A page that the kernel moves just now, to make room or to be nearer, is on no
 * node: it is asked about again. One that nobody has touched stays nowhere. */
#define MOST_ASKED_AGAIN 1000

static void add(struct page_count *count, int where)
{
    if (where >= 0 && where < PAGES_NODE_COUNT)
        count->on_node[where]++;
    else
        count->nowhere++;
}

static bool ask(size_t count, const void **pages, int *where)
{
    return syscall(SYS_move_pages, 0, count, pages, NULL, where, 0) == 0;
}

static bool ask_again(const void *page, int *where)
{
    for (int i = 0; *where < 0 && i < MOST_ASKED_AGAIN; i++) {
        sched_yield();
        if (!ask(1, &page, where))
            return false;
    }
    return true;
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
        if (!ask(batch, pages, where))
            return false;
        for (size_t i = 0; i < batch; i++) {
            if (!ask_again(pages[i], &where[i]))
                return false;
            add(out, where[i]);
        }
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
