/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What an arena reserves for requests that pools which round to powers of two
 * were reported to get wrong, beside what those take. Twice:
 *
 *  counted  A pool with an arena's options over a source that hands out
 *           addresses and no memory, so that any size can be asked for.
 *  arena    An arena, with the same requests divided by a power of two until
 *           the largest fits into the largest arena that is started
 *           (--start-mib); 1 where there is memory enough. What is left of
 *           `scale` bytes is rounded to the same 2 MiB, so a small arena looks
 *           worse than it is.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include <moiety/moiety.h>

#include "bench/host/host.h"
#include "bench/host/rig.h"
#include "bench/host/room.h"
#include "bench/host/row.h"
#include "bench/host/waste/waste.h"

#define WHAT "waste"
#define GIB (UINT64_C(1) << 30)
#define SEGMENT_BYTES ((size_t)2 << 20)

static const struct request {
    const char *of; /* where it was reported */
    uint64_t size_bytes;
} requests[] = {
    {"vllm#53042", UINT64_C(2236604219)}, /* 2.083 GiB */
    {"vllm#50094", 10 * GIB},
    {"10.1 GiB", UINT64_C(10844792423)},
    {"cupy#7742", 234 * GIB},
};
#define REQUESTS (sizeof(requests) / sizeof(requests[0]))

/* Of either kind. */
struct memory {
    const char *name;
    moiety_pool *pool;
    uint64_t scale;
};

static uint64_t power_of_two(uint64_t size_bytes)
{
    uint64_t power = 1;
    while (power < size_bytes)
        power *= 2;
    return power;
}

/* Addresses that a pool can divide; nothing may be written there. One segment
 * more than asked for is enough to find a multiple of 2 MiB in it; the rest
 * stays reserved until the process ends. */
static moiety_status reserve(void *context, size_t size_bytes,
                             moiety_devptr *out)
{
    (void)context;
    void *found = mmap(NULL, size_bytes + SEGMENT_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED)
        return MOIETY_E_NO_PINNED_MEMORY;
    *out = ((uintptr_t)found + SEGMENT_BYTES - 1) & ~(SEGMENT_BYTES - 1);
    return MOIETY_OK;
}

static moiety_status release(void *context, moiety_devptr address,
                             size_t size_bytes)
{
    (void)context;
    (void)munmap((void *)(uintptr_t)address, size_bytes);
    return MOIETY_OK;
}

moiety_status waste_open(uint64_t first_bytes, uint64_t most_bytes,
                         moiety_pool **out)
{
    static const moiety_source source = {
        .struct_size = sizeof(source),
        .flags = MOIETY_SOURCE_PINNED,
        .name = "addresses without memory",
        .reserve = reserve,
        .release = release,
    };
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.source = &source;
    options.limit_bytes = 1024 * GIB;
    options.first_segment_bytes = first_bytes;
    options.largest_segment_bytes = most_bytes;
    return moiety_pool_create(&options, out);
}

/* All of [first, end) at once: adds up what was asked for, and tells what is
 * reserved then. NULL, or why not. */
static const char *hold(const struct memory *memory, size_t first, size_t end,
                        uint64_t *out_reserved_bytes)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    moiety_devptr blocks[REQUESTS] = {0};
    const char *why = NULL;
    for (size_t i = first; !why && i < end; i++)
        if (moiety_alloc(memory->pool, requests[i].size_bytes / memory->scale,
                         MOIETY_STREAM_ANY, &blocks[i]) != MOIETY_OK)
            why = moiety_last_error_message();
    if (!why && moiety_pool_get_stats(memory->pool, &stats) != MOIETY_OK)
        why = moiety_last_error_message();
    *out_reserved_bytes = stats.reserved_bytes_current;
    for (size_t i = first; i < end; i++)
        if (blocks[i] && moiety_free(memory->pool, blocks[i],
                                     MOIETY_STREAM_DONE) != MOIETY_OK)
            why = moiety_last_error_message();
    if (moiety_pool_trim(memory->pool, 0, NULL) != MOIETY_OK)
        why = moiety_last_error_message();
    return why;
}

static void print(const struct memory *memory, const char *of, size_t first,
                  size_t end)
{
    uint64_t wanted_bytes = 0;
    uint64_t power_bytes = 0;
    uint64_t reserved_bytes;
    for (size_t i = first; i < end; i++) {
        wanted_bytes += requests[i].size_bytes / memory->scale;
        power_bytes += power_of_two(requests[i].size_bytes / memory->scale);
    }
    host_row_begin(WHAT, memory->name);
    host_row_text("of", of);
    host_row_count("scale", memory->scale);
    host_row_count("wanted_bytes", wanted_bytes);
    host_row_count("power_of_two_bytes", power_bytes);
    const char *why = hold(memory, first, end, &reserved_bytes);
    if (why) {
        host_row_fail(why);
        return;
    }
    host_row_count("reserved_bytes", reserved_bytes);
    host_row_end();
}

static void print_all(const struct memory *memory, uint64_t room_bytes)
{
    uint64_t sum_bytes = 0;
    size_t fitting = 0;
    while (fitting < REQUESTS &&
           requests[fitting].size_bytes / memory->scale <= room_bytes)
        fitting++;
    for (size_t i = 0; i < fitting; i++) {
        print(memory, requests[i].of, i, i + 1);
        sum_bytes += requests[i].size_bytes / memory->scale;
    }
    if (sum_bytes <= room_bytes)
        print(memory, "all of these at once", 0, fitting);
}

static void count(void)
{
    struct memory memory = {.name = "counted", .scale = 1};
    /* An arena's defaults. */
    if (waste_open(SEGMENT_BYTES, 32 * SEGMENT_BYTES, &memory.pool) !=
        MOIETY_OK) {
        host_row_begin(WHAT, memory.name);
        host_row_fail(moiety_last_error_message());
        return;
    }
    print_all(&memory, UINT64_MAX);
    if (moiety_pool_destroy(memory.pool, NULL) != MOIETY_OK) {
        host_row_begin(WHAT, memory.name);
        host_row_fail(moiety_last_error_message());
    }
}

static uint64_t largest_start_bytes(const struct host_options *options)
{
    uint64_t most_bytes = 0;
    for (unsigned i = 0; i < options->start_count; i++)
        if (options->start_mib[i] * HOST_MIB > most_bytes)
            most_bytes = options->start_mib[i] * HOST_MIB;
    uint64_t room_bytes = host_room_bytes() / 8 * 7;
    return most_bytes < room_bytes ? most_bytes : room_bytes;
}

/* The third of the requests decides how all are divided: the fourth is more
 * than most machines have. */
static void fill_arena(const struct host_options *options)
{
    uint64_t room_bytes = largest_start_bytes(options);
    struct memory memory = {.name = "arena", .scale = 1};
    moiety_host *arena = host_arena_open(WHAT, NULL);
    if (!arena)
        return;
    while (requests[2].size_bytes / memory.scale > room_bytes)
        memory.scale *= 2;
    memory.pool = moiety_host_pool(arena);
    print_all(&memory, room_bytes);
    host_arena_close(WHAT, arena);
}

void host_waste(const struct host_options *options)
{
    count();
    host_pieces();
    if (!host_is_over(options))
        fill_arena(options);
}
