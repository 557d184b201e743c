/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Extents of free memory in heaps, each under its owner's lock (pool/heap): two
 * streams and DONE. A record's one word says where the extent begins, whose it is
 * and of which age; a table has, of each grain, the record that begins or ends
 * there, or anything. Who frees believes both of them only where the word is of an
 * owner whose lock it holds. Each load and store that others may see is one step.
 *
 * Workers take from their own heap and DONE, and free into either heap, where the
 * block joins its neighbours, the closed age and what is done among them. A
 * relabeller closes ages, records an event, waits for it, and drains or hands on.
 * With ENDER there is instead who destroys a heap whose number is used again.
 *
 * The claim: an extent is unlinked only by who has its owner's lock and finds it
 * listed as its word says; no grain is had twice, and at rest all are listed. Of one
 * owner and age no two extents touch when its lock is let go. Who has its own lock
 * and DONE's sees all of both, but for what is passing: on its way from one heap to
 * another, by one lock after the other. No free is refused as a second one. What
 * becomes DONE, or another stream's, has no work of a stream before it.
 *
 * More than the code does: a free also joins the closed age of its stream, and what
 * is done where that lock is to be had. The code joins its own label alone.
 *
 * Left out: bins, sums, covers, the bounds on what is absorbed or handed on at once,
 * where records come from, and memory orders (orders/extents_mo.c).
 *
 * Ghosts: `listed`, the heap and age that list a record; `in_lists`, grains;
 * `moving`, of each owner the grains that were its and are in no list yet; `passing`,
 * extents that are on their way; `pending`,
 * of each stream the grains that wait for its work; `behind`, those of them whose
 * work is in front of the event.
 *
 * Weakenings, each of which must be caught:
 *   TWO_WORDS       the owner is in a word of its own, which stays when a record is
 *                   given up, and is read first
 *   KEEP_WORD       the word of a record that is given up stays
 *   ANY_START       the neighbour behind is believed wherever it starts
 *   ANY_END         the neighbour in front is believed wherever it ends
 *   END_OF_ANYBODY  a second free is seen by the end of an extent of any owner
 *   DONE_UNLOCKED   a word of DONE is believed without DONE's lock
 *   KEEP_LABEL      what a free absorbs keeps its age for the whole
 *   KEEP_OWNER      an extent that is passing keeps the word of the heap that it left
 *   NEXT_OWNER      it has the word of the heap that it will be in
 *   FLIP_ONLY       a close leaves the other age as it is
 *   CLOSE_TWICE     a close does not wait for the event of the last one
 *   RECORD_FIRST    the event is recorded before the close
 *   KEEP_WORDS      who destroys a heap leaves the words of its extents
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef RELABELLERS
#define RELABELLERS 1
#endif
#ifndef TURNS
#define TURNS 1
#endif
#ifndef GRAINS
#define GRAINS 4
#endif
#define RECORDS (GRAINS + 1) /* from 1 on */
#define DONE 1
#define FIRST 2
#define SECOND 3
#define OTHER(stream) (FIRST + SECOND - (stream))
#ifdef ENDER
#define TO_OTHER 0
#else
#define TO_OTHER 1
#endif

#define WORD(start, owner, age) ((start) << 4 | (owner) << 2 | (age) << 1 | 1)
#define START(word) ((word) >> 4)
#define OWNER(word) ((word) >> 2 & 3)
#define AGE(word) ((word) >> 1 & 1)
#define IS_FREE(word) ((word)&1)
#define LIST(owner, age) ((owner) << 1 | (age))
#define BITS(start, end) ((1 << (end)) - (1 << (start)))

byte where[RECORDS + 1];
byte grains[RECORDS + 1];
byte edge[GRAINS];
byte used = 1; /* records, of which 0 is none */
byte lock[4];  /* a process, plus 1 */
bit fresh[4];

byte listed[RECORDS + 1];
byte in_lists;
byte moving[4];
byte passing;
byte pending[4];
byte behind[4];
byte finished;

#define HOLDS(word) \
    (IS_FREE(word) && (own && OWNER(word) == own || \
                       has_done && OWNER(word) == DONE))
/* What the neighbour is may become a part of what is freed. */
#define MAY_JOIN                                   \
    (OWNER(word) == heap && AGE(word) == age ||    \
     age == fresh[heap] && (OWNER(word) == heap || \
                            grains[id] <= freed))

inline take_lock(owner)
{
    atomic {
        lock[owner] == 0;
        lock[owner] = _pid + 1
    }
}

/* What an owner's lists say, when its lock is let go. */
inline check_and_unlock(owner)
{
    assert(lock[owner] == _pid + 1);
    at = 1;
    do
    :: at > RECORDS -> break
    :: at <= RECORDS && (listed[at] >> 1) == owner ->
        word = where[at];
        to = START(word) + grains[at];
        assert(IS_FREE(word) && LIST(OWNER(word), AGE(word)) == listed[at]);
        assert(grains[at] && to <= GRAINS);
        assert(edge[START(word)] == at && edge[to - 1] == at);
        if
        :: to < GRAINS ->
            assert(where[edge[to]] != WORD(to, owner, AGE(word)))
        :: else
        fi;
        at++
    :: else -> at++
    od;
    at = 0;
    to = 0;
    word = 0;
    lock[owner] = 0
}

inline let_go(owner)
{
    d_step {
        check_and_unlock(owner)
    }
}

/* Both; DONE's only where it was to be had. */
inline let_both_go(owner)
{
    d_step {
        if
        :: lock[DONE] == _pid + 1 -> check_and_unlock(DONE)
        :: else
        fi;
        check_and_unlock(owner);
        own = 0;
        has_done = false
    }
}

/* An extent leaves its list; [taken, until) is somebody's from now on. */
inline unlist(record, taken, until)
{
    word = where[record];
    assert(IS_FREE(word) && listed[record] == LIST(OWNER(word), AGE(word)));
    assert(lock[OWNER(word)] == _pid + 1);
    listed[record] = 0;
    at = BITS(START(word), START(word) + grains[record]);
    assert((in_lists & at) == at);
    in_lists = in_lists & ~at;
    moving[OWNER(word)] = moving[OWNER(word)] | at & ~BITS(taken, until);
    at = 0
}

/* An extent that is in no list becomes this one. */
inline list_first(record, whose, from, until, which)
{
    grains[record] = until - from;
#ifdef TWO_WORDS
    where[record] = where[record] & ~(3 << 2) | whose << 2;
#endif
    where[record] = WORD(from, whose, which)
}

inline list_last(record, whose, from, until, which)
{
    edge[from] = record;
    edge[until - 1] = record;
    at = BITS(from, until);
    assert(!listed[record] && !(in_lists & at));
    assert(lock[whose] == _pid + 1);
    assert(whose != DONE || !((pending[FIRST] | pending[SECOND]) & at));
    listed[record] = LIST(whose, which);
    in_lists = in_lists | at;
    moving[DONE] = moving[DONE] & ~at;
    moving[FIRST] = moving[FIRST] & ~at;
    moving[SECOND] = moving[SECOND] & ~at;
    at = 0
}

inline list(record, whose, from, until, which)
{
    list_first(record, whose, from, until, which);
    d_step {
        list_last(record, whose, from, until, which)
    }
}

inline give_up(record)
{
    d_step {
#ifdef TWO_WORDS
        where[record] = where[record] & (3 << 2);
#else
#ifndef KEEP_WORD
        where[record] = 0;
#endif
#endif
        used = used & ~(1 << record)
    }
}

inline take_record(record)
{
    d_step {
        record = 1;
        do
        :: used & 1 << record -> record++
        :: else -> break
        od;
        assert(record <= RECORDS);
        used = used | 1 << record
    }
}

/* The word of `id`, and its end if it is held, where it does not change. */
inline read_word()
{
#ifdef TWO_WORDS
    word = word & (3 << 2) | where[id] & ~(3 << 2);
#else
    word = where[id];
#endif
    to = START(word) + grains[id]
}

/* The longest goes on; `id` is then the record that is given up, if any. */
inline join()
{
    is_joined = true;
    unlist(id, 0, 0);
#ifdef KEEP_LABEL
    age = (OWNER(word) == heap -> AGE(word) : age);
#endif
    from = START(word);
    if
    :: from < start -> start = from
    :: else -> end = to
    fi;
    if
    :: to - from > kept_end - kept_start ->
        kept_start = from;
        kept_end = to;
        from = kept;
        kept = id;
        id = from
    :: else
    fi
}

/* [start, end), which is in no list, goes to `heap` with this age. */
inline settle()
{
    freed = end - start;
    do
    :: is_joined = false;
        if
        :: end < GRAINS ->
            id = edge[end];
#ifdef TWO_WORDS
            word = where[id] & (3 << 2);
#endif
            d_step {
                read_word();
                if
#ifdef ANY_START
                :: HOLDS(word) && MAY_JOIN ->
#else
                :: HOLDS(word) && START(word) == end && MAY_JOIN ->
#endif
                    join()
                :: else
                fi;
                from = 0;
                to = 0
            };
            if
            :: is_joined && id -> give_up(id)
            :: else
            fi
        :: else
        fi;
        if
        :: !is_joined && start > 0 ->
            id = edge[start - 1];
#ifdef TWO_WORDS
            word = where[id] & (3 << 2);
#endif
            d_step {
                read_word();
                if
#ifdef ANY_END
                :: HOLDS(word) && MAY_JOIN ->
#else
                :: HOLDS(word) && MAY_JOIN && to == start ->
#endif
                    join()
                :: else
                fi;
                from = 0;
                to = 0
            };
            if
            :: is_joined && id -> give_up(id)
            :: else
            fi
        :: else
        fi;
        if
        :: !is_joined -> break
        :: else
        fi
    od;
    if
    :: !kept -> take_record(kept)
    :: else
    fi;
    list_first(kept, heap, start, end, age);
    d_step {
        list_last(kept, heap, start, end, age);
        id = 0;
        word = 0;
        kept = 0;
        kept_start = 0;
        kept_end = 0;
        freed = 0;
        start = 0;
        end = 0;
        age = 0;
        heap = 0
    }
}

/* Of a block in use, the second free of which would be refused. */
inline look_for_second_free()
{
    id = edge[start];
    d_step {
        word = where[id];
        assert(!IS_FREE(word) || START(word) != start)
    };
    id = edge[end - 1];
    word = where[id];
#ifdef END_OF_ANYBODY
    assert(!IS_FREE(word) || START(word) + grains[id] != end);
#else
    assert(!HOLDS(word) || START(word) + grains[id] != end);
#endif
    d_step {
        id = 0;
        word = 0
    }
}

/* [start, end) is a block of the caller's, whose work the stream is behind. */
inline free(stream)
{
    atomic {
        lock[stream] == 0;
        lock[stream] = _pid + 1;
        at = BITS(start, end);
        pending[OTHER(stream)] = pending[OTHER(stream)] & ~at;
        behind[OTHER(stream)] = behind[OTHER(stream)] & ~at;
        pending[stream] = pending[stream] | at;
        behind[stream] = behind[stream] & ~at;
        at = 0;
#ifdef DONE_UNLOCKED
        has_done = true;
#else
        has_done = lock[DONE] == 0;
#endif
        if
        :: lock[DONE] == 0 -> lock[DONE] = _pid + 1
        :: else
        fi;
        own = stream;
        heap = stream;
        age = fresh[stream]
    };
    look_for_second_free();
    settle();
    let_both_go(stream)
}

/* [start, end) out of an extent of the stream's or of DONE; nothing: there is none.
 * Which one, how much and where does not matter here. */
inline take(stream)
{
    take_lock(stream);
    atomic {
        lock[DONE] == 0;
        lock[DONE] = _pid + 1;
        own = stream;
        has_done = true;
        assert(passing || !moving[stream] && !moving[DONE]);
        id = 1;
        do
        :: id <= RECORDS && listed[id] && HOLDS(where[id]) -> break
        :: id <= RECORDS -> id++
        :: id > RECORDS ->
            id = 0;
            break
        od;
        if
        :: id ->
            word = where[id];
            first = START(word);
            last = first + grains[id];
            heap = OWNER(word);
            age = AGE(word);
            if
            :: start = first
            :: start = last - 1
            :: last - first > 2 -> start = first + 1
            fi;
            end = start + 1;
            if
            :: end < last -> end = end + 1
            :: true
            fi;
            unlist(id, start, end);
            assert(!(pending[OTHER(stream)] & BITS(start, end)))
        :: else
        fi
    };
    if
    :: id ->
        if
        :: start == first && end == last -> give_up(id)
        :: else ->
            if
            :: start - first >= last - end ->
                list(id, heap, first, start, age);
                first = end
            :: else ->
                list(id, heap, end, last, age);
                last = start
            fi;
            if
            :: first < last ->
                take_record(id);
                list(id, heap, first, last, age)
            :: else
            fi
        fi;
        d_step {
            word = 0;
            id = 0;
            heap = 0;
            age = 0;
            first = 0;
            last = 0
        }
    :: else
    fi;
    let_both_go(stream)
}

proctype worker()
{
    byte own, heap, id, word, start, end, kept, kept_start, kept_end, freed;
    byte first, last, at, from, to, round;
    bool has_done, is_joined;
    bit age;
    do
    :: round == ROUNDS -> break
    :: round < ROUNDS ->
#ifdef ENDER
        take(FIRST);
#else
        take(FIRST + _pid % 2);
#endif
        if
        :: start != end -> free(FIRST)
        :: start != end && TO_OTHER -> free(SECOND)
        :: start == end
        fi;
        round++
    od;
    round = 0;
    finished++
}

/* Any extent of this list; 0: it is empty. */
inline any_extent(whose, which)
{
    d_step {
        id = 1;
        do
        :: id <= RECORDS && listed[id] != LIST(whose, which) -> id++
        :: else -> break
        od;
        if
        :: id > RECORDS -> id = 0
        :: else
        fi
    }
}

/* Extent `id` goes to `heap`, by the locks of both. */
inline hand()
{
    d_step {
        unlist(id, 0, 0);
        start = START(word);
        end = start + grains[id];
        kept = id;
        kept_start = start;
        kept_end = end
    };
    settle()
}

inline close(stream)
{
    take_lock(stream);
    own = stream;
#ifndef FLIP_ONLY
    do
    :: any_extent(stream, 1 - fresh[stream]);
        if
        :: id == 0 -> break
        :: else ->
            heap = stream;
            age = fresh[stream];
            hand()
        fi
    od;
#endif
    fresh[stream] = 1 - fresh[stream];
    any_extent(stream, fresh[stream]);
    assert(id == 0);
    own = 0;
    let_go(stream)
}

inline record_event(stream)
{
    behind[stream] = pending[stream]
}

inline pass(stream)
{
    d_step {
        pending[stream] = pending[stream] & ~behind[stream];
        behind[stream] = 0
    }
}

/* What is closed goes to another heap, each extent by one lock after the other. What
 * waits for the work of the one stream waits for that of the other, which is behind
 * it from now on. */
inline hand_over(stream, to_heap)
{
    do
    ::  take_lock(stream);
        any_extent(stream, 1 - fresh[stream]);
        if
        :: id == 0 -> break
        :: else ->
            d_step {
                unlist(id, 0, 0);
                start = START(word);
                end = start + grains[id];
                kept = id;
                kept_start = start;
                kept_end = end;
                passing++;
#ifdef NEXT_OWNER
                where[id] = WORD(start, to_heap, fresh[to_heap]);
#else
#ifndef KEEP_OWNER
                where[id] = WORD(start, 0, 0);
#endif
#endif
                id = 0;
                word = 0
            };
            let_go(stream);
            take_lock(to_heap);
            d_step {
                has_done = to_heap == DONE;
                own = (to_heap == DONE -> 0 : to_heap);
                heap = to_heap;
                age = fresh[heap];
                if
                :: to_heap != DONE ->
                    at = BITS(start, end) & pending[stream];
                    pending[stream] = pending[stream] & ~at;
                    pending[heap] = pending[heap] | at;
                    behind[heap] = behind[heap] & ~at;
                    at = 0
                :: else
                fi
            };
            settle();
            d_step {
                passing--;
                own = 0;
                has_done = false
            };
            let_go(to_heap)
        fi
    od;
    let_go(stream)
}

#ifndef ENDER
proctype relabeller()
{
    byte own, heap, id, word, start, end, kept, kept_start, kept_end, freed;
    byte at, from, to, turn, stream;
    bool has_done, is_joined;
    bit age;
    do
    :: turn == TURNS -> break
    :: turn < TURNS ->
#if RELABELLERS == 1
        if
        :: stream = FIRST
        :: stream = SECOND
        fi;
#else
        stream = FIRST + _pid % 2;
#endif
#ifdef RECORD_FIRST
        record_event(stream);
        close(stream);
#else
        close(stream);
        record_event(stream);
#endif
#ifdef CLOSE_TWICE
        close(stream);
#endif
        if
        :: pass(stream);
            hand_over(stream, DONE)
        :: hand_over(stream, OTHER(stream))
        :: behind[stream] = 0 /* the event was none */
        fi;
        turn++
    od;
    turn = 0;
    stream = 0;
    finished++
}
#else
/* Nobody else uses the heap, and its work is over. What is in it is who destroys
 * its, who frees it into the next heap of this number. */
inline destroy(stream)
{
    take_lock(stream);
    any_extent(stream, fresh[stream]);
    if
    :: id ->
        d_step {
            unlist(id, 0, 0);
            start = START(word);
            end = start + grains[id];
            moving[stream] = 0
        };
#ifdef KEEP_WORDS
        used = used & ~(1 << id)
#else
        give_up(id)
#endif
    :: else
    fi;
    any_extent(stream, fresh[stream]);
    assert(id == 0);
    pending[stream] = 0;
    let_go(stream)
}

proctype ender()
{
    byte own, heap, id, word, start, end, kept, kept_start, kept_end, freed;
    byte first, last, at, from, to;
    bool has_done, is_joined;
    bit age;
    take(SECOND);
    if
    :: start != end ->
        free(SECOND);
        destroy(SECOND);
        free(SECOND)
    :: else
    fi;
    finished++
}
#endif

init
{
    byte at, covered;
    atomic {
        in_lists = BITS(0, GRAINS);
        where[1] = WORD(0, DONE, 0);
        grains[1] = GRAINS;
        listed[1] = LIST(DONE, 0);
        edge[0] = 1;
        edge[GRAINS - 1] = 1;
        used = 3;
        at = 0;
        do
        :: at == WORKERS -> break
        :: else ->
            run worker();
            at++
        od;
#ifdef ENDER
        run ender()
#else
        at = 0;
        do
        :: at == RELABELLERS -> break
        :: else ->
            run relabeller();
            at++
        od
#endif
    };
    finished == WORKERS + RELABELLERS;
    d_step {
        assert(in_lists == BITS(0, GRAINS));
        assert(!lock[DONE] && !lock[FIRST] && !lock[SECOND]);
        at = 1;
        do
        :: at > RECORDS -> break
        :: else ->
            covered = covered + (listed[at] -> grains[at] : 0);
            at++
        od;
        assert(covered == GRAINS)
    }
}
