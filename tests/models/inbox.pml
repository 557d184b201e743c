/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Frees into a heap (pool/heap/combine.c, but for the claim, which is of records that
 * are to come: ADR 38): free memory of one owner in lists under a lock, and an inbox
 * for who finds the lock taken. A free claims its
 * block first: one step takes the block's word from OUT to QUEUED, so that of two
 * frees one is refused. Then it tries the lock once. It lists the block if it has
 * the lock, else it pushes the block on the inbox and tries the lock once more. Who
 * has the lock takes the inbox whole and lists what is in it; after it has let go
 * of the lock it looks at the inbox again, as long as there is something and the
 * lock can be had. Nobody waits for the lock but who allocates.
 *
 * The code pushes several blocks at once, linked before the swap: as one.
 *
 * A block's `next` is its pusher's until it is pushed, and then who takes the
 * inbox reads it. Each read-modify-write is one step.
 *
 * The claim: a block is listed once for each time that it was given out, by who has
 * the lock; at rest the inbox is empty, and all blocks are listed.
 *
 * Left out: that a search under the lock may be cut short, and memory orders.
 *
 * Ghosts: `holder`, who has the lock; `listed`, blocks in lists; `granted`, frees
 * of a block that were taken since it was given out; `finished`.
 *
 * Weakenings, each of which must be caught:
 *   CLAIM_BY_STORE  a free looks at the word, then stores
 *   NO_LOOK         who lets go of the lock does not look again
 *   LOOK_ONCE       who looked again and found something does not look once more
 *   LOOK_FIRST      the last look comes before the lock is let go
 *   NO_TRY          who has pushed does not try the lock again
 *   TAKE_BY_STORE   the inbox is read, then emptied by a store
 *   PUSH_BY_STORE   a block is pushed by a store
 *   LIST_LATE       the inbox is listed after the lock was let go
 */
#ifndef TAKERS
#define TAKERS 1
#endif
#define FREERS 3
#define BLOCKS 2
#define NONE 0
#define OUT 1
#define QUEUED 2
#define FREE 3
#define BIT(block) (1 << ((block)-1))

/* Blocks are numbered from 1. All are out. */
byte word[BLOCKS + 1] = OUT;
byte next[BLOCKS + 1];
byte inbox;
bit is_locked;

byte holder; /* a process, plus 1 */
byte listed;
byte granted[BLOCKS + 1];
byte finished;

inline try_lock()
{
    atomic {
        has_lock = !is_locked;
        if
        :: has_lock ->
            is_locked = 1;
            holder = _pid + 1
        :: else
        fi
    }
}

inline unlock()
{
    atomic {
        holder = 0;
        is_locked = 0
    }
}

inline list(block)
{
    atomic {
        assert(holder == _pid + 1);
        assert(word[block] == QUEUED && !(listed & BIT(block)));
        listed = listed | BIT(block);
        word[block] = FREE
    }
}

inline take_inbox()
{
#ifdef TAKE_BY_STORE
    taken = inbox;
    inbox = NONE;
#else
    atomic {
        taken = inbox;
        inbox = NONE
    }
#endif
}

inline list_taken()
{
    do
    :: taken != NONE ->
        after = next[taken];
        list(taken);
        taken = after
    :: else -> break
    od
}

inline drain_and_unlock()
{
    take_inbox();
#ifdef LIST_LATE
    unlock();
    list_taken()
#else
    list_taken();
    unlock()
#endif
}

/* With the lock. */
inline leave()
{
#ifdef LOOK_FIRST
    do
    :: inbox != NONE ->
        take_inbox();
        list_taken()
    :: else -> break
    od;
    unlock()
#else
    drain_and_unlock();
#ifndef NO_LOOK
    do
    :: inbox == NONE -> break
    :: else ->
        try_lock();
        if
        :: has_lock -> drain_and_unlock()
        :: else -> break
        fi;
#ifdef LOOK_ONCE
        break
#endif
    od
#endif
#endif
}

inline push(block)
{
#ifdef PUSH_BY_STORE
    after = inbox;
    next[block] = after;
    inbox = block
#else
    do
    :: after = inbox;
        next[block] = after;
        atomic {
            if
            :: inbox == after ->
                inbox = block;
                break
            :: else
            fi
        }
    od
#endif
}

inline claim(block)
{
#ifdef CLAIM_BY_STORE
    is_mine = word[block] == OUT;
    if
    :: is_mine -> word[block] = QUEUED
    :: else
    fi;
#else
    atomic {
        is_mine = word[block] == OUT;
        if
        :: is_mine -> word[block] = QUEUED
        :: else
        fi
    };
#endif
    if
    :: is_mine ->
        atomic {
            granted[block]++;
            assert(granted[block] == 1)
        }
    :: else
    fi
}

inline free(block)
{
    claim(block);
    if
    :: is_mine ->
        try_lock();
        if
        :: has_lock ->
            list(block);
            leave()
        :: else ->
            push(block);
#ifndef NO_TRY
            try_lock();
            if
            :: has_lock -> leave()
            :: else
            fi
#endif
        fi
    :: else
    fi
}

/* The last of them frees what another one frees, too. */
active [FREERS] proctype freer()
{
    byte mine = _pid % BLOCKS + 1;
    byte taken = NONE;
    byte after = NONE;
    bool has_lock = false;
    bool is_mine = false;
    free(mine);
    finished++
}

/* Allocates what there is, and frees it again. */
active [TAKERS] proctype taker()
{
    byte mine = NONE;
    byte taken = NONE;
    byte after = NONE;
    bool has_lock = false;
    bool is_mine = false;
    do
    :: has_lock -> break
    :: else ->
        atomic {
            !is_locked;
            try_lock()
        }
    od;
    take_inbox();
    list_taken();
    if
    :: listed & BIT(1) -> mine = 1
    :: !(listed & BIT(1)) && (listed & BIT(2)) -> mine = 2
    :: else
    fi;
    if
    :: mine != NONE ->
        atomic {
            assert(holder == _pid + 1 && word[mine] == FREE);
            listed = listed & ~BIT(mine);
            granted[mine] = 0;
            word[mine] = OUT
        }
    :: else
    fi;
    leave();
    if
    :: mine != NONE -> free(mine)
    :: else
    fi;
    finished++
}

init
{
    finished == FREERS + TAKERS;
    assert(inbox == NONE && !is_locked);
    assert(listed == (1 << BLOCKS) - 1)
}
