/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of a stack that is taken whole: abandoned thread states
 * (pool/cache/registry.c, reclaim.c), for a checker of C11's memory model. The
 * links and `blocks` are plain memory of the batch's holder and `contents` of
 * who holds the blocks, so that an edge that is missing is a data race. Two
 * threads publish a batch each. One polls, and disposes of the first batch; one
 * is on the batches' stream and has a block out of the newest, done or not. Both
 * put back what is left: for nothing, or joined behind what came meanwhile. At
 * rest no block is lost. It does more than the product: that puts back for
 * nothing alone, else pushes one by one.
 *
 * Weakenings: -DMO_PUSH=memory_order_relaxed, -DMO_TAKE=memory_order_relaxed,
 * -DMO_BACK=memory_order_relaxed, -DMO_NEWER=memory_order_relaxed (the taking
 * of what came meanwhile), -DPOP_ONE (one batch is popped, not the whole
 * stack), -DBACK_BY_STORE (a plain store, whatever came meanwhile),
 * -DDROP_NEWER (what came meanwhile is not joined).
 */
/* Optimised builds define it, and then nothing below would be checked. */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#ifndef MO_PUSH
#define MO_PUSH memory_order_release
#endif
#ifndef MO_TAKE
#define MO_TAKE memory_order_acquire
#endif
#ifndef MO_BACK
#define MO_BACK memory_order_release
#endif
#ifndef MO_NEWER
#define MO_NEWER memory_order_acquire
#endif
#define RELAXED memory_order_relaxed

struct batch {
    struct batch *next;
    unsigned blocks;
};

static struct batch batches[2];
static _Atomic(struct batch *) retired;
static unsigned contents[2];
static unsigned disposed; /* blocks; so are these */
static unsigned reused;

static void publish(unsigned index)
{
    contents[index]++;
    batches[index].blocks = 2;
    struct batch *seen = atomic_load_explicit(&retired, RELAXED);
    do {
        batches[index].next = seen;
    } while (!atomic_compare_exchange_strong_explicit(
        &retired, &seen, &batches[index], MO_PUSH, RELAXED));
}

static void *low_publisher(void *unused)
{
    publish(0);
    return unused;
}

static void *high_publisher(void *unused)
{
    publish(1);
    return unused;
}

static struct batch *take(void)
{
    if (!atomic_load_explicit(&retired, RELAXED))
        return NULL;
#ifdef POP_ONE
    struct batch *first = atomic_load_explicit(&retired, memory_order_acquire);
    while (first && !atomic_compare_exchange_strong_explicit(
                        &retired, &first, first->next, memory_order_acquire,
                        memory_order_acquire))
        continue;
    if (first)
        first->next = NULL;
    return first;
#else
    return atomic_exchange_explicit(&retired, NULL, MO_TAKE);
#endif
}

static struct batch *joined(struct batch *first, struct batch *second)
{
    struct batch *last = first;
    if (!first)
        return second;
    while (last->next)
        last = last->next;
    last->next = second;
    return first;
}

static void put_back(struct batch *newest)
{
    if (!newest)
        return;
#ifdef BACK_BY_STORE
    atomic_store_explicit(&retired, newest, MO_BACK);
#else
    struct batch *nothing = NULL;
    while (!atomic_compare_exchange_strong_explicit(&retired, &nothing, newest,
                                                    MO_BACK, RELAXED)) {
        struct batch *newer =
            atomic_exchange_explicit(&retired, NULL, MO_NEWER);
#ifdef DROP_NEWER
        (void)newer;
#else
        newest = joined(newer, newest);
#endif
        nothing = NULL;
    }
#endif
}

/* One batch is done, the other is not. */
static void *poller(void *unused)
{
    struct batch *newest = take();
    struct batch **at = &newest;
    while (*at && *at != &batches[0])
        at = &(*at)->next;
    if (*at) {
        contents[0]++;
        disposed += batches[0].blocks;
        *at = (*at)->next;
    }
    put_back(newest);
    return unused;
}

static void *reuser(void *unused)
{
    struct batch *newest = take();
    if (newest) {
        contents[newest - batches]++;
        newest->blocks--;
        reused++;
    }
    put_back(newest);
    return unused;
}

int main(void)
{
    void *(*const starts[])(void *) = {low_publisher, high_publisher, poller,
                                       reuser};
    pthread_t threads[4];
    unsigned stacked = 0;
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, starts[i], NULL);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (struct batch *at = atomic_load(&retired); at; at = at->next)
        stacked += at->blocks;
    assert(stacked + disposed + reused == 4);
    return 0;
}
