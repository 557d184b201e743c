/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of the words of extents (pool/heap), for a checker of C11's
 * memory model: two heaps, four grains, and records that are used again. Words,
 * lengths and edges are relaxed. `next` and `heads` are plain memory of who has the
 * heap's lock, and `contents` of who has the grain, so that an edge that is missing
 * is a data race. Under a plain compiler it is one run of the same program.
 *
 * The first heap has grain 1, the second one grain 3. One thread frees grain 0 into
 * the first, one grain 2 into the second. The third takes grain 1 out of the first,
 * which gives its record up or cuts it, and frees it into the second, whose new
 * record may be that one.
 *
 * Weakenings: -DMO_LOCK=memory_order_relaxed, -DMO_UNLOCK=memory_order_relaxed,
 * -DTWO_WORDS (the owner is in a word of its own, which a record that is given up
 * keeps), -DKEEP_WORD (of a record that is given up), -DANY_OWNER (a word is
 * believed whosever it is), -DEND_OF_ANYBODY (a second free is seen by the end of
 * an extent of any owner).
 */
/* Optimised builds define it, and then nothing below would be checked. */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef MO_LOCK
#define MO_LOCK memory_order_acquire
#endif
#ifndef MO_UNLOCK
#define MO_UNLOCK memory_order_release
#endif
#define RELAXED memory_order_relaxed

#define GRAINS 4U
#define RECORDS 4U
#define FIRST 1U
#define SECOND 2U
#define OWNER(word) ((word)&0xeU)
#define WORD(start, owner) ((start) << 4 | (owner) << 1 | 1U)

static atomic_uint locks[3]; /* 0: of the spare records */
static atomic_uint where[RECORDS + 1] = {0, WORD(1, FIRST), WORD(3, SECOND)};
static atomic_uint lengths[RECORDS + 1] = {0, 1, 1};
static atomic_uint edges[GRAINS] = {0, 1, 1, 2}; /* grain 2: out of date */
#ifdef TWO_WORDS
static atomic_uint owners[RECORDS + 1] = {0, FIRST, SECOND};
#endif
static unsigned heads[3] = {3, 1, 2};
static unsigned next[RECORDS + 1] = {0, 0, 0, 4, 0};
static unsigned contents[GRAINS];

static unsigned load(atomic_uint *word)
{
    return atomic_load_explicit(word, RELAXED);
}

static void store(atomic_uint *word, unsigned value)
{
    atomic_store_explicit(word, value, RELAXED);
}

static void lock(unsigned owner)
{
    while (atomic_exchange_explicit(&locks[owner], 1, MO_LOCK))
        continue;
}

static void unlock(unsigned owner)
{
    atomic_store_explicit(&locks[owner], 0, MO_UNLOCK);
}

static void push(unsigned list, unsigned id)
{
    next[id] = heads[list];
    heads[list] = id;
}

static void unlist(unsigned owner, unsigned id)
{
    unsigned *at = &heads[owner];
    while (*at != id) {
        assert(*at);
        at = &next[*at];
    }
    *at = next[id];
}

static unsigned take_record(void)
{
    lock(0);
    unsigned id = heads[0];
    assert(id);
    heads[0] = next[id];
    unlock(0);
    return id;
}

static void give_up(unsigned id)
{
#ifndef KEEP_WORD
    store(&where[id], 0);
#endif
    lock(0);
    push(0, id);
    unlock(0);
}

static void list(unsigned owner, unsigned id, unsigned start, unsigned end)
{
    store(&lengths[id], end - start);
#ifdef TWO_WORDS
    store(&owners[id], owner);
#endif
    store(&where[id], WORD(start, owner));
    store(&edges[start], id);
    store(&edges[end - 1], id);
    push(owner, id);
}

static unsigned load_word(unsigned id)
{
#ifdef TWO_WORDS
    unsigned owner = load(&owners[id]);
    return (load(&where[id]) & ~0xeU) | owner << 1;
#else
    return load(&where[id]);
#endif
}

static bool is_held(unsigned word, unsigned owner)
{
#ifdef ANY_OWNER
    (void)owner;
    return word & 1;
#else
    return (word & 1) && OWNER(word) == owner << 1;
#endif
}

/* A second free; of others' extents the start alone says it. */
static bool is_free_at(unsigned owner, unsigned grain)
{
    unsigned word = load(&where[load(&edges[grain])]);
    if ((word & 1) && word >> 4 == grain)
        return true;
    unsigned id = load(&edges[grain]);
    word = load(&where[id]);
#ifdef END_OF_ANYBODY
    (void)owner;
    return (word & 1) && (word >> 4) + load(&lengths[id]) == grain + 1;
#else
    return is_held(word, owner) &&
           (word >> 4) + load(&lengths[id]) == grain + 1;
#endif
}

/* As in the product, the longest goes on; here the first of them. */
static void join(unsigned owner, unsigned id, unsigned *kept)
{
    unlist(owner, id);
    if (*kept)
        give_up(id);
    else
        *kept = id;
}

static void free_grain(unsigned owner, unsigned grain)
{
    unsigned start = grain;
    unsigned end = grain + 1;
    unsigned kept = 0;
    contents[grain]++;
    lock(owner);
    assert(!is_free_at(owner, grain));
    if (end < GRAINS) {
        unsigned id = load(&edges[end]);
        unsigned word = load_word(id);
        if (is_held(word, owner) && word >> 4 == end) {
            end += load(&lengths[id]);
            join(owner, id, &kept);
        }
    }
    if (start > 0) {
        unsigned id = load(&edges[start - 1]);
        unsigned word = load_word(id);
        if (is_held(word, owner) && (word >> 4) + load(&lengths[id]) == start) {
            start = word >> 4;
            join(owner, id, &kept);
        }
    }
    list(owner, kept ? kept : take_record(), start, end);
    unlock(owner);
}

static void *first_freer(void *unused)
{
    free_grain(FIRST, 0);
    return unused;
}

static void *second_freer(void *unused)
{
    free_grain(SECOND, 2);
    return unused;
}

/* Grain 1 out of the extent that it ends. */
static void *mover(void *unused)
{
    lock(FIRST);
    unsigned id = load(&edges[1]);
    unsigned start = load(&where[id]) >> 4;
    unlist(FIRST, id);
    if (start == 1)
        give_up(id);
    else
        list(FIRST, id, start, 1);
    unlock(FIRST);
    free_grain(SECOND, 1);
    return unused;
}

/* At rest each extent is as its word says, and its neighbour is another's. */
static unsigned check(unsigned owner)
{
    unsigned grains = 0;
    for (unsigned id = heads[owner]; id; id = next[id]) {
        unsigned start = load(&where[id]) >> 4;
        unsigned end = start + load(&lengths[id]);
        assert(load(&where[id]) == WORD(start, owner));
        assert(load(&edges[start]) == id && load(&edges[end - 1]) == id);
        assert(end == GRAINS ||
               load(&where[load(&edges[end])]) != WORD(end, owner));
        grains += end - start;
    }
    return grains;
}

int main(void)
{
    void *(*const starts[])(void *) = {first_freer, second_freer, mover};
    pthread_t threads[3];
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, starts[i], NULL);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert(check(FIRST) == 1 && check(SECOND) == 3);
    return 0;
}
