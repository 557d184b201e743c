/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The availability summaries of the buddy (pool/buddy/summary.c) over one page
 * of two chunks with three grains each. Two planes, for runs of 1 and of 2
 * grains; each has a bit a chunk (`chunk_summary`) and above that a bit for the
 * page (`grain_page`). The page's own word has one plane of one level
 * (`chunk_page`).
 *
 * Each swap is one step. So is, at each level, each look at a bit, each setting
 * and each clearing: that is where the code can be overtaken.
 *
 * At rest, a word that holds a run of a plane's length is found through that
 * plane, at both levels; so is a page word that is not 0. A thread raises only
 * what its own swap crossed: `before` has no such run, `after` has one. While
 * threads are at work, a word may be hidden by two kinds of them only: whoever
 * crossed in this very word and has not raised it yet, and whoever lowers.
 *
 * Ghosts: `crossing`, for each word and plane the threads between their swap
 * and the end of their raise; `lowering`, those between a clearing and the end
 * of the second look.
 *
 * Weakenings, each of which must be caught:
 *   NO_RECHECK_LOWER  a chunk's bit is cleared and its word not looked at again
 *   NO_RECHECK_UPPER  the page's bit is cleared, its chunk bits not looked at
 *   NO_RECHECK_PAGE   the same for the page word
 *   RECHECK_FIRST     the second look comes before the clearing
 *   RAISE_FIRST       the bits are raised before the swap of the word
 *   RECHECK_ONE       of several words whose bits are cleared by one step only
 *                     the first is looked at again
 *   UPPER_RETURNS     no look at the page's bit when a chunk's bit was set: one
 *                     thread that is held up hides the whole page
 *   RERAISE_LOWER     the second look raises the chunk's bit only
 *   RAISE_FROM_ZERO   raises only when the word was 0
 *   CROSSED_BY_LOAD   `before` comes from an earlier load, not from the swap
 *   LOOK_EARLY        the look at the chunk's bit comes before the swap of the
 *                     word, as a machine may have it where the two are not both
 *                     seq_cst
 *   UPPER_LOOK_EARLY  the look at the page's bit comes before the setting of the
 *                     chunk's
 *   OPEN_UNRAISED     a word that is opened is not raised
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#define FULL 7

byte chunk_words[2];
byte page_word = 2;
byte chunk_summary[2]; /* by plane: a bit a chunk */
byte grain_page;       /* a bit a plane */
bool chunk_page = true;
byte finished;

byte crossing[4];
byte lowering;

#define HAS_RUN(word, length)                                                 \
    ((length) == 1 -> (word) != 0                                             \
                   : (((word) & 3) == 3 || ((word) & 6) == 6))
#define LOWEST_RUN(word, length)                                              \
    ((length) == 1 -> (word) & (8 - (word)) & 7                               \
                   : (((word) & 3) == 3 -> 3 : 6))

inline raise_upper(plane)
{
    grain_page = grain_page | (1 << (plane))
}

inline raise_ends(chunk, plane)
{
    crossing[2 * (chunk) + (plane)]--
}

/* What the looks see. */
#ifdef LOOK_EARLY
#define SEES_CHUNK(chunk, plane) ((looked >> (plane)) & 1)
#else
#define SEES_CHUNK(chunk, plane) ((chunk_summary[plane] >> (chunk)) & 1)
#endif
#if defined(UPPER_RETURNS) || defined(UPPER_LOOK_EARLY)
#define SEES_PAGE(plane) (was_set || ((grain_page >> (plane)) & 1))
#else
#define SEES_PAGE(plane) ((grain_page >> (plane)) & 1)
#endif

/* At each level a look, and a setting of what was clear. */
inline raise_one(chunk, plane)
{
#ifdef UPPER_RETURNS
    was_set = chunk_summary[plane] != 0;
#endif
#ifdef UPPER_LOOK_EARLY
    was_set = (grain_page >> (plane)) & 1;
#endif
    if
    :: SEES_CHUNK(chunk, plane)
    :: else -> chunk_summary[plane] = chunk_summary[plane] | (1 << (chunk))
    fi;
    if
    :: atomic { SEES_PAGE(plane) -> raise_ends(chunk, plane) }
    :: else ->
        atomic {
            raise_upper(plane);
            raise_ends(chunk, plane)
        }
    fi;
#if defined(UPPER_RETURNS) || defined(UPPER_LOOK_EARLY)
    was_set = false
#endif
}

#ifdef RAISE_FROM_ZERO
#define CROSSED(length) (before == 0 && HAS_RUN(after, length))
#else
#define CROSSED(length) (!HAS_RUN(before, length) && HAS_RUN(after, length))
#endif

/* Inside the step that makes the run. */
inline now_crossing(chunk)
{
    crossing[2 * (chunk)] = crossing[2 * (chunk)] + CROSSED(1);
    crossing[2 * (chunk) + 1] = crossing[2 * (chunk) + 1] + CROSSED(2)
}

inline raise_chunk(chunk)
{
    if
    :: CROSSED(1) -> raise_one(chunk, 0)
    :: else
    fi;
    if
    :: CROSSED(2) -> raise_one(chunk, 1)
    :: else
    fi
}

/* The second look. It raises like any other; the ghost is `lowering`. */
inline look_again(chunk, plane)
{
#ifndef RECHECK_FIRST
    after = chunk_words[chunk];
#endif
    if
    :: HAS_RUN(after, (plane) + 1) ->
#ifdef RERAISE_LOWER
        chunk_summary[plane] = chunk_summary[plane] | (1 << (chunk))
#else
        crossing[2 * (chunk) + (plane)]++;
        raise_one(chunk, plane)
#endif
    :: else
    fi
}

/* Chunks of `vain`, by one step, if any of their bits is set. */
inline lower_chunks(plane)
{
#ifdef RECHECK_FIRST
    after = (vain & 1 -> chunk_words[0] : chunk_words[1]);
#endif
    if
    :: chunk_summary[plane] & vain ->
        atomic {
            chunk_summary[plane] = chunk_summary[plane] & ~vain;
            lowering++
        };
#ifndef NO_RECHECK_LOWER
        if
        :: vain & 1 -> look_again(0, plane)
        :: else
        fi;
        if
#ifdef RECHECK_ONE
        :: vain == 2 -> look_again(1, plane)
#else
        :: vain & 2 -> look_again(1, plane)
#endif
        :: else
        fi;
#endif
        lowering--
    :: else
    fi;
    atomic {
        after = 0;
        vain = 0
    }
}

inline lower_upper(plane)
{
    if
    :: (grain_page >> (plane)) & 1 ->
        atomic {
            grain_page = grain_page & ~(1 << (plane));
            lowering++
        };
#ifndef NO_RECHECK_UPPER
        if
        :: chunk_summary[plane] ->
            if
            :: (grain_page >> (plane)) & 1
            :: else -> raise_upper(plane)
            fi
        :: else
        fi;
#endif
        lowering--
    :: else
    fi
}

inline lower_page()
{
    if
    :: chunk_page -> chunk_page = false
    :: else
    fi;
#ifndef NO_RECHECK_PAGE
    if
    :: page_word -> chunk_page = true
    :: else
    fi
#endif
}

/* give.c. Whoever fills a word may keep it open, or hands its unit up. */
inline give(chunk, mask)
{
#ifdef LOOK_EARLY
    looked = ((chunk_summary[0] >> (chunk)) & 1) |
             (((chunk_summary[1] >> (chunk)) & 1) << 1);
#endif
#if defined(RAISE_FIRST) || defined(CROSSED_BY_LOAD)
    before = chunk_words[chunk];
#endif
#ifdef RAISE_FIRST
    after = before | (mask);
    raise_chunk(chunk);
#endif
    atomic {
        assert((chunk_words[chunk] & (mask)) == 0);
#ifndef CROSSED_BY_LOAD
        before = chunk_words[chunk];
#endif
        after = chunk_words[chunk] | (mask);
        if
        :: after == FULL -> after = 0
        :: true
        fi;
        now_crossing(chunk);
        chunk_words[chunk] = after
    };
    if
    :: after == 0 ->
        atomic {
            before = page_word;
            page_word = page_word | (1 << (chunk))
        };
        if
        :: before == 0 -> chunk_page = true
        :: else
        fi
    :: else ->
#ifndef RAISE_FIRST
        raise_chunk(chunk)
#endif
    fi;
    looked = 0;
    before = 0;
    after = 0
}

/* take_from_chunk(): `held` is 0 where the word has no such run, and `vain` then
 * has the chunk. */
inline take_from_chunk(chunk, length)
{
    atomic {
        seen = chunk_words[chunk];
        if
        :: HAS_RUN(seen, length) ->
            held = LOWEST_RUN(seen, length);
            chunk_words[chunk] = seen & ~held
        :: else
        fi
    };
    atomic {
        if
        :: held == 0 -> vain = vain | (1 << (chunk))
        :: else
        fi;
        seen = 0
    }
}

/* By the hints, one word after the other, as they were named. From the top, or
 * at home, where the page's bit is neither asked nor cleared. */
inline search(length, is_at_home)
{
    if
    :: is_at_home || (grain_page >> ((length) - 1)) & 1 ->
        hints = chunk_summary[(length) - 1];
        if
        :: hints == 0 && !is_at_home -> lower_upper((length) - 1)
        :: else
        fi;
        if
        :: hints & 1 -> chunk = 0; take_from_chunk(chunk, length)
        :: else
        fi;
        if
        :: (hints & 2) && !held -> chunk = 1; take_from_chunk(chunk, length)
        :: else
        fi;
        if
        :: vain -> lower_chunks((length) - 1)
        :: else
        fi;
        hints = 0
    :: else
    fi
}

/* Splits the lowest chunk of the page, if its summary names it. */
inline open_chunk(length)
{
    if
    :: chunk_page ->
        atomic {
            seen = page_word;
            if
            :: seen ->
                chunk = (seen & 1 -> 0 : 1);
                page_word = seen & ~(1 << chunk)
            :: else
            fi
        };
        if
        :: seen ->
            seen = 0;
            assert(chunk_words[chunk] == 0);
            held = (length == 1 -> 1 : 3);
            atomic {
                after = FULL & ~held;
                now_crossing(chunk);
                chunk_words[chunk] = after
            };
#ifndef OPEN_UNRAISED
            raise_chunk(chunk);
#endif
            after = 0
        :: else -> lower_page()
        fi
    :: else
    fi
}

#define FOUND(chunk, plane)                                                   \
    (!HAS_RUN(chunk_words[chunk], (plane) + 1) ||                             \
     (((chunk_summary[plane] >> (chunk)) & 1) &&                              \
      ((grain_page >> (plane)) & 1)))
#define FOUND_OR_COMING(chunk, plane)                                         \
    (FOUND(chunk, plane) || crossing[2 * (chunk) + (plane)] || lowering)
#define NOTHING_HIDDEN                                                        \
    (FOUND_OR_COMING(0, 0) && FOUND_OR_COMING(1, 0) &&                        \
     FOUND_OR_COMING(0, 1) && FOUND_OR_COMING(1, 1))

/* It starts with one grain of chunk 0, and may end with what it took last. */
proctype thread(byte held)
{
    byte round, chunk, seen, before, after, looked, length, hints, vain;
    bool was_set; /* in weakenings only */
    give(chunk, held);
    held = 0;
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        round++;
        if
        :: length = 1
        :: length = 2
        fi;
        if
        :: true -> search(length, false)
        :: true -> search(length, true)
        :: true -> open_chunk(length)
        /* A search that does not ask the summaries. */
        :: true -> chunk = 0; take_from_chunk(chunk, length); vain = 0
        fi;
        length = 0;
        assert(NOTHING_HIDDEN);
        if
        :: held -> give(chunk, held)
        :: true
        fi;
        held = 0;
        chunk = 0
    od;
    finished++
}

init
{
    byte i;
    atomic {
        do
        :: i < THREADS -> run thread(1 << i); i++
        :: else -> break
        od;
        i = 0
    };
    finished == THREADS;
    assert(lowering == 0);
    assert(FOUND(0, 0) && FOUND(1, 0));
    assert(FOUND(0, 1) && FOUND(1, 1));
    assert(page_word == 0 || chunk_page)
}
