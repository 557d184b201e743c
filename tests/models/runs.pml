/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs of pages (pool/buddy/runs.c, claim.c): two words of two pages each, so that a run
 * of three lies in both. A searcher for a run holds the run lock, looks at the
 * words one after the other, claims what it found word by word, and gives back
 * what it has when a page of it is gone. Single pages are taken and given by
 * others all the while.
 *
 * The second word's pages come later (moietyi_buddy_add), and go and come with
 * a segment (withdraw, add).
 *
 * Ghost: `taken`, a bit a page, set by the swap that claims it and cleared by
 * the one that frees it. At rest all pages are free again.
 *
 * With -DKEEP all pages are there and nobody gives back what it has taken, so
 * free pages only become
 * fewer but for the undo, which the lock hides from other searchers: then a
 * search that fails is right, there is no such run at that moment. The pool
 * needs it in no place: there a search holds the lock only after others have
 * failed often (fit.c), and exhaustion is the last look's to say.
 *
 * Weakenings, each of which must be caught:
 *   NO_UNDO        a claim that fails keeps what it has
 *   UNDO_ALL       the undo gives the word that was refused, too
 *   UNDO_NEXT      the undo is off by a word
 *   CLAIM_SOME     a word is claimed when one of the wanted pages is free
 *   CLAIM_BY_STORE the claim looks, then stores
 *   GIVE_BY_STORE  the give does
 *   LIMIT_LATE     added pages are free before the limit covers them
 *   NO_LOCK        (with KEEP) no run lock: a search fails for what another
 *                  searcher holds and then gives back
 */
#ifndef RUNNERS
#define RUNNERS 2
#endif
#ifndef SINGLES
#define SINGLES 1
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif

byte free_pages[2];
byte word_limit = 1;
byte taken;
byte finished;
bool is_locked;

#define ALL 15
#define IN_WORD(index, pages) (((pages) >> (2 * (index))) & 3)
#define OF_WORD(index, mask) ((mask) << (2 * (index)))

inline lock()
{
#ifndef NO_LOCK
    atomic { !is_locked -> is_locked = true }
#else
    skip
#endif
}

inline unlock()
{
#ifndef NO_LOCK
    is_locked = false
#else
    skip
#endif
}

/* Inside the step that claims. */
inline now_taken(pages)
{
    assert((taken & (pages)) == 0);
    taken = taken | (pages)
}

inline give_pages(index, mask)
{
#ifdef GIVE_BY_STORE
    seen = free_pages[index];
    atomic {
        assert((taken & OF_WORD(index, mask)) == OF_WORD(index, mask));
        taken = taken & ~OF_WORD(index, mask);
        free_pages[index] = seen | (mask);
        seen = 0
    }
#else
    atomic {
        assert((free_pages[index] & (mask)) == 0);
        assert((taken & OF_WORD(index, mask)) == OF_WORD(index, mask));
        taken = taken & ~OF_WORD(index, mask);
        free_pages[index] = free_pages[index] | (mask)
    }
#endif
}

inline give_word(index, pages)
{
    if
    :: IN_WORD(index, pages) -> give_pages(index, IN_WORD(index, pages))
    :: else
    fi
}

/* Of `wanted`, the part in one word, or nothing. */
inline claim_mask(index)
{
#ifdef CLAIM_SOME
#define SERVES(word, mask) (((word) & (mask)) != 0)
#else
#define SERVES(word, mask) (((word) & (mask)) == (mask))
#endif
#ifdef CLAIM_BY_STORE
    seen = free_pages[index];
    if
    :: SERVES(seen, IN_WORD(index, wanted)) ->
        atomic {
            free_pages[index] = seen & ~IN_WORD(index, wanted);
            now_taken(OF_WORD(index, IN_WORD(index, wanted)));
            seen = 0
        }
    :: else -> is_refused = true; seen = 0
    fi
#else
    atomic {
        if
        :: SERVES(free_pages[index], IN_WORD(index, wanted)) ->
            free_pages[index] = free_pages[index] & ~IN_WORD(index, wanted);
            now_taken(OF_WORD(index, IN_WORD(index, wanted)))
        :: else -> is_refused = true
        fi
    }
#endif
}

/* All of `wanted`, or nothing and `is_refused`. */
inline claim_run()
{
    is_refused = false;
    claim_mask(0);
    if
    :: is_refused ->
#ifdef UNDO_ALL
        give_word(0, wanted)
#endif
        skip
    :: else ->
        if
        :: IN_WORD(1, wanted) ->
            claim_mask(1);
            if
            :: is_refused ->
#ifdef UNDO_ALL
                give_word(1, wanted);
#endif
#if defined(UNDO_NEXT)
                give_word(1, wanted)
#elif !defined(NO_UNDO)
                give_word(0, wanted)
#else
                skip
#endif
            :: else
            fi
        :: else
        fi
    fi
}

/* best_run(): a look at one word after the other. */
inline look(length)
{
    snapshot = free_pages[0];
    if
    :: word_limit > 1 -> snapshot = snapshot | (free_pages[1] << 2)
    :: else
    fi;
    wanted = 0;
    if
    :: (length) == 2 && (snapshot & 3) == 3 -> wanted = 3
    :: (length) == 2 && (snapshot & 3) != 3 && (snapshot & 6) == 6 ->
        wanted = 6
    :: (length) == 2 && (snapshot & 3) != 3 && (snapshot & 6) != 6 &&
        (snapshot & 12) == 12 ->
        wanted = 12
    :: (length) == 3 && (snapshot & 7) == 7 -> wanted = 7
    :: (length) == 3 && (snapshot & 7) != 7 && (snapshot & 14) == 14 ->
        wanted = 14
    :: else
    fi;
    snapshot = 0
}

#define FREE_NOW (free_pages[0] | (free_pages[1] << 2))
#define HAS_RUN_NOW(length)                                                   \
    ((length) == 2                                                            \
         -> (FREE_NOW & 3) == 3 || (FREE_NOW & 6) == 6 ||                     \
                (FREE_NOW & 12) == 12                                         \
         : (FREE_NOW & 7) == 7 || (FREE_NOW & 14) == 14)

inline take_run(length)
{
    lock();
    look(length);
    do
    :: wanted == 0 ->
#ifdef KEEP
        assert(!HAS_RUN_NOW(length));
#endif
        break
    :: else ->
        claim_run();
        if
        :: !is_refused -> break
        :: else -> look(length)
        fi
    od;
    unlock()
}

/* moietyi_buddy_add() */
inline add(pages)
{
#ifdef LIMIT_LATE
    give_word(0, pages);
    give_word(1, pages);
    word_limit = 2
#else
    word_limit = 2;
    give_word(0, pages);
    give_word(1, pages)
#endif
}

proctype runner()
{
    byte round, wanted, snapshot, seen;
    bool is_refused;
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        round++;
        if
        :: true -> take_run(2)
        :: true -> take_run(3)
#ifndef KEEP
        :: true ->
            wanted = 14;
            lock();
            claim_run();
            unlock();
            if
            :: is_refused -> wanted = 0
            :: else -> add(wanted); wanted = 0
            fi
#endif
        fi;
#ifndef KEEP
        give_word(0, wanted);
        give_word(1, wanted);
#endif
        wanted = 0;
        is_refused = false
    od;
    finished++
}

/* moietyi_take_page(), then a give. */
proctype single()
{
    byte round, seen, index, mask;
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        round++;
        index = 0;
        do
        :: index == word_limit || mask -> break
        :: index < word_limit && !mask ->
            atomic {
                if
                :: free_pages[index] ->
                    mask = (free_pages[index] & 1 -> 1 : 2);
                    free_pages[index] = free_pages[index] & ~mask;
                    now_taken(OF_WORD(index, mask))
                :: else -> index++
                fi
            }
        od;
#ifndef KEEP
        if
        :: mask -> give_pages(index, mask)
        :: else
        fi;
#endif
        mask = 0;
        index = 0
    od;
    finished++
}

/* The second segment: its pages are taken by nobody, and not free yet. */
proctype grower()
{
    byte seen;
    add(12);
    finished++
}

#ifdef KEEP
#define PROCESSES (RUNNERS + SINGLES)
#else
#define PROCESSES (RUNNERS + SINGLES + 1)
#endif

/* Waits, perhaps for ever, for a free page beyond the limit. */
active proctype watcher()
{
end:
    atomic {
        word_limit < 2 && free_pages[1] -> assert(false)
    }
}

init
{
    byte i;
    atomic {
        free_pages[0] = 3;
#ifdef KEEP
        free_pages[1] = 3;
        word_limit = 2;
#else
        taken = 12;
        run grower();
#endif
        do
        :: i < RUNNERS -> run runner(); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < SINGLES -> run single(); i++
        :: else -> break
        od;
        i = 0
    };
    finished == PROCESSES;
    assert(!is_locked);
#ifndef KEEP
    assert(taken == 0 && FREE_NOW == ALL)
#endif
}
