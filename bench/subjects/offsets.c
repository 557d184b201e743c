/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bare cores on an offset space without memory behind it, asked for the sizes
 * that a pool on top would ask them for. `core` is Moiety's own: no cache, no
 * streams, no lookup by address. It shows what is paid whenever the caches
 * overflow, and nothing of what a caller of moiety_alloc() pays while they do
 * not. `mutex` is the buddy that anybody would write first: free lists, and one
 * mutex around every call.
 */
#include "bench/base/device.h"
#include "bench/subjects/subject.h"
#include "pool/heap/heap.h"
#include "pool/heap/space.h"
#include "tests/oracle/mutex_buddy.h"

#define ARENA_GRAIN_BYTES ((size_t)512)
#define ARENA_CHUNK_GRAINS 64U
#define ARENA_PAGE_GRAINS 4096U
/* Largest interval in grains; above it come runs of chunks. */
#define ARENA_INTERVAL_GRAINS_MAX 2048U

/* Pages of 2 MiB: room for the largest workload, 2 GiB a thread, twice over. */
static uint32_t arena_pages(unsigned thread_count)
{
    return (thread_count > 8 ? thread_count : 8) * UINT32_C(2048);
}

/* Rounded up to one of eight sizes per doubling up to 1 MiB, above that to
 * whole chunks. */
static uint64_t arena_grains(size_t size_bytes)
{
    uint64_t grains = (size_bytes + ARENA_GRAIN_BYTES - 1) / ARENA_GRAIN_BYTES;
    if (grains <= 8)
        return grains ? grains : 1;
    uint64_t step = ARENA_CHUNK_GRAINS;
    if (grains <= ARENA_INTERVAL_GRAINS_MAX)
        step = UINT64_C(1) << (60 - __builtin_clzll(grains - 1));
    return (grains + step - 1) / step * step;
}

/* A grain as the address that a subject hands out, where 0 is none. */
static uint64_t arena_address(uint64_t grain)
{
    return (grain + 1) * ARENA_GRAIN_BYTES;
}

static uint64_t arena_grain(uint64_t address)
{
    return address / ARENA_GRAIN_BYTES - 1;
}

static struct moietyi_space *core;

static const char *start_core(const struct subject_setup *setup)
{
    uint32_t pages = arena_pages(setup->thread_count);
    core = moietyi_space_create(pages);
    if (!core)
        return "no host memory for the heaps";
    return moietyi_space_add(core, (moietyi_page){0}, pages)
               ? NULL
               : "no host memory for the heaps' tables";
}

static uint64_t alloc_core(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    (void)stream;
    const struct moietyi_view view = {.space = core};
    uint64_t grains = arena_grains(size_bytes);
    uint32_t alignment = grains < ARENA_PAGE_GRAINS ? 1 : ARENA_PAGE_GRAINS;
    moietyi_grain grain;
    bool is_taken = moietyi_view_take(&view, grains, alignment, &grain) ||
                    moietyi_view_take_best(&view, grains, alignment, &grain);
    return is_taken ? arena_address(grain.index) : 0;
}

static void free_core(uint32_t thread, uint64_t address, size_t size_bytes,
                      uint32_t stream)
{
    (void)thread;
    (void)stream;
    (void)moietyi_space_give(core, moietyi_grain_at(arena_grain(address)),
                             arena_grains(size_bytes));
}

static void stop_core(void)
{
    moietyi_space_destroy(core);
}

const struct subject subject_core = {
    .name = "core",
    .description = "Moiety's heap of done memory alone, on offsets: no caches",
    .start = start_core,
    .alloc = alloc_core,
    .free = free_core,
    .stop = stop_core,
};

static struct mutex_buddy *listed;

static const char *start_mutex(const struct subject_setup *setup)
{
    uint32_t pages = arena_pages(setup->thread_count);
    listed = mutex_buddy_create(pages);
    if (!listed || !mutex_buddy_add(listed, 0, pages))
        return "no host memory for the buddy's lists";
    return NULL;
}

static uint64_t alloc_mutex(uint32_t thread, size_t size_bytes, uint32_t stream)
{
    (void)thread;
    (void)stream;
    uint64_t grains = arena_grains(size_bytes);
    uint64_t grain;
    bool is_taken =
        grains > ARENA_INTERVAL_GRAINS_MAX
            ? mutex_buddy_take_run(listed, grains, &grain)
            : mutex_buddy_take(listed, (uint32_t)grains, 1, 1, &grain) == 1;
    return is_taken ? arena_address(grain) : 0;
}

static void free_mutex(uint32_t thread, uint64_t address, size_t size_bytes,
                       uint32_t stream)
{
    (void)thread;
    (void)stream;
    (void)mutex_buddy_give(listed, arena_grain(address),
                           arena_grains(size_bytes));
}

static void stop_mutex(void)
{
    mutex_buddy_destroy(listed);
}

const struct subject subject_offsets_mutex = {
    .name = "mutex",
    .description = "a buddy with free lists and one mutex, on offsets",
    .start = start_mutex,
    .alloc = alloc_mutex,
    .free = free_mutex,
    .stop = stop_mutex,
};
