/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The judge of mapped memory. A block lies in one handle or in several neighbours. A
 * handle that moves is whole and free, so that no block is in it; if it had memory of
 * the stream for which it moves, all of it is that stream's at its new place.
 */
#include <stdlib.h>

#include "tests/oom/oracle/judge/history_state.h"

static const struct history_piece *pieces_of(const struct history *history)
{
    return history->segments.items;
}

static int by_address(const void *left, const void *right)
{
    const struct fits_segment *a = left;
    const struct fits_segment *b = right;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return 0;
}

/* Those that were there at any moment of the call. */
static void find_present(struct history *history,
                         const struct history_span *call)
{
    const struct history_piece *pieces = pieces_of(history);
    history->present.count = 0;
    for (size_t i = 0; i < history->segments.count; i++) {
        const struct history_span *life = &pieces[i].life;
        if (life->begin > call->end || life->end < call->begin)
            continue;
        struct fits_segment *segment =
            history_array_add(&history->present, sizeof(*segment));
        *segment = (struct fits_segment){
            .address = pieces[i].address,
            .size_bytes = pieces[i].size_bytes,
            .is_passing = life->begin > call->begin || life->end < call->end,
            .tag = i,
        };
    }
    if (history->present.count)
        qsort(history->present.items, history->present.count,
              sizeof(struct fits_segment), by_address);
}

/* The first that ends behind the address: at one address there may be several of
 * different times, of different sizes, so this looks from the last that begins there
 * or before back to the longest handle that there is. */
static size_t first_behind(const struct history *history, uint64_t address)
{
    const struct fits_segment *present = history->present.items;
    size_t low = 0;
    size_t high = history->present.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (present[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    while (low &&
           present[low - 1].address + HISTORY_HANDLE_MOST_BYTES > address)
        low--;
    return low;
}

static void add_range(struct history *history, size_t segment, uint64_t begin,
                      uint64_t end, bool is_usable)
{
    struct fits_range *range =
        history_array_add(&history->spread, sizeof(*range));
    *range = (struct fits_range){.address = begin,
                                 .size_bytes = end - begin,
                                 .segment = segment,
                                 .is_usable = is_usable};
}

static uint64_t most(uint64_t left, uint64_t right)
{
    return left > right ? left : right;
}

static uint64_t least(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

/* A range of each handle that has a part of the block, and that is there at `until` or
 * later and was there at `since` or before. Returns the bytes of these. */
static uint64_t spread(struct history *history,
                       const struct history_block *block, uint64_t since,
                       uint64_t until, bool is_usable)
{
    const struct fits_segment *present = history->present.items;
    uint64_t end = block->address + block->size_bytes;
    uint64_t found_bytes = 0;
    for (size_t i = first_behind(history, block->address);
         i < history->present.count && present[i].address < end; i++) {
        const struct history_span *life =
            &pieces_of(history)[present[i].tag].life;
        uint64_t from = most(present[i].address, block->address);
        uint64_t to = least(present[i].address + present[i].size_bytes, end);
        if (from >= to || life->begin > since || life->end < until)
            continue;
        add_range(history, i, from, to, is_usable);
        found_bytes += to - from;
    }
    return found_bytes;
}

static void spread_live(struct history *history,
                        const struct history_failure *failure)
{
    size_t count = history_block_count(history);
    for (size_t i = 0; i < count; i++) {
        const struct history_block *block = &history->blocks[i];
        if (block->alloc.begin > failure->call.end ||
            block->freed.call.end < failure->call.begin)
            continue;
        uint64_t found_bytes = spread(history, block, HISTORY_NEVER, 0, false);
        bool is_live_throughout = block->alloc.end <= failure->call.begin &&
                                  block->freed.call.begin >= failure->call.end;
        history_require(!is_live_throughout || found_bytes >= block->size_bytes,
                        "a block lies in no segment");
    }
}

static bool is_of(uint32_t stream, const struct history_failure *failure)
{
    return stream == failure->stream && stream != HISTORY_NO_STREAM;
}

/* In handles that were there when they were freed, and still are. */
static void spread_pending(struct history *history,
                           const struct history_failure *failure,
                           const struct history_rules *rules)
{
    size_t count = history_block_count(history);
    for (size_t i = 0; i < count; i++) {
        const struct history_block *block = &history->blocks[i];
        const struct history_free *freed = &block->freed;
        if (freed->call.end < failure->call.begin &&
            history_is_pending(history, freed->streams, failure, rules))
            (void)spread(history, block, freed->call.end, failure->call.end + 1,
                         is_of(freed->own_stream, failure));
    }
}

/* --- what handles bring along --- */

static uint64_t bit_of(uint32_t stream)
{
    return stream == HISTORY_NO_STREAM ? HISTORY_ALL_STREAMS
                                       : UINT64_C(1) << stream;
}

/* Whether a block that was freed in the piece waited for that stream, as far as its
 * memory can be the stream's. */
static bool had_memory_of(const struct history *history,
                          const struct history_piece *piece, uint32_t stream)
{
    uint64_t bits = bit_of(stream);
    size_t count = history_block_count(history);
    for (size_t i = 0; i < count; i++) {
        const struct history_block *block = &history->blocks[i];
        const struct history_free *freed = &block->freed;
        bool is_any = freed->streams == HISTORY_ALL_STREAMS;
        if (freed->call.begin > piece->life.end ||
            freed->call.end < piece->life.begin ||
            block->address >= piece->address + piece->size_bytes ||
            block->address + block->size_bytes <= piece->address)
            continue;
        if (stream == HISTORY_NO_STREAM ? is_any
                                        : !is_any && (freed->streams & bits))
            return true;
    }
    return false;
}

/* Pieces come after those that they were before, so that these are known. */
static void find_brought(struct history *history)
{
    struct history_piece *pieces = history->segments.items;
    for (; history->known_count < history->segments.count;
         history->known_count++) {
        struct history_piece *piece = &pieces[history->known_count];
        if (piece->from == HISTORY_NO_SEGMENT)
            continue;
        uint64_t bits = bit_of(piece->mover);
        uint64_t before = pieces[piece->from].brought;
        bool is_brought =
            piece->mover == HISTORY_NO_STREAM
                ? before == bits
                : before != HISTORY_ALL_STREAMS && (before & bits);
        if (is_brought ||
            had_memory_of(history, &pieces[piece->from], piece->mover))
            piece->brought = bits;
    }
}

static void spread_brought(struct history *history,
                           const struct history_failure *failure,
                           const struct history_rules *rules)
{
    const struct fits_segment *present = history->present.items;
    for (size_t i = 0; i < history->present.count; i++) {
        const struct history_piece *piece = &pieces_of(history)[present[i].tag];
        uint64_t streams = piece->brought;
        if (streams && piece->life.end > failure->call.end &&
            history_is_pending(history, streams, failure, rules))
            add_range(history, i, piece->address,
                      piece->address + piece->size_bytes,
                      is_of(piece->mover, failure));
    }
}

/* Whether something is there that came after the piece had gone. */
static bool is_used_again(const struct history *history,
                          const struct history_piece *piece)
{
    const struct fits_segment *present = history->present.items;
    uint64_t end = piece->address + piece->size_bytes;
    for (size_t i = first_behind(history, piece->address);
         i < history->present.count && present[i].address < end; i++)
        if (present[i].address + present[i].size_bytes > piece->address &&
            pieces_of(history)[present[i].tag].life.begin >= piece->life.end)
            return true;
    return false;
}

/* Whether the piece may still be mapped at the place that it came from; with
 * HISTORY_AND_PLACES, until all work is over. */
static bool has_old_place(const struct history *history, size_t index,
                          const struct history_failure *failure,
                          const struct history_rules *rules,
                          enum history_way way)
{
    const struct history_piece *piece = &pieces_of(history)[index];
    uint64_t streams = piece->brought;
    if (streams && way == HISTORY_AND_PLACES)
        streams = HISTORY_ALL_STREAMS;
    return piece->life.begin <= failure->call.end &&
           history_is_pending(history, streams, failure, rules);
}

static void find_taken(struct history *history,
                       const struct history_failure *failure,
                       const struct history_rules *rules, enum history_way way)
{
    for (size_t i = 0; i < history->segments.count; i++) {
        if (!has_old_place(history, i, failure, rules, way))
            continue;
        const struct history_piece *before =
            &pieces_of(history)[pieces_of(history)[i].from];
        if (is_used_again(history, before))
            continue;
        struct fits_taken *taken =
            history_array_add(&history->taken, sizeof(*taken));
        *taken = (struct fits_taken){before->address, before->size_bytes};
    }
}

/* Handles that do not go back to the driver, as they are mapped at an old place
 * too. They move, but only to a place that has room for them whole, and the pool looks
 * at the shortest alone. */
static void fix_mapped_twice(struct history *history,
                             const struct history_failure *failure,
                             const struct history_rules *rules)
{
    struct fits_segment *present = history->present.items;
    for (size_t i = 0; i < history->present.count; i++) {
        size_t at = present[i].tag;
        if (pieces_of(history)[at].life.end <= failure->call.end)
            continue;
        while (at != HISTORY_NO_SEGMENT &&
               !has_old_place(history, at, failure, rules, HISTORY_AND_PLACES))
            at = pieces_of(history)[at].from;
        if (at == HISTORY_NO_SEGMENT)
            continue;
        present[i].is_fixed = true;
        add_range(history, i, present[i].address, present[i].address, true);
    }
}

struct fits_answer history_ask_mapped(struct history *history,
                                      const struct history_failure *failure,
                                      const struct history_rules *rules,
                                      enum history_way way)
{
    history->spread.count = 0;
    history->taken.count = 0;
    find_present(history, &failure->call);
    find_brought(history);
    spread_live(history, failure);
    if (way != HISTORY_LIVE) {
        spread_pending(history, failure, rules);
        spread_brought(history, failure, rules);
        find_taken(history, failure, rules, way);
    }
    if (way == HISTORY_AND_PLACES)
        fix_mapped_twice(history, failure, rules);
    const struct fits_case question = {
        .limit_bytes = rules->limit_bytes,
        .needed_bytes = failure->needed_bytes,
        .segments = history->present.items,
        .segment_count = history->present.count,
        .ranges = history->spread.items,
        .range_count = history->spread.count,
        .taken = history->taken.items,
        .taken_count = history->taken.count,
        .base = history->base,
    };
    return fits_mapped(&question);
}
