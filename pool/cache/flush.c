/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks on their way out. Giving needs neither the driver nor host memory, and
 * waits for no thread that has a heap's lock.
 */
#include "pool/cache/flush.h"

#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/cache/magazine.h"
#include "pool/stream/epoch.h"
#include "pool/stream/stream_state.h"

moiety_status moietyi_block_at(const struct moietyi_engine *engine,
                               moiety_devptr address, struct moietyi_block *out)
{
    moietyi_grain start;
    if (!moietyi_grain_of(engine->lookup, address, &start))
        return moietyi_fail(MOIETY_E_FOREIGN,
                            "address 0x%llx is not of this pool", address);
    uint8_t byte = moietyi_space_class(engine->streams.space, start);
    if (address % MOIETYI_GRAIN_BYTES || !byte) {
        return moietyi_fail(MOIETY_E_INVALID,
                            "no block starts at address 0x%llx: it is inside "
                            "one, or free",
                            address);
    }
    *out = moietyi_block_of(engine, start, byte);
    return MOIETY_OK;
}

/* Neighbours go back as one. */
struct ranges {
    uint32_t count;
    struct moietyi_interval list[MOIETYI_FLUSH_BLOCKS];
};

static inline void give_ranges(struct moietyi_thread_state *by,
                               struct moietyi_stream_state *stream_state,
                               const struct moietyi_interval *list,
                               uint32_t count)
{
    if (!count)
        return;
    for (uint32_t i = 0; i < count && !stream_state->heap; i++)
        by->given_bytes += list[i].grains * MOIETYI_GRAIN_BYTES;
    uint32_t twice =
        moietyi_give_some(by->engine->streams.space, stream_state->heap, list,
                          count, &by->records);
    MOIETYI_STEP("range.given");
    if (twice)
        moietyi_count(by, MOIETYI_COUNT_DOUBLE_FREES, twice);
}

static void add_range(struct ranges *ranges, uint64_t start, uint64_t grains)
{
    struct moietyi_interval *last = &ranges->list[ranges->count - 1];
    if (ranges->count && start == last->start + last->grains)
        last->grains += grains;
    else if (ranges->count && start + grains == last->start)
        *last = (struct moietyi_interval){start, grains + last->grains};
    else
        ranges->list[ranges->count++] =
            (struct moietyi_interval){start, grains};
}

/* The block ends here; one that has ended is not added. */
static void add_block(struct moietyi_thread_state *by, struct ranges *ranges,
                      moiety_devptr address)
{
    struct moietyi_engine *engine = by->engine;
    moietyi_grain start;
    uint8_t byte = 0;
    if (moietyi_grain_of(engine->lookup, address, &start))
        byte = moietyi_space_end_class(engine->streams.space, start);
    if (byte)
        add_range(ranges, start.index,
                  moietyi_block_grains(engine, start, byte));
    else
        moietyi_count(by, MOIETYI_COUNT_DOUBLE_FREES, 1);
}

void moietyi_flush_entries(struct moietyi_thread_state *by,
                           struct moietyi_stream_state *stream_state,
                           const moiety_devptr *entries, uint32_t count)
{
    struct ranges ranges;
    ranges.count = 0;
    for (uint32_t i = 0; i < count; i++)
        add_block(by, &ranges, moietyi_entry_address(entries[i]));
    give_ranges(by, stream_state, ranges.list, ranges.count);
    MOIETYI_STEP("flush.given");
}

void moietyi_flush_block(struct moietyi_thread_state *by,
                         struct moietyi_stream_state *stream_state,
                         moiety_devptr address)
{
    struct ranges ranges;
    ranges.count = 0;
    add_block(by, &ranges, address);
    give_ranges(by, stream_state, ranges.list, ranges.count);
}

void moietyi_flush_known(struct moietyi_thread_state *by,
                         struct moietyi_stream_state *stream_state,
                         const struct moietyi_block *block)
{
    if (moietyi_space_end_class(by->engine->streams.space, block->start))
        moietyi_flush_grains(by, stream_state, block->start, block->grains);
    else
        moietyi_count(by, MOIETYI_COUNT_DOUBLE_FREES, 1);
}

void moietyi_give_block(struct moietyi_thread_state *by, moiety_devptr address)
{
    moietyi_flush_block(by, by->engine->streams.done, address);
}

void moietyi_flush_grains(struct moietyi_thread_state *by,
                          struct moietyi_stream_state *stream_state,
                          moietyi_grain start, uint64_t grains)
{
    const struct moietyi_interval range = {start.index, grains};
    give_ranges(by, stream_state, &range, grains != 0);
}
