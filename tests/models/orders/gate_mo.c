/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of the last look (pool/cache/gate.h, final_scan.c), for a
 * checker of C11's memory model. One unit of memory is in one of two words, or
 * in the hands of a thread that takes it out of one and gives it to the other
 * within one operation. So it is never exhausted, and who says so is wrong. The
 * searcher looks at the words in the order in which the unit passes it by.
 * With -DIMPATIENT who finds the gate closed opens it. With -DMERGE the thread
 * that moves the unit gives a neighbour of it, which closes a word and so moves
 * it: frees do not ask the gate.
 *
 * Weakenings: -DMO_BEGIN=memory_order_acq_rel,
 * -DMO_GATE_LOOK=memory_order_acquire, -DMO_CLOSE=memory_order_acq_rel,
 * -DMO_COUNT_LOOK=memory_order_acquire, -DMO_COUNT_LOOK=memory_order_relaxed,
 * -DMO_END=memory_order_relaxed, -DMO_GIVE=memory_order_acquire,
 * -DMO_TAKE=memory_order_relaxed, -DNO_GATE (who takes does not look at it);
 * with -DIMPATIENT, -DOPEN_BY_STORE; with -DMERGE, -DONE_LOOK (the counters are
 * not read again), -DNO_FENCE (between the search and that) and
 * -DMO_CLOSING=memory_order_acquire (of who closes the word).
 */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef MO_BEGIN
#define MO_BEGIN memory_order_seq_cst
#endif
#ifndef MO_GATE_LOOK
#define MO_GATE_LOOK memory_order_seq_cst
#endif
#ifndef MO_CLOSE
#define MO_CLOSE memory_order_seq_cst
#endif
#ifndef MO_COUNT_LOOK
#define MO_COUNT_LOOK memory_order_seq_cst
#endif
#ifndef MO_END
#define MO_END memory_order_release
#endif
#ifndef MO_GIVE
#define MO_GIVE memory_order_acq_rel
#endif
#ifndef MO_TAKE
#define MO_TAKE memory_order_acquire
#endif
#ifndef MO_CLOSING
#define MO_CLOSING memory_order_acq_rel
#endif
#define RELAXED memory_order_relaxed
#define MOVERS 2U

static atomic_uint words[2] = {1, 0};
static atomic_uint operations[MOVERS];
static atomic_uint gate;

static void begin(atomic_uint *operation)
{
    unsigned before = atomic_load_explicit(operation, RELAXED);
    atomic_exchange_explicit(operation, before + 1, MO_BEGIN);
}

static void end(atomic_uint *operation)
{
    unsigned before = atomic_load_explicit(operation, RELAXED);
    atomic_store_explicit(operation, before + 1, MO_END);
}

#ifndef MERGE
static bool is_gate_open(void)
{
#ifdef NO_GATE
    return true;
#else
    return atomic_load_explicit(&gate, MO_GATE_LOOK) % 2 == 0;
#endif
}

#ifdef IMPATIENT
/* What a thread does that has waited at the gate for long, outside. */
static void open_impatiently(void)
{
    unsigned ticket = atomic_load(&gate);
    if (ticket % 2)
        atomic_compare_exchange_strong(&gate, &ticket, ticket + 1);
}
#endif

static bool pass_gate(atomic_uint *operation)
{
    if (is_gate_open())
        return true;
#ifdef IMPATIENT
    end(operation);
    open_impatiently();
    begin(operation);
    return is_gate_open();
#else
    (void)operation;
    return false;
#endif
}
#endif

static bool try_take(atomic_uint *word, memory_order order)
{
    unsigned seen = 1;
    return atomic_compare_exchange_strong_explicit(word, &seen, 0, order,
                                                   RELAXED);
}

/* From the word of its own index to the other. */
static void *move(void *argument)
{
    atomic_uint *operation = argument;
    size_t from = (size_t)(operation - operations);
    begin(operation);
#ifdef MERGE
    bool is_moved = try_take(&words[from], MO_CLOSING);
#else
    bool is_moved = pass_gate(operation) && try_take(&words[from], MO_TAKE);
#endif
    if (is_moved)
        atomic_fetch_or_explicit(&words[1 - from], 1, MO_GIVE);
    end(operation);
    return NULL;
}

static bool are_over(unsigned *out_sum)
{
    bool are_over = true;
    unsigned sum = 0;
    for (size_t i = 0; i < MOVERS; i++) {
        unsigned operation =
            atomic_load_explicit(&operations[i], MO_COUNT_LOOK);
        are_over = are_over && operation % 2 == 0;
        sum += operation;
    }
    *out_sum = sum;
    return are_over;
}

/* Whether it is still closed by us: only then it counts. */
static bool reopen(unsigned ticket)
{
#ifdef OPEN_BY_STORE
    atomic_store(&gate, ticket + 1);
    return true;
#else
    return atomic_compare_exchange_strong(&gate, &ticket, ticket + 1);
#endif
}

static void *search(void *unused)
{
    unsigned before;
    unsigned after;
    unsigned open = 0;
    if (!atomic_compare_exchange_strong_explicit(&gate, &open, 1, MO_CLOSE,
                                                 RELAXED))
        return unused;
    bool is_resting = are_over(&before);
    bool is_found = atomic_load_explicit(&words[1], RELAXED) ||
                    atomic_load_explicit(&words[0], RELAXED);
#ifndef NO_FENCE
    atomic_thread_fence(memory_order_acquire);
#endif
#ifdef ONE_LOOK
    bool is_over = is_resting;
    after = before;
#else
    bool is_over = are_over(&after);
#endif
    bool is_mine = reopen(1);
    assert(is_found || !is_resting || !is_over || before != after || !is_mine);
    return unused;
}

int main(void)
{
    pthread_t threads[MOVERS + 1];
    for (size_t i = 0; i < MOVERS; i++)
        pthread_create(&threads[i], NULL, move, &operations[i]);
    pthread_create(&threads[MOVERS], NULL, search, NULL);
    for (size_t i = 0; i <= MOVERS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
