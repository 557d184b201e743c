/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads end, slow paths adopt what they left, and the pool is destroyed
 * (pool/cache/registry.c, reclaim.c, engine.c). A thread that ends takes its
 * member off its own list and pushes it on the pool's stack of orphans, all
 * under the registry's lock. An adopter takes a whole stack by one exchange,
 * without the lock, and adopts up to AT_ONCE of it; a member whose events
 * cannot be recorded now goes back. The rest of the chain is left on a second
 * stack, where nothing is left yet; else its members go back one by one. An
 * adopter looks there first; one that is short of memory takes both stacks and
 * adopts all. The pool is destroyed when no call is under way, but threads may
 * be ending.
 *
 * The claim: each member's blocks come to the buddy once, by an adopter or at
 * the end; nobody touches a member or the pool that is gone; at rest an adopter
 * would find each member that was not adopted.
 *
 * Ghosts: `is_member_gone`, `is_pool_gone`.
 *
 * Weakenings, each of which must be caught:
 *   EXIT_UNLOCKED   a thread pushes its member without the lock
 *   KEEP_ON_LIST    destroying leaves the members on their threads' lists
 *   ADOPT_BY_LOAD   an adopter goes through the stack without taking it
 *   ADOPT_ONE       it pops a single member: first, its next, and a swap
 *   LOSE_REFUSED    a member that could not be adopted does not go back
 *   BACK_BY_STORE   it goes back by a plain store
 *   NEXT_LATE       the link to the next is read after the member went back
 *   LEAVE_BY_STORE  the rest is left by a plain store
 *   LEAVE_BY_LOOK   it is left by a store, after a look that found nothing left
 *   LEAVE_DROPPED   what cannot be left is dropped
 *   LEFT_BY_LOAD    an adopter goes through what is left without taking it
 */
#ifndef EXITS
#define EXITS 2
#endif
#ifndef ADOPTERS
#define ADOPTERS 2
#endif
#ifndef AT_ONCE
#define AT_ONCE 1
#endif
#define NONE 0
#define ALL ((1 << EXITS) - 1)
#define BIT(member) (1 << ((member)-1))

/* Members are numbered from 1; each has one set of blocks. */
byte orphans;
byte left;
byte nexts[EXITS + 1];
byte holds = ALL;      /* members that still have their blocks */
byte on_threads = ALL; /* members on the list of their thread */
byte on_pool = ALL;    /* members on the list of the pool */
bool is_locked;
byte buddy;

byte is_member_gone;
bool is_pool_gone;
byte finished;

inline lock()
{
    atomic { !is_locked -> is_locked = true }
}

inline unlock()
{
    is_locked = false
}

inline touch(member)
{
    assert(!is_pool_gone && (is_member_gone & BIT(member)) == 0)
}

inline push(member)
{
    do
    :: atomic {
           touch(member);
           seen = orphans;
           nexts[member] = seen
       };
       atomic {
           touch(member);
           if
           :: orphans == seen -> orphans = member; seen = NONE; break
           :: else
           fi
       }
    od
}

proctype exiter(byte member)
{
    byte seen;
#ifdef EXIT_UNLOCKED
    if
    :: on_threads & BIT(member) ->
        on_threads = on_threads & ~BIT(member);
        push(member)
    :: else
    fi;
#else
    lock();
    if
    :: on_threads & BIT(member) ->
        on_threads = on_threads & ~BIT(member);
        push(member)
    :: else
    fi;
    unlock();
#endif
    finished++
}

/* Or the driver refuses. */
inline adopt(member)
{
    if
    :: atomic {
           touch(member);
           assert((holds & BIT(member)) && (buddy & BIT(member)) == 0);
           holds = holds & ~BIT(member);
           buddy = buddy | BIT(member)
       };
       lock();
       atomic {
           touch(member);
           on_pool = on_pool & ~BIT(member);
           is_member_gone = is_member_gone | BIT(member)
       };
       unlock()
    :: true ->
#ifdef LOSE_REFUSED
        skip
#elif defined(BACK_BY_STORE)
        atomic {
            touch(member);
            seen = orphans;
            nexts[member] = seen
        };
        orphans = member;
        seen = NONE
#else
        push(member)
#endif
    fi
}

/* The rest of a chain, for the next who looks. */
inline leave()
{
    if
    :: member == NONE
#ifdef LEAVE_BY_STORE
    :: member != NONE -> left = member; member = NONE
#elif defined(LEAVE_BY_LOOK)
    :: member != NONE && left == NONE -> left = member; member = NONE
    :: member != NONE && left != NONE
#else
    :: atomic { member != NONE && left == NONE -> left = member; member = NONE }
    :: member != NONE && left != NONE
#endif
    fi;
    do
    :: member == NONE -> break
    :: member != NONE ->
        atomic {
            touch(member);
            next = nexts[member]
        };
#ifndef LEAVE_DROPPED
        push(member);
#endif
        atomic {
            member = next;
            next = NONE
        }
    od
}

inline take(stack)
{
    atomic {
        member = stack;
        stack = NONE
    }
}

proctype adopter()
{
    byte member, also, next, seen, adopted;
    bool is_all;
#ifdef LEFT_BY_LOAD
    member = left;
#else
    take(left);
#endif
    if
    :: is_all = true
    :: true
    fi;
    if
    :: member != NONE && !is_all
    :: member == NONE || is_all ->
        also = member;
#ifdef ADOPT_BY_LOAD
        member = orphans
#elif defined(ADOPT_ONE)
        member = orphans;
        if
        :: member != NONE ->
            seen = nexts[member];
            atomic {
                if
                :: orphans == member -> orphans = seen; nexts[member] = NONE
                :: else -> member = NONE
                fi;
                seen = NONE
            }
        :: else
        fi
#else
        take(orphans)
#endif
    fi;
    do
    :: member == NONE && also != NONE -> member = also; also = NONE
    :: (member == NONE && also == NONE) || adopted == AT_ONCE -> break
    :: member != NONE && adopted < AT_ONCE ->
        adopted = adopted + !is_all;
#ifdef NEXT_LATE
        adopt(member);
        member = nexts[member]
#else
        atomic {
            touch(member);
            next = nexts[member]
        };
        adopt(member);
        atomic {
            member = next;
            next = NONE
        }
#endif
    od;
    adopted = 0;
    is_all = false;
    leave();
    finished = finished + EXITS + 1
}

/* When no call is under way. */
inline destroy()
{
    atomic {
        assert((buddy & holds & on_pool) == 0);
        buddy = buddy | (holds & on_pool);
        holds = holds & ~on_pool
    };
    lock();
#ifndef KEEP_ON_LIST
    on_threads = on_threads & ~on_pool;
#endif
    is_member_gone = is_member_gone | on_pool;
    on_pool = 0;
    unlock();
    is_pool_gone = true
}

inline find_on(stack)
{
    member = stack;
    do
    :: member == NONE -> break
    :: member != NONE ->
        assert((holds & ~found) & BIT(member));
        found = found | BIT(member);
        member = nexts[member]
    od
}

/* At rest, who was not adopted is on one of the stacks. */
inline look_for_lost()
{
    find_on(orphans);
    find_on(left);
    assert(found == holds);
    found = 0
}

init
{
    byte i, member, found;
    atomic {
        do
        :: i < EXITS -> run exiter(i + 1); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < ADOPTERS -> run adopter(); i++
        :: else -> break
        od
    };
    if
    :: finished >= ADOPTERS * (EXITS + 1)
    :: finished == ADOPTERS * (EXITS + 1) + EXITS -> look_for_lost()
    fi;
    destroy();
    finished == ADOPTERS * (EXITS + 1) + EXITS;
    assert(buddy == ALL && holds == 0)
}
