/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Raising a page's bound after something of the page was freed: to the run that
 * is around it now, of which a few words tell the length. Of several threads
 * that free parts of one run, the last to set its bits sees all of it.
 */
#include "pool/buddy/map_state.h"

/* The words of a page, of what is done or of a stream's two maps. */
struct near {
    struct binadei_bounds *bounds;
    unsigned page_bit;
    unsigned count; /* maps */
    const binadei_atomic_word *chunks[BINADEI_AGES];
    const binadei_atomic_word *grains[BINADEI_AGES]; /* NULL: none are free */
};

/* LB: after the bits that were set, by order of seq_cst. */
static uint64_t free_chunks(const struct near *near)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < near->count; i++)
        word |= binadei_load_seq_cst(near->chunks[i]);
    return word;
}

/* LB: as above. */
static uint64_t taken_grains(const struct near *near, unsigned chunk)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < near->count; i++)
        if (near->grains[i])
            word |= binadei_load_seq_cst(&near->grains[i][chunk]);
    return ~word;
}

/* Where the free run begins that ends before grain `at` of the page. */
static unsigned start_of(const struct near *near, uint64_t chunks, unsigned at)
{
    while (at) {
        unsigned chunk = (at - 1) / BINADEI_CHUNK_GRAINS;
        unsigned bit = (at - 1) % BINADEI_CHUNK_GRAINS;
        if (chunks >> chunk & 1) {
            at = chunk * BINADEI_CHUNK_GRAINS;
            continue;
        }
        uint64_t taken = taken_grains(near, chunk)
                         << (BINADEI_CHUNK_GRAINS - 1 - bit);
        if (taken)
            return at - (unsigned)__builtin_clzll(taken);
        at -= bit + 1;
    }
    return 0;
}

/* Where the one ends that begins at grain `at`. */
static unsigned end_of(const struct near *near, uint64_t chunks, unsigned at)
{
    while (at < BINADEI_PAGE_GRAINS) {
        unsigned chunk = at / BINADEI_CHUNK_GRAINS;
        unsigned bit = at % BINADEI_CHUNK_GRAINS;
        if (chunks >> chunk & 1) {
            at = (chunk + 1) * BINADEI_CHUNK_GRAINS;
            continue;
        }
        uint64_t taken = taken_grains(near, chunk) >> bit;
        if (taken)
            return at + binadei_word_lowest(taken);
        at += BINADEI_CHUNK_GRAINS - bit;
    }
    return BINADEI_PAGE_GRAINS;
}

/* Of the run that grains [at, end) are part of. */
static uint32_t length_around(const struct near *near, unsigned at,
                              unsigned end)
{
    uint64_t chunks = free_chunks(near);
    return end_of(near, chunks, end) - start_of(near, chunks, at);
}

static void raise(const struct near *near, unsigned at, unsigned end)
{
    binadei_bound *bound = &near->bounds->of[near->page_bit];
    uint32_t grains = 0;
    /* LB: after the bits, by order of seq_cst. */
    uint32_t seen = atomic_load_explicit(bound, memory_order_seq_cst);
    uint32_t raised;
    do {
        uint32_t known = seen & BINADEI_BOUND_MASK;
        if (!known)
            return;
        /* Unknown: the thread that looks may have missed the bits. */
        raised = 0;
        if (known != BINADEI_BOUND_LOOKING) {
            if (!grains)
                grains = length_around(near, at, end);
            if (known > grains)
                return;
            raised = grains + 1;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        bound, &seen, (seen & ~BINADEI_BOUND_MASK) | raised,
        memory_order_seq_cst, memory_order_seq_cst));
    binadei_bound_was_raised(near->bounds, near->page_bit,
                             binadei_bound_grains(raised));
}

/* Each run of `mask`, of which a bit is `unit` grains from `base` on. */
static void raise_runs(const struct near *near, unsigned base, unsigned unit,
                       uint64_t mask)
{
    while (mask) {
        unsigned start;
        unsigned length;
        mask &= ~binadei_word_first_run(mask, &start, &length);
        raise(near, base + start * unit, base + (start + length) * unit);
    }
}

static struct near near_done(struct binadei_buddy *buddy, binadei_page page)
{
    binadei_chunk first = binadei_chunk_in_page(page, 0);
    return (struct near){
        .bounds = &binadei_group_of(buddy, page)->bounds,
        .page_bit = page.index % BINADEI_WORD_BITS,
        .count = 1,
        .chunks = {&buddy->pages[page.index].word},
        .grains = {&buddy->chunk_words[first.index]},
    };
}

void binadei_bound_raise_chunks(struct binadei_buddy *buddy, binadei_page page,
                                uint64_t mask)
{
    const struct near near = near_done(buddy, page);
    raise_runs(&near, 0, BINADEI_CHUNK_GRAINS, mask);
}

void binadei_bound_raise_grains(struct binadei_buddy *buddy,
                                binadei_chunk chunk, uint64_t mask)
{
    const struct near near = near_done(buddy, binadei_page_of_chunk(chunk));
    raise_runs(&near, binadei_chunk_bit(chunk) * BINADEI_CHUNK_GRAINS, 1, mask);
}

static struct near near_own(struct binadei_maps_group *group, unsigned page_bit)
{
    const struct binadei_maps_page *parts =
        binadei_maps_page_at(group, page_bit);
    struct near near = {
        .bounds = &group->bounds, .page_bit = page_bit, .count = BINADEI_AGES};
    for (unsigned age = 0; age < BINADEI_AGES; age++) {
        near.chunks[age] = &group->ages[age].chunks[page_bit];
        near.grains[age] = parts ? parts->grains[age] : NULL;
    }
    return near;
}

void binadei_bound_raise_own(struct binadei_maps_group *group,
                             unsigned page_bit, unsigned at, unsigned end)
{
    const struct near near = near_own(group, page_bit);
    raise(&near, at, end);
}

void binadei_bound_raise_own_chunks(struct binadei_maps_group *group,
                                    unsigned page_bit, uint64_t mask)
{
    const struct near near = near_own(group, page_bit);
    raise_runs(&near, 0, BINADEI_CHUNK_GRAINS, mask);
}

void binadei_bound_raise_own_grains(struct binadei_maps_group *group,
                                    unsigned page_bit, unsigned chunk,
                                    uint64_t mask)
{
    const struct near near = near_own(group, page_bit);
    raise_runs(&near, chunk * BINADEI_CHUNK_GRAINS, 1, mask);
}
