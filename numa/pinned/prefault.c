/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "numa/pinned/prefault.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "numa/pinned/map.h"
#include "pool/base/failure.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Pages for one question to the kernel. */
#define QUESTION_PAGES 512U

static void write_each_page(const struct moietyi_touching *touching, char *from,
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
    struct moietyi_touching *touching = job;
    enum moietyi_pages pages = touching->pages;
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

void moietyi_touch_begin(struct moietyi_touching *touching,
                         struct moietyi_region *region,
                         const struct moietyi_place *place, uint32_t thread_max,
                         const struct moietyi_progress *progress)
{
    const struct moietyi_workers_options options = {
        .work = prefault_piece,
        .job = touching,
        .place = place,
        .progress = progress,
        .thread_max = thread_max,
    };
    touching->place = place;
    touching->pages = region->pages;
    touching->size_bytes = region->size_bytes;
    touching->page_bytes = moietyi_page_bytes(region->pages);
    /* relaxed: there is no crew yet. */
    atomic_store_explicit(&touching->refusal, 0, memory_order_relaxed);
    moietyi_workers_begin(&touching->workers, &options, region);
}

moiety_status moietyi_touch_await(struct moietyi_touching *touching,
                                  size_t end_bytes,
                                  struct moietyi_progress *progress,
                                  bool reports_work)
{
    if (moietyi_workers_await(&touching->workers, end_bytes, progress,
                              reports_work))
        return MOIETY_OK;
    if (moietyi_progress_is_over(progress))
        return moietyi_progress_refuse(progress);
    int code = atomic_load_explicit(&touching->refusal, memory_order_relaxed);
    /* The kernel's code for having no more pages set aside on these nodes. */
    bool is_out_of_huge = code == EFAULT && !may_write(touching->pages);
    return moietyi_fail(MOIETY_E_NO_PINNED_MEMORY,
                        "no memory for all of %zu bytes on node %s: %s",
                        touching->size_bytes,
                        moietyi_nodes_text(touching->place).text,
                        is_out_of_huge ? "no free huge pages there"
                                       : moietyi_error_text(code).text);
}

moiety_status moietyi_prefault(struct moietyi_region *region,
                               const struct moietyi_place *place,
                               uint32_t thread_max,
                               struct moietyi_progress *progress)
{
    struct moietyi_touching touching;
    moietyi_touch_begin(&touching, region, place, thread_max, progress);
    moietyi_workers_grant(&touching.workers, region->size_bytes);
    moiety_status status =
        moietyi_touch_await(&touching, region->size_bytes, progress, true);
    moietyi_workers_end(&touching.workers);
    return status;
}

/* Pages of a region, each of which stands for `step` of them. */
struct question {
    struct moietyi_region *region;
    const struct moietyi_place *place;
    size_t page_bytes;
    size_t step;
    bool is_whole; /* the kernel answered for all */
};

/* Asks about pages from page `first` on. Returns the page behind them. */
static size_t touch_ask(struct question *question, size_t first, size_t pages)
{
    struct moietyi_region *region = question->region;
    size_t weight =
        question->page_bytes / moietyi_page_bytes(MOIETYI_PAGES_SMALL);
    void *asked[QUESTION_PAGES];
    int nodes[QUESTION_PAGES];
    unsigned count = 0;
    size_t next = first;
    for (; next < pages && count < QUESTION_PAGES; next += question->step)
        asked[count++] = (char *)region->base + next * question->page_bytes;
    /* Without nodes, move_pages() reports where the pages are. */
    bool is_answered = syscall(SYS_move_pages, 0, (unsigned long)count, asked,
                               NULL, nodes, 0) == 0;
    question->is_whole &= is_answered;
    for (unsigned i = 0; is_answered && i < count; i++) {
        size_t left = pages - (first + i * question->step);
        size_t meant = left < question->step ? left : question->step;
        if (nodes[i] < 0)
            question->is_whole = false;
        else if (hwloc_bitmap_isset(question->place->nodes, (unsigned)nodes[i]))
            region->pages_near += meant * weight;
        else
            region->pages_elsewhere += meant * weight;
    }
    return next;
}

/* By one thread: the kernel takes the process's lock for every 16 pages, and 16
 * threads were four times slower (1 GiB: 88 ms against 25). */
static bool read_back_by(struct moietyi_region *region,
                         const struct moietyi_place *place, size_t step)
{
    struct question question = {
        .region = region,
        .place = place,
        .page_bytes = moietyi_page_bytes(region->pages),
        .step = step,
        .is_whole = true,
    };
    size_t pages =
        (region->size_bytes + question.page_bytes - 1) / question.page_bytes;
    region->pages_near = 0;
    region->pages_elsewhere = 0;
    for (size_t page = 0; page < pages;)
        page = touch_ask(&question, page, pages);
    return question.is_whole;
}

void moietyi_read_back(struct moietyi_region *region,
                       const struct moietyi_place *place, size_t step)
{
    bool is_whole = read_back_by(region, place, step);
    if (step > 1 && (!is_whole || region->pages_elsewhere))
        is_whole = read_back_by(region, place, 1);
    if (!is_whole)
        region->fallbacks |= MOIETY_HOST_FELL_TO_UNVERIFIED;
}
