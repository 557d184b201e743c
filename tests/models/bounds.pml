/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The bound of a page's longest free run (pool/buddy/bound.h, bound.c; raised
 * by give.c, take.c, summary.c, map.c and map_take.c, lowered by fit.c), over a
 * page of two chunks with three grains each. What is done (AGES 1), or a
 * stream's two maps (AGES 2): a word of chunks, a word of grains for each chunk,
 * and a hint that names the chunks whose words have something. Givers give one
 * interval each, which may cross the chunks; a word that is full is retired. A
 * taker takes, lowers the hint of a word that has nothing, splits a chunk or
 * the page. Lookers mark the bound, load what the hints name, and note the
 * longest run. With two maps a mover closes the epoch: word by word from the
 * fresh map to the ageing one. Each load of a word is a step, and so is each
 * change.
 *
 * The claim: at rest no run of the page is longer than its bound, if one is
 * known, unless the page is free as a whole; each word that has something is
 * named; and no mark is left.
 *
 * Left out: planes of longer runs, and what a search for a long run passes over
 * without a look at its words.
 *
 * Weakenings, each of which must be caught:
 *   BOUND_FIRST     the bound is looked at before the bits are set
 *   WORDS_FIRST     the run around is measured before the bits are set
 *   LEAVE_MARKED    who frees leaves a marked bound alone
 *   NOTE_BY_STORE   a look notes what it saw whatever was freed meanwhile
 *   NO_COUNT        two looks have the same mark
 *   MARK_LATE       the words are loaded before the bound is marked
 *   ONE_CHUNK       the run around is measured within a chunk only
 *   RETIRE_EARLY    who retires a chunk raises before the bit above is set
 *   RAISE_BY_STORE  the bound is raised by a plain store
 *   RAISE_ONCE      who fails to raise the bound does not try again
 *   LOWER_UNRAISED  who clears a hint, looks again and sets it raises no bound
 *   LOWER_STALE     it raises for what it saw before it set the hint
 *   CROSSER_ALONE   who sets a hint raises for its own bits only
 *   OPEN_UNRAISED   who opens a chunk raises nothing
 *   OPEN_PAGE_UNRAISED  nor who opens the page
 *   MOVE_UNRAISED   who moves a word raises nothing
 *   MOVE_EARLY      it raises before it has set the bits
 *   HINT_LATE       a stream's giver looks at the hint after it has raised
 */
#ifndef AGES
#define AGES 1
#endif
#ifndef GIVERS
#define GIVERS 2
#endif
#ifndef LOOKERS
#define LOOKERS 1
#endif
#ifndef TAKERS
#define TAKERS 1
#endif
#ifndef MOVERS
#define MOVERS (AGES - 1)
#endif
#ifndef SPLITS
#define SPLITS 1 /* 0: a taker only takes from words, and lowers hints */
#endif
#ifndef LENGTH
#define LENGTH 2 /* of what is given, at most */
#endif
#define CHUNKS 2
#define GRAINS 3
#define PAGE 6
#define FULL 7
#define FULL_PAGE 3

#define LOOKING 8
#define KNOWN(bound) ((bound)&15)
#define COUNT(bound) ((bound)&240)
#define IS_KNOWN(bound) (KNOWN(bound) && KNOWN(bound) != LOOKING)

byte words[AGES * CHUNKS];
byte chunks[AGES];
byte hints[AGES];
bool is_free_page;
byte bound;
byte finished;

#define BIT(index) (1 << (index))
#define HAS(word, index) (((word) >> (index)) & 1)
#define GRAINS_OF(grains, chunk) (((grains) >> ((chunk)*GRAINS)) & FULL)
#define LOW_RUN(word) ((word)&1 -> ((word)&2 -> ((word)&4 -> 3 : 2) : 1) : 0)
#define HIGH_RUN(word) ((word)&4 -> ((word)&2 -> ((word)&1 -> 3 : 2) : 1) : 0)
#define LOWEST(word) ((word)&1 -> 0 : ((word)&2 -> 1 : 2))

/* All at once, at rest and for weakenings. */
#if AGES == 2
#define FREE_OF(chunk)                                                        \
    (HAS(chunks[0] | chunks[1], chunk)                                        \
         -> FULL : (words[chunk] | words[CHUNKS + (chunk)]))
#else
#define FREE_OF(chunk) (HAS(chunks[0], chunk) -> FULL : words[chunk])
#endif

/* --- raising --- */

inline end_walk()
{
    around = to - from;
    near = 0;
    way = 0
}

inline go_down()
{
    way = 2;
    do
    :: from && HAS(near, (from - 1) / GRAINS) ->
        from = (from - 1) / GRAINS * GRAINS
    :: else -> break
    od;
    if
    :: from == 0 -> end_walk()
    :: else
    fi
}

inline go_up()
{
    way = 1;
    do
    :: to < PAGE && HAS(near, to / GRAINS) -> to = (to / GRAINS + 1) * GRAINS
    :: else -> break
    od;
    if
    :: to == PAGE -> go_down()
    :: else
    fi
}

/* A word above or below, in which the run goes on; where it is free to its end,
 * in the next one, too. */
inline pass_up()
{
    word = word >> (to % GRAINS);
    length = LOW_RUN(word);
    to = to + length;
    if
    :: length && to % GRAINS == 0 -> go_up()
    :: else -> go_down()
    fi;
    word = 0;
    length = 0
}

inline pass_down()
{
    word = (word << (GRAINS - 1 - (from - 1) % GRAINS)) & FULL;
    length = HIGH_RUN(word);
    from = from - length;
    if
    :: length && from % GRAINS == 0 -> go_down()
    :: else -> end_walk()
    fi;
    word = 0;
    length = 0
}

/* The same in one step, as weakenings have it. */
#ifdef ONE_CHUNK
#define IS_BORDER(grain) ((grain) % GRAINS == 0)
#else
#define IS_BORDER(grain) false
#endif


inline measure_at_once()
{
    word = FREE_OF(0);
    word = word | (FREE_OF(1) << GRAINS);
    do
    :: to < PAGE && HAS(word, to) && !IS_BORDER(to) -> to++
    :: else -> break
    od;
    do
    :: from && HAS(word, from - 1) && !IS_BORDER(from) -> from--
    :: else -> break
    od;
    word = 0;
    end_walk()
}
/* Of grains [low, high), which were free. Begins the step of the first load of
 * the bound. */
inline begin_raise(low, high)
{
    from = low;
    to = high;
#ifdef BOUND_FIRST
    if
    :: early -> seen = early - 1; early = 0
    :: else -> seen = bound
    fi
#else
    seen = bound
#endif
#ifdef WORDS_FIRST
    ;
    around = early;
    early = 0
#endif
}

inline end_raise()
{
    seen = 0;
    around = 0;
    from = 0;
    to = 0
}

/* bound.c: raise, after its first load. */
inline raise()
{
    do
    :: atomic {
           !way && (KNOWN(seen) == 0 ||
                    (IS_KNOWN(seen) && around && KNOWN(seen) > around)) ->
           end_raise();
           break
       }
#ifdef LEAVE_MARKED
    :: atomic { KNOWN(seen) == LOOKING -> end_raise(); break }
#else
    :: atomic {
           !way && KNOWN(seen) == LOOKING ->
           if
           :: bound == seen -> bound = COUNT(seen); end_raise(); break
           :: else -> seen = bound
           fi
       }
#endif
#ifdef ONE_CHUNK
    :: atomic { IS_KNOWN(seen) && !around -> measure_at_once() }
#else
    :: atomic {
           !way && IS_KNOWN(seen) && !around ->
           near = chunks[0];
#if AGES == 2
           way = 3
       }
    :: atomic {
           way == 3 ->
           near = near | chunks[1];
#endif
           go_up()
       }
#if AGES == 2
    :: atomic { way == 1 -> word = words[to / GRAINS]; way = 4 }
    :: atomic {
           way == 4 ->
           word = word | words[CHUNKS + to / GRAINS];
           pass_up()
       }
    :: atomic { way == 2 -> word = words[(from - 1) / GRAINS]; way = 5 }
    :: atomic {
           way == 5 ->
           word = word | words[CHUNKS + (from - 1) / GRAINS];
           pass_down()
       }
#else
    :: atomic { way == 1 -> word = words[to / GRAINS]; pass_up() }
    :: atomic { way == 2 -> word = words[(from - 1) / GRAINS]; pass_down() }
#endif
#endif
    :: atomic {
           !way && IS_KNOWN(seen) && around && KNOWN(seen) <= around ->
           if
#ifdef RAISE_BY_STORE
           :: true -> bound = COUNT(seen) | (around + 1); end_raise(); break
#else
           :: bound == seen ->
               bound = COUNT(seen) | (around + 1);
               end_raise();
               break
           :: else ->
#ifdef RAISE_ONCE
               end_raise();
               break
#else
               seen = bound
#endif
#endif
           fi
       }
    od
}

/* Each run of `mask`, grains of a chunk. */
inline raise_grains(chunk)
{
    do
    :: atomic { mask == 0 -> break }
    :: atomic {
           mask ->
           length = LOW_RUN(mask >> LOWEST(mask));
           begin_raise((chunk)*GRAINS + LOWEST(mask),
                       (chunk)*GRAINS + LOWEST(mask) + length);
           length = LOWEST(mask) + length;
           mask = mask & ~(BIT(length) - 1);
           length = 0
       };
       raise()
    od
}

inline raise_chunk(chunk)
{
    atomic { begin_raise((chunk)*GRAINS, ((chunk) + 1) * GRAINS) };
    raise()
}

/* A look, and a setting of what is clear. */
inline set_hint(age, chunk)
{
    if
    :: HAS(hints[age], chunk)
    :: else -> hints[age] = hints[age] | BIT(chunk)
    fi
}

/* --- giving --- */

/* What is done has its bound raised here, a stream's maps by the caller. */
inline give_chunks(age, units)
{
    if
    :: atomic { (units) == FULL_PAGE -> is_free_page = true; units = 0 }
    :: atomic {
           (units) && (units) != FULL_PAGE ->
           assert(!is_free_page && (chunks[age] & (units)) == 0);
           before = units;
           units = 0;
           if
           :: (chunks[age] | before) == FULL_PAGE -> chunks[age] = 0; before = 4
           :: else -> chunks[age] = chunks[age] | before
           fi
       };
       if
       :: atomic { before == 4 -> is_free_page = true; before = 0 }
#if AGES == 1 && !defined(RETIRE_EARLY)
       :: atomic {
              before < 4 ->
              begin_raise((before - 1) * GRAINS, before * GRAINS);
              before = 0
          };
          raise()
#else
       :: atomic { before < 4 -> before = 0 }
#endif
       fi
    :: atomic { (units) == 0 }
    fi
}

/* Grains `mask` of a chunk; where they fill it, it is added to `retired`. What
 * is done may be left open. */
inline give_part(age, chunk)
{
    atomic {
        assert(!is_free_page && !HAS(chunks[age], chunk));
        assert((words[(age)*CHUNKS + (chunk)] & mask) == 0);
        before = words[(age)*CHUNKS + (chunk)];
        words[(age)*CHUNKS + (chunk)] = before | mask;
        if
        :: (before | mask) == FULL ->
            words[(age)*CHUNKS + (chunk)] = 0;
            retired = retired | BIT(chunk);
            before = FULL
#if AGES == 1
        :: true
#else
        :: else
#endif
        fi
    };
#if AGES == 1
    if
    :: atomic {
           before == FULL ->
           before = 0;
#ifndef RETIRE_EARLY
           mask = 0
#endif
       }
    :: atomic { before && before != FULL -> before = 0 }
    :: before == 0 ->
        set_hint(age, chunk);
#ifndef CROSSER_ALONE
        mask = mask | words[chunk]
#endif
    fi;
    raise_grains(chunk)
#else
    mask = 0;
    if
    :: atomic { before == FULL -> before = 0 }
#ifdef HINT_LATE
    :: before != FULL -> before = 0
#else
    :: before != FULL -> before = 0; set_hint(age, chunk)
#endif
    fi
#endif
}

inline give_part_of(chunk)
{
    if
    :: atomic {
           GRAINS_OF(given, chunk) == FULL -> retired = retired | BIT(chunk)
       }
    :: atomic {
           GRAINS_OF(given, chunk) && GRAINS_OF(given, chunk) != FULL ->
           mask = GRAINS_OF(given, chunk)
       };
       give_part(0, chunk)
    :: atomic { GRAINS_OF(given, chunk) == 0 }
    fi
}

/* Grains that lie together, into what is done or the fresh map. */
inline give()
{
#ifdef BOUND_FIRST
    early = bound + 1;
#endif
#ifdef WORDS_FIRST
    atomic {
        find_ends();
        measure_at_once();
        early = around;
        end_raise()
    };
#endif
    do
    :: atomic { part == CHUNKS -> part = 0; break }
    :: part < CHUNKS -> give_part_of(part); part++
    od;
    give_chunks(0, retired);
#if AGES == 2
    atomic {
        find_ends();
        begin_raise(from, to)
    };
    raise();
#ifdef HINT_LATE
    if
    :: GRAINS_OF(given, 0) -> set_hint(0, 0)
    :: else
    fi;
    if
    :: GRAINS_OF(given, 1) -> set_hint(0, 1)
    :: else
    fi;
#endif
#endif
    given = 0
}

inline find_ends()
{
    from = 0;
    do
    :: !HAS(given, from) -> from++
    :: else -> break
    od;
    to = from;
    do
    :: HAS(given, to) -> to++
    :: else -> break
    od
}

#define LOCALS                                                                \
    byte retired, before, mask, near, to, from, word, length, around, seen,   \
        way, early, part

proctype giver(byte given)
{
    LOCALS;
    give();
    finished++
}

/* --- taking --- */

/* Clears the hint of a word that had nothing, and looks again. */
inline lower(age, chunk)
{
    if
    :: atomic {
           HAS(hints[age], chunk) -> hints[age] = hints[age] & ~BIT(chunk)
       };
       mask = words[(age)*CHUNKS + (chunk)];
       if
       :: mask ->
           set_hint(age, chunk);
#if AGES == 1 && !defined(LOWER_STALE)
           mask = words[chunk];
#endif
#ifdef LOWER_UNRAISED
           mask = 0
#else
           raise_grains(chunk)
#endif
       :: else
       fi
    :: else
    fi
}

/* A chunk that is ours: the taker keeps some or all, and publishes the rest. */
inline open_chunk(chunk)
{
    if
    :: mask = 6
    :: mask = 5
    :: mask = 4
    :: true
    fi;
#if AGES == 2
    atomic {
        given = (mask == 5 -> 4 : mask) << ((chunk)*GRAINS);
        mask = 0
    }
#else
    if
    :: mask == 0
    :: else ->
        atomic {
            assert(words[chunk] == 0);
            words[chunk] = mask
        };
        set_hint(0, chunk);
#ifdef OPEN_UNRAISED
        mask = 0
#else
        mask = mask | words[chunk];
        raise_grains(chunk)
#endif
    fi
#endif
}

proctype taker()
{
    LOCALS;
    byte given, age, chunk;
    bool is_mine;
    if
    :: age = 0
    :: AGES == 2 -> age = 1
    fi;
    if
    :: chunk = 0
    :: chunk = 1
    fi;
    if
    :: atomic {
           HAS(hints[age], chunk) ->
           mask = words[age * CHUNKS + chunk];
           words[age * CHUNKS + chunk] = mask & (mask - 1)
       };
       if
#if AGES == 1
       :: atomic { mask -> mask = 0 }
#else
       :: atomic { mask && words[age * CHUNKS + chunk] -> mask = 0 }
#endif
       :: else -> mask = 0; lower(age, chunk)
       fi
    :: atomic {
           SPLITS && HAS(chunks[age], chunk) ->
           chunks[age] = chunks[age] & ~BIT(chunk);
           is_mine = true
       }
    :: atomic { SPLITS && is_free_page -> is_free_page = false };
#if AGES == 1
       chunks[0] = BIT(1);
#ifndef OPEN_PAGE_UNRAISED
       raise_chunk(1);
#endif
       atomic {
           chunk = 0;
           is_mine = true
       }
#else
       given = BIT(PAGE) - 2
#endif
#if AGES == 1
    /* trim.c */
    :: atomic {
           SPLITS && words[chunk] == FULL -> words[chunk] = 0;
           retired = BIT(chunk)
       };
       give_chunks(0, retired)
#endif
    :: true /* in vain */
    fi;
    if
    :: atomic { is_mine -> is_mine = false };
       open_chunk(chunk)
    :: else
    fi;
#if AGES == 2
    if
    :: given -> give()
    :: else
    fi;
#endif
    finished++
}

/* --- moving --- */

#if AGES == 2
inline move_word(chunk)
{
    atomic {
        moved = words[chunk];
        words[chunk] = 0
    };
    if
    :: moved ->
#ifdef MOVE_EARLY
        mask = moved;
        raise_grains(chunk);
#endif
        mask = moved;
        give_part(1, chunk);
        give_chunks(1, retired);
#ifdef HINT_LATE
        set_hint(1, chunk);
#endif
#if !defined(MOVE_UNRAISED) && !defined(MOVE_EARLY)
        mask = moved;
        raise_grains(chunk);
#endif
        moved = 0
    :: else
    fi
}

proctype mover()
{
    LOCALS;
    byte cut, moved;
    atomic {
        cut = hints[0];
        hints[0] = 0
    };
    atomic {
        moved = chunks[0];
        retired = moved;
        chunks[0] = 0
    };
    give_chunks(1, retired);
    if
    :: moved ->
#ifndef MOVE_UNRAISED
        raise_chunk(moved - 1);
#endif
        moved = 0
    :: else
    fi;
    do
    :: part == CHUNKS -> break
    :: part < CHUNKS && !HAS(cut, part) -> part++
    :: part < CHUNKS && HAS(cut, part) -> move_word(part); part++
    od;
    finished++
}
#endif

/* --- looking --- */

/* Chunks, hints, and the words that they name. */
inline load_words()
{
    found = chunks[0];
#if AGES == 2
    found = found | chunks[1];
#endif
    cut = hints[0];
#if AGES == 2
    cut = cut | hints[1];
#endif
    atomic {
        cut = cut & ~found;
        found = (HAS(found, 0) -> FULL : 0) | (HAS(found, 1) -> 56 : 0)
    };
    do
    :: atomic { cut == 0 -> break }
#if AGES == 2
    :: atomic {
           cut < 4 && HAS(cut, 0) -> found = found | words[0];
           cut = cut | 4
       }
    :: atomic { cut == 2 -> found = found | (words[1] << GRAINS); cut = 6 }
    :: atomic {
           cut > 4 && HAS(cut, 0) -> found = found | words[CHUNKS];
           cut = cut & 2
       }
    :: atomic {
           cut == 6 -> found = found | (words[CHUNKS + 1] << GRAINS);
           cut = 0
       }
#else
    :: atomic { HAS(cut, 0) -> found = found | words[0]; cut = cut & 2 }
    :: atomic { cut == 2 -> found = found | (words[1] << GRAINS); cut = 0 }
#endif
    od
}

inline measure_longest(grains)
{
    longest = 0;
    length = 0;
    position = 0;
    do
    :: position == PAGE -> break
    :: else ->
        length = (HAS(grains, position) -> length + 1 : 0);
        longest = (length > longest -> length : longest);
        position++
    od;
    length = 0;
    position = 0
}

proctype looker()
{
    byte seen, mark, cut, found, longest, length, position;
#ifdef MARK_LATE
    load_words();
#endif
    atomic {
        seen = bound;
#ifdef NO_COUNT
        mark = COUNT(seen) | LOOKING
#else
        mark = (COUNT(seen) + 16) | LOOKING
#endif
    };
    if
    :: atomic {
           KNOWN(seen) != LOOKING && bound == seen -> bound = mark
       };
#ifndef MARK_LATE
       load_words();
#endif
       atomic {
           measure_longest(found);
           if
           :: KNOWN(seen) && KNOWN(seen) - 1 < longest ->
               longest = KNOWN(seen) - 1
           :: else
           fi;
           if
#ifdef NOTE_BY_STORE
           :: true -> bound = COUNT(mark) | (longest + 1)
#else
           :: bound == mark -> bound = COUNT(mark) | (longest + 1)
           :: else
#endif
           fi
       }
    :: else
    fi;
    atomic {
        finished++;
        seen = 0;
        mark = 0;
        found = 0;
        longest = 0
    }
}

/* Free grains, a bound that is right, and a hint that says too much. */
inline start_with(grains)
{
    i = 0;
    do
    :: i == CHUNKS -> break
    :: else ->
        words[i] = GRAINS_OF(grains, i);
        if
        :: words[i] == FULL -> words[i] = 0; chunks[0] = chunks[0] | BIT(i)
        :: else
        fi;
        if
        :: words[i] || i == 0 -> hints[0] = hints[0] | BIT(i)
        :: else
        fi;
        i++
    od;
    measure_longest(grains);
    bound = longest + 1;
    longest = 0
}

/* Grains that lie together, behind those of the giver before. */
inline choose_interval()
{
    length = end;
    do
    :: length < PAGE - GIVERS + i -> length++
    :: break
    od;
    end = length + 1;
    do
    :: end < PAGE - GIVERS + i + 1 && end - length < LENGTH -> end++
    :: break
    od;
    given[i] = (BIT(end) - 1) & ~(BIT(length) - 1)
}

init
{
    byte i, end, given[GIVERS], grains, longest, length, position;
    atomic {
        do
        :: i == GIVERS -> break
        :: else ->
            choose_interval();
            grains = grains | given[i];
            i++
        od;
        /* What is left is free, or what is left of one chunk; and the bound is
         * known, or not. */
        grains = ~grains & (BIT(PAGE) - 1);
        if
        :: SPLITS -> start_with(grains)
        :: start_with(grains & ~FULL)
        :: TAKERS == 0 -> start_with(grains & FULL)
        :: TAKERS == 0 -> start_with(grains); bound = 0
        fi;
        i = 0;
        do
        :: i == GIVERS -> break
        :: else -> run giver(given[i]); given[i] = 0; i++
        od;
        i = 0;
        do
        :: i < TAKERS -> run taker(); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < LOOKERS -> run looker(); i++
        :: else -> break
        od;
#if AGES == 2
        i = 0;
        do
        :: i < MOVERS -> run mover(); i++
        :: else -> break
        od;
#endif
        i = 0;
        end = 0;
        grains = 0
    };
    atomic {
        finished == GIVERS + TAKERS + LOOKERS + MOVERS;
        assert(KNOWN(bound) != LOOKING);
        do
        :: i == AGES * CHUNKS -> break
        :: else ->
            assert(words[i] == 0 || HAS(hints[i / CHUNKS], i % CHUNKS));
            i++
        od;
        grains = FREE_OF(0);
        grains = grains | (FREE_OF(1) << GRAINS);
        measure_longest(grains);
        assert(KNOWN(bound) == 0 || is_free_page || longest < KNOWN(bound))
    }
}
