/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/prefault.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "numa/pinned/map.h"
#include "numa/pinned/workers.h"
#include "pool/base/failure.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Pages for one question to the kernel. */
#define QUESTION_PAGES 512U

struct touching {
    const struct moietyi_region *region;
    size_t page_bytes;
    /* An errno. Edge: none; relaxed, read when the crew is gone. */
    atomic_int refusal;
};

static void write_each_page(const struct touching *touching, char *from,
                            size_t size_bytes)
{
    for (size_t at = 0; at < size_bytes; at += touching->page_bytes)
        ((volatile char *)from)[at] = 0;
}

/* The driver's own memory is no mapping that could be populated. */
static bool populates(enum moietyi_pages pages)
{
    return pages != MOIETYI_PAGES_DRIVER;
}

/* A write to a page that cannot be set aside kills the process. */
static bool may_write(enum moietyi_pages pages)
{
    return !moietyi_pages_are_set_aside(pages);
}

static int populate(char *from, size_t size_bytes)
{
    int code;
    do
        code = madvise(from, size_bytes, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    while (code == EINTR);
    return code;
}

static bool prefault_piece(void *job, char *from, size_t size_bytes)
{
    struct touching *touching = job;
    enum moietyi_pages pages = touching->region->pages;
    int code = populates(pages) ? populate(from, size_bytes) : EINVAL;
    /* The kernel has no such advice, or a filter forbids it: a write makes the
     * pages too. */
    bool is_refused = code == EINVAL || code == EPERM || code == ENOSYS;
    if (is_refused && may_write(pages)) {
        write_each_page(touching, from, size_bytes);
        return true;
    }
    if (code)
        atomic_store_explicit(&touching->refusal, code, memory_order_relaxed);
    return code == 0;
}

moiety_status moietyi_prefault(struct moietyi_region *region,
                               const struct moietyi_place *place,
                               uint32_t thread_max,
                               const struct moietyi_progress *progress)
{
    struct touching touching = {
        .region = region,
        .page_bytes = moietyi_page_bytes(region->pages),
    };
    const struct moietyi_workers_options options = {
        .work = prefault_piece,
        .job = &touching,
        .place = place,
        .thread_max = thread_max,
        .progress = progress,
    };
    if (moietyi_workers_run(&options, region))
        return MOIETY_OK;
    int code = atomic_load_explicit(&touching.refusal, memory_order_relaxed);
    /* The kernel's code for having no more pages set aside on these nodes. */
    bool is_out_of_huge = code == EFAULT && !may_write(region->pages);
    return moietyi_fail(MOIETY_E_NO_PINNED_MEMORY,
                        "no memory for all of %zu bytes on node %s: %s",
                        region->size_bytes, moietyi_nodes_text(place).text,
                        is_out_of_huge ? "no free huge pages there"
                                       : moietyi_error_text(code).text);
}

/* Asks about `count` pages from `from` on. False: the kernel does not answer
 * for all of them. */
static bool touch_ask(struct moietyi_region *region,
                      const struct moietyi_place *place, char *from,
                      unsigned count)
{
    size_t page_bytes = moietyi_page_bytes(region->pages);
    uint64_t weight = page_bytes / moietyi_page_bytes(MOIETYI_PAGES_SMALL);
    void *pages[QUESTION_PAGES];
    int nodes[QUESTION_PAGES];
    bool is_whole = true;
    for (unsigned i = 0; i < count; i++)
        pages[i] = from + i * page_bytes;
    /* Without nodes, move_pages() reports where the pages are. */
    if (syscall(SYS_move_pages, 0, (unsigned long)count, pages, NULL, nodes,
                0) != 0)
        return false;
    for (unsigned i = 0; i < count; i++) {
        if (nodes[i] < 0)
            is_whole = false;
        else if (hwloc_bitmap_isset(place->nodes, (unsigned)nodes[i]))
            region->pages_near += weight;
        else
            region->pages_elsewhere += weight;
    }
    return is_whole;
}

/* By one thread: the kernel takes the process's lock for every 16 pages, and 16
 * threads were four times slower (1 GiB: 88 ms against 25). */
void moietyi_read_back(struct moietyi_region *region,
                       const struct moietyi_place *place)
{
    size_t page_bytes = moietyi_page_bytes(region->pages);
    size_t left = (region->size_bytes + page_bytes - 1) / page_bytes;
    char *from = region->base;
    bool is_whole = true;
    region->pages_near = 0;
    region->pages_elsewhere = 0;
    while (left) {
        unsigned count =
            left < QUESTION_PAGES ? (unsigned)left : QUESTION_PAGES;
        is_whole &= touch_ask(region, place, from, count);
        from += count * page_bytes;
        left -= count;
    }
    if (!is_whole)
        region->fallbacks |= MOIETY_HOST_FELL_TO_UNVERIFIED;
}
