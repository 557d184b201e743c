/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Binade's lock-free buddy alone: no cache, no streams, no lookup by address.
 * It shows what is paid whenever the caches overflow, and nothing of what a
 * caller of binade_alloc() pays while they do not.
 */
#include <stdalign.h>

#include "bench/base/device.h"
#include "bench/subjects/arena.h"
#include "bench/subjects/subject.h"
#include "pool/buddy/buddy.h"

/* A cache line pair each: the owner writes it on every operation. */
struct thread_home {
    alignas(128) struct binadei_home home;
};

static struct binadei_buddy *buddy;
static struct thread_home homes[BENCH_THREADS_MAX];

static const char *start(unsigned thread_count, unsigned stream_count)
{
    (void)stream_count;
    uint32_t pages = arena_pages(thread_count);
    if (binadei_buddy_create(pages, &buddy) != BINADE_OK)
        return "no host memory for the buddy's words";
    binadei_buddy_add(buddy, (binadei_page){0}, pages);
    return NULL;
}

static uint64_t alloc_run(const struct binadei_home *home, uint64_t grains)
{
    binadei_grain grain;
    uint64_t chunks = grains / ARENA_CHUNK_GRAINS;
    if (binadei_buddy_take_run(buddy, home, chunks, &grain))
        return arena_address(grain.index);
    binadei_buddy_trim(buddy);
    return binadei_buddy_take_run(buddy, home, chunks, &grain)
               ? arena_address(grain.index)
               : 0;
}

static uint64_t alloc(unsigned thread, size_t size_bytes, unsigned stream)
{
    (void)stream;
    uint64_t grains = arena_grains(size_bytes);
    if (grains > ARENA_INTERVAL_GRAINS_MAX)
        return alloc_run(&homes[thread].home, grains);
    struct binadei_take what = {(uint32_t)grains, 1, 1};
    binadei_grain grain;
    if (binadei_buddy_take(buddy, &homes[thread].home, &what, &grain) == 1 ||
        binadei_buddy_take_last_resort(buddy, &what, &grain))
        return arena_address(grain.index);
    return 0;
}

static void free_block(unsigned thread, uint64_t address, size_t size_bytes,
                       unsigned stream)
{
    (void)stream;
    (void)binadei_buddy_give(buddy, &homes[thread].home,
                             binadei_grain_at(arena_grain(address)),
                             arena_grains(size_bytes));
}

static void stop(void)
{
    binadei_buddy_destroy(buddy);
}

const struct subject subject_core = {
    .name = "core",
    .description = "Binade's lock-free buddy alone, on offsets: no caches",
    .start = start,
    .alloc = alloc,
    .free = free_block,
    .stop = stop,
};
