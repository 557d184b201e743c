/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a pool keeps on the host for a GiB of the device's memory, by the
 * resident memory of a process that does nothing else.
 */
#include "bench/studies/waste.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <moiety/status.h>
#include <moiety/stream.h>

#include "bench/base/resident.h"
#include "bench/base/spawn.h"

#define GIB (UINT64_C(1) << 30)
/* Left over, for what a pool may hold open. */
#define MARGIN_BYTES (UINT64_C(2) << 20)

/* What a child prints. */
struct growth {
    uint64_t grown_bytes;
    uint64_t block_count;
    bool is_there;
};

static bool cut(moiety_pool *pool, uint64_t block_bytes, moiety_devptr *blocks,
                uint64_t count)
{
    uint64_t before = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!waste_check(
                moiety_alloc(pool, block_bytes, MOIETY_STREAM_ANY, &blocks[i]),
                "moiety_alloc"))
            return false;
        if (i == 0)
            before = resident_bytes();
    }
    uint64_t after = resident_bytes();
    printf("%" PRIu64 " %" PRIu64 "\n", after > before ? after - before : 0,
           count);
    return true;
}

static bool run(uint64_t block_bytes, moiety_devptr *blocks, uint64_t count)
{
    moiety_pool_options options = {.struct_size = sizeof options,
                                   .memory = MOIETY_MEMORY_DRIVER};
    moiety_pool *pool;
    options.first_segment_bytes = GIB;
    options.largest_segment_bytes = GIB;
    if (!waste_check(moiety_pool_create(&options, &pool), "moiety_pool_create"))
        return false;
    bool is_well = cut(pool, block_bytes, blocks, count);
    return waste_check(moiety_pool_destroy(pool, NULL),
                       "moiety_pool_destroy") &&
           is_well;
}

bool waste_metadata_child(uint64_t block_bytes)
{
    uint64_t count = (GIB - MARGIN_BYTES) / block_bytes;
    moiety_devptr *blocks = malloc(count * sizeof(*blocks));
    if (!blocks)
        return false;
    /* So that its pages are there before. */
    memset(blocks, 0xff, count * sizeof(*blocks));
    bool is_well = run(block_bytes, blocks, count);
    free(blocks);
    return is_well;
}

static void take_growth(const char *line, void *context)
{
    struct growth *growth = context;
    unsigned long long grown_bytes;
    unsigned long long block_count;
    if (sscanf(line, "%llu %llu", &grown_bytes, &block_count) != 2)
        return;
    *growth = (struct growth){grown_bytes, block_count, true};
}

static bool measure(uint64_t block_bytes, struct growth *out)
{
    char option[64];
    char program[] = "/proc/self/exe";
    char *argv[] = {program, option, NULL};
    (void)snprintf(option, sizeof(option), "--metadata=%" PRIu64, block_bytes);
    struct spawn spawn = {.argv = argv, .take = take_growth, .context = out};
    *out = (struct growth){0};
    if (spawn_run(&spawn) == 0 && out->is_there)
        return true;
    (void)fprintf(stderr, "waste: no number for blocks of %" PRIu64 " bytes\n",
                  block_bytes);
    return false;
}

bool waste_metadata(FILE *json)
{
    static const uint64_t sizes_bytes[] = {512, 4096, 65536, UINT64_C(2) << 20};
    puts("\n## Metadata\n\n"
         "| blocks of | number | bytes of the host a GiB | a block | of the "
         "memory |\n|--:|--:|--:|--:|--:|");
    for (size_t i = 0; i < sizeof(sizes_bytes) / sizeof(sizes_bytes[0]); i++) {
        struct growth growth;
        if (!measure(sizes_bytes[i], &growth))
            return false;
        double bytes = (double)growth.grown_bytes;
        printf("| %s | %" PRIu64 " | %" PRIu64 " | %.2f | %.4f %% |\n",
               waste_size_text(sizes_bytes[i]), growth.block_count,
               growth.grown_bytes, bytes / (double)growth.block_count,
               bytes * 100 / (double)GIB);
        if (json)
            (void)fprintf(
                json,
                "{\"what\":\"metadata\",\"block_bytes\":%" PRIu64
                ",\"block_count\":%" PRIu64 ",\"host_bytes\":%" PRIu64 "}\n",
                sizes_bytes[i], growth.block_count, growth.grown_bytes);
    }
    return true;
}
