/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The pool that anybody would write first: a binary buddy with free lists over
 * segments, and one mutex around every call. It serves the sizes that are asked
 * for, in steps of 512 B, and knows no streams. It grows by 256 MiB, or by what
 * a request needs if that is more.
 */
#include <pthread.h>
#include <stdlib.h>

#include "bench/base/device.h"
#include "bench/subjects/segments.h"
#include "tests/oracle/mutex_buddy.h"

#define GRAIN_BYTES UINT64_C(512)
#define PAGE_BYTES (MUTEX_BUDDY_PAGE_GRAINS * GRAIN_BYTES)
#define GROW_PAGES 128U

struct segment {
    uint64_t address;
    uint32_t first_page;
    uint32_t page_count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mutex_buddy *buddy;
/* By page; and back, by address, in the order in which they came. */
static uint64_t *address_of_page;
static struct segment *segments;
static uint32_t segment_count;
static uint32_t page_capacity;
static uint32_t page_end;
static uint64_t handed_grains;

/* For so much memory, with a page behind each segment, so that none merge. */
static uint32_t pages_for(uint64_t size_bytes)
{
    uint64_t pages = size_bytes / PAGE_BYTES;
    pages += pages / GROW_PAGES + 1;
    return pages < MUTEX_BUDDY_PAGES_MAX ? (uint32_t)pages
                                         : MUTEX_BUDDY_PAGES_MAX;
}

static bool make_tables(void)
{
    page_capacity = pages_for(segments_bytes_max());
    buddy = mutex_buddy_create(page_capacity);
    address_of_page = calloc(page_capacity, sizeof(*address_of_page));
    segments = calloc(page_capacity, sizeof(*segments));
    segment_count = 0;
    page_end = 0;
    handed_grains = 0;
    return buddy && address_of_page && segments;
}

static void drop_tables(void)
{
    if (buddy)
        mutex_buddy_destroy(buddy);
    free(address_of_page);
    free(segments);
}

static const char *start(const struct subject_setup *setup)
{
    const char *why = segments_start(setup);
    if (why)
        return why;
    if (make_tables())
        return NULL;
    drop_tables();
    segments_stop();
    return "there is no host memory";
}

static uint64_t grains_of(uint64_t size_bytes)
{
    return (size_bytes + GRAIN_BYTES - 1) / GRAIN_BYTES;
}

static bool take(uint64_t grains, uint64_t *out)
{
    return grains > MUTEX_BUDDY_PAGE_GRAINS
               ? mutex_buddy_take_run(buddy, grains, out)
               : mutex_buddy_take(buddy, (uint32_t)grains, 1, 1, out) == 1;
}

static bool add_segment(uint64_t address, uint32_t pages)
{
    segments[segment_count++] = (struct segment){address, page_end, pages};
    for (uint32_t i = 0; i < pages; i++)
        address_of_page[page_end + i] = address + i * PAGE_BYTES;
    bool is_added = mutex_buddy_add(buddy, page_end, pages);
    page_end += pages + 1;
    return is_added;
}

static bool grow(uint64_t grains)
{
    uint64_t pages =
        (grains + MUTEX_BUDDY_PAGE_GRAINS - 1) / MUTEX_BUDDY_PAGE_GRAINS;
    if (pages < GROW_PAGES)
        pages = GROW_PAGES;
    if (pages >= page_capacity - page_end)
        return false;
    uint64_t address = segments_take(pages * PAGE_BYTES);
    return address && add_segment(address, (uint32_t)pages);
}

static uint64_t alloc(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    (void)stream;
    uint64_t grains = grains_of(size_bytes);
    uint64_t grain;
    uint64_t address = 0;
    (void)pthread_mutex_lock(&lock);
    if (take(grains, &grain) || (grow(grains) && take(grains, &grain))) {
        address = address_of_page[grain / MUTEX_BUDDY_PAGE_GRAINS] +
                  grain % MUTEX_BUDDY_PAGE_GRAINS * GRAIN_BYTES;
        handed_grains += grains;
    }
    (void)pthread_mutex_unlock(&lock);
    return address;
}

static const struct segment *segment_at(uint64_t address)
{
    for (uint32_t i = 0; i < segment_count; i++)
        if (address - segments[i].address < segments[i].page_count * PAGE_BYTES)
            return &segments[i];
    abort();
}

static void free_block(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    (void)thread;
    (void)stream;
    (void)pthread_mutex_lock(&lock);
    const struct segment *segment = segment_at(address);
    uint64_t first = (uint64_t)segment->first_page * MUTEX_BUDDY_PAGE_GRAINS;
    if (!mutex_buddy_give(buddy,
                          first + (address - segment->address) / GRAIN_BYTES,
                          grains_of(size_bytes)))
        abort();
    handed_grains -= grains_of(size_bytes);
    (void)pthread_mutex_unlock(&lock);
}

static void measure(struct subject_memory *out)
{
    *out = segments_memory(handed_grains * GRAIN_BYTES);
}

static void each_segment(void (*take_one)(void *context, uint64_t address,
                                          uint64_t size_bytes),
                         void *context)
{
    for (uint32_t i = 0; i < segment_count; i++)
        take_one(context, segments[i].address,
                 segments[i].page_count * PAGE_BYTES);
}

static void stop(void)
{
    for (uint32_t i = 0; i < segment_count; i++)
        segments_give(segments[i].address, segments[i].page_count * PAGE_BYTES);
    drop_tables();
    segments_stop();
}

const struct subject subject_mutex = {
    .name = "mutex",
    .description = "a buddy with free lists and one mutex; it knows no streams",
    .needs_driver = true,
    .has_limit = true,
    .start = start,
    .attach = bench_device_attach,
    .alloc = alloc,
    .free = free_block,
    .measure = measure,
    .each_segment = each_segment,
    .stop = stop,
};
