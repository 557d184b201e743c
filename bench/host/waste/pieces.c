/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The waste of pieces, as no block crosses the end of one: the most that a pool
 * reserves, beside the most that is live, for blocks that come and go at random, by the
 * length of its pieces. It grows by misses, or by a reserve of all that is to be live. A
 * pool with an arena's options over addresses without memory.
 */
#include <inttypes.h>
#include <stdlib.h>

#include <moiety/moiety.h>

#include "bench/base/random.h"
#include "bench/host/host.h"
#include "bench/host/row.h"
#include "bench/host/waste/waste.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define LIVE_BYTES (UINT64_C(4) << 30)
#define BLOCKS_MAX (UINT64_C(1) << 16)
/* Each byte of what is live is freed and allocated again so often. */
#define ROUNDS 8U

/* Sizes between two, each octave as often as any other; or all the same. */
static const struct mix {
    const char *name;
    uint64_t least_bytes;
    uint64_t most_bytes;
} mixes[] = {
    {"KV blocks of 2 MiB", 2 * MIB, 2 * MIB},
    {"KV blocks of 1.25 MiB", 5 * MIB / 4, 5 * MIB / 4},
    {"4 KiB to 8 MiB", 4 * KIB, 8 * MIB},
    {"256 KiB to 8 MiB", 256 * KIB, 8 * MIB},
    {"1 to 64 MiB", MIB, 64 * MIB},
};

static const uint64_t pieces_mib[] = {16, 64, 256, 1024};

struct churn {
    moiety_pool *pool;
    uint64_t random;
    const struct mix *mix;
    struct {
        moiety_devptr address;
        uint64_t size_bytes;
    } * blocks;
    uint64_t count;
    uint64_t live_bytes;
    uint64_t most_live_bytes;
};

static uint64_t churn_size(struct churn *churn)
{
    const struct mix *mix = churn->mix;
    uint32_t octaves = 0;
    while (mix->least_bytes << octaves < mix->most_bytes)
        octaves++;
    if (!octaves)
        return mix->least_bytes;
    uint64_t least = mix->least_bytes << random_below(&churn->random, octaves);
    return least + random_below(&churn->random, (uint32_t)least + 1);
}

static bool churn_alloc(struct churn *churn)
{
    uint64_t size_bytes = churn_size(churn);
    moiety_devptr address;
    if (churn->count == BLOCKS_MAX ||
        moiety_alloc(churn->pool, size_bytes, MOIETY_STREAM_ANY, &address) !=
            MOIETY_OK)
        return false;
    churn->blocks[churn->count].address = address;
    churn->blocks[churn->count++].size_bytes = size_bytes;
    churn->live_bytes += size_bytes;
    if (churn->live_bytes > churn->most_live_bytes)
        churn->most_live_bytes = churn->live_bytes;
    return true;
}

static bool churn_free(struct churn *churn, uint64_t at)
{
    moiety_devptr address = churn->blocks[at].address;
    churn->live_bytes -= churn->blocks[at].size_bytes;
    churn->blocks[at] = churn->blocks[--churn->count];
    return moiety_free(churn->pool, address, MOIETY_STREAM_DONE) == MOIETY_OK;
}

/* Between seven eighths of it and all of it is live. */
static bool churn_run(struct churn *churn)
{
    bool is_well = true;
    for (uint64_t moved_bytes = 0; is_well && moved_bytes < ROUNDS * LIVE_BYTES;
         moved_bytes += LIVE_BYTES / 8) {
        while (is_well && churn->live_bytes < LIVE_BYTES)
            is_well = churn_alloc(churn);
        while (is_well && churn->live_bytes > LIVE_BYTES / 8 * 7)
            is_well = churn_free(
                churn, random_below(&churn->random, (uint32_t)churn->count));
    }
    return is_well;
}

static const char *churn_measure(struct churn *churn, bool is_reserved)
{
    moiety_pool_stats stats = {.struct_size = sizeof(stats)};
    churn->blocks = calloc(BLOCKS_MAX, sizeof(*churn->blocks));
    if (!churn->blocks)
        return "no memory for the list of blocks";
    bool is_well = !is_reserved ||
                   moiety_pool_reserve(churn->pool, LIVE_BYTES) == MOIETY_OK;
    is_well = is_well && churn_run(churn) &&
              moiety_pool_get_stats(churn->pool, &stats) == MOIETY_OK;
    const char *why = is_well ? NULL : moiety_last_error_message();
    while (churn->count)
        (void)churn_free(churn, churn->count - 1);
    free(churn->blocks);
    host_row_count("most_live_bytes", churn->most_live_bytes);
    host_row_count("most_reserved_bytes", stats.reserved_bytes_peak);
    return why;
}

static void measure(const struct mix *mix, uint64_t piece_mib, bool is_reserved)
{
    struct churn churn = {.mix = mix};
    churn.random = random_start(1, 0);
    host_row_begin("pieces", mix->name);
    host_row_count("piece_mib", piece_mib);
    host_row_flag("is_reserved", is_reserved);
    const char *why =
        waste_open(2 * MIB, piece_mib * MIB, &churn.pool) == MOIETY_OK
            ? churn_measure(&churn, is_reserved)
            : moiety_last_error_message();
    if (moiety_pool_destroy(churn.pool, NULL) != MOIETY_OK)
        why = moiety_last_error_message();
    if (why)
        host_row_fail(why);
    else
        host_row_end();
}

void host_pieces(void)
{
    for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++)
        for (size_t j = 0; j < sizeof(pieces_mib) / sizeof(pieces_mib[0]); j++)
            for (int is_reserved = 0; is_reserved < 2; is_reserved++)
                measure(&mixes[i], pieces_mib[j], is_reserved != 0);
}
