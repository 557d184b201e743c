/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of a segment's publication and withdrawal
 * (pool/segment/lookup.c, pool/heap/done.c), for a checker of C11's memory
 * model: one page. A leaf's zeroes are plain stores, and so are uses of the
 * memory and its release, so that an edge that is missing is a data race. One
 * thread grows and then trims; one takes the page, looks up its address and by
 * that the page, and gives it back; one looks up an address that it does not
 * hold.
 *
 * Weakenings: -DMO_LEAF=memory_order_relaxed and -DMO_LEAF_LOOK=... (SL),
 * -DMO_ENTRY=... and -DMO_ENTRY_LOOK=... (SE), -DMO_ADD=..., -DMO_TAKE=... and
 * -DMO_GIVE=..., -DMO_WITHDRAW=... (HK, of
 * which a swap is the lock); -DADD_FIRST (the page is free before
 * it is linked), -DUNLINK_FIRST (it is unlinked before it is claimed).
 */
/* Optimised builds define it, and then nothing below would be checked. */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#ifndef MO_LEAF
#define MO_LEAF memory_order_release
#endif
#ifndef MO_LEAF_LOOK
#define MO_LEAF_LOOK memory_order_acquire
#endif
#ifndef MO_ENTRY
#define MO_ENTRY memory_order_release
#endif
#ifndef MO_ENTRY_LOOK
#define MO_ENTRY_LOOK memory_order_acquire
#endif
#ifndef MO_ADD
#define MO_ADD memory_order_acq_rel
#endif
#ifndef MO_TAKE
#define MO_TAKE memory_order_acquire
#endif
#ifndef MO_GIVE
#define MO_GIVE memory_order_acq_rel
#endif
#ifndef MO_WITHDRAW
#define MO_WITHDRAW memory_order_acquire
#endif
#define RELAXED memory_order_relaxed

#define ADDRESS 7U
/* The product stores 0; here it differs from what was never linked. */
#define UNLINKED 9U
#define PAGE_PLUS_ONE 1U

struct leaf {
    atomic_uint page_plus_one;
};

static struct leaf the_leaf;
static _Atomic(struct leaf *) leaves;
static atomic_uint page_address;
static atomic_uint free_pages;
static unsigned memory;

/* 0 where the address leads nowhere. */
static unsigned page_of_address(void)
{
    struct leaf *leaf = atomic_load_explicit(&leaves, MO_LEAF_LOOK);
    return leaf ? atomic_load_explicit(&leaf->page_plus_one, MO_ENTRY_LOOK) : 0;
}

static bool claim(memory_order order)
{
    unsigned seen = 1;
    return atomic_compare_exchange_strong_explicit(&free_pages, &seen, 0, order,
                                                   RELAXED);
}

static void link_page(void)
{
    atomic_store_explicit(&page_address, ADDRESS, RELAXED);
    atomic_store_explicit(&the_leaf.page_plus_one, PAGE_PLUS_ONE, MO_ENTRY);
}

static void unlink_page(void)
{
    atomic_store_explicit(&the_leaf.page_plus_one, 0, RELAXED);
    atomic_store_explicit(&page_address, UNLINKED, RELAXED);
}

static void grow(void)
{
    memory = 1;
    atomic_init(&the_leaf.page_plus_one, 0);
    atomic_store_explicit(&leaves, &the_leaf, MO_LEAF);
#ifndef ADD_FIRST
    link_page();
#endif
    atomic_fetch_or_explicit(&free_pages, 1, MO_ADD);
#ifdef ADD_FIRST
    link_page();
#endif
}

static void trim(void)
{
#ifdef UNLINK_FIRST
    unlink_page();
#endif
    if (!claim(MO_WITHDRAW))
        return;
#ifndef UNLINK_FIRST
    unlink_page();
#endif
    memory = 0;
}

static void *grower(void *unused)
{
    grow();
    trim();
    return unused;
}

static void *holder(void *unused)
{
    if (!claim(MO_TAKE))
        return unused;
    assert(atomic_load_explicit(&page_address, RELAXED) == ADDRESS);
    assert(page_of_address() == PAGE_PLUS_ONE);
    memory++;
    atomic_fetch_or_explicit(&free_pages, 1, MO_GIVE);
    return unused;
}

static void *looker(void *unused)
{
    if (page_of_address()) {
        unsigned address = atomic_load_explicit(&page_address, RELAXED);
        /* It leads back, or was trimmed meanwhile. */
        assert(address == ADDRESS || address == UNLINKED);
    }
    return unused;
}

int main(void)
{
    void *(*const starts[])(void *) = {grower, holder, looker, looker};
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, starts[i], NULL);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
