/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A stream is retired, destroyed, and a new one gets its handle
 * (pool/stream/stream_state.c, event.c, call.c). The retirer makes a cache of the slot
 * if it has none, closes the slot, waits for slow paths that have it pinned,
 * moves the pool's attention word on, records the slot's final event, and
 * sweeps: its caches of closed slots end. Another thread has a cache of the slot
 * and does not name the stream, but its slow paths do: they pin the slot and
 * record on the stream, or find it closed and wait for the final event, or for
 * the whole context where there is none yet. A third thread opens a slot for
 * another stream and polls; records of slots are used again.
 *
 * A pin is a store to one word and a look at another, and so is closing: the
 * weakened variants have a store buffer.
 *
 * The claim: nobody records on a stream that is gone; no block is had for
 * another stream, or by the buddy, while work of the old stream may use it;
 * and once the other thread has called again, its cache of the slot is gone.
 *
 * Ghosts: `pending`, the blocks that queued work of the old stream may be
 * using; `covered`, those whose batch waits for that work; `stream_of`, by slot
 * whose record it is.
 *
 * Weakenings, each of which must be caught:
 *   PIN_BUFFERED     a pin may be seen after its look at the slot
 *   CLOSE_BUFFERED   the closing may be seen after its look at the pins
 *   LOOK_FIRST       a slow path looks, then pins
 *   NO_WAIT          the retirer does not wait for pins
 *   FINAL_FIRST      a closed slot counts as over before its event is recorded
 *   NO_ATTENTION     the attention word stays as it was
 *   ATTENTION_FIRST  it moves on before the slot is closed
 *   REMEMBER_LATE    it is read after the caches were looked at
 *   NOT_COUNTED      the retirer makes its cache when the slot is closed, and
 *                    is no user of it before
 *   IGNORE_BATCHES   a slot is used again while batches of it are out
 */
#define OLD 0   /* streams; the first two have the same handle */
#define FRESH 1
#define OTHER 2
#define SLOTS 4 /* the last one is ANY's */
#define ANY 3
#define NONE 7

#define RETIRER 0
#define USER 1
#define OPENER 2

byte stream_of[SLOTS];
byte users[SLOTS];
byte pins[SLOTS];
bool is_closed[SLOTS];
bool has_final[SLOTS];
byte stacked[SLOTS];
byte batches[SLOTS];     /* on the stack */
byte batch_count[SLOTS]; /* and in a poller's hands */
byte slot_count = 1;
byte named = 0; /* the slot that the handle leads to */
byte attention;

byte pins_buffered;
bool is_close_buffered;

/* By thread. */
byte magazines[12]; /* and slot */
byte caches[3];    /* a bit a slot */

byte pending = 3;
byte covered;
byte buddy;
bool is_gone, is_reborn;
byte finished;

#define BIT(number) (1 << (number))
#define MAGAZINE(slot) magazines[SLOTS * me + (slot)]

inline record_on_stream(slot, mask)
{
    atomic {
        assert(stream_of[slot] != OLD || !is_gone);
        if
        :: stream_of[slot] == OLD -> covered = covered | (mask)
        :: else
        fi
    }
}

inline count_pin(slot)
{
#ifdef PIN_BUFFERED
    pins_buffered++
#else
    pins[slot]++
#endif
}

inline uncount_pin(slot)
{
    atomic { pins[slot] -> pins[slot]-- }
}

/* An event of the context covers everything. */
inline record_closed(slot, mask)
{
    atomic {
        if
#ifdef FINAL_FIRST
        :: has_final[slot] || stream_of[slot] == OLD ->
            covered = covered | (has_final[slot] -> (mask) : 0)
#else
        :: has_final[slot] ->
            assert(stream_of[slot] == OLD);
            covered = covered | (mask)
#endif
        :: else -> covered = covered | (mask)
        fi
    }
}

/* moietyi_stream_state_pin(), and an event on the stream */
inline record_slot(slot, mask)
{
#ifdef LOOK_FIRST
    was_closed = is_closed[slot];
    count_pin(slot);
#else
    count_pin(slot);
    was_closed = is_closed[slot];
#endif
    if
    :: !was_closed ->
        record_on_stream(slot, mask);
        uncount_pin(slot)
    :: else ->
        uncount_pin(slot);
        record_closed(slot, mask)
    fi;
    was_closed = false
}

/* What is the slot's in this thread's hands goes behind an event. */
inline retire(slot)
{
    if
    :: MAGAZINE(slot) ->
        record_slot(slot, MAGAZINE(slot));
        to = (is_closed[slot] -> ANY : slot);
        batch_count[to]++;
        atomic {
            batches[to]++;
            stacked[to] = stacked[to] | MAGAZINE(slot);
            MAGAZINE(slot) = 0;
            to = 0
        }
    :: else
    fi
}

inline drop_cache(slot)
{
    atomic {
        assert(MAGAZINE(slot) == 0);
        caches[me] = caches[me] & ~BIT(slot);
        users[slot]--
    }
}

/* Caches of closed slots end; there is one such slot. */
inline sweep()
{
    if
    :: (caches[me] & BIT(0)) && is_closed[0] ->
        retire(0);
        drop_cache(0);
        if
        :: entry == 0 -> entry = NONE
        :: else
        fi
    :: else
    fi
}

inline look_at_attention()
{
#ifdef REMEMBER_LATE
    if
    :: member_attention != attention ->
        sweep();
        seen = attention;
        member_attention = seen
    :: else -> seen = attention
    fi
#else
    seen = attention;
    if
    :: member_attention != seen ->
        sweep();
        member_attention = seen
    :: else
    fi
#endif
}

#ifdef IGNORE_BATCHES
#define IS_UNUSED(slot) (is_closed[slot] && users[slot] == 0)
#else
#define IS_UNUSED(slot)                                                       \
    (is_closed[slot] && users[slot] == 0 && batch_count[slot] == 0)
#endif

/* Under the slots' lock, like the table. */
inline open_slot(stream)
{
    if
    :: IS_UNUSED(0) -> slot = 0
    :: else -> slot = slot_count; slot_count++
    fi;
    stream_of[slot] = stream;
    is_closed[slot] = false;
    has_final[slot] = false
}

/* moietyi_stream_state_use() for the handle, and the cache. */
inline find_cache()
{
    atomic {
        if
        :: named == NONE -> open_slot(FRESH); named = slot
        :: else -> slot = named
        fi;
        users[slot]++
    };
    if
    :: caches[me] & BIT(slot) -> users[slot]--
    :: else -> caches[me] = caches[me] | BIT(slot)
    fi
}

/* Nothing that the old stream's work may be using is had for another. */
inline have(mask)
{
    assert(stream_of[slot] == OLD || ((mask) & pending) == 0)
}

inline take_shared()
{
    /* The stream's own batches serve it whether they are done or not. */
    atomic {
        have(stacked[slot]);
        batch_count[slot] = batch_count[slot] - batches[slot];
        batches[slot] = 0;
        MAGAZINE(slot) = MAGAZINE(slot) | stacked[slot];
        stacked[slot] = 0
    }
}

/* A call that names the handle. */
inline allocate()
{
    if
    :: entry != NONE && entry_attention == attention -> slot = entry
    :: else ->
        look_at_attention();
        find_cache();
        entry = slot;
        entry_attention = seen
    fi;
    assert(stream_of[slot] == FRESH);
    have(MAGAZINE(slot));
    take_shared();
    slot = 0
}

/* Batches that are done go to the buddy. */
inline poll(slot)
{
    atomic {
        taken = stacked[slot];
        count = batches[slot];
        stacked[slot] = 0;
        batches[slot] = 0
    };
    atomic {
        pending = pending & ~(taken & covered);
        assert((taken & pending) == 0);
        buddy = buddy | taken;
        taken = 0
    };
    atomic {
        batch_count[slot] = batch_count[slot] - count;
        count = 0
    }
}

/* The retirer's cache of the slot; who makes it counts as a user. */
inline cache_to_close()
{
    atomic {
        if
        :: caches[me] & BIT(0)
        :: else -> users[0]++; caches[me] = caches[me] | BIT(0)
        fi
    }
}

inline close_slot()
{
    atomic {
        assert(named == 0);
        named = NONE;
#ifdef CLOSE_BUFFERED
        is_close_buffered = true
#else
        is_closed[0] = true
#endif
    };
#ifndef NO_WAIT
    pins[0] == 0
#else
    skip
#endif
}

/* A read-modify-write, so what was stored before it is seen before it. */
inline move_on()
{
    atomic {
        !is_close_buffered ->
#ifndef NO_ATTENTION
            attention++;
#endif
            seen = attention
    }
}

/* moietyi_stream_close() */
inline retire_stream()
{
#ifndef NOT_COUNTED
    cache_to_close();
#endif
#ifdef ATTENTION_FIRST
    move_on();
    close_slot();
#else
    close_slot();
    move_on();
#endif
    if
    :: atomic {
           assert(stream_of[0] == OLD);
           has_final[0] = true
       }
    :: true /* the driver refuses */
    fi;
#ifdef NOT_COUNTED
    cache_to_close();
#endif
    sweep();
    member_attention = seen
}

proctype retirer()
{
    byte me = RETIRER;
    byte entry, entry_attention, member_attention, seen, slot, to;
    bool was_closed;
    /* It may have no cache of the slot. */
    if
    :: atomic {
           caches[me] = BIT(0);
           users[0]++;
           MAGAZINE(0) = 1
       }
    :: atomic {
           entry = NONE;
           buddy = 1;
           pending = pending & ~1
       }
    fi;
    retire_stream();
    is_gone = true;
    is_reborn = true;
    allocate();
    finished++
}

proctype user()
{
    byte me = USER;
    byte entry, entry_attention, member_attention, seen, slot, to;
    bool was_closed;
    /* Its budget may take the magazine; any call may sweep. */
    if
    :: true -> retire(0)
    :: true
    fi;
    look_at_attention();
    if
    :: true -> is_reborn; allocate()
    :: true -> is_gone; look_at_attention()
    fi;
    assert((caches[me] & BIT(0)) == 0 || stream_of[0] == FRESH);
    finished++
}

proctype opener()
{
    byte slot, taken, count;
    byte me = OPENER;
    if
    :: true -> poll(0)
    :: true
    fi;
    atomic { open_slot(OTHER); users[slot]++ };
    take_shared();
    /* The same happens to another stream. */
    attention++;
    poll(ANY);
    finished++
}

#if defined(PIN_BUFFERED) || defined(CLOSE_BUFFERED)
proctype memory()
{
end:
    do
    :: atomic { pins_buffered -> pins_buffered--; pins[0]++ }
    :: atomic {
           is_close_buffered -> is_close_buffered = false; is_closed[0] = true
       }
    od
}
#endif

init
{
    stream_of[0] = OLD;
    magazines[SLOTS * USER] = 2;
    caches[USER] = BIT(0);
    users[0] = 1;
    atomic {
#if defined(PIN_BUFFERED) || defined(CLOSE_BUFFERED)
        run memory();
#endif
        run retirer();
        run user();
        run opener()
    };
    finished == 3
}
