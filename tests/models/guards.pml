/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Capture guards against who records context events (pool/stream/capture_guard.c). A
 * recorder counts itself, looks whether a guard is held, and records only if
 * none is; a guard counts itself, marks every pool, and waits until nobody
 * records. Each writes its own word and then reads the other's, so both must be
 * in one order for all: a processor may let the load come before the store.
 * That is modelled: with a store buffer for each thread, which the weakened
 * variants use and the right ones have drained.
 *
 * The claim: from the return of a guard's begin to its end no context event is
 * being recorded, and every pool that is listed has its mark.
 *
 * Ghosts: `held`, guards between the return of begin and the call of end;
 * `recording`, context events that are being recorded right now.
 *
 * Weakenings, each of which must be caught:
 *   RECORDER_BUFFERED  the recorder's count may be seen after its look
 *   GUARD_BUFFERED     the guard's count may be seen after its look
 *   CHECK_FIRST        the recorder looks, then counts itself
 *   WAIT_FIRST         the guard waits, then counts itself
 *   NO_WAIT            the guard does not wait
 *   LEAVE_EARLY        the recorder takes itself off before it records
 *   ONE_FLAG           guards are a flag: the first end ends them all
 *   CLEAR_UNLOCKED     an end finds that it is the last, then takes the lock
 *   MARK_UNLOCKED      a new pool looks for guards, then takes the lock
 */
#ifndef GUARDS
#define GUARDS 2
#endif
#ifndef RECORDERS
#define RECORDERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#define BIT(number) (1 << (number))

byte guards;
byte recorders;
byte listed = 1; /* a bit a pool */
byte marked;
bool is_locked;

/* Counts that only their own thread sees as yet. */
byte guards_buffered;
byte recorders_buffered;

byte held;
byte recording;

inline lock()
{
    atomic { !is_locked -> is_locked = true }
}

inline unlock()
{
    is_locked = false
}

inline count_recorder()
{
#ifdef RECORDER_BUFFERED
    recorders_buffered++
#else
    recorders++
#endif
}

/* A read-modify-write of the same word: it comes after the thread's own. */
inline uncount_recorder()
{
    atomic { recorders -> recorders-- }
}

proctype recorder()
{
    byte round;
#ifdef CHECK_FIRST
    bool is_clear;
#endif
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        round++;
#ifdef CHECK_FIRST
        is_clear = (guards == 0);
#endif
        count_recorder();
        if
#ifdef CHECK_FIRST
        :: !is_clear ->
#else
        :: guards ->
#endif
            uncount_recorder()
        :: else ->
#ifdef LEAVE_EARLY
            uncount_recorder();
#endif
            atomic {
                assert(held == 0);
                recording++
            };
            atomic {
                assert(held == 0);
                recording--
            };
#ifndef LEAVE_EARLY
            uncount_recorder()
#endif
        fi
    od
}

inline count_guard()
{
#ifdef GUARD_BUFFERED
    guards_buffered++
#elif defined(ONE_FLAG)
    guards = 1
#else
    guards++
#endif
}

inline uncount_guard()
{
#ifdef ONE_FLAG
    guards = 0
#else
    atomic { guards -> guards-- }
#endif
}

inline wait_for_recorders()
{
#ifndef NO_WAIT
    recorders == 0
#else
    skip
#endif
}

proctype guard()
{
    byte round;
    bool is_last;
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        round++;
#ifdef WAIT_FIRST
        wait_for_recorders();
#endif
        lock();
        count_guard();
        marked = listed;
#ifdef GUARD_BUFFERED
        /* A load may move up into what a lock guards, a store not out of it. */
        wait_for_recorders();
        guards_buffered == 0;
#endif
        unlock();
#if !defined(WAIT_FIRST) && !defined(GUARD_BUFFERED)
        wait_for_recorders();
#endif
        atomic {
            assert(recording == 0);
            held++
        };
        atomic {
            assert((marked & listed) == listed);
            held--
        };
#ifdef CLEAR_UNLOCKED
        atomic {
            uncount_guard();
            is_last = (guards == 0)
        };
        lock();
#else
        lock();
        uncount_guard();
        is_last = (guards == 0);
#endif
        if
        :: is_last -> marked = 0
        :: else
        fi;
        is_last = false;
        unlock()
    od
}

/* A pool that comes meanwhile. */
proctype creator()
{
#ifdef MARK_UNLOCKED
    bool is_guarded;
    is_guarded = (guards != 0);
    lock();
    if
    :: is_guarded -> marked = marked | BIT(1)
#else
    lock();
    if
    :: guards -> marked = marked | BIT(1)
#endif
    :: else
    fi;
    listed = listed | BIT(1);
    assert(held == 0 || (marked & BIT(1)));
    unlock()
}

#if defined(RECORDER_BUFFERED) || defined(GUARD_BUFFERED)
proctype memory()
{
end:
    do
    :: atomic { guards_buffered -> guards_buffered--; guards++ }
    :: atomic { recorders_buffered -> recorders_buffered--; recorders++ }
    od
}
#endif

init
{
    byte i;
    atomic {
#if defined(RECORDER_BUFFERED) || defined(GUARD_BUFFERED)
        run memory();
#endif
        run creator();
        do
        :: i < GUARDS -> run guard(); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < RECORDERS -> run recorder(); i++
        :: else -> break
        od
    }
}
