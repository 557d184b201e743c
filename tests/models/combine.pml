/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Calls on one heap (pool/heap/combine.c). A caller tries the lock. If another has
 * it, the caller leaves its call in a list by one read-modify-write, tries the lock
 * once more, and then waits: it looks whether its call is done, and in the end says
 * that it sleeps, reads how often sleepers were woken, looks once more, and sleeps
 * until they are woken again. Who has the lock does all calls of the list; it lets
 * go of the lock, wakes those who sleep if there are any, and looks at the list
 * again, as long as there is something and the lock can be had.
 *
 * A call lies on its caller's stack, which is gone once the caller has seen that it
 * is done. Each read-modify-write is one step.
 *
 * The claim: each call is done once, by who has the lock, and its caller returns.
 * Nobody touches a call whose caller has returned.
 *
 * Left out: what the calls do, and that they take DONE's lock; memory orders.
 *
 * Ghosts: `holder`, who has the lock; `done`, how often a call was done; `is_gone`,
 * a call whose caller returned; `finished`.
 *
 * Weakenings, each of which must be caught:
 *   NO_LOOK         who lets go of the lock does not look at the list again
 *   LOOK_FIRST      the look comes before the lock is let go of
 *   NO_TRY          who left a call does not try the lock again
 *   SLEEP_AT_ONCE   who waits sleeps without saying so
 *   LOOK_ONCE       who says that it sleeps does not look at its call again
 *   WAKES_LATE      who waits reads how often sleepers were woken after that look
 *   WAKE_FIRST      who has the lock looks for sleepers before it does the calls
 *   LEAVE_BY_STORE  a call is left by a store
 *   TAKE_BY_STORE   the list is read, then emptied by a store
 *   NEXT_LATE       the next call is read after this one is said to be done
 *   DO_LATE         calls are done after the lock was let go of
 */
#ifndef CALLERS
#define CALLERS 3
#endif
#ifndef CALLS
#define CALLS 1
#endif
#define NONE 0

/* A caller's call has its number, plus 1. */
byte next[CALLERS + 1];
bit is_done[CALLERS + 1];
byte list;
bit is_locked;
byte sleepers;
byte wakes;

byte holder;
byte done[CALLERS + 1];
bit is_gone[CALLERS + 1];
byte finished;

inline try_lock()
{
    atomic {
        has_lock = !is_locked;
        if
        :: has_lock ->
            is_locked = 1;
            holder = _pid + 1
        :: else
        fi
    }
}

inline do_call(call)
{
    atomic {
        assert(holder == _pid + 1);
        assert(!is_gone[call] && done[call] == 0);
        done[call] = 1
    }
}

inline take_list()
{
#ifdef TAKE_BY_STORE
    taken = list;
    list = NONE
#else
    atomic {
        taken = list;
        list = NONE
    }
#endif
}

inline read_next()
{
    atomic {
        assert(!is_gone[taken]);
        after = next[taken]
    }
}

inline do_taken()
{
    do
    :: taken != NONE ->
#ifndef NEXT_LATE
        read_next();
#endif
        do_call(taken);
        is_done[taken] = 1;
#ifdef NEXT_LATE
        read_next();
#endif
        taken = after
    :: else -> break
    od
}

inline let_go()
{
    atomic {
        holder = 0;
        is_locked = 0
    }
}

inline wake_sleepers()
{
    if
    :: sleepers != 0 -> wakes++
    :: else
    fi
}

inline do_and_unlock()
{
    take_list();
#ifdef WAKE_FIRST
    wake_sleepers();
#endif
#ifdef DO_LATE
    let_go();
    do_taken()
#else
    do_taken();
    let_go()
#endif
#ifndef WAKE_FIRST
    ;
    wake_sleepers()
#endif
}

/* With the lock. */
inline unlock()
{
#ifdef LOOK_FIRST
    do
    :: list != NONE ->
        take_list();
        do_taken()
    :: else -> break
    od;
    let_go();
    wake_sleepers()
#else
    do_and_unlock();
#ifndef NO_LOOK
    do
    :: list == NONE -> break
    :: else ->
        try_lock();
        if
        :: has_lock -> do_and_unlock()
        :: else -> break
        fi
    od
#endif
#endif
}

inline leave_call(call)
{
#ifdef LEAVE_BY_STORE
    after = list;
    next[call] = after;
    list = call
#else
    do
    :: after = list;
        next[call] = after;
        atomic {
            if
            :: list == after ->
                list = call;
                break
            :: else
            fi
        }
    od
#endif
}

inline help()
{
    try_lock();
    if
    :: has_lock -> unlock()
    :: else
    fi
}

/* Without a spin, which may end at any time. */
inline await(call)
{
#ifndef SLEEP_AT_ONCE
    atomic { sleepers++ };
#endif
    do
    ::
#ifndef WAKES_LATE
        seen = wakes;
#endif
        if
#ifndef LOOK_ONCE
        :: is_done[call] -> break
#endif
        :: else
        fi;
#ifdef WAKES_LATE
        seen = wakes;
#endif
        /* futex(2) looks at the number and sleeps in one step. */
        wakes != seen
#ifdef LOOK_ONCE
        ;
        break
#endif
    od
#ifndef SLEEP_AT_ONCE
    ;
    atomic { sleepers-- }
#endif
}

active [CALLERS] proctype caller()
{
    byte mine = _pid + 1;
    byte taken = NONE;
    byte after = NONE;
    byte seen = 0;
    byte round = 0;
    bool has_lock = false;
    do
    :: round == CALLS -> break
    :: else ->
        atomic {
            done[mine] = 0;
            is_gone[mine] = 0;
            is_done[mine] = 0
        };
        try_lock();
        if
        :: has_lock ->
            do_call(mine);
            unlock()
        :: else ->
            leave_call(mine);
#ifndef NO_TRY
            help();
#endif
            await(mine)
        fi;
        atomic {
            assert(done[mine] == 1);
            is_gone[mine] = 1;
            round++
        }
    od;
    finished++
}

init
{
    finished == CALLERS;
    assert(list == NONE && !is_locked)
}
