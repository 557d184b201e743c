/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * When an entry of a history is settled (edge RP; pool/ring/ring.h,
 * recorder.c). An owner stores that it is about to read the clock, reads it,
 * writes its entry, and stores that it has. Its stores come to memory later,
 * one after the other: each owner has a buffer, which the recorder's barrier
 * empties, or with FENCED the owner itself before it reads the clock. Owner 1
 * makes calls that take long: it also stores the time that it read.
 *
 * The recorder reads the clock, passes the barrier, looks at each owner and
 * takes what it wrote. What is before the earliest time that may still come is
 * settled, and written.
 *
 * The claim: no entry is taken that is before what was settled.
 *
 * Weakenings, each of which must be caught:
 *   NO_BARRIER   the recorder passes none
 *   LOOK_FIRST   it looks at the owners, then reads the clock
 *   TAKE_FIRST   it takes what an owner wrote, then looks at it
 *   NOT_WAITING  it does not mind an owner that is about to read the clock
 *   NO_TIME      it does not mind an owner's time
 *   CLOCK_FIRST  an owner reads the clock, then says so
 *   CLEAR_EARLY  an owner says that it is done, then writes the entry
 */
#define OWNERS 2
#define ROUNDS 1
#define PASSES 2
#define NOW 1

byte clock = 2;
byte settled;
byte pending[OWNERS];
/* Each owner's entries are in the order of their times: a number for each. */
byte written[OWNERS];
byte taken[OWNERS];

typedef entries { byte ticks[ROUNDS] };
entries rings[OWNERS];

mtype = { SAYS, WRITES };
chan buffers[OWNERS] = [8] of { mtype, byte };

inline arrive(owner)
{
    buffers[owner] ? what, value;
    if
    :: what == SAYS -> pending[owner] = value
    :: else ->
        rings[owner].ticks[written[owner]] = value;
        written[owner]++
    fi;
    value = 0
}

proctype memory(byte owner)
{
    mtype what;
    byte value;
end:
    do
    :: atomic { nempty(buffers[owner]) -> arrive(owner) }
    od
}

inline say(value)
{
    buffers[me] ! SAYS(value)
}

inline read_clock()
{
    atomic { ticks = clock; clock++ }
}

inline fence()
{
#ifdef FENCED
    empty(buffers[me])
#else
    skip
#endif
}

proctype owner(byte me)
{
    byte round;
    byte ticks;
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        round++;
#ifdef CLOCK_FIRST
        read_clock();
        say(NOW);
        fence();
#else
        say(NOW);
        fence();
        read_clock();
#endif
        if
        :: me == 1 -> say(ticks)
        :: else
        fi;
#ifdef CLEAR_EARLY
        say(0);
        buffers[me] ! WRITES(ticks);
#else
        buffers[me] ! WRITES(ticks);
        say(0);
#endif
        ticks = 0
    od
}

inline take(i)
{
    do
    :: taken[i] == written[i] -> break
    :: taken[i] < written[i] ->
        assert(rings[i].ticks[taken[i]] >= settled);
        taken[i]++
    od
}

inline look(i)
{
    seen = pending[i];
    if
#ifndef NOT_WAITING
    :: seen == NOW -> limit = (limit < settled -> limit : settled)
#endif
#ifndef NO_TIME
    :: seen > NOW && seen < limit -> limit = seen
#endif
    :: else
    fi;
    seen = 0
}

inline pass_barrier()
{
#if !defined(NO_BARRIER) && !defined(FENCED)
    atomic {
        i = 0;
        do
        :: i == OWNERS -> break
        :: i < OWNERS && nempty(buffers[i]) -> arrive(i)
        :: i < OWNERS && empty(buffers[i]) -> i++
        od
    }
#else
    skip
#endif
}

proctype recorder()
{
    mtype what;
    byte value;
    byte pass;
    byte limit;
    byte now;
    byte seen;
    byte i;
    do
    :: pass == PASSES -> break
    :: pass < PASSES ->
        pass++;
        limit = 255;
#ifndef LOOK_FIRST
        limit = clock;
#endif
        pass_barrier();
        i = 0;
        do
        :: i == OWNERS -> break
        :: i < OWNERS ->
#ifdef TAKE_FIRST
            take(i);
            look(i);
#else
            look(i);
            take(i);
#endif
            i++
        od;
#ifdef LOOK_FIRST
        now = clock;
        limit = (now < limit -> now : limit);
#endif
        settled = (limit > settled -> limit : settled)
    od
}

init
{
    atomic {
        run memory(0);
        run memory(1);
        run owner(0);
        run owner(1);
        run recorder()
    }
}
