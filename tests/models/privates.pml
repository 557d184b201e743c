/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A private arena's place (pool/graph/privates.c, private_take.c, private_give.c)
 * over two pages of two blocks. What is free in the arena is under its lock.
 * These are not: pages on their way from the pool or back, the look at whose a
 * block's page is before the lock is taken for its free, and the question
 * whether an event is over. Meanwhile the arena may end, and another begin in
 * its place. Users grow the arena they know, take a block and free it; one ends
 * the arena, and begins the next; an outsider takes what the pool has, and
 * frees it by the same function; another arena, under a lock of its own, takes
 * a page that the pool has; pollers wait for events.
 *
 * The claims: no block is had twice or lost; the pool serves nothing of an
 * arena that lives; an arena serves nobody who knows another one in its place,
 * and nothing that queued work still uses; the arena never has more than its
 * limit; at rest its sums, and the pool's of pages that are arenas', are right.
 *
 * Left out: the two halves and scopes, which only code under the lock tells
 * apart; memory that serves its own stream at once; and what the pool does with
 * what it gets.
 *
 * Weakenings, each of which must be caught:
 *   MARK_ONCE       a free does not look again under the lock whose the page is
 *   NUMBER_ONCE     who comes with pages does not ask again which arena it is
 *   RESERVE_LATE    pages are counted when they have come
 *   KEEP_RESERVED   they stay counted when none came
 *   MARK_LATE       the page is the arena's after the lock was given back
 *   DISOWN_LATE     pages are not the arena's any more after its end
 *   DISOWN_NONE     its pages stay its own at its end
 *   NO_CLOSINGS     who saw an event over drains what waits for another one
 *   CLOSINGS_ANEW   an arena counts its closings from 0 again
 *   NOT_LOCKED      a free does not take the lock
 *   DISOWN_BY_STORE  who ends an arena looks whose a page is, and then stores
 *   COUNT_LATE      it counts its pages when others may have some already
 */
#ifndef USERS
#define USERS 2
#endif
#ifndef POLLERS
#define POLLERS 1
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef OTHERS
#define OTHERS 1 /* an outsider and another arena */
#endif
#define LIMIT 1 /* pages */
#define PAGES 2
#define BLOCKS 4
#define NOBODY 255

/* Where a block is: the pool has it, or a thread; or the arena, where it is
 * done, or waits for an event that is recorded, or not. */
#define IN_POOL 0
#define HELD 1
#define DONE 2
#define AGEING 3
#define FRESH 4

/* Whose a page is. */
#define POOLS 0
#define OURS 1
#define THEIRS 2

byte blocks[BLOCKS];
byte marks[PAGES];
bool is_locked;
byte number = 1; /* 0: the place is free */
byte reserved;
byte live;
byte granted; /* pages that came, less those that were counted back */
byte event;    /* what is ageing waits for it; 0: nothing is */
byte closings; /* ever */

byte queued;
byte passed;
byte work[BLOCKS];
byte ended;
byte has_another = PAGES; /* the page */

inline lock()
{
    atomic { !is_locked -> is_locked = true }
}

inline unlock()
{
    is_locked = false
}

active proctype device()
{
end:
    do
    :: atomic { passed < queued -> passed++ }
    od
}

/* Lock held. */
inline take_here()
{
    atomic {
        i = 0;
        do
        :: i == BLOCKS -> break
        :: i < BLOCKS && blocks[i] == DONE && marks[i / 2] == OURS ->
            assert(number == known && work[i] <= passed);
            blocks[i] = HELD;
            live++;
            mine = i;
            break
        :: else -> i++
        od;
        i = 0
    }
}

/* A page that is done, all of it. */
inline climb()
{
    atomic {
        i = 0;
        do
        :: i == PAGES -> break
        :: i < PAGES && blocks[2 * i] == IN_POOL &&
           blocks[2 * i + 1] == IN_POOL ->
            assert(marks[i] == POOLS || is_locked);
            blocks[2 * i] = HELD;
            blocks[2 * i + 1] = HELD;
            page = i;
            break
        :: else -> i++
        od;
        i = 0
    }
}

inline put_page(where)
{
    d_step {
        assert(blocks[2 * page] == HELD && blocks[2 * page + 1] == HELD);
        blocks[2 * page] = where;
        blocks[2 * page + 1] = where
    }
}

/* With a page in hand. */
inline take_new()
{
    lock();
#ifdef NUMBER_ONCE
    if
    :: true ->
#else
    if
    :: number != known ->
        unlock();
        put_page(IN_POOL)
    :: else ->
#endif
#ifdef RESERVE_LATE
        reserved++;
#endif
        d_step {
            work[2 * page] = 0;
            work[2 * page + 1] = 0
        };
        put_page(DONE);
        granted++;
#ifdef MARK_LATE
        unlock();
        marks[page] = OURS
#else
        marks[page] = OURS;
        take_here();
        unlock()
#endif
    fi;
    page = NOBODY
}

inline grow()
{
    lock();
    if
    :: number != known || reserved == LIMIT -> unlock()
    :: else ->
#ifndef RESERVE_LATE
        reserved++;
#endif
        unlock();
        climb();
        if
        :: page != NOBODY -> take_new()
        :: else ->
#ifndef KEEP_RESERVED
            lock();
            if
            :: number == known -> reserved--
            :: else
            fi;
            unlock()
#endif
        fi
    fi
}

/* moietyi_privates_free(). */
inline free_mine()
{
    d_step {
        queued++;
        work[mine] = queued
    };
    if
    :: atomic { marks[mine / 2] == POOLS -> blocks[mine] = IN_POOL }
    :: marks[mine / 2] != POOLS ->
#ifndef NOT_LOCKED
        lock();
#endif
#ifdef MARK_ONCE
        if
        :: true ->
#else
        if
        :: marks[mine / 2] != OURS ->
            unlock();
            blocks[mine] = IN_POOL
        :: else ->
#endif
            assert(live);
            live--;
            blocks[mine] = FRESH;
#ifndef NOT_LOCKED
            unlock()
#endif
        fi
    fi;
    mine = NOBODY
}

proctype user()
{
    byte i, known, mine = NOBODY, page = NOBODY, rounds = ROUNDS;
    do
    :: rounds == 0 -> break
    :: rounds ->
        rounds--;
        lock();
        known = number;
        if
        :: known -> take_here()
        :: else
        fi;
        unlock();
        if
        :: known && mine == NOBODY -> grow()
        :: else
        fi;
        if
        :: mine != NOBODY -> free_mine()
        :: else
        fi;
        known = 0
    od;
    ended++
}

proctype outsider()
{
    byte i, mine = NOBODY;
    atomic {
        do
        :: i < BLOCKS && blocks[i] == IN_POOL ->
            assert(marks[i / 2] == POOLS || is_locked);
            blocks[i] = HELD;
            mine = i;
            break
        :: i < BLOCKS -> i++
        :: i == BLOCKS -> break
        od;
        i = 0
    };
    if
    :: mine != NOBODY -> free_mine()
    :: else
    fi;
    ended++
}

inline count_pages()
{
    granted = granted - (marks[0] == OURS) - (marks[1] == OURS)
}

inline disown()
{
    do
    :: i == PAGES -> break
    :: i < PAGES ->
#ifdef DISOWN_BY_STORE
        if
        :: marks[i] == OURS -> marks[i] = POOLS
        :: else
        fi;
#else
        atomic {
            if
            :: marks[i] == OURS -> marks[i] = POOLS
            :: else
            fi
        };
#endif
        i++
    od;
    i = 0
}

/* What is free in it is the pool's, block by block; then its pages are. */
inline end_arena()
{
#ifndef COUNT_LATE
    atomic { count_pages() };
#endif
    do
    :: i == BLOCKS -> break
    :: i < BLOCKS ->
        atomic {
            if
            :: marks[i / 2] == OURS && blocks[i] >= DONE -> blocks[i] = IN_POOL
            :: else
            fi;
            i++
        }
    od;
    i = 0;
#ifdef COUNT_LATE
    atomic { count_pages() };
#endif
#ifdef DISOWN_LATE
    number = 0;
    event = 0;
    unlock();
#endif
#ifndef DISOWN_NONE
    disown();
#endif
#ifndef DISOWN_LATE
    number = 0;
    event = 0;
#ifdef CLOSINGS_ANEW
    closings = 0;
#endif
    unlock();
#endif
    /* And the next one begins. */
    lock();
    atomic {
        assert(number == 0);
        number = 2;
        reserved = 0;
        live = 0
    };
    unlock()
}

/* It keeps what it got. */
proctype another()
{
    byte i, page = NOBODY;
    climb();
    if
    :: page != NOBODY -> marks[page] = THEIRS
    :: else
    fi;
    has_another = (page == NOBODY -> PAGES : page);
    page = NOBODY;
    ended++
}

proctype ender()
{
    byte i;
    lock();
    end_arena();
    ended++
}

/* poll_half(). */
proctype poller()
{
    byte i, wait, seen;
    lock();
    atomic {
        if
        :: number && event == 0 ->
            do
            :: i == BLOCKS -> break
            :: i < BLOCKS && blocks[i] == FRESH ->
                blocks[i] = AGEING;
                event = queued + 1;
                i++
            :: else -> i++
            od;
            if
            :: event -> closings++
            :: else
            fi;
            i = 0
        :: else
        fi;
        wait = (number -> event : 0);
        seen = closings
    };
    unlock();
    if
    :: wait && wait - 1 <= passed ->
        lock();
        atomic {
            if
#ifdef NO_CLOSINGS
            :: number && event ->
#else
            :: number && event && closings == seen ->
#endif
                event = 0;
                do
                :: i == BLOCKS -> break
                :: i < BLOCKS && blocks[i] == AGEING ->
                    assert(work[i] <= passed);
                    blocks[i] = DONE;
                    i++
                :: else -> i++
                od;
                i = 0
            :: else
            fi
        };
        unlock()
    :: true /* it is not over, or nothing waits */
    fi;
    wait = 0;
    seen = 0;
    ended++
}

#define OWNER_OF(block)                                                       \
    ((block) == HELD -> THEIRS : ((block) == IN_POOL -> POOLS : OURS))

init
{
    byte i, had;
    atomic {
        i = 0;
        do
        :: i < USERS -> run user(); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < POLLERS -> run poller(); i++
        :: else -> break
        od;
        i = 0;
        if
        :: OTHERS -> run outsider(); run another()
        :: else
        fi;
        run ender()
    };
    atomic {
        ended == USERS + POLLERS + 2 * OTHERS + 1;
        /* A block is the arena's, the other's, or the pool's. */
        do
        :: i == BLOCKS -> break
        :: i < BLOCKS ->
            assert((blocks[i] == HELD) == (has_another == i / 2));
            assert(marks[i / 2] == OWNER_OF(blocks[i]));
            i++
        od;
        had = (marks[0] == OURS) + (marks[1] == OURS);
        assert(had <= LIMIT && reserved == had && live == 0 && granted == had)
    }
}
