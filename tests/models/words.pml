/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The words of the buddy (pool/buddy/take.c, give.c): three levels of
 * two-bit words, so a chunk is 2 grains and a page is 4. A set bit is a free
 * unit.
 *
 * A loop of compare-and-swaps is one atomic step here: a swap that fails
 * changes nothing, and the next attempt starts from what it saw. Whatever two
 * accesses of the code are apart are two steps.
 *
 * The search is wider than the code's: any source that has what is wanted may
 * serve it, and any give may leave its word open, not only the owner's. So
 * what holds here holds for every order of search and every home.
 *
 * Ghosts: `taken`, a bit a grain, set by the swap that claims it and cleared by
 * the swap that frees it; a grain is free in one word at most or is taken, by
 * one holder. `started`, the metadata bytes, a bit for "not 0".
 *
 * Weakenings, each of which must be caught:
 *   RETIRE_BY_STORE  the filled word is published, then cleared by a store
 *   RETIRE_LATE      the unit is set free above before its word is cleared
 *   GIVE_BY_STORE    a give loads and stores instead of swapping
 *   TAKE_BY_STORE    a take does
 *   PUBLISH_FULL     an opened word is published whole, then taken from
 *   TRIM_BY_STORE    trim looks, then stores 0
 *   TRIM_TWICE       trim sets the bit above without having won the swap
 *   DROP_REMAINDER   what is left of a carved claim is not given back
 *   CLASS_AFTER_GIVE the metadata byte is cleared after the grains are given
 *   MERGE_TOO_EARLY  a word is retired when one grain is still out
 */
#ifndef PAGES
#define PAGES 1
#endif
#ifndef THREADS
#define THREADS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define CHUNKS (2 * PAGES)
#define FULL 3
#define ALL_PAGES ((1 << PAGES) - 1)

byte free_pages = ALL_PAGES;
byte page_words[PAGES];   /* chunks of each page */
byte chunk_words[CHUNKS]; /* grains of each chunk */

byte taken;
byte started;
byte finished;

#define GRAINS_OF_CHUNK(chunk, mask) ((mask) << (2 * (chunk)))
#define GRAINS_OF_CHUNKS(page, mask)                                          \
    ((((mask) & 1) * 3 + ((mask) >> 1) * 12) << (4 * (page)))
#define GRAINS_OF_PAGE(page) (15 << (4 * (page)))

#define FIRST_GRAIN(chunk, mask) (2 * (chunk) + ((mask) == 2 -> 1 : 0))

/* Inside the atomic step that claims or frees. */
inline now_taken(grains)
{
    assert((taken & (grains)) == 0);
    assert((started & (grains)) == 0);
    taken = taken | (grains)
}

inline now_free(grains)
{
    assert((taken & (grains)) == (grains));
    taken = taken & ~(grains)
}

/* give.c, from the bottom up. `may_keep`: the giver has a home. */
inline give_pages(page)
{
    atomic {
        assert((free_pages & (1 << page)) == 0);
        free_pages = free_pages | (1 << page)
    }
}

/* `is_ours`: the chunks are the giver's, not those of a word just retired,
 * whose grains are free already. */
inline give_chunks(page, mask, is_ours)
{
    atomic {
        assert((page_words[page] & (mask)) == 0);
        if
        :: is_ours -> now_free(GRAINS_OF_CHUNKS(page, mask))
        :: else
        fi;
        is_page_filled = 0;
        if
        :: (page_words[page] | (mask)) == FULL ->
            page_words[page] = 0;
            is_page_filled = 1
        :: (page_words[page] | (mask)) == FULL && may_keep ->
            page_words[page] = FULL
        :: else -> page_words[page] = page_words[page] | (mask)
        fi
    };
    if
    :: is_page_filled -> give_pages(page); is_page_filled = 0
    :: else
    fi
}

inline retire_chunk(chunk)
{
    parent = (chunk) / 2;
    give_chunks(parent, (1 << ((chunk) % 2)), false);
    parent = 0
}

#ifdef MERGE_TOO_EARLY
#define FILLS(chunk, mask) ((chunk_words[chunk] | (mask)) >= 2)
#else
#define FILLS(chunk, mask) ((chunk_words[chunk] | (mask)) == FULL)
#endif

inline give_grains(chunk, mask)
{
#ifdef GIVE_BY_STORE
    seen = chunk_words[chunk];
    atomic {
        now_free(GRAINS_OF_CHUNK(chunk, mask));
        is_filled = ((seen | (mask)) == FULL);
        chunk_words[chunk] = (is_filled -> 0 : seen | (mask));
        seen = 0
    };
#else
    atomic {
        assert((chunk_words[chunk] & (mask)) == 0);
        now_free(GRAINS_OF_CHUNK(chunk, mask));
        is_filled = 0;
        if
        :: FILLS(chunk, mask) ->
            is_filled = 1;
#if !defined(RETIRE_BY_STORE) && !defined(RETIRE_LATE)
            chunk_words[chunk] = 0
#else
            chunk_words[chunk] = FULL
#endif
        :: FILLS(chunk, mask) && may_keep ->
            chunk_words[chunk] = FULL
        :: else -> chunk_words[chunk] = chunk_words[chunk] | (mask)
        fi
    };
#endif
    if
    :: is_filled ->
#ifdef RETIRE_BY_STORE
        chunk_words[chunk] = 0;
#endif
        retire_chunk(chunk);
#ifdef RETIRE_LATE
        chunk_words[chunk] = 0;
#endif
        is_filled = 0
    :: else
    fi
}

/* moietyi_buddy_give(): grains [from, to) of one page. */
inline give(from, to)
{
    if
    :: (from) % 2 == 1 && (from) < (to) ->
        unit = (from) / 2;
        give_grains(unit, 2);
        unit = ((from) + 1) / 2
    :: else -> unit = (from) / 2
    fi;
    if
    :: unit % 2 == 0 && (to) >= 2 * unit + 4 ->
        atomic {
            page = unit / 2;
            now_free(GRAINS_OF_PAGE(page));
            assert((free_pages & (1 << page)) == 0);
            free_pages = free_pages | (1 << page);
            page = 0
        };
        unit = unit + 2
    :: unit % 2 == 1 && (to) >= 2 * unit + 2 ->
        page = unit / 2;
        give_chunks(page, 2, true);
        page = 0;
        unit = unit + 1
    :: unit % 2 == 0 && (to) >= 2 * unit + 2 && (to) < 2 * unit + 4 ->
        page = unit / 2;
        give_chunks(page, 1, true);
        page = 0;
        unit = unit + 1
    :: else
    fi;
    if
    :: (to) == 2 * unit + 1 && (from) <= 2 * unit -> give_grains(unit, 1)
    :: else
    fi;
    unit = 0
}

/* take.c: publishes the word of a chunk that is ours whole, `picked` already
 * out of it. */
inline open_chunk(chunk, picked)
{
#ifdef PUBLISH_FULL
    assert(chunk_words[chunk] == 0);
    chunk_words[chunk] = FULL;
#endif
    atomic {
#ifndef PUBLISH_FULL
        assert(chunk_words[chunk] == 0);
#endif
        chunk_words[chunk] = FULL & ~(picked);
        now_free(GRAINS_OF_CHUNK(chunk, FULL & ~(picked)));
        start = FIRST_GRAIN(chunk, picked)
    }
}

/* The same for a page of which the first chunk is kept. */
inline open_page(page)
{
    atomic {
        assert(page_words[page] == 0);
        page_words[page] = 2;
        now_free(GRAINS_OF_CHUNKS(page, 2))
    }
}

/* Each puts the first grain into `start`, or leaves it NONE. */
#define NONE 15

inline claim_grains(chunk, mask)
{
#ifdef TAKE_BY_STORE
    seen = chunk_words[chunk];
    if
    :: (seen & (mask)) == (mask) ->
        atomic {
            now_taken(GRAINS_OF_CHUNK(chunk, mask));
            chunk_words[chunk] = seen & ~(mask);
            start = FIRST_GRAIN(chunk, mask)
        }
    :: else
    fi;
    seen = 0
#else
    atomic {
        if
        :: (chunk_words[chunk] & (mask)) == (mask) ->
            now_taken(GRAINS_OF_CHUNK(chunk, mask));
            chunk_words[chunk] = chunk_words[chunk] & ~(mask);
            start = FIRST_GRAIN(chunk, mask)
        :: else
        fi
    }
#endif
}

inline claim_chunk(chunk)
{
    atomic {
        parent = (chunk) / 2;
        if
        :: page_words[parent] & (1 << ((chunk) % 2)) ->
            now_taken(GRAINS_OF_CHUNK(chunk, FULL));
            page_words[parent] =
                page_words[parent] & ~(1 << ((chunk) % 2));
            start = 2 * (chunk)
        :: else
        fi;
        parent = 0
    }
}

inline claim_page(page)
{
    atomic {
        if
        :: free_pages & (1 << page) ->
            now_taken(GRAINS_OF_PAGE(page));
            free_pages = free_pages & ~(1 << page);
            start = 4 * (page)
        :: else
        fi
    }
}

/* Both chunks of a page that hysteresis left open. */
inline claim_both_chunks(page)
{
    atomic {
        if
        :: page_words[page] == FULL ->
            now_taken(GRAINS_OF_PAGE(page));
            page_words[page] = 0;
            start = 4 * (page)
        :: else
        fi
    }
}

/* Grains `picked` of a word: where it is open, out of its page, out of a page
 * of its own. */
inline take_grains(picked)
{
    select_unit(CHUNKS);
    if
    :: true -> claim_grains(unit, picked)
    :: true ->
        claim_chunk(unit);
        if
        :: start != NONE -> open_chunk(unit, picked)
        :: else
        fi
    :: unit % 2 == 0 ->
        page = unit / 2;
        claim_page(page);
        if
        :: start != NONE -> open_page(page); open_chunk(unit, picked)
        :: else
        fi;
        page = 0
    fi;
    unit = 0
}

inline take_chunk()
{
    select_unit(CHUNKS);
    if
    :: true -> claim_chunk(unit)
    :: unit % 2 == 0 ->
        page = unit / 2;
        claim_page(page);
        if
        :: start != NONE -> open_page(page)
        :: else
        fi;
        page = 0
    fi;
    unit = 0
}

/* Two chunks of which three grains are kept: the fourth goes back. */
inline take_three()
{
    select_unit(PAGES);
    if
    :: true -> claim_both_chunks(unit)
    :: true -> claim_page(unit)
    fi;
    unit = 0;
#ifndef DROP_REMAINDER
    if
    :: start != NONE -> give(start + 3, start + 4)
    :: else
    fi
#endif
}

inline take_page()
{
    select_unit(PAGES);
    claim_page(unit);
    unit = 0
}

/* Any unit below `limit`. */
inline select_unit(limit)
{
    unit = 0;
    do
    :: unit + 1 < limit -> unit++
    :: break
    od
}

/* give.c: moietyi_buddy_trim() */
inline trim_chunk(chunk)
{
#ifdef TRIM_BY_STORE
    if
    :: chunk_words[chunk] == FULL ->
        chunk_words[chunk] = 0;
        retire_chunk(chunk)
    :: else
    fi
#elif defined(TRIM_TWICE)
    if
    :: chunk_words[chunk] == FULL ->
        atomic {
            if
            :: chunk_words[chunk] == FULL -> chunk_words[chunk] = 0
            :: else
            fi
        };
        retire_chunk(chunk)
    :: else
    fi
#else
    atomic {
        if
        :: chunk_words[chunk] == FULL -> chunk_words[chunk] = 0; is_filled = 1
        :: else
        fi
    };
    if
    :: is_filled -> retire_chunk(chunk); is_filled = 0
    :: else
    fi
#endif
}

inline trim_page(page)
{
    trim_chunk(2 * (page));
    trim_chunk(2 * (page) + 1);
    atomic {
        if
        :: page_words[page] == FULL ->
            page_words[page] = 0;
            is_page_filled = 1
        :: else
        fi
    };
    if
    :: is_page_filled -> give_pages(page); is_page_filled = 0
    :: else
    fi
}

/* The holder writes the byte of the first grain, and clears it before the
 * grains go back; then all at once, or in two parts. */
inline use_and_give(length)
{
    started = started | (1 << start);
#ifndef CLASS_AFTER_GIVE
    started = started & ~(1 << start);
#endif
    cut = start + (length);
    if
    :: true
    :: (length) > 1 -> cut = start + 1
    :: (length) > 2 -> cut = start + (length) - 1
    fi;
    give(start, cut);
    if
    :: cut < start + (length) -> give(cut, start + (length))
    :: else
    fi;
    cut = 0;
#ifdef CLASS_AFTER_GIVE
    started = started & ~(1 << start);
#endif
}

proctype thread()
{
    byte round, unit, page, parent, start, cut, length;
    bool is_filled, is_page_filled, may_keep;
#if defined(GIVE_BY_STORE) || defined(TAKE_BY_STORE)
    byte seen;
#endif
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        round++;
        start = NONE;
        may_keep = true;
        if
        :: length = 1; take_grains(1)
        :: length = 1; take_grains(2)
        :: length = 2; take_grains(FULL)
        :: length = 2; take_chunk()
        :: length = 3; take_three()
        :: length = 4; take_page()
        fi;
        if
        :: start != NONE -> use_and_give(length)
        :: else
        fi;
        length = 0;
        may_keep = false;
        if
        :: true -> trim_page(0)
        :: true
        fi
    od;
    finished++
}

/* Everything comes together again, and exactly once. */
init
{
    byte page, parent, i;
    bool is_filled, is_page_filled, may_keep;
    atomic {
        do
        :: i < THREADS -> run thread(); i++
        :: else -> break
        od;
        i = 0
    };
    finished == THREADS;
    do
    :: i < PAGES -> trim_page(i); i++
    :: else -> break
    od;
    i = 0;
    assert(taken == 0 && started == 0);
    assert(free_pages == ALL_PAGES);
    do
    :: i < PAGES -> assert(page_words[i] == 0); i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < CHUNKS -> assert(chunk_words[i] == 0); i++
    :: else -> break
    od
}
