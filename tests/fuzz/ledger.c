/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/fuzz/ledger.h"

#include <stdlib.h>
#include <string.h>

/* Nothing is there, and nobody looks: the pool never touches its memory. */
#define BASE (UINT64_C(1) << 45)
#define PAGE_BYTES ((uint64_t)LEDGER_PAGE_GRAINS * LEDGER_GRAIN_BYTES)

enum ledger_state { OUTSIDE, FREE, HELD };

static void fail(struct ledger *ledger, const char *what, uint64_t address)
{
    if (ledger->failure)
        return;
    ledger->failure = what;
    ledger->failure_address = address;
}

bool ledger_init(struct ledger *ledger)
{
    *ledger = (struct ledger){0};
    ledger->grains = calloc(LEDGER_GRAINS, sizeof(*ledger->grains));
    ledger->segments = calloc(LEDGER_PAGES, sizeof(*ledger->segments));
    return ledger->grains && ledger->segments;
}

void ledger_fini(struct ledger *ledger)
{
    free(ledger->segments);
    free(ledger->grains);
}

static uint32_t grain_of(uint64_t address)
{
    return (uint32_t)((address - BASE) / LEDGER_GRAIN_BYTES);
}

static bool is_inside(uint64_t address, uint64_t bytes)
{
    return address >= BASE && address - BASE <= LEDGER_BYTES &&
           bytes <= LEDGER_BYTES - (address - BASE);
}

/* Whether all grains of an interval are in this state. */
static bool is_all(const struct ledger *ledger, uint64_t address,
                   uint64_t bytes, enum ledger_state state)
{
    uint32_t grain = grain_of(address);
    for (uint64_t i = 0; i < bytes / LEDGER_GRAIN_BYTES; i++)
        if (ledger->grains[grain + i].state != state)
            return false;
    return true;
}

/* All grains of an interval are so from now on. */
static void set_all(struct ledger *ledger, uint64_t address, uint64_t bytes,
                    struct ledger_grain grain)
{
    for (uint64_t i = 0; i < bytes / LEDGER_GRAIN_BYTES; i++)
        ledger->grains[grain_of(address) + i] = grain;
}

static uint32_t place_for(const struct ledger *ledger, uint64_t bytes)
{
    uint32_t pages = (uint32_t)(bytes / PAGE_BYTES);
    uint32_t page = 0;
    while (page + pages <= LEDGER_PAGES &&
           !is_all(ledger, BASE + page * PAGE_BYTES, bytes, OUTSIDE))
        page++;
    return page;
}

bool ledger_has_room(const struct ledger *ledger, uint64_t bytes)
{
    return place_for(ledger, bytes) + bytes / PAGE_BYTES <= LEDGER_PAGES;
}

static moiety_status reserve(void *context, size_t size_bytes,
                             moiety_devptr *out)
{
    struct ledger *ledger = context;
    if (size_bytes == 0 || size_bytes % PAGE_BYTES)
        fail(ledger, "a segment of a ragged size is asked for", size_bytes);
    if (ledger->refuses || !ledger_has_room(ledger, size_bytes))
        return MOIETY_E_NO_DEVICE_MEMORY;
    uint32_t page = place_for(ledger, size_bytes);
    *out = BASE + page * PAGE_BYTES;
    set_all(ledger, *out, size_bytes, (struct ledger_grain){.state = FREE});
    ledger->segments[page] = size_bytes;
    ledger->segment_count++;
    ledger->reserve_count++;
    ledger->held_bytes += size_bytes;
    if (ledger->held_bytes > ledger->peak_bytes)
        ledger->peak_bytes = ledger->held_bytes;
    return MOIETY_OK;
}

/* The bits of a segment that are still set anywhere. */
static stage_mask pending_in(const struct ledger *ledger, uint64_t address,
                             uint64_t bytes)
{
    stage_mask pending = 0;
    uint32_t grain = grain_of(address);
    for (uint64_t i = 0; i < bytes / LEDGER_GRAIN_BYTES; i++)
        pending |= ledger->grains[grain + i].pending;
    return pending;
}

static moiety_status release(void *context, moiety_devptr address,
                             size_t size_bytes)
{
    struct ledger *ledger = context;
    uint32_t page = grain_of(address) / LEDGER_PAGE_GRAINS;
    if (!is_inside(address, size_bytes) ||
        ledger->segments[page] != size_bytes) {
        fail(ledger, "no such segment is given back", address);
        return MOIETY_E_INVALID;
    }
    if (pending_in(ledger, address, size_bytes))
        fail(ledger, "a segment goes while work may use it", address);
    if (!ledger->is_ending && !is_all(ledger, address, size_bytes, FREE))
        fail(ledger, "a segment goes with blocks in it", address);
    set_all(ledger, address, size_bytes,
            (struct ledger_grain){.state = OUTSIDE});
    ledger->segments[page] = 0;
    ledger->segment_count--;
    ledger->release_count++;
    ledger->held_bytes -= size_bytes;
    return MOIETY_OK;
}

moiety_source ledger_source(struct ledger *ledger)
{
    return (moiety_source){.struct_size = sizeof(moiety_source),
                           .name = "the ledger",
                           .context = ledger,
                           .reserve = reserve,
                           .release = release};
}

moiety_devptr ledger_foreign_address(void)
{
    return BASE + LEDGER_BYTES + PAGE_BYTES;
}

/* What of a grain's pending work is not before the tail of `stream`. */
static stage_mask pending_of_grain(const struct ledger *ledger,
                                   const struct ledger_grain *grain,
                                   unsigned stream)
{
    if (stream == STAGE_STREAMS)
        return grain->pending;
    stage_mask pending =
        grain->owner == stream ? grain->beside : grain->pending;
    for (unsigned i = 0; i < STAGE_STREAMS; i++)
        if (i == stream || grain->freed_at <= ledger->after[stream][i])
            pending &= (stage_mask)~stage_bit(i);
    return pending;
}

stage_mask ledger_pending_for(const struct ledger *ledger, uint64_t address,
                              uint64_t bytes, unsigned stream)
{
    stage_mask pending = 0;
    if (!is_inside(address, bytes))
        return 0;
    for (uint64_t i = 0; i < bytes / LEDGER_GRAIN_BYTES; i++)
        pending |= pending_of_grain(
            ledger, &ledger->grains[grain_of(address) + i], stream);
    return pending;
}

void ledger_hold(struct ledger *ledger, uint64_t address, uint64_t bytes)
{
    if (!is_inside(address, bytes) || address % LEDGER_GRAIN_BYTES) {
        fail(ledger, "the pool hands out what it never got", address);
        return;
    }
    if (!is_all(ledger, address, bytes, FREE))
        fail(ledger, "the pool hands out what is in use, or no longer its own",
             address);
    set_all(ledger, address, bytes, (struct ledger_grain){.state = HELD});
}

void ledger_free(struct ledger *ledger, uint64_t address, uint64_t bytes,
                 const struct ledger_grain *left)
{
    struct ledger_grain grain = *left;
    grain.state = FREE;
    grain.freed_at = ++ledger->now;
    set_all(ledger, address, bytes, grain);
}

void ledger_clear(struct ledger *ledger, stage_mask over)
{
    for (uint32_t i = 0; i < LEDGER_GRAINS; i++) {
        ledger->grains[i].pending &= (stage_mask)~over;
        ledger->grains[i].beside &= (stage_mask)~over;
    }
}

void ledger_put_after(struct ledger *ledger, unsigned stream, stage_mask others)
{
    for (unsigned i = 0; i < STAGE_STREAMS; i++)
        if (others & stage_bit(i))
            ledger->after[stream][i] = ledger->now;
}

void ledger_forget_order(struct ledger *ledger, unsigned stream)
{
    memset(ledger->after[stream], 0, sizeof(ledger->after[stream]));
}

uint32_t ledger_longest_free_run(const struct ledger *ledger)
{
    uint32_t longest = 0;
    uint32_t run = 0;
    for (uint32_t page = 0; page < LEDGER_PAGES; page++) {
        if (ledger->segments[page])
            run = 0;
        bool is_free =
            is_all(ledger, BASE + page * PAGE_BYTES, PAGE_BYTES, FREE);
        run = is_free ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}
