/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of the buddy's summaries, for a checker of C11's memory
 * model: one chunk of two grains, its bit in the chunk summary, and the page's
 * bit above. Two threads give a grain each; two searchers find the word empty,
 * or the summary, and lower. At rest the word is found from the top.
 *
 * Weakenings: -DMO_RAISE=memory_order_relaxed, -DMO_RAISE=memory_order_acquire,
 * -DMO_LOWER=memory_order_release, -DMO_LOWER=memory_order_relaxed,
 * -DSKIP_IF_SET (no raise where a load saw the bit set; an interleaving model
 * passes it), -DUPPER_FIRST (the page's bit before the chunk's).
 */
/* Optimised builds define it, and then nothing below would be checked. */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef MO_SWAP
#define MO_SWAP memory_order_acq_rel
#endif
#ifndef MO_RAISE
#define MO_RAISE memory_order_acq_rel
#endif
#ifndef MO_LOWER
#define MO_LOWER memory_order_acq_rel
#endif
#ifndef MO_RECHECK
#define MO_RECHECK memory_order_acquire
#endif
#define RELAXED memory_order_relaxed

/* Stale bits, as after a take. */
static atomic_uint chunk_word;
static atomic_uint chunk_summary = 1;
static atomic_uint grain_page = 1;

static void set_bit(atomic_uint *summary)
{
#ifdef SKIP_IF_SET
    if (atomic_load_explicit(summary, memory_order_acquire))
        return;
#endif
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

static void give(unsigned mask)
{
    unsigned seen = atomic_load_explicit(&chunk_word, RELAXED);
    while (!atomic_compare_exchange_strong_explicit(
        &chunk_word, &seen, seen | mask, MO_SWAP, RELAXED))
        continue;
    if (!seen)
        raise_bits();
}

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
