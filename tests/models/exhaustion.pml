/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * May a search of all words that found nothing be called exhaustion? Two levels
 * of two-bit words: four grains in two chunks, one page word. The searcher
 * holds the run lock, which other takes and gives do not need.
 *
 * The claim: when a search says EXHAUSTED, there was a moment during it at
 * which every grain was spoken for. A grain is spoken for from the swap that
 * claims it for a caller to the swap that gives it. What is only in transit is
 * not: between the swap that retires a word and the bit above, and between the
 * claim of a chunk and the opening of its word.
 *
 * The protocol: a stamp, in one word the number of operations under way that
 * free something and the number of those that ended. A give, and a take that
 * splits, adds itself before its first swap and takes itself off after its last
 * one; a take that only clears bits needs neither. The searcher reads the stamp
 * before and after its pass. If nobody was under way and nobody came or went,
 * free memory could only become less, so what the pass did not see was not
 * there at its end. Otherwise it looks again, LOOKS times in all, and then says
 * UNDECIDED, which is no claim. Alone, it always decides.
 *
 * With -DGATED the stamp costs nothing while nobody searches: an operation sets
 * a flag of its own thread and adds itself to the stamp only if it then sees
 * that a searcher wants it; the searcher says so first, and an operation whose
 * flag it sees after that counts as one under way.
 *
 * Weakenings, each of which must be caught:
 *   ONE_PASS      no stamp: the first pass that finds nothing is believed
 *   TWO_PASSES    (with ONE_PASS) the second one is; so does the code today
 *   TRANSIT_ONLY  only what is in transit is counted, not each give
 *   ENDED_ONLY    only ends are counted
 *   ENTER_LATE    an operation adds itself after its first swap
 *   LEAVE_EARLY   it takes itself off before its last one
 *   NO_GRACE      (with GATED) the searcher does not look at the flags
 *   FLAG_LATE     (with GATED) the flag is set after the look
 */
#define WORKERS 2
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef LOOKS
#define LOOKS 2
#endif
#define FULL 3
#define ALL 15

byte chunk_words[2];
byte page_word;

/* The stamp: one word in the code. */
byte under_way;
byte ended;
bool is_wanted;
bool inside[WORKERS];

byte spoken_for; /* ghost: a bit a grain */
bool is_searching, was_exhausted;
byte finished;

#define GRAIN(chunk, mask) ((mask) << (2 * (chunk)))

/* Inside the step that claims for a caller. */
inline now_spoken_for(grain)
{
    assert((spoken_for & (grain)) == 0);
    spoken_for = spoken_for | (grain);
    was_exhausted = was_exhausted || spoken_for == ALL
}

inline enter()
{
#ifdef GATED
#ifdef FLAG_LATE
    is_announced = is_wanted;
    inside[me] = true;
#else
    inside[me] = true;
    is_announced = is_wanted;
#endif
    if
    :: is_announced -> under_way++
    :: else
    fi
#elif !defined(ONE_PASS) && !defined(ENDED_ONLY)
    under_way++
#else
    skip
#endif
}

inline leave()
{
#ifdef GATED
    if
    :: is_announced -> atomic { under_way--; ended++; is_announced = false }
    :: else
    fi;
    inside[me] = false
#elif defined(TRANSIT_ONLY)
    under_way--
#elif defined(ENDED_ONLY)
    ended++
#elif !defined(ONE_PASS)
    atomic { under_way--; ended++ }
#else
    skip
#endif
}

/* One grain back. */
inline give(chunk, mask)
{
#if !defined(ENTER_LATE) && !defined(TRANSIT_ONLY)
    enter();
#endif
    atomic {
        assert(spoken_for & GRAIN(chunk, mask));
        spoken_for = spoken_for & ~GRAIN(chunk, mask);
        is_filled = ((chunk_words[chunk] | (mask)) == FULL);
        chunk_words[chunk] = (is_filled -> 0 : chunk_words[chunk] | (mask));
#ifdef TRANSIT_ONLY
        under_way = under_way + is_filled
#endif
    };
#ifdef ENTER_LATE
    enter();
#endif
#ifdef LEAVE_EARLY
    leave();
#endif
    if
    :: is_filled ->
        atomic {
            assert((page_word & (1 << (chunk))) == 0);
            page_word = page_word | (1 << (chunk));
            is_filled = false
        };
#ifdef TRANSIT_ONLY
        leave()
#endif
    :: else
    fi;
#if !defined(TRANSIT_ONLY) && !defined(LEAVE_EARLY)
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
    enter();
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
#ifdef LEAVE_EARLY
    leave();
#endif
    if
    :: got -> atomic {
            assert(chunk_words[chunk] == 0);
            chunk_words[chunk] = 2
        }
    :: else
    fi;
#ifndef LEAVE_EARLY
    leave();
#endif
    chunk = 0
}

inline take()
{
    got = 0;
    if
    :: true -> take_open(0)
    :: true -> take_open(1)
    :: true -> take_split()
    fi;
    held = held | got;
    got = 0
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

proctype worker(byte me, held)
{
    byte round, got, chunk, pick;
    bool is_filled, is_announced;
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        round++;
        if
        :: held -> give_one()
        :: true -> take()
        fi
    od;
    atomic {
        held = 0;
        finished++
    }
}

/* Without a stamp to go by, the last look counts, or the first. */
#ifdef TWO_PASSES
#define IS_LAST_LOOK (look == LOOKS)
#else
#define IS_LAST_LOOK true
#endif

#define FOUND 1
#define EXHAUSTED 2
#define UNDECIDED 3

/* binadei_buddy_take_last_resort(): the words themselves, bottom-up. */
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

inline search()
{
    atomic {
        verdict = 0;
        look = 0;
        was_exhausted = (spoken_for == ALL)
    };
    is_wanted = true;
    do
    :: look == LOOKS -> verdict = UNDECIDED; break
    :: look < LOOKS ->
        look++;
        atomic {
            ended_before = ended;
            is_quiet = (under_way == 0)
        };
#if defined(GATED) && !defined(NO_GRACE)
        is_quiet = is_quiet && !inside[0];
        is_quiet = is_quiet && !inside[1];
#endif
        pass();
        if
        :: got -> verdict = FOUND; break
        :: else
        fi;
        atomic {
            if
            :: is_quiet && under_way == 0 && ended == ended_before &&
                IS_LAST_LOOK ->
                verdict = EXHAUSTED;
                assert(was_exhausted)
            :: else
            fi;
            ended_before = 0;
            is_quiet = false
        };
        if
        :: verdict == EXHAUSTED -> break
        :: else
        fi
    od;
    is_wanted = false
}

/* The first grain of each chunk is with the workers, the third with nobody. */
init
{
    byte got, chunk, pick, look, verdict, ended_before;
    bool is_quiet;
    atomic {
        spoken_for = 11;
        chunk_words[1] = 1;
        run worker(0, 1);
        run worker(1, 2)
    };
    search();
    if
    :: got -> got = 0
    :: else
    fi;
    finished == WORKERS;
    /* Alone: it decides, and rightly. */
    search();
    assert(verdict == FOUND || verdict == EXHAUSTED);
    assert(verdict == FOUND || spoken_for == ALL);
    assert(under_way == 0)
}
