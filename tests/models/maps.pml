/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * One stream's maps (pool/buddy/map.c, claim.c) and the epochs that move what is
 * in them (pool/cache): a word of fresh, of ageing and of done memory, a bit
 * each grain. A thread claims grains in the order in which bits move, and puts
 * back what it got where a part is gone. Another frees. Two movers close epochs
 * and drain them; who moves has the stream's role. The device works through the
 * stream's work, and an event has passed when all of it is over that was queued
 * before the event was recorded.
 *
 * The claims: nothing becomes done while work on it is pending; no grain is lost
 * or in two places; and what a claim misses was out of all maps, in somebody's
 * hands, at one of the claim's looks.
 *
 * Left out: levels and hints (words.pml and summary.pml have the like), other
 * streams, and that an event cannot be recorded.
 *
 * Weakenings, each of which must be caught:
 *   DONE_FIRST      a claim looks at what is done first
 *   AGEING_FIRST    it looks at what is ageing before what is fresh
 *   UNDO_AGEING     it puts back into the ageing map
 *   UNDO_DONE       it puts the stream's own memory back as done
 *   NO_ROLE         who closes does not keep others from closing
 *   LATE_DRAIN      who drains does not keep others from draining and closing
 *   EMPTY_IS_IDLE   an ageing map without a bit is taken for no epoch in flight
 *   PUBLISH_FIRST   an epoch is in flight before its event is recorded
 *   RECORD_FIRST    the event is recorded before the words are exchanged
 *   CLOSE_BY_COPY   a word is read and then cleared
 *   CLEAR_LATE      a word is cleared after its bits were given on
 */
#ifndef CLAIMERS
#define CLAIMERS 1
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* of a claimer */
#endif
#ifndef TURNS
#define TURNS 2 /* of a mover */
#endif
#define GRAINS 2
#define ALL 3

mtype = {IDLE, BUSY, FLIGHT};

byte fresh = 1;
byte ageing;
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

/* Memory that is out of all maps comes into one. */
inline put(map, grains)
{
    d_step {
        assert(!((fresh | ageing | done) & (grains)));
        map = map | (grains)
    }
}

inline finish(grains)
{
    assert(IS_DONE(grains));
    put(done, grains)
}

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
    put(fresh, grains)
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

/* One word of a claim: what is there of it, and what is nowhere. */
inline look(map, got)
{
    d_step {
        part = map & wanted & ~(own | others);
        map = map & ~part;
        got = got | part;
        excused = excused | ~(fresh | ageing | done);
        part = 0
    }
}

inline undo()
{
#ifdef UNDO_AGEING
    put(ageing, own);
#else
#ifdef UNDO_DONE
    finish(own);
#else
    put(fresh, own);
#endif
#endif
    put(done, others)
}

inline look_at_all()
{
#ifdef DONE_FIRST
    look(done, others);
    look(fresh, own);
    look(ageing, own)
#else
#ifdef AGEING_FIRST
    look(ageing, own);
    look(fresh, own);
    look(done, others)
#else
    look(fresh, own);
    look(ageing, own);
    look(done, others)
#endif
#endif
}

proctype claimer()
{
    byte wanted;
    byte own;
    byte others; /* that were done */
    byte part;
    byte excused;
    byte rounds = ROUNDS;
    do
    :: rounds == 0 -> break
    :: rounds ->
        rounds--;
        if
        :: wanted = 1
        :: wanted = 2
        :: wanted = ALL
        fi;
        look_at_all();
        if
        :: (own | others) == wanted -> use_and_free(wanted)
        :: else ->
#if CLAIMERS == 1
            assert(!(wanted & ~(own | others) & ~excused));
#endif
            undo()
        fi;
        d_step {
            wanted = 0;
            own = 0;
            others = 0;
            excused = 0
        }
    od;
    ended++
}

inline exchange(map)
{
#ifdef CLOSE_BY_COPY
    moved = map;
    map = 0
#else
    d_step {
        moved = map;
        map = 0
    }
#endif
}

inline close()
{
#ifdef RECORD_FIRST
    event = queued;
#endif
    exchange(fresh);
    put(ageing, moved);
#ifdef PUBLISH_FIRST
    state = FLIGHT;
#endif
#ifndef RECORD_FIRST
    event = queued;
#endif
    d_step {
        state = FLIGHT;
        moved = 0
    }
}

inline drain()
{
#ifdef CLEAR_LATE
    moved = ageing;
    finish(moved);
    ageing = 0;
#else
    exchange(ageing);
    finish(moved);
#endif
    d_step {
        state = IDLE;
        moved = 0
    }
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
        :: ageing == 0 -> close()
        :: ageing && event <= passed -> drain()
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
        for (i : 1 .. CLAIMERS) {
            run claimer()
        }
    };
    ended == CLAIMERS + 3;
    assert((fresh | ageing | done) == ALL)
}
