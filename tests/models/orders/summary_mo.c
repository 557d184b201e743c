/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of the buddy's summaries, for a checker of C11's memory
 * model: one chunk of two grains, its bit in the chunk summary, and the page's
 * bit above. Two threads give a grain each; two searchers find the word empty,
 * or the summary, and lower. At rest the word is found from the top.
 *
 * A thread that makes a run sets only bits that it sees clear. That is right
 * because the swap of the word and the look at the bit, the clearing and the
 * second look are all seq_cst; an interleaving model passes every weaker order.
 *
 * Weakenings: -DMO_SWAP=memory_order_acq_rel, -DMO_LOOK=memory_order_acquire,
 * -DMO_LOWER=memory_order_acq_rel, -DMO_RECHECK=memory_order_acquire,
 * -DMO_RAISE=memory_order_acq_rel (of the chunk's bit: the change below the look
 * at the page's), -DUPPER_FIRST (the page's bit before the chunk's). With -DOPEN
 * the word is published by a store instead; then -DMO_OPEN=memory_order_release.
 */
/* Optimised builds define it, and then nothing below would be checked. */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef MO_SWAP
#define MO_SWAP memory_order_seq_cst
#endif
#ifndef MO_OPEN
#define MO_OPEN memory_order_seq_cst
#endif
#ifndef MO_LOOK
#define MO_LOOK memory_order_seq_cst
#endif
#ifndef MO_RAISE
#define MO_RAISE memory_order_seq_cst
#endif
#ifndef MO_LOWER
#define MO_LOWER memory_order_seq_cst
#endif
#ifndef MO_RECHECK
#define MO_RECHECK memory_order_seq_cst
#endif
#define RELAXED memory_order_relaxed

/* Stale bits, as after a take. */
static atomic_uint chunk_word;
static atomic_uint chunk_summary = 1;
static atomic_uint grain_page = 1;

static void set_bit(atomic_uint *summary)
{
    if (!atomic_load_explicit(summary, MO_LOOK))
        atomic_fetch_or_explicit(summary, 1, MO_RAISE);
}

static void raise_bits(void)
{
#ifdef UPPER_FIRST
    set_bit(&grain_page);
    set_bit(&chunk_summary);
#else
    set_bit(&chunk_summary);
    set_bit(&grain_page);
#endif
}

#ifndef OPEN
static void give(unsigned mask)
{
    unsigned seen = atomic_load_explicit(&chunk_word, RELAXED);
    while (!atomic_compare_exchange_strong_explicit(
        &chunk_word, &seen, seen | mask, MO_SWAP, RELAXED))
        continue;
    if (!seen)
        raise_bits();
}
#endif

static void lower_chunk(void)
{
    atomic_fetch_and_explicit(&chunk_summary, 0, MO_LOWER);
    if (atomic_load_explicit(&chunk_word, MO_RECHECK))
        raise_bits();
}

static void lower_page(void)
{
    atomic_fetch_and_explicit(&grain_page, 0, MO_LOWER);
    if (atomic_load_explicit(&chunk_summary, MO_RECHECK))
        set_bit(&grain_page);
}

#ifdef OPEN
static void *low_giver(void *unused)
{
    atomic_store_explicit(&chunk_word, 3, MO_OPEN);
    raise_bits();
    return unused;
}

static void *high_giver(void *unused)
{
    return unused;
}
#else
static void *low_giver(void *unused)
{
    give(1);
    return unused;
}

static void *high_giver(void *unused)
{
    give(2);
    return unused;
}
#endif

static void *searcher(void *unused)
{
    if (!atomic_load_explicit(&grain_page, RELAXED))
        return unused;
    if (!atomic_load_explicit(&chunk_summary, RELAXED))
        lower_page();
    else if (!atomic_load_explicit(&chunk_word, RELAXED))
        lower_chunk();
    return unused;
}

int main(void)
{
    void *(*const starts[])(void *) = {low_giver, high_giver, searcher,
                                       searcher};
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, starts[i], NULL);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert(atomic_load(&chunk_word) == 3);
    assert(atomic_load(&chunk_summary) && atomic_load(&grain_page));
    return 0;
}
