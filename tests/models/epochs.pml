/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One stream's epochs (pool/stream/epoch.c), which say when what the stream freed
 * is done. Its heap has a fresh and a closed age, a bit each grain, and each step
 * on it is one by its lock; what is done is DONE's heap. A user takes grains of
 * any of these, uses and frees them. Two movers close epochs and drain them, an
 * extent at a time; a mover has the stream's role. The device works through the
 * stream's work, and an event has passed when all of it is over that was queued
 * before the event was recorded.
 *
 * The claim: nothing becomes done while work on it is pending, and no grain is
 * lost or in two places.
 *
 * Left out: extents and locks (extents.pml), other streams, and that an event
 * cannot be recorded.
 *
 * Weakenings, each of which must be caught:
 *   NO_ROLE         a mover that closes does not keep others from closing
 *   LATE_DRAIN      one that drains does not keep others from draining and closing
 *   EMPTY_IS_IDLE   a closed age that is empty is taken for no epoch in flight
 *   PUBLISH_FIRST   an epoch is in flight before its event is recorded
 *   RECORD_FIRST    the event is recorded before the close
 *   FREE_AS_CLOSED  a free goes to the closed age
 *   FREE_AS_DONE    a free goes to what is done
 */
#ifndef USERS
#define USERS 1
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* of a user */
#endif
#ifndef TURNS
#define TURNS 2 /* of a mover */
#endif
#define GRAINS 2
#define ALL 3

mtype = {IDLE, BUSY, FLIGHT};

byte fresh = 1;
byte closed;
byte done;

mtype state = IDLE; /* of the stream's epochs; BUSY: somebody has the role */
byte event;         /* of the epoch in flight: how much work it waits for */

/* Ghost: work that was queued on the stream, and that is over; by grain, the
 * last work that used it. */
byte queued = 1;
byte passed;
byte work[GRAINS];
byte ended;

#define IS_DONE(grains)                                                        \
    ((!((grains) & 1) || work[0] <= passed) &&                                 \
     (!((grains) & 2) || work[1] <= passed))

/* The grains are used, and then freed: their work is queued before. */
inline use_and_free(grains)
{
    d_step {
        queued++;
        if
        :: (grains) & 1 -> work[0] = queued
        :: else
        fi;
        if
        :: (grains) & 2 -> work[1] = queued
        :: else
        fi
    };
    d_step {
        assert(!((fresh | closed | done) & (grains)));
#ifdef FREE_AS_CLOSED
        closed = closed | (grains)
#else
#ifdef FREE_AS_DONE
        assert(IS_DONE(grains));
        done = done | (grains)
#else
        fresh = fresh | (grains)
#endif
#endif
    }
}

active proctype device()
{
end:
    do
    :: atomic {
           passed < queued -> passed++
       }
    od
}

proctype freer()
{
    use_and_free(2);
    ended++
}

proctype user()
{
    byte got;
    byte rounds = ROUNDS;
    do
    :: rounds == 0 -> break
    :: rounds ->
        rounds--;
        atomic {
            if
            :: got = 1
            :: got = 2
            :: got = ALL
            fi;
            got = got & (fresh | closed | done);
            fresh = fresh & ~got;
            closed = closed & ~got;
            done = done & ~got
        };
        use_and_free(got);
        got = 0
    od;
    ended++
}

/* What was closed before and waits for no event is behind the next one, too. */
inline close()
{
#ifdef RECORD_FIRST
    event = queued;
#endif
    d_step {
        closed = closed | fresh;
        fresh = 0
    };
#ifdef PUBLISH_FIRST
    state = FLIGHT;
#endif
#ifndef RECORD_FIRST
    event = queued;
#endif
    state = FLIGHT
}

inline drain()
{
    do
    :: d_step {
           closed != 0;
           moved = closed & 1;
           if
           :: !moved -> moved = 2
           :: else
           fi;
           assert(IS_DONE(moved) && !(done & moved));
           closed = closed & ~moved;
           done = done | moved;
           moved = 0
       }
    :: closed == 0 -> break
    od;
    state = IDLE
}

proctype mover()
{
    byte moved;
    byte turns = TURNS;
    do
    :: turns == 0 -> break
    :: turns ->
        turns--;
        if
#ifdef EMPTY_IS_IDLE
        :: closed == 0 -> close()
        :: closed && event <= passed -> drain()
#else
#ifdef NO_ROLE
        :: state == IDLE -> close()
#else
        :: atomic { state == IDLE -> state = BUSY };
           close()
#endif
#ifdef LATE_DRAIN
        :: atomic { state == FLIGHT && event <= passed };
           drain()
#else
        :: atomic { state == FLIGHT && event <= passed -> state = BUSY };
           drain()
#endif
#endif
        :: true /* in vain */
        fi
    od;
    ended++
}

init
{
    byte i;
    work[0] = 1;
    atomic {
        run freer();
        run mover();
        run mover();
        for (i : 1 .. USERS) {
            run user()
        }
    };
    ended == USERS + 3;
    assert((fresh | closed | done) == ALL)
}
