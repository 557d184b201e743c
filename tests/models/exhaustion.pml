/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * May a search of all words that found nothing be called exhaustion? The
 * protocol of pool/cache/gate.h and pool/oom/final_scan.c, over two levels of two-bit
 * words: four grains in two chunks, one page word. The heaps of the code have less
 * in transit: a search has their locks, empties their inboxes first, and sees all
 * that is in them (extents.pml). So this asks for more than they need.
 *
 * The claims: when a search says EXHAUSTED, there was a moment during it at
 * which every grain was spoken for. A grain is spoken for from the swap that
 * claims it for a caller to the swap that gives it. What is only in transit is
 * not: between the swap that retires a word and the bit above, and between the
 * claim of a chunk and the opening of its word. And a search decides, after as
 * many looks as threads can disturb: one for each grain that they hold when the
 * gate closes, and one for each thread that comes to the gate.
 *
 * The protocol: each operation moves a counter of its own thread on before its
 * first swap and after its last one, so it is odd meanwhile. The searcher closes
 * a gate. Who would take moves its counter on, looks at the gate, and if it is
 * closed moves it on again and waits; who gives never looks. The searcher waits
 * until it has seen each counter even, passes over all words, and looks at the
 * counters again: if none has moved, nobody was inside between the two looks,
 * so what the pass did not see was not there. Otherwise it looks again, LOOKS
 * times in all, and then says UNDECIDED, which is no claim.
 *
 * The counters are not bounded; what the searcher makes of one is whether it is
 * odd, and whether it has moved since it was looked at, so that is what is kept
 * of it here.
 *
 * With -DIMPATIENT a waiter may lose its patience and open the gate, and the
 * searcher may lose its own and search while others are inside. Then it need
 * not decide, but the first claim still holds.
 *
 * Weakenings, each of which must be caught:
 *   ONE_PASS     no counters: the first pass that finds nothing is believed
 *   TWO_PASSES   (with ONE_PASS) the second one is
 *   NO_REST      the searcher does not wait until counters are even: it still
 *                looks at them afterwards, but need not decide
 *   NO_RECOUNT   it waits, but does not look at them afterwards
 *   GIVES_FREE   only takes are operations
 *   TAKES_FREE   only gives are operations
 *   ENTER_LATE   the counter is moved on after the first swap
 *   LEAVE_EARLY  and again before the last one
 *   NO_GATE      takers do not look at the gate: nothing bounds the looks
 *   REOPENED     the gate is opened after each look: likewise
 */
#define WORKERS 2
/* Grains, workers, and one; fewer are enough where nobody has to decide. */
#ifndef LOOKS
#define LOOKS 7
#endif
#define FULL 3
#define ALL 15

byte chunk_words[2];
byte page_word;

bool inside[WORKERS];
bool has_moved[WORKERS];
bool is_closed;

byte spoken_for; /* ghost: a bit a grain */
bool was_exhausted;
byte finished;

#define GRAIN(chunk, mask) ((mask) << (2 * (chunk)))

/* Inside the step that claims for a caller. */
inline now_spoken_for(grain)
{
    assert((spoken_for & (grain)) == 0);
    spoken_for = spoken_for | (grain);
    was_exhausted = was_exhausted || spoken_for == ALL
}

/* One store each. */
inline enter()
{
    atomic { inside[me] = true; has_moved[me] = true }
}

inline leave()
{
    atomic { inside[me] = false; has_moved[me] = true }
}

/* One grain back. */
inline give(chunk, mask)
{
#if !defined(GIVES_FREE) && !defined(ENTER_LATE)
    enter();
#endif
    atomic {
        assert(spoken_for & GRAIN(chunk, mask));
        spoken_for = spoken_for & ~GRAIN(chunk, mask);
        is_filled = ((chunk_words[chunk] | (mask)) == FULL);
        chunk_words[chunk] = (is_filled -> 0 : chunk_words[chunk] | (mask))
    };
#if defined(ENTER_LATE) && !defined(GIVES_FREE)
    enter();
#endif
#if defined(LEAVE_EARLY) && !defined(GIVES_FREE)
    leave();
#endif
    if
    :: is_filled ->
        atomic {
            assert((page_word & (1 << (chunk))) == 0);
            page_word = page_word | (1 << (chunk));
            is_filled = false
        }
    :: else
    fi;
#if !defined(LEAVE_EARLY) && !defined(GIVES_FREE)
    leave()
#else
    skip
#endif
}

/* A grain out of an open word, if it has one. */
inline take_open(chunk)
{
    atomic {
        if
        :: chunk_words[chunk] ->
            pick = (chunk_words[chunk] & 1 -> 1 : 2);
            chunk_words[chunk] = chunk_words[chunk] & ~pick;
            now_spoken_for(GRAIN(chunk, pick));
            got = GRAIN(chunk, pick);
            pick = 0
        :: else
        fi
    }
}

/* A grain of a chunk that is opened for it. */
inline take_split()
{
    atomic {
        if
        :: page_word ->
            chunk = (page_word & 1 -> 0 : 1);
            page_word = page_word & ~(1 << chunk);
            now_spoken_for(GRAIN(chunk, 1));
            got = GRAIN(chunk, 1)
        :: else
        fi
    };
    if
    :: got -> atomic {
            assert(chunk_words[chunk] == 0);
            chunk_words[chunk] = 2;
            chunk = 0
        }
    :: else
    fi
}

/* Until the gate is open, or no longer. */
inline pass_gate()
{
    do
    :: atomic { !is_closed -> break }
    :: is_closed ->
        leave();
        if
        :: !is_closed
#ifdef IMPATIENT
        :: is_closed = false
#endif
        fi;
        enter()
    od
}

inline take()
{
#ifndef TAKES_FREE
    enter();
#endif
#ifndef NO_GATE
    pass_gate();
#endif
    got = 0;
    if
    :: true -> take_open(0)
    :: true -> take_open(1)
    :: true -> take_split()
    fi;
    held = held | got;
    got = 0;
#ifndef TAKES_FREE
    leave()
#else
    skip
#endif
}

inline give_one()
{
    if
    :: held & 1 -> held = held & ~1; give(0, 1)
    :: held & 2 -> held = held & ~2; give(0, 2)
    :: held & 4 -> held = held & ~4; give(1, 1)
    :: held & 8 -> held = held & ~8; give(1, 2)
    fi
}

/* Goes on for as long as it likes. */
proctype worker(byte me, held)
{
    byte got, chunk, pick;
    bool is_filled;
    do
    :: held -> give_one()
    :: take()
    :: break
    od;
    atomic {
        held = 0;
        finished++
    }
}

/* Without counters to go by, the last look counts, or the first. */
#ifdef TWO_PASSES
#define IS_LAST_LOOK (look == 2)
#else
#define IS_LAST_LOOK true
#endif

#define FOUND 1
#define EXHAUSTED 2
#define UNDECIDED 3

/* The words themselves, bottom-up. a search in another order makes no
 * difference while nobody moves anything. */
inline pass()
{
    take_open(0);
    if
    :: !got -> take_open(1)
    :: else
    fi;
    if
    :: !got -> take_page_word()
    :: else
    fi
}

/* The searcher's own split ends its search, so it is one step. */
inline take_page_word()
{
    atomic {
        if
        :: page_word ->
            chunk = (page_word & 1 -> 0 : 1);
            page_word = page_word & ~(1 << chunk);
            now_spoken_for(GRAIN(chunk, 1));
            chunk_words[chunk] = 2;
            got = GRAIN(chunk, 1);
            chunk = 0
        :: else
        fi
    }
}

/* Each counter at its own moment. */
inline look_at(who)
{
    atomic {
#ifndef NO_REST
        is_resting = is_resting && !inside[who];
#endif
        has_moved[who] = false
    }
}

inline wait_for_rest()
{
    do
    :: true ->
        is_resting = true;
        look_at(0);
        look_at(1);
        if
        :: is_resting -> break
#ifdef IMPATIENT
        :: !is_resting -> break
#endif
        :: else
        fi
    od
}

inline look_again_at(who)
{
#ifndef NO_RECOUNT
    is_resting = is_resting && !inside[who] && !has_moved[who]
#else
    skip
#endif
}

inline search()
{
    atomic {
        verdict = 0;
        look = 0;
        was_exhausted = (spoken_for == ALL)
    };
    is_closed = true;
    do
    :: look == LOOKS -> verdict = UNDECIDED; break
    :: look < LOOKS ->
        look++;
#ifdef ONE_PASS
        is_resting = true;
#else
        wait_for_rest();
#endif
        pass();
        if
        :: got -> verdict = FOUND; break
        :: else
        fi;
#ifndef ONE_PASS
        look_again_at(0);
        look_again_at(1);
#endif
        atomic {
            if
            :: is_resting && IS_LAST_LOOK ->
                verdict = EXHAUSTED;
                assert(was_exhausted)
            :: else
            fi;
            is_resting = false
        };
        if
        :: verdict == EXHAUSTED -> break
        :: else
        fi;
#ifdef REOPENED
        is_closed = false;
        is_closed = true
#endif
    od;
    is_closed = false
}

/* The first two grains are with the workers, the third is free, and the fourth
 * is with nobody who would ever give it. */
init
{
    byte got, chunk, pick, look, verdict;
    bool is_resting;
    atomic {
        spoken_for = 11;
        chunk_words[1] = 1;
        run worker(0, 1);
        run worker(1, 2)
    };
    search();
#ifndef IMPATIENT
    assert(verdict != UNDECIDED);
#endif
    got = 0;
    finished == WORKERS;
    /* Alone: it decides, and rightly. */
    search();
    assert(verdict == FOUND || verdict == EXHAUSTED);
    assert(verdict == FOUND || spoken_for == ALL)
}
