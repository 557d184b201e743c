/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of a depot's place (pool/cache/flush.c), for a checker of
 * C11's memory model. `address` is plain memory of the bundle's holder, and
 * `contents` of who holds the blocks, so that an edge that is missing is a data
 * race. Two threads put a bundle each; two take one, and put it back.
 *
 * Weakenings: -DMO_PUT=memory_order_relaxed, -DMO_TAKE=memory_order_relaxed.
 */
/* Optimised builds define it, and then nothing below would be checked. */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef MO_PUT
#define MO_PUT memory_order_release
#endif
#ifndef MO_TAKE
#define MO_TAKE memory_order_acquire
#endif
#define RELAXED memory_order_relaxed

struct bundle {
    unsigned address; /* 1 or 2 */
};

static struct bundle bundles[2];
static _Atomic(struct bundle *) place;
static unsigned contents[3];

static bool put(struct bundle *bundle)
{
    struct bundle *nobody = NULL;
    if (atomic_load_explicit(&place, RELAXED))
        return false;
    return atomic_compare_exchange_strong_explicit(&place, &nobody, bundle,
                                                   MO_PUT, RELAXED);
}

static struct bundle *take(void)
{
    if (!atomic_load_explicit(&place, RELAXED))
        return NULL;
    return atomic_exchange_explicit(&place, NULL, MO_TAKE);
}

static void use_and_put(struct bundle *bundle, unsigned address)
{
    contents[address]++;
    bundle->address = address;
    (void)put(bundle);
}

static void *low_putter(void *unused)
{
    use_and_put(&bundles[0], 1);
    return unused;
}

static void *high_putter(void *unused)
{
    use_and_put(&bundles[1], 2);
    return unused;
}

static void *taker(void *unused)
{
    struct bundle *bundle = take();
    if (bundle) {
        unsigned address = bundle->address;
        assert(address == 1 || address == 2);
        use_and_put(bundle, address);
    }
    return unused;
}

int main(void)
{
    void *(*const starts[])(void *) = {low_putter, high_putter, taker, taker};
    pthread_t threads[4];
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, starts[i], NULL);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
