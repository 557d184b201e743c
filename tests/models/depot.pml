/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A depot (pool/cache/flush.c): the atomic places through which threads on one
 * stream hand blocks of one class to each other. A place is empty or has one
 * bundle. Who overflows fills a record of its own and swaps it for nothing; who
 * misses exchanges a place for nothing, empties the record and keeps it, or
 * gives it to the pool's spares (pool/cache/flush.c): a set that is taken
 * whole, with what is given joined to it, and swapped back for nothing; what
 * came meanwhile is taken and joined too. A bundle for which no place is empty
 * leaves for the slot's maps (maps.pml).
 *
 * A set of blocks is `blocks`, one for each thread; a record is a bundle's
 * memory. Filling and emptying a record are steps of their own, as they are
 * plain stores. Each swap is one step.
 *
 * The claim: nobody but its holder touches a record; no set of blocks is lost
 * and none is had twice.
 *
 * Ghosts: `is_free`, records that no thread has in its hands; `in_hands`, at
 * rest the others; `with_thread`, sets of blocks in a thread's magazine;
 * `retired`, those that left the slot.
 *
 * Weakenings, each of which must be caught:
 *   TAKE_BY_STORE    a miss looks, then stores
 *   TAKE_BY_LOAD     a miss looks and leaves the place as it is
 *   PUT_BY_STORE     an overflow looks, then stores
 *   PUT_BY_EXCHANGE  an overflow exchanges and forgets what was there
 *   FILL_LATE        a record is filled when it is in its place
 *   EMPTY_LATE       a record is emptied when it is among the spares
 *   SPARE_BY_STORE   spares are put back by a plain store
 *   SPARE_DROPPED    spares that came meanwhile are taken and not joined
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define PLACES 2
#define NONE 0
#define BIT(record) (1 << ((record)-1))

/* Records and sets of blocks are numbered from 1. */
byte places[PLACES];
byte contents[THREADS + 1];
byte spares;

byte is_free;
byte with_thread = (1 << THREADS) - 1;
byte retired;
byte in_hands;
byte finished;

/* Inside the step that gets the record, or lets go of it. */
inline now_mine(taken)
{
    assert((is_free & (taken)) == (taken));
    is_free = is_free & ~(taken)
}

inline now_free(given)
{
    assert((is_free & (given)) == 0);
    is_free = is_free | (given)
}

inline pack()
{
    assert((is_free & BIT(record)) == 0);
    atomic {
        assert(contents[record] == NONE && (with_thread & BIT(blocks)));
        with_thread = with_thread & ~BIT(blocks);
        contents[record] = blocks
    }
}

/* Tries one place; `record` is NONE when it took it. */
inline put_into(place)
{
#ifdef PUT_BY_STORE
    seen = places[place];
    if
    :: seen == NONE ->
        atomic {
            now_free(BIT(record));
            places[place] = record;
            record = NONE
        }
    :: else -> seen = NONE
    fi
#elif defined(PUT_BY_EXCHANGE)
    atomic {
        now_free(BIT(record));
        places[place] = record;
        record = NONE
    }
#else
    atomic {
        if
        :: places[place] == NONE ->
            now_free(BIT(record));
            places[place] = record;
            record = NONE
        :: else
        fi
    }
#endif
}

/* The spares, whole, and what is in hand already. */
inline take_spares()
{
    atomic {
        now_mine(spares);
        seen = seen | spares;
        spares = 0
    }
}

/* They go back. */
inline put_spares()
{
    do
    :: seen == 0 -> break
    :: seen ->
        atomic {
            if
#ifdef SPARE_BY_STORE
            :: true ->
#else
            :: spares == 0 ->
#endif
                now_free(seen);
                spares = seen;
                seen = 0;
                break
#ifndef SPARE_BY_STORE
            :: else
#endif
            fi
        };
#ifdef SPARE_DROPPED
        atomic { now_mine(spares); spares = 0 }
#else
        take_spares()
#endif
    od
}

/* One of the spares, for who has no record; the rest goes back. */
inline take_spare()
{
    take_spares();
    if
    :: seen == 0
    :: seen ->
        record = (seen & 1 -> 1 : (seen & 2 -> 2 : 3));
        seen = seen & ~BIT(record);
        put_spares()
    fi
}

inline overflow()
{
    if
    :: record == NONE -> take_spare()
    :: else
    fi;
    if
    :: record == NONE
    :: record != NONE ->
#ifdef FILL_LATE
        is_late = record;
#else
        pack();
#endif
        put_into(0);
        if
        :: record != NONE -> put_into(1)
        :: else
        fi;
#ifdef FILL_LATE
        atomic {
            with_thread = with_thread & ~BIT(blocks);
            contents[is_late] = blocks;
            is_late = NONE
        };
#endif
        if
        :: record != NONE ->
            atomic {
                retired = retired | BIT(contents[record]);
                contents[record] = NONE
            }
        :: else
        fi;
        blocks = NONE
    fi
}

inline take_from(place)
{
#ifdef TAKE_BY_STORE
    seen = places[place];
    if
    :: seen != NONE ->
        atomic {
            now_mine(BIT(seen));
            places[place] = NONE;
            fresh = seen;
            seen = NONE
        }
    :: else
    fi
#else
    atomic {
        fresh = places[place];
        if
        :: fresh != NONE ->
            now_mine(BIT(fresh));
#ifndef TAKE_BY_LOAD
            places[place] = NONE
#endif
        :: else
        fi
    }
#endif
}

inline unpack()
{
    atomic {
        blocks = contents[fresh];
        assert(blocks != NONE && (with_thread & BIT(blocks)) == 0);
        with_thread = with_thread | BIT(blocks);
        contents[fresh] = NONE
    }
}

/* The emptied record: kept, or given to the spares. */
inline recycle()
{
    if
    :: record == NONE -> record = fresh
    :: true ->
        seen = BIT(fresh);
        take_spares();
        put_spares()
    fi
}

inline miss()
{
    take_from(0);
    if
    :: fresh == NONE -> take_from(1)
    :: else
    fi;
    if
    :: fresh != NONE ->
#ifdef EMPTY_LATE
        recycle();
        unpack();
#else
        unpack();
        recycle();
#endif
        fresh = NONE
    :: else
    fi
}

proctype thread(byte blocks)
{
    byte round, record, fresh, seen;
#ifdef FILL_LATE
    byte is_late;
#endif
    record = blocks;
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        round++;
        if
        :: blocks != NONE -> overflow()
        :: blocks == NONE -> miss()
        fi
    od;
    atomic {
        if
        :: record != NONE -> in_hands = in_hands | BIT(record)
        :: else
        fi;
        finished++
    }
}

/* Each set of blocks is in one place, and each record. */
init
{
    byte i, found, records;
    atomic {
        do
        :: i < THREADS -> run thread(i + 1); i++
        :: else -> break
        od;
        i = 0
    };
    finished == THREADS;
    found = with_thread | retired;
    assert((with_thread & retired) == 0);
    do
    :: i == PLACES -> break
    :: i < PLACES ->
        if
        :: places[i] != NONE ->
            assert((found & BIT(contents[places[i]])) == 0);
            found = found | BIT(contents[places[i]]);
            records = records + BIT(places[i])
        :: else
        fi;
        i++
    od;
    assert(found == (1 << THREADS) - 1);
    assert(records + spares == is_free);
    assert(is_free + in_hands == (1 << THREADS) - 1)
}
