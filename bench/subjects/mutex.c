/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The buddy that anybody would write first: free lists, and one mutex around
 * every call. It serves the same sizes as `core` out of the same offset space.
 */
#include "bench/subjects/arena.h"
#include "bench/subjects/subject.h"
#include "tests/oracle/mutex_buddy.h"

static struct mutex_buddy *buddy;

static const char *start(unsigned thread_count, unsigned stream_count)
{
    (void)stream_count;
    uint32_t pages = arena_pages(thread_count);
    buddy = mutex_buddy_create(pages);
    if (!buddy || !mutex_buddy_add(buddy, 0, pages))
        return "no host memory for the buddy's lists";
    return NULL;
}

static uint64_t alloc(unsigned thread, size_t size_bytes, unsigned stream)
{
    (void)thread;
    (void)stream;
    uint64_t grains = arena_grains(size_bytes);
    uint64_t grain;
    bool is_taken =
        grains > ARENA_INTERVAL_GRAINS_MAX
            ? mutex_buddy_take_run(buddy, grains, &grain)
            : mutex_buddy_take(buddy, (uint32_t)grains, 1, 1, &grain) == 1;
    return is_taken ? arena_address(grain) : 0;
}

static void free_block(unsigned thread, uint64_t address, size_t size_bytes,
                       unsigned stream)
{
    (void)thread;
    (void)stream;
    (void)mutex_buddy_give(buddy, arena_grain(address),
                           arena_grains(size_bytes));
}

static void stop(void)
{
    mutex_buddy_destroy(buddy);
}

const struct subject subject_mutex = {
    .name = "mutex",
    .description = "a buddy with free lists and one mutex, on offsets",
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .stop = stop,
};
