/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Handles of mapped memory that move (pool/segment/move.c, trim.c) under work
 * that is queued. One handle or two, of a grain or two; three places, which are
 * addresses that a handle may be mapped at. The stream's heap and what is done
 * are a bit for each grain of a place. The owner is a thread of the stream: it takes what
 * the stream's heap or done memory has, queues work there and frees it. Another
 * stream takes what is done, uses it at once and gives it back. Growers, which
 * are threads of the stream too, move handles, unmap the places that these left,
 * and trim. The closer moves the stream's memory on behind events of the context.
 * The device does what is queued, later and in order.
 *
 * The claims: at the time when the device does a piece of work, the address that
 * it names is mapped to the handle that it was queued for; no grain of a handle
 * has two owners, and another stream has one only once the stream's work on it is
 * over; what is counted as given back is gone. At rest a handle serves at one
 * place, each of its grains is in one heap, and what else is mapped is a place
 * that a handle left.
 *
 * A claim of a whole handle and a take of a grain are one step each: extents.pml
 * has what is in them. The driver maps over a mapping here, so that the work
 * that follows tells; the real one refuses.
 *
 * Left out: that a handle cannot be mapped or unmapped, look-ups (segment.pml),
 * and where a handle goes.
 *
 * Weakenings, each of which must be caught:
 *   GIVE_FIRST      the new place serves before the handle is claimed at the old
 *   CLAIM_SOME      a handle moves although a grain of it is held
 *   OWN_IF_ALL      it counts as the stream's only if nothing of it is done
 *   TO_DONE         the stream's own memory is done at its new place
 *   UNMAP_AT_ONCE   the place that the stream's own memory left waits for nothing
 *   EPOCH_FIRST     it waits for an event that was chosen before the claim
 *   EPOCH_BY_ONE    for the next event, which may be half recorded
 *   UNMAP_RECORDED  for the event to be recorded
 *   LIST_EARLY      it is a place for handles again before it is unmapped
 *   TRIM_LEFT       a trim takes a handle whose old place is mapped still
 *   NO_ROLE         two threads grow at a time
 */
#ifndef GROWERS
#define GROWERS 1
#endif
#ifndef MOVES
#define MOVES 2 /* of a grower */
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* of the owner */
#endif
#ifndef TURNS
#define TURNS 2 /* of the closer */
#endif
#ifndef HANDLES
#define HANDLES 2
#endif
#ifndef GRAINS
#define GRAINS 1
#endif
#define PLACES 3
#define NONE 3
#if GRAINS == 1
#define GRAINS_OF(place) (1 << (2 * (place)))
#else
#define GRAINS_OF(place) (3 << (2 * (place)))
#endif
#define IS_LISTED(place) (serving[place] != NONE)

mtype = {IDLE, FLIGHT};

/* A bit for each grain of a place. */
byte fresh;
byte ageing;
byte done;

byte serving[PLACES]; /* under the lock: the handle, or none */
byte left[PLACES];    /* the handle that left it and is mapped there still */
byte over_at[PLACES];
byte left_count[2];
bool is_growing;
byte reserved = HANDLES; /* handles */

byte mapped[PLACES]; /* the driver's */

/* What is queued on the stream: place and handle. All counts of work are of what
 * is queued still, so they sink when the device has done a piece. */
chan stream = [ROUNDS + 1] of { byte, byte };

byte recorded;         /* events of the context */
byte event[TURNS + 3]; /* how much work it waits for */
#define HAS_PASSED(number) ((number) <= recorded && event[number] == 0)

/* Ghosts, by grain of a handle: who holds it, and the stream's last work. */
byte held;
byte work[4];
byte ended;

#define HANDLE_GRAIN(at) (2 * mapped[(at) / 2] + (at) % 2)

inline sink(count)
{
    count = (count -> count - 1 : 0)
}

active proctype device()
{
    byte place, handle, i;
end:
    do
    :: d_step {
           stream?place, handle ->
           assert(mapped[place] == handle);
           for (i : 0 .. 3) {
               sink(work[i])
           }
           for (i : 0 .. TURNS + 2) {
               sink(event[i])
           }
           place = 0;
           handle = 0;
           i = 0
       }
    od
}

/* One grain of some of these. */
inline choose(grains)
{
    if
    :: (grains) & 1 -> at = 0
    :: (grains) & 2 -> at = 1
    :: (grains) & 4 -> at = 2
    :: (grains) & 8 -> at = 3
    :: (grains) & 16 -> at = 4
    :: (grains) & 32 -> at = 5
    :: (grains) == 0 -> at = 6
    fi
}

inline hold()
{
    assert(mapped[at / 2] != NONE);
    assert(!(held & (1 << HANDLE_GRAIN(at))));
    held = held | (1 << HANDLE_GRAIN(at))
}

inline let_go()
{
    assert(held & (1 << HANDLE_GRAIN(at)));
    held = held & ~(1 << HANDLE_GRAIN(at))
}

inline put(heap, grains)
{
    assert(!((fresh | ageing | done) & (grains)));
    heap = heap | (grains)
}

inline take_out(grains)
{
    fresh = fresh & ~(grains);
    ageing = ageing & ~(grains);
    done = done & ~(grains)
}

inline queue_work()
{
    stream!at / 2, mapped[at / 2];
    work[HANDLE_GRAIN(at)] = len(stream)
}

proctype owner()
{
    byte at;
    byte rounds = ROUNDS;
    do
    :: rounds == 0 -> break
    :: rounds ->
        atomic {
            rounds--;
            choose(fresh | ageing | done);
            if
            :: at < 6 -> take_out(1 << at); hold()
            :: else
            fi
        };
        if
        :: at < 6 ->
            atomic {
                queue_work();
                let_go();
                put(fresh, 1 << at);
                at = 0
            }
        :: else
        fi
    od;
    ended++
}

/* Of another stream, whose work is over when it gives the memory back. */
proctype other()
{
    byte at;
    atomic {
        choose(done);
        if
        :: at < 6 ->
            take_out(1 << at);
            hold();
            assert(work[HANDLE_GRAIN(at)] == 0)
        :: else
        fi
    };
    if
    :: at < 6 ->
        atomic {
            let_go();
            put(done, 1 << at);
            at = 0
        }
    :: else
    fi;
    ended++
}

proctype closer()
{
    mtype state = IDLE; /* of the stream's epoch */
    byte number;        /* of its event */
    byte turns = TURNS;
    do
    :: turns == 0 && state == IDLE -> break
    :: turns ->
        turns--;
        d_step {
            if
            :: state == IDLE && fresh ->
                ageing = fresh;
                fresh = 0;
                state = FLIGHT;
                number = recorded + 1
            :: else /* for the places alone */
            fi;
            event[recorded + 1] = len(stream)
        };
        recorded++
    :: d_step {
           state == FLIGHT && HAS_PASSED(number) ->
           assert(!(done & ageing));
           state = IDLE;
           number = 0;
           done = done | ageing;
           ageing = 0
       }
    od;
    ended++
}

/* A place without memory; NONE: there is no such. */
inline find_place()
{
#ifdef LIST_EARLY
#define IS_PLACE(place) (!IS_LISTED(place))
#else
#define IS_PLACE(place) (!IS_LISTED(place) && left[place] == NONE)
#endif
    atomic {
        if
        :: IS_PLACE(0) -> to = 0
        :: IS_PLACE(1) -> to = 1
        :: IS_PLACE(2) -> to = 2
        :: else -> to = NONE
        fi
    }
}

/* Any handle that serves. */
inline find_handle()
{
    if
    :: IS_LISTED(0) -> from = 0
    :: IS_LISTED(1) -> from = 1
    :: IS_LISTED(2) -> from = 2
    :: else -> from = NONE
    fi
}

#ifdef CLAIM_SOME
#define HAS(heap, place) (((heap) & GRAINS_OF(place)) != 0)
#else
#define HAS(heap, place) (((heap) & GRAINS_OF(place)) == GRAINS_OF(place))
#endif
#ifdef OWN_IF_ALL
#define IS_OWN(place) (!(done & GRAINS_OF(place)))
#else
#define IS_OWN(place) (!HAS(done, place))
#endif

/* The handle at a place out of all heaps, and off the list. */
inline claim_handle()
{
    atomic {
        find_handle();
        if
        :: from != NONE && HAS(fresh | ageing | done, from) ->
            is_own = IS_OWN(from);
            handle = serving[from];
#ifndef GIVE_FIRST
            take_out(GRAINS_OF(from));
#endif
            serving[from] = NONE
        :: else -> from = NONE
        fi
    }
}

inline choose_epoch()
{
#ifdef EPOCH_BY_ONE
    epoch = recorded + 1
#else
    epoch = recorded + 2
#endif
}

inline map_and_give()
{
    mapped[to] = handle;
    atomic {
        serving[to] = handle;
        if
#ifndef TO_DONE
        :: is_own -> put(fresh, GRAINS_OF(to))
        :: else -> put(done, GRAINS_OF(to))
#else
        :: put(done, GRAINS_OF(to))
#endif
        fi
    }
}

inline note_left()
{
    d_step {
        left[from] = handle;
        left_count[handle]++;
        over_at[from] = (is_own -> epoch : 0);
#ifdef UNMAP_AT_ONCE
        over_at[from] = 0
#endif
    }
}

inline move()
{
    find_place();
    if
    :: to != NONE ->
#ifdef EPOCH_FIRST
        choose_epoch();
#endif
        claim_handle();
        if
        :: from != NONE ->
            map_and_give();
#ifdef GIVE_FIRST
            d_step { take_out(GRAINS_OF(from)) };
#endif
#ifndef EPOCH_FIRST
            choose_epoch();
#endif
            note_left()
        :: else
        fi
    :: else
    fi
}

#ifdef UNMAP_RECORDED
#define IS_OVER(place) (left[place] != NONE && over_at[place] <= recorded)
#else
#define IS_OVER(place) (left[place] != NONE && HAS_PASSED(over_at[place]))
#endif

/* The places that are over, each off the list and then unmapped. */
inline unmap_left()
{
    do
    :: atomic {
           if
           :: IS_OVER(0) -> from = 0
           :: IS_OVER(1) -> from = 1
           :: IS_OVER(2) -> from = 2
           :: else -> break
           fi;
           handle = left[from];
           left[from] = NONE;
           over_at[from] = 0
       };
       d_step {
           mapped[from] = NONE;
           left_count[handle]--
       }
    od
}

#ifdef TRIM_LEFT
#define MAY_TRIM(handle) true
#else
#define MAY_TRIM(handle) (left_count[handle] == 0)
#endif

inline trim()
{
    atomic {
        find_handle();
        if
        :: from != NONE && MAY_TRIM(serving[from]) && HAS(done, from) ->
            handle = serving[from];
            take_out(GRAINS_OF(from));
            serving[from] = NONE
        :: else -> from = NONE
        fi
    };
    if
    :: from != NONE ->
        mapped[from] = NONE;
        d_step {
            assert(mapped[0] != handle && mapped[1] != handle &&
                   mapped[2] != handle);
            reserved--
        }
    :: else
    fi
}

proctype grower()
{
    byte from, to, handle, epoch;
    bool is_own;
    byte moves = MOVES;
    do
    :: moves == 0 -> break
    :: moves ->
#ifdef NO_ROLE
        moves--;
#else
        atomic {
            !is_growing ->
            is_growing = true;
            moves--
        };
#endif
        unmap_left();
        if
        :: true -> move()
        :: true -> trim()
        fi;
        d_step {
            is_growing = false;
            from = 0;
            to = 0;
            handle = 0;
            epoch = 0;
            is_own = false
        }
    od;
    ended++
}

inline check_place(place)
{
    assert(mapped[place] ==
           (IS_LISTED(place) -> serving[place] : left[place]));
    assert((((fresh | ageing | done) & GRAINS_OF(place)) ==
            (IS_LISTED(place) -> GRAINS_OF(place) : 0)));
    assert(!IS_LISTED(place) ||
           (serving[place] != serving[(place + 1) % PLACES] &&
            serving[place] != serving[(place + 2) % PLACES]))
}

init
{
    byte i;
    /* Work is queued for one grain of the first handle. */
    atomic {
        serving[1] = (HANDLES == 2 -> 1 : NONE);
        mapped[1] = serving[1];
        serving[2] = NONE;
        mapped[2] = NONE;
        left[0] = NONE;
        left[1] = NONE;
        left[2] = NONE;
        stream!0, 0;
        work[0] = 1;
        fresh = 1;
        done = (GRAINS_OF(0) | (HANDLES == 2 -> GRAINS_OF(1) : 0)) & ~fresh;
        run owner();
        run other();
        run closer();
        for (i : 1 .. GROWERS) {
            run grower()
        }
    };
    ended == GROWERS + 3 && empty(stream);
    atomic {
        check_place(0);
        check_place(1);
        check_place(2);
        assert(!held);
        assert(reserved ==
               IS_LISTED(0) + IS_LISTED(1) + IS_LISTED(2))
    }
}
