/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Segments that come and go (pool/segment/grow.c, trim.c, lookup.c) against who
 * holds memory and who looks up an address. A segment has two pages; there are
 * two places for it in the offset space and two in the source's memory, so that
 * both are used again. Growth: link the addresses, then add the pages to what
 * is free. Trim: claim all pages, unlink them, then give the memory back.
 * Pages are claimed in one step, by the lock of what is done (extents.pml).
 *
 * The claim: who holds a page finds its address, and by that the page; what is
 * held was not given back to the source. Who looks up an address that it does
 * not hold finds nothing if the source has that memory, and otherwise a page
 * that leads back to it unless the segment was unlinked meanwhile. At rest, a
 * segment and its address lead to each other and nothing else has an entry.
 *
 * Ghosts: `lent`, the places in the source's memory that the source has given
 * out; `unlinked`, whether a segment was since the lookup began.
 *
 * Weakenings, each of which must be caught:
 *   ADD_FIRST       pages are free before they are linked
 *   ENTRY_FIRST     an address leads to its page before the page leads to it
 *   UNLINK_FIRST    pages are unlinked, then claimed
 *   RELEASE_FIRST   the source has the memory back before it is unlinked
 *   CLAIM_SOME      a segment goes although a page of it is held
 *   NO_UNLINK       the entries of a segment that went stay
 *   PLACE_UNLOCKED  a place is chosen before the lock is taken
 */
#ifndef HOLDERS
#define HOLDERS 1
#endif
#ifndef GROWERS
#define GROWERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define NONE 7
#define PAGES_OF(place) (3 << (2 * (place)))

/* By page and by page of the source's memory: each other's number. */
byte addresses[4] = NONE;
byte entries[4] = NONE;
byte free_pages;
byte placed; /* under the lock: a bit a place */
byte sources[2] = NONE; /* by place: which memory it has */
bool is_locked;

byte lent;
bool is_unlinked;
byte finished;

inline lock()
{
    atomic { !is_locked -> is_locked = true }
}

inline unlock()
{
    is_locked = false
}

/* Any memory that the source has. */
inline ask_source()
{
    atomic {
        if
        :: (lent & 1) == 0 -> memory = 0; lent = lent | 1
        :: (lent & 2) == 0 -> memory = 1; lent = lent | 2
        :: lent == 3 -> memory = NONE
        fi
    }
}

inline link_addresses()
{
    addresses[2 * place] = 2 * memory;
    addresses[2 * place + 1] = 2 * memory + 1
}

inline link_entries()
{
    entries[2 * memory] = 2 * place;
    entries[2 * memory + 1] = 2 * place + 1
}

inline link_pages()
{
#ifdef ENTRY_FIRST
    link_entries();
    link_addresses()
#else
    link_addresses();
    link_entries()
#endif
}

inline add_pages()
{
    atomic {
        assert((free_pages & PAGES_OF(place)) == 0);
        free_pages = free_pages | PAGES_OF(place)
    }
}

inline choose_place()
{
    place = (placed & 1 -> 1 : 0)
}

inline grow()
{
    ask_source();
    if
    :: memory != NONE ->
#ifdef PLACE_UNLOCKED
        choose_place();
        lock();
#else
        lock();
        choose_place();
#endif
        placed = placed | (1 << place);
        sources[place] = memory;
#ifdef ADD_FIRST
        add_pages();
        link_pages();
#else
        link_pages();
        add_pages();
#endif
        unlock()
    :: else
    fi;
    memory = 0;
    place = 0
}

/* `is_claimed` when the whole segment is. */
inline claim(place)
{
    atomic {
#ifdef CLAIM_SOME
        is_claimed = ((free_pages & PAGES_OF(place)) != 0);
#else
        is_claimed =
            ((free_pages & PAGES_OF(place)) == PAGES_OF(place));
#endif
        if
        :: is_claimed -> free_pages = free_pages & ~PAGES_OF(place)
        :: else
        fi
    }
}

inline unlink_page(page)
{
#ifndef NO_UNLINK
    atomic {
        entries[2 * memory + (page)] = NONE;
        is_unlinked = true
    };
#endif
    addresses[2 * place + (page)] = NONE
}

inline unlink_pages()
{
    unlink_page(0);
    unlink_page(1)
}

inline release()
{
    atomic {
        assert(lent & (1 << memory));
        lent = lent & ~(1 << memory)
    }
}

inline trim(which)
{
    place = which;
    lock();
    if
    :: placed & (1 << place) ->
        memory = sources[place];
#ifdef UNLINK_FIRST
        unlink_pages();
#endif
        claim(place);
        if
        :: is_claimed ->
#ifdef RELEASE_FIRST
            release();
#endif
#ifndef UNLINK_FIRST
            unlink_pages();
#endif
            placed = placed & ~(1 << place)
        :: else
        fi
    :: else
    fi;
    unlock();
    if
    :: is_claimed ->
#ifndef RELEASE_FIRST
        release();
#endif
        is_claimed = false
    :: else
    fi;
    memory = 0;
    place = 0
}

proctype grower()
{
    byte round, place, memory;
    bool is_claimed;
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
        round++;
        if
        :: true -> grow()
        :: true -> trim(0)
        :: true -> trim(1)
        fi
    od;
    finished++
}

/* Takes a page, asks for its address, and by the address for the page, as the
 * free of a block does. */
proctype holder()
{
    byte page, address;
    do
    :: page < 3 -> page++
    :: break
    od;
    atomic {
        if
        :: free_pages & (1 << page) -> free_pages = free_pages & ~(1 << page)
        :: else -> page = NONE
        fi
    };
    if
    :: page != NONE ->
        address = addresses[page];
        assert(address != NONE);
        atomic {
            assert(entries[address] == page);
            assert(lent & (1 << (address / 2)))
        };
        free_pages = free_pages | (1 << page)
    :: else
    fi;
    finished++
}

/* Looks up an address that it does not hold. */
proctype looker()
{
    byte page, address, back;
    do
    :: address < 3 -> address++
    :: break
    od;
    atomic {
        is_unlinked = false;
        page = entries[address];
        assert(page == NONE || (lent & (1 << (address / 2))))
    };
    if
    :: page != NONE ->
        back = addresses[page];
        assert(back == address || is_unlinked)
    :: else
    fi;
    finished++
}

init
{
    byte i;
    atomic {
        run looker();
        do
        :: i < GROWERS -> run grower(); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < HOLDERS -> run holder(); i++
        :: else -> break
        od;
        i = 0
    };
    finished == 1 + GROWERS + HOLDERS;
    do
    :: i == 4 -> break
    :: i < 4 ->
        assert(entries[i] == NONE || addresses[entries[i]] == i);
        assert(entries[i] == NONE || (placed & (1 << (entries[i] / 2))));
        assert(((placed >> (i / 2)) & 1) == (addresses[i] != NONE));
        assert(((placed >> (i / 2)) & 1) == ((free_pages >> i) & 1));
        i++
    od
}
