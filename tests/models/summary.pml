/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The availability summaries of the buddy (pool/buddy/summary.c) over one page
 * of two chunks with three grains each. Two planes, for runs of 1 and of 2
 * grains; each has a bit a chunk (`chunk_summary`) and above that a bit for the
 * page (`grain_page`). The page's own word has one plane of one level
 * (`chunk_page`).
 *
 * Each swap is one step, each raise and each lowering one step a level: that
 * is where the code can be overtaken.
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
 *   UPPER_RETURNS     no raise of the page's bit when a chunk's bit was set:
 *                     one thread that is held up hides the whole page
 *   RERAISE_LOWER     the second look raises the chunk's bit only
 *   RAISE_FROM_ZERO   raises only when the word was 0
 *   CROSSED_BY_LOAD   `before` comes from an earlier load, not from the swap
 *   SKIP_IF_SET       no raise where a load saw the bit set; on a machine that
 *                     lets the load come before the swap, which is allowed
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

/* One step a level. `skips` is 0 but in the weakening SKIP_IF_SET. */
inline raise_one(chunk, plane)
{
    if
    :: skips & (1 << (plane)) -> raise_ends(chunk, plane)
    :: else ->
        atomic {
            was_set = chunk_summary[plane] != 0;
            chunk_summary[plane] = chunk_summary[plane] | (1 << (chunk))
        };
#ifdef UPPER_RETURNS
        atomic {
            if
            :: was_set -> was_set = false
            :: else -> raise_upper(plane)
            fi;
            raise_ends(chunk, plane)
        }
#else
        atomic {
            was_set = false;
            raise_upper(plane);
            raise_ends(chunk, plane)
        }
#endif
    fi
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

inline lower_chunk(chunk, plane)
{
#ifdef RECHECK_FIRST
    after = chunk_words[chunk];
#endif
    atomic {
        chunk_summary[plane] = chunk_summary[plane] & ~(1 << (chunk));
        lowering++
    };
#ifndef RECHECK_FIRST
    after = chunk_words[chunk];
#endif
#ifndef NO_RECHECK_LOWER
    if
    :: HAS_RUN(after, (plane) + 1) ->
        chunk_summary[plane] = chunk_summary[plane] | (1 << (chunk));
#ifndef RERAISE_LOWER
        raise_upper(plane)
#endif
    :: else
    fi;
#endif
    atomic {
        after = 0;
        lowering--
    }
}

inline lower_upper(plane)
{
    atomic {
        grain_page = grain_page & ~(1 << (plane));
        lowering++
    };
#ifndef NO_RECHECK_UPPER
    if
    :: chunk_summary[plane] -> raise_upper(plane)
    :: else
    fi;
#endif
    lowering--
}

inline lower_page()
{
    chunk_page = false;
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
#ifdef SKIP_IF_SET
    skips = ((chunk_summary[0] >> (chunk)) & 1) |
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
    skips = 0;
    before = 0;
    after = 0
}

/* take_from_chunk(): `held` is 0 where the word has no such run. */
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
    if
    :: held == 0 -> lower_chunk(chunk, (length) - 1)
    :: else
    fi;
    seen = 0
}

/* By the hints, from the top. */
inline search(length)
{
    if
    :: (grain_page >> ((length) - 1)) & 1 ->
        seen = chunk_summary[(length) - 1];
        if
        :: seen == 0 -> lower_upper((length) - 1)
        :: seen & 1 -> chunk = 0; take_from_chunk(chunk, length)
        :: seen & 2 -> chunk = 1; take_from_chunk(chunk, length)
        fi;
        seen = 0
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
    byte round, chunk, seen, before, after, skips, length;
    bool was_set;
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
        :: true -> search(length)
        :: true -> open_chunk(length)
        /* What the last resort does, and a searcher that has a home. */
        :: true -> chunk = 0; take_from_chunk(chunk, length)
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
