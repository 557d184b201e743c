/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of the buddy's words, for a checker of C11's memory model:
 * three levels, one page of two chunks with two grains each. `contents` and
 * `run_length` are plain memory of whoever holds the grain, so that an edge
 * that is missing is a data race; `classes` is relaxed, as in the product.
 * Under a plain compiler it is one run of the same program.
 *
 * By default two threads take a grain each while a third takes the page. With
 * -DTRIM a give leaves its word open and a fourth thread closes it.
 *
 * Weakenings: -DMO_TAKE=memory_order_relaxed, -DMO_GIVE=memory_order_release,
 * -DMO_GIVE=memory_order_acquire, -DMO_OPEN=memory_order_relaxed, with TRIM
 * -DMO_TRIM=memory_order_release and -DMO_TRIM=memory_order_acquire.
 */
/* Optimised builds define it, and then nothing below would be checked. */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef MO_TAKE
#define MO_TAKE memory_order_acquire
#endif
#ifndef MO_GIVE
#define MO_GIVE memory_order_acq_rel
#endif
#ifndef MO_OPEN
#define MO_OPEN memory_order_release
#endif
#ifndef MO_TRIM
#define MO_TRIM memory_order_acq_rel
#endif
#define RELAXED memory_order_relaxed

#define FULL 3U
#define NONE 4U

static atomic_uint free_pages = 1;
static atomic_uint page_word;
static atomic_uint chunk_words[2];
static atomic_uint classes[4];
static unsigned contents[4];

#ifdef TRIM
static const bool stays_open = true;
#else
static const bool stays_open = false;
#endif

static bool swap(atomic_uint *word, unsigned *seen, unsigned value,
                 memory_order order)
{
    return atomic_compare_exchange_strong_explicit(word, seen, value, order,
                                                   RELAXED);
}

/* The lowest set bit, cleared; 0 when there was none. */
static unsigned take_bit(atomic_uint *word)
{
    unsigned seen = atomic_load_explicit(word, RELAXED);
    while (seen) {
        if (swap(word, &seen, seen & (seen - 1), MO_TAKE))
            return seen & ~(seen - 1);
    }
    return 0;
}

static void give_page(void)
{
    unsigned seen = atomic_load_explicit(&free_pages, RELAXED);
    do {
        assert(seen == 0);
    } while (!swap(&free_pages, &seen, 1, MO_GIVE));
}

/* Returns whether the word was filled, and so retired. */
static bool give_bits(atomic_uint *word, unsigned mask, bool may_stay_open)
{
    unsigned seen = atomic_load_explicit(word, RELAXED);
    unsigned fresh, filled;
    do {
        assert(!(seen & mask));
        filled = seen | mask;
        fresh = filled == FULL && !may_stay_open ? 0 : filled;
    } while (!swap(word, &seen, fresh, MO_GIVE));
    return filled == FULL && !may_stay_open;
}

static void give_chunk(unsigned chunk)
{
    if (give_bits(&page_word, 1U << chunk, false))
        give_page();
}

static void give_grain(unsigned grain)
{
    if (give_bits(&chunk_words[grain / 2], 1U << grain % 2, stays_open))
        give_chunk(grain / 2);
}

static unsigned take_grain(void)
{
    for (unsigned chunk = 0; chunk < 2; chunk++) {
        unsigned bit = take_bit(&chunk_words[chunk]);
        if (bit)
            return 2 * chunk + bit / 2;
    }
    unsigned bit = take_bit(&page_word);
    if (!bit) {
        if (!take_bit(&free_pages))
            return NONE;
        atomic_store_explicit(&page_word, 2, MO_OPEN);
        bit = 1;
    }
    atomic_store_explicit(&chunk_words[bit / 2], 2, MO_OPEN);
    return bit / 2 * 2;
}

/* What a holder does: nothing of the last holder's may be seen or be late. */
static void use_grain(unsigned grain)
{
    assert(atomic_load_explicit(&classes[grain], RELAXED) == 0);
    atomic_store_explicit(&classes[grain], 1, RELAXED);
    contents[grain]++;
    atomic_store_explicit(&classes[grain], 0, RELAXED);
}

static void *grain_user(void *unused)
{
    unsigned grain = take_grain();
    if (grain != NONE) {
        use_grain(grain);
        give_grain(grain);
    }
    return unused;
}

static void *page_user(void *unused)
{
    if (take_bit(&free_pages)) {
        for (unsigned grain = 0; grain < 4; grain++)
            use_grain(grain);
        give_page();
    }
    return unused;
}

static void close_chunk(unsigned chunk)
{
    unsigned seen = FULL;
    if (swap(&chunk_words[chunk], &seen, 0, MO_TRIM))
        give_chunk(chunk);
}

static void *trimmer(void *unused)
{
    close_chunk(0);
    return unused;
}

int main(void)
{
#ifdef TRIM
    void *(*const starts[])(void *) = {grain_user, trimmer, page_user};
#else
    void *(*const starts[])(void *) = {grain_user, grain_user, page_user};
    (void)trimmer;
#endif
    pthread_t threads[3];
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, starts[i], NULL);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    close_chunk(0);
    close_chunk(1);
    assert(atomic_load(&free_pages) == 1 && atomic_load(&page_word) == 0);
    assert(atomic_load(&chunk_words[0]) == 0);
    assert(atomic_load(&chunk_words[1]) == 0);
    return 0;
}
