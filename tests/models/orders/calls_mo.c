/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The memory orders of a heap's lock and of what is left for its holder
 * (pool/heap/combine.c, lock.c), for a checker of C11's memory model: two callers.
 * With -DFREE there is one, and a free that leaves its block where the lock is taken;
 * with -DAWAIT the free waits for the lock, as one without records does.
 *
 * `contents` is plain memory of who has the lock, `found` and `next` of who has the
 * call, `below` of who has the block, so that an edge that is missing is a data race.
 * A caller that returns writes its call again: its stack is used for something else.
 * futex(2) is a look at the word: who finds what it expects sleeps, which ends its
 * thread here; who is woken goes on as one that found another value.
 *
 * The claim: at the end each call and each block was done once, and who sleeps was
 * woken. Under a plain compiler it is one run of the same program.
 *
 * Weakenings: each MO_... below, and
 *   NO_LOCK_LOOK  who goes to sleep does not look at the lock
 *   WAKES_LATE    who goes to sleep reads how often sleepers were woken after the
 *                 look at its call
 *   NO_LOOK       who lets go of the lock does not look at what is left
 *   LOOK_FIRST    the look comes before the lock is let go of
 *   NO_TRY        who left something does not try the lock again
 *   NEXT_LATE     the next call is read after this one is said to be done
 *   KEEP_HELD     with -DAWAIT: who sleeps does not say so in the lock
 */
/* Optimised builds define it, and then nothing below would be checked. */
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef MO_TRY
#define MO_TRY memory_order_seq_cst
#endif
#ifndef MO_REFUSED
#define MO_REFUSED memory_order_seq_cst
#endif
#ifndef MO_LET_GO
#define MO_LET_GO memory_order_seq_cst
#endif
#ifndef MO_AWAIT
#define MO_AWAIT memory_order_acquire
#endif
#ifndef MO_CALL
#define MO_CALL memory_order_seq_cst
#endif
#ifndef MO_BLOCK
#define MO_BLOCK memory_order_seq_cst
#endif
#ifndef MO_HELP
#define MO_HELP memory_order_seq_cst
#endif
#ifndef MO_CALLS_LOOK
#define MO_CALLS_LOOK memory_order_seq_cst
#endif
#ifndef MO_BLOCKS_LOOK
#define MO_BLOCKS_LOOK memory_order_seq_cst
#endif
#ifndef MO_TAKE_CALLS
#define MO_TAKE_CALLS memory_order_acquire
#endif
#ifndef MO_TAKE_BLOCKS
#define MO_TAKE_BLOCKS memory_order_acquire
#endif
#ifndef MO_DONE
#define MO_DONE memory_order_release
#endif
#ifndef MO_DONE_LOOK
#define MO_DONE_LOOK memory_order_acquire
#endif
#ifndef MO_SLEEP
#define MO_SLEEP memory_order_seq_cst
#endif
#ifndef MO_SLEEPERS_LOOK
#define MO_SLEEPERS_LOOK memory_order_seq_cst
#endif
#ifndef MO_LOCK_LOOK
#define MO_LOCK_LOOK memory_order_seq_cst
#endif
#ifndef MO_WAKE
#define MO_WAKE memory_order_release
#endif
#ifndef MO_WAKES_LOOK
#define MO_WAKES_LOOK memory_order_acquire
#endif
#define RELAXED memory_order_relaxed

#ifdef AWAIT
#define FREE
#endif
#ifdef FREE
#define CALLERS 1U
#else
#define CALLERS 2U
#endif
#define OPEN 0U
#define HELD 1U
#define AWAITED 2U
#ifdef KEEP_HELD
#define TAKEN HELD
#else
#define TAKEN AWAITED
#endif

struct call {
    struct call *next;
    unsigned found;
    atomic_bool is_done;
};

static atomic_uint state;
static _Atomic(struct call *) left;
static atomic_uint inbox;
static atomic_uint sleepers;
static atomic_uint wakes;
static struct call calls[CALLERS];
static unsigned below[2];
static unsigned contents;

/* At the end. */
static bool is_asleep[CALLERS];
static unsigned asleep_since[CALLERS];
static bool awaits_lock;
static atomic_uint lock_wakes;
static unsigned blocks;

static void empty_inbox(void)
{
    if (!atomic_load_explicit(&inbox, RELAXED))
        return;
    unsigned id = atomic_exchange_explicit(&inbox, 0, MO_TAKE_BLOCKS);
    while (id) {
        contents++;
        blocks++;
        id = below[id];
    }
}

static void run(struct call *call)
{
    call->found = ++contents;
}

static void do_calls(void)
{
    struct call *in_order = NULL;
    if (!atomic_load_explicit(&left, RELAXED))
        return;
    struct call *call = atomic_exchange_explicit(&left, NULL, MO_TAKE_CALLS);
    while (call) {
        struct call *next = call->next;
        call->next = in_order;
        in_order = call;
        call = next;
    }
    while (in_order) {
        struct call *next = in_order->next;
        empty_inbox();
        run(in_order);
        atomic_store_explicit(&in_order->is_done, true, MO_DONE);
#ifdef NEXT_LATE
        next = in_order->next;
#endif
        in_order = next;
    }
}

static bool is_any_left(void)
{
    return atomic_load_explicit(&left, MO_CALLS_LOOK) ||
           atomic_load_explicit(&inbox, MO_BLOCKS_LOOK);
}

static bool lock_try(void)
{
    unsigned open = OPEN;
    return atomic_compare_exchange_strong_explicit(&state, &open, HELD, MO_TRY,
                                                   MO_REFUSED);
}

static bool try_lock(void)
{
    if (atomic_load_explicit(&state, RELAXED) != OPEN || !lock_try())
        return false;
    empty_inbox();
    return true;
}

static void let_go(void)
{
    if (atomic_exchange_explicit(&state, OPEN, MO_LET_GO) == AWAITED)
        atomic_fetch_add_explicit(&lock_wakes, 1, RELAXED);
}

static void wake_sleepers(void)
{
    if (atomic_load_explicit(&sleepers, MO_SLEEPERS_LOOK))
        atomic_fetch_add_explicit(&wakes, 1, MO_WAKE);
}

static void unlock(void)
{
    bool is_more;
    do {
        empty_inbox();
        do_calls();
#ifdef LOOK_FIRST
        is_more = is_any_left();
#endif
        let_go();
        wake_sleepers();
#if defined(NO_LOOK)
        is_more = false;
#elif !defined(LOOK_FIRST)
        is_more = is_any_left();
#endif
    } while (is_more && lock_try());
}

static void help(void)
{
#ifndef NO_TRY
    if (atomic_load_explicit(&state, MO_HELP) == OPEN && lock_try())
        unlock();
#endif
}

static void leave_call(struct call *call)
{
    struct call *first = atomic_load_explicit(&left, RELAXED);
    do {
        call->next = first;
    } while (!atomic_compare_exchange_weak_explicit(&left, &first, call,
                                                    MO_CALL, RELAXED));
}

/* Returns whether it is done; otherwise it sleeps. The spin before ends at once. */
static bool sleep_until_done(unsigned caller)
{
    struct call *call = &calls[caller];
    atomic_fetch_add_explicit(&sleepers, 1, MO_SLEEP);
    while (true) {
        unsigned seen = atomic_load_explicit(&wakes, MO_WAKES_LOOK);
#ifndef NO_LOCK_LOOK
        (void)atomic_load_explicit(&state, MO_LOCK_LOOK);
#endif
        if (atomic_load_explicit(&call->is_done, MO_DONE_LOOK))
            break;
#ifdef WAKES_LATE
        seen = atomic_load_explicit(&wakes, MO_WAKES_LOOK);
#endif
        if (atomic_load_explicit(&wakes, RELAXED) == seen) {
            asleep_since[caller] = seen;
            is_asleep[caller] = true;
            return false;
        }
    }
    atomic_fetch_sub_explicit(&sleepers, 1, RELAXED);
    return true;
}

static void *caller(void *number)
{
    unsigned mine = (unsigned)(size_t)number;
    struct call *call = &calls[mine];
    if (try_lock()) {
        run(call);
        unlock();
    } else {
        leave_call(call);
        help();
        if (!sleep_until_done(mine))
            return NULL;
    }
    assert(call->found);
    call->next = NULL;
    return NULL;
}

#ifdef AWAIT
/* Returns whether it has the lock; otherwise it sleeps. */
static bool lock_take(void)
{
    if (lock_try())
        return true;
    while (atomic_exchange_explicit(&state, TAKEN, MO_AWAIT) != OPEN) {
        if (atomic_load_explicit(&state, RELAXED) == TAKEN) {
            awaits_lock = true;
            return false;
        }
    }
    return true;
}
#elif defined(FREE)
static void leave_block(unsigned id)
{
    unsigned first = atomic_load_explicit(&inbox, RELAXED);
    do {
        below[id] = first;
    } while (!atomic_compare_exchange_weak_explicit(&inbox, &first, id,
                                                    MO_BLOCK, RELAXED));
}
#endif

#ifdef FREE
static void *freer(void *unused)
{
#ifdef AWAIT
    if (!lock_take())
        return unused;
    empty_inbox();
#else
    if (!try_lock()) {
        leave_block(1);
        help();
        return unused;
    }
#endif
    contents++;
    blocks++;
    unlock();
    return unused;
}
#endif

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, caller, (void *)0);
#ifdef FREE
    pthread_create(&threads[1], NULL, freer, NULL);
#else
    pthread_create(&threads[1], NULL, caller, (void *)1);
#endif
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < CALLERS; i++) {
        assert(calls[i].found);
        assert(!is_asleep[i] || asleep_since[i] != atomic_load(&wakes));
    }
    assert(!awaits_lock || atomic_load(&lock_wakes));
    assert(blocks == 2 - CALLERS - awaits_lock && contents == CALLERS + blocks);
    assert(!atomic_load(&left) && !atomic_load(&inbox));
    assert(atomic_load(&state) == OPEN);
    return 0;
}
