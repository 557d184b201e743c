/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Retirement (pool/cache/leave.c, retired.c, poll.c): what a stream's caches let
 * go of waits in batches, which are published on the slot's stack by a swap.
 * Each has an event that was recorded on the stream before that; or has none
 * yet, and who looks whether it is done records one on the batch's stream. Stacks
 * are only taken whole. Who took one alone queries, disposes of what is done, may
 * have blocks for the same stream out of what is not, and puts the rest back:
 * swaps the chain for nothing, or else takes what came meanwhile, joins it in
 * front of the chain, and tries again.
 *
 * Two slots; the last thread has slot LAST_SLOT, the others share slot 0. The
 * device is in the query: an event is over when someone sees that it is.
 * An event that was never recorded is seen as over, as with the real driver.
 *
 * The claim: memory goes to the buddy, and from there to any stream, only when
 * no work on it is pending; from a batch that is not done only to the same
 * stream. A batch and its event are touched only by who took it. At rest each
 * block is in one place.
 *
 * Ghosts: `pending`, by slot the blocks that queued work may be using;
 * `covers`, by event those whose work is over when the event is; `stacked`, by
 * slot the batches that are on the stack.
 *
 * Weakenings, each of which must be caught:
 *   RECORD_LATE     a batch is published before its event is recorded
 *   FAILED_RECORD   a batch is published although no event could be recorded
 *   NO_RECORD       a batch that has no event yet counts as done
 *   OWN_RECORD      its event is recorded on the stream of who looks
 *   NO_QUERY        a batch counts as done without a look at its event
 *   OTHER_SLOT      a block of another stream's batch that is not done serves
 *   TAKE_BY_LOAD    a stack is gone through without being taken
 *   POP_ONE         a single batch is popped: first, its next, and a swap
 *   CUT_CHAIN       a batch that is published does not lead on to the rest
 *   BACK_BY_STORE   what was taken is put back by a plain store
 *   DROP_NEWER      what came meanwhile is taken and not joined
 *   JOIN_FIRST      it is joined behind its first batch, whatever follows that
 *   SPARE_EARLY     a batch is used again while blocks are in it
 *   SPARE_CHAINED   a batch without blocks is spared and stays in the chain
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
/* Of a third thread; with none it only publishes. */
#ifndef THIRD_ROUNDS
#define THIRD_ROUNDS ROUNDS
#endif
#ifndef LAST_SLOT
#define LAST_SLOT 1
#endif
#define BLOCKS (THREADS + 1)
#define ALL ((1 << BLOCKS) - 1)
#define NONE 0
#define BIT(number) (1 << (number))
#define LOWEST(mask) ((mask) & (16 - (mask)) & 15)

/* Batches are numbered from 1; each has an event of its own. */
byte heads[2];
byte nexts[THREADS + 1];
byte blocks[THREADS + 1];
byte buddy;

byte pending[2];
byte covers[THREADS + 1];
byte event_slot[THREADS + 1];
bool is_recorded[THREADS + 1];
bool needs_record[THREADS + 1];
byte stacked[2];
byte kept;
byte finished;

/* Inside the step that gives a block to a stream. */
inline use(got)
{
    assert((pending[1 - me] & (got)) == 0);
    pending[me] = pending[me] | (got);
    i = 1;
    do
    :: i > THREADS -> break
    :: i <= THREADS -> covers[i] = covers[i] & ~(got); i++
    od;
    i = 0;
    in_use = in_use | (got)
}

inline record()
{
    atomic {
        assert(held & BIT(batch));
        covers[batch] = pending[me];
        event_slot[batch] = me;
        is_recorded[batch] = true
    }
}

/* What is not published yet is its holder's alone, so reading the head and
 * linking to it is one step. */
inline push()
{
    do
    :: atomic {
           seen = heads[me];
#ifndef CUT_CHAIN
           nexts[batch] = seen
#endif
       };
       atomic {
           if
           :: heads[me] == seen ->
               assert(held & BIT(batch));
               heads[me] = batch;
               held = held & ~BIT(batch);
               stacked[me] = stacked[me] | BIT(batch);
               seen = NONE;
               break
           :: else
           fi
       }
    od
}

/* What this thread freed, if it has a batch for it. */
inline retire()
{
    if
    :: spares && leaving ->
        atomic {
            batch = (spares & 2 -> 1 : (spares & 4 -> 2 : 3));
            spares = spares & ~BIT(batch);
            blocks[batch] = leaving;
            leaving = 0
        };
#ifdef RECORD_LATE
        push();
        atomic {
            covers[batch] = pending[me];
            event_slot[batch] = me;
            is_recorded[batch] = true
        };
#else
        if
        :: record(); push()
        :: needs_record[batch] = true; push()
        :: true -> /* the driver refuses */
#ifdef FAILED_RECORD
            push()
#else
            atomic {
                leaving = blocks[batch];
                blocks[batch] = 0;
                spares = spares | BIT(batch)
            }
#endif
        fi;
#endif
        batch = NONE
    :: else
    fi
}

/* What was on the slot's stack, and is the caller's alone now. */
inline exchange(slot, taken)
{
    atomic {
        taken = heads[slot];
        heads[slot] = NONE;
        held = held | stacked[slot];
        chained = chained | stacked[slot];
        stacked[slot] = 0
    }
}

/* `chain` is what was on the slot's stack. */
inline take_stack(slot)
{
#ifdef TAKE_BY_LOAD
    chain = heads[slot]
#elif defined(POP_ONE)
    chain = heads[slot];
    if
    :: chain != NONE ->
        seen = nexts[chain];
        atomic {
            if
            :: heads[slot] == chain ->
                assert(stacked[slot] & BIT(chain));
                heads[slot] = seen;
                stacked[slot] = stacked[slot] & ~BIT(chain);
                held = held | BIT(chain);
                chained = BIT(chain);
                nexts[chain] = NONE
            :: else -> chain = NONE
            fi;
            seen = NONE
        }
    :: else
    fi
#else
    if
    :: heads[slot] != NONE -> exchange(slot, chain)
    :: heads[slot] == NONE
    fi
#endif
}

/* Puts `newer` in front of the chain; both are the caller's alone. */
inline join()
{
    atomic {
        if
        :: newer != NONE ->
            last = newer;
#ifndef JOIN_FIRST
            do
            :: nexts[last] == NONE -> break
            :: nexts[last] != NONE -> last = nexts[last]
            od;
#endif
            assert(held & BIT(last));
            nexts[last] = chain;
            chain = newer;
            newer = NONE;
            last = NONE
        :: else
        fi
    }
}

/* The chain goes back. */
inline put_back(slot)
{
    if
    :: chain != NONE ->
        do
        :: atomic {
               if
#ifdef BACK_BY_STORE
               :: true ->
#else
               :: heads[slot] == NONE ->
#endif
                   assert((held & chained) == chained);
                   heads[slot] = chain;
                   stacked[slot] = stacked[slot] | chained;
                   held = held & ~chained;
                   chained = 0;
                   chain = NONE;
                   break
#ifndef BACK_BY_STORE
               :: else
#endif
               fi
           };
           exchange(slot, newer);
#ifdef DROP_NEWER
           newer = NONE
#else
           join()
#endif
        od
    :: else
    fi
}

/* Out of the chain; `before` is the batch before it there. */
inline unlink()
{
    if
    :: before == NONE -> chain = nexts[batch]
    :: else -> nexts[before] = nexts[batch]
    fi
}

inline recycle()
{
    nexts[batch] = NONE;
    blocks[batch] = 0;
    is_recorded[batch] = false;
    needs_record[batch] = false;
    event_slot[batch] = 0;
    covers[batch] = 0;
    chained = chained & ~BIT(batch);
    spares = spares | BIT(batch)
}

/* What was published after the batch without an event comes into it. */
inline gather()
{
    last = batch;
    do
    :: nexts[last] == NONE -> break
    :: nexts[last] != NONE && !needs_record[nexts[last]] -> last = nexts[last]
    :: nexts[last] != NONE && needs_record[nexts[last]] ->
        next = nexts[last];
        blocks[batch] = blocks[batch] | blocks[next];
        nexts[last] = nexts[next];
        nexts[next] = NONE;
        blocks[next] = 0;
        needs_record[next] = false;
        chained = chained & ~BIT(next);
        spares = spares | BIT(next);
        next = NONE
    od;
    last = NONE
}

/* The event that nobody asked for before; the driver may refuse. */
inline record_late(slot)
{
    gather();
    if
    :: true ->
#ifdef OWN_RECORD
        covers[batch] = pending[me];
        event_slot[batch] = me;
#else
        covers[batch] = pending[slot];
        event_slot[batch] = slot;
#endif
        is_recorded[batch] = true;
        needs_record[batch] = false
    :: true
    fi
}

/* The event may be over now, or not. */
inline query(slot)
{
    assert(held & BIT(batch));
#ifndef NO_RECORD
    if
    :: needs_record[batch] -> record_late(slot)
    :: else
    fi;
#endif
    if
#ifndef NO_RECORD
    :: needs_record[batch]
    :: !needs_record[batch] && !is_recorded[batch] -> is_done = true
#else
    :: !is_recorded[batch] -> is_done = true
#endif
#ifdef NO_QUERY
    :: is_recorded[batch] -> is_done = true
#else
    :: is_recorded[batch] ->
        pending[event_slot[batch]] =
            pending[event_slot[batch]] & ~covers[batch];
        covers[batch] = 0;
        is_done = true
    :: is_recorded[batch]
#endif
    fi
}

inline dispose()
{
    assert((buddy & blocks[batch]) == 0);
    assert(((pending[0] | pending[1]) & blocks[batch]) == 0);
    buddy = buddy | blocks[batch];
    recycle()
}

/* A miss: what is done, whatever the slot. To run out of patience is the same
 * as finding the rest not done. */
inline poll(slot)
{
    take_stack(slot);
    batch = chain;
    do
    :: batch == NONE -> break
    :: batch != NONE ->
        atomic {
            query(slot);
            next = nexts[batch];
            if
            :: is_done -> is_done = false; unlink(); dispose()
            :: else -> before = batch
            fi;
            batch = next;
            next = NONE
        }
    od;
    before = NONE;
    put_back(slot)
}

/* A miss: blocks of the same stream, done or not, out of one batch: those of
 * the class that is wanted, or all. */
inline take_own(slot)
{
    take_stack(slot);
    atomic {
        batch = chain;
        do
        :: batch == NONE -> break
        :: batch != NONE -> before = batch; batch = nexts[batch]
        :: batch != NONE ->
            assert(held & BIT(batch));
            if
            :: got = LOWEST(blocks[batch])
            :: got = blocks[batch]
            fi;
            use(got);
            blocks[batch] = blocks[batch] & ~got;
            got = 0;
            if
#ifdef SPARE_EARLY
            :: true -> unlink(); recycle()
#elif defined(SPARE_CHAINED)
            :: blocks[batch] == 0 -> recycle()
#else
            :: blocks[batch] == 0 -> unlink(); recycle()
#endif
            :: else
            fi;
            batch = NONE;
            break
        od;
        before = NONE
    };
    put_back(slot)
}

inline take_from_buddy()
{
    atomic {
        if
        :: buddy ->
            got = LOWEST(buddy);
            buddy = buddy & ~got;
            use(got);
            got = 0
        :: else
        fi
    }
}

/* It starts with blocks that its stream used, and a batch. */
proctype thread(byte me; byte rounds; byte leaving; byte spares)
{
    byte batch, before, next, chain, newer, last, seen, in_use, got, i;
    byte held, chained;
    bool is_done;
    held = spares;
    retire();
    do
    :: rounds == 0 -> break
    :: rounds ->
        rounds--;
        if
        :: true -> poll(0)
        :: true -> poll(1)
#ifdef OTHER_SLOT
        :: true -> take_own(0)
#else
        :: true -> take_own(me)
#endif
        fi;
        if
        :: in_use == 0 -> take_from_buddy()
        :: in_use
        fi;
        atomic {
            leaving = leaving | in_use;
            in_use = 0
        };
        retire()
    od;
    atomic {
        assert((kept & leaving) == 0);
        kept = kept | leaving;
        finished++
    }
}

/* Each block is in one place. */
init
{
    byte slot, batch, found;
    pending[0] = ALL & ~BIT(BLOCKS - 1);
    pending[LAST_SLOT] = pending[LAST_SLOT] | BIT(BLOCKS - 1);
    atomic {
        run thread(LAST_SLOT, ROUNDS, BIT(BLOCKS - 1), BIT(THREADS));
        run thread(0, ROUNDS, 3, BIT(1));
#if THREADS == 3
        run thread(0, THIRD_ROUNDS, 4, BIT(2))
#endif
    };
    finished == THREADS;
    assert((kept & buddy) == 0);
    found = kept | buddy;
    do
    :: slot == 2 -> break
    :: slot < 2 ->
        batch = heads[slot];
        do
        :: batch == NONE -> break
        :: batch != NONE ->
            assert((found & blocks[batch]) == 0);
            found = found | blocks[batch];
            batch = nexts[batch]
        od;
        slot++
    od;
    assert(found == ALL)
}
