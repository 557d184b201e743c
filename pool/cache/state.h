/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the caches consist of. Private to pool/cache; docs/streams.md explains
 * how the parts work together.
 *
 *   engine    one per pool
 *   slot      one per pool and stream: whose memory may be reused when
 *   member    one per pool and thread
 *   cache     one per member and slot: a magazine for each size class
 *   bundle    up to 64 blocks of a class on their way out of a magazine
 *   epoch     what was freed on a slot and waits for the same event
 */
#ifndef BINADE_POOL_CACHE_STATE_H_
#define BINADE_POOL_CACHE_STATE_H_

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "binade/oom.h"
#include "binade/status.h"
#include "binade/types.h"
#include "pool/base/atomics.h"
#include "pool/buddy/map.h"
#include "pool/cache/classes.h"
#include "pool/cache/handle.h"
#include "pool/cache/notes.h"
#include "pool/driver/context.h"
#include "pool/driver/driver_table.h"
#include "pool/segment/segment.h"
#include "pool/tenant/tags.h"

struct binadei_history;
struct binadei_history_ring;

#define BINADEI_BUNDLE_BLOCKS 64U
#define BINADEI_DEPOT_PLACES 8U
#define BINADEI_CONTEXTS_MAX 17U /* the pool's own and 16 more */
#define BINADEI_SLOTS_MAX 16384U
#define BINADEI_SLOT_BUCKETS 2048U

struct binadei_bundle {
    struct binadei_bundle *next;
    uint32_t class_index; /* BINADEI_CLASSES: of no class */
    uint32_t count;
    /* What it was counted in with by a depot: blocks that were freed twice may
     * have another length when it leaves. */
    uint64_t depot_bytes;
    binade_devptr entries[BINADEI_BUNDLE_BLOCKS]; /* see entry.h */
};

enum binadei_slot_kind {
    BINADEI_SLOT_DONE,      /* nothing is pending */
    BINADEI_SLOT_ANY,       /* freed by who names no stream */
    BINADEI_SLOT_STREAM,    /* one stream */
    BINADEI_SLOT_PER_THREAD /* the default stream of one thread */
};

/* Where the ageing map of a stream is: see epoch.h. */
enum binadei_epoch_state {
    BINADEI_EPOCH_IDLE,       /* it is empty */
    BINADEI_EPOCH_UNRECORDED, /* closed, and no event says when it is done */
    BINADEI_EPOCH_OWN,        /* behind the event of the stream */
    BINADEI_EPOCH_CONTEXT     /* behind an event of all contexts */
};

struct binadei_epoch {
    /* Edge RO: released (release) -> taken (acquire), by compare-and-swap and
     * never waited for. Its holder alone closes and drains the maps, and reads
     * and writes what is below. */
    atomic_bool is_taken;
    enum binadei_epoch_state state;
    uint64_t number;   /* CONTEXT: of the event */
    CUevent event;     /* of the stream's own; made when first needed */
    CUcontext context; /* of the event */
    /* Closed for the next event of all contexts, whose role's holder has this
     * one's as well; that one's alone to read and write. */
    bool is_joining;
    /* Edge MV: counted (release) -> who frees (acquire). How often something was
     * moved from fresh to ageing, counted after the move, so that what is freed
     * after a look is moved by a later one; and that count when what was ageing
     * left. */
    _Atomic uint64_t moves;
    uint64_t left_at_moves;
    /* Edge: none; relaxed, for reports. CLOCK_MONOTONIC. */
    _Atomic uint64_t closed_ns;
};

struct binadei_slot {
    enum binadei_slot_kind kind;
    uint32_t index; /* in the engine's table */
    /* Stands for this stream, and for none that has the slot later. Constant
     * while the slot has users; the slots' lock. */
    uint32_t note;
    CUstream stream;
    CUcontext context;                   /* of the stream */
    const struct binadei_member *member; /* of PER_THREAD: whose */
    struct binadei_slot *next_in_bucket; /* the slots' lock; see closed_first */
    /* Edge SU: down by anyone (release) -> who would use the slot again (acquire).
     * Caches and notes that refer to it; up under the slots' lock. */
    atomic_uint cache_count;

    /* Edge PI: is_closed (release) -> a slow path's look after it has counted
     * itself; both sides are sequentially consistent. */
    atomic_uint pins;
    atomic_bool is_closed;
    /* Edge SF: retire (release) -> who finds the slot closed (acquire). The
     * event that stands for a stream that is retired; NULL: none yet, and all
     * work of the context stands for it. */
    _Atomic(CUevent) final_event;

    /* What was freed on it and is no other stream's yet; constant. NULL for
     * DONE, whose blocks go to the buddy. */
    struct binadei_maps *maps;
    struct binadei_epoch epoch;
    /* What it said when it was asked last; by who has the role of ANY's slot. */
    uint64_t asked_round;
    bool was_idle;

    /* Edge: none; relaxed: a bound. Counted in before a bundle is put and out after it was
     * taken, so where it is 0 the depot is empty. */
    _Atomic uint64_t depot_bytes;
    /* Edge DE: put (release) -> take (acquire). */
    alignas(64) _Atomic(struct binadei_bundle *)
        depot[BINADEI_CLASSES][BINADEI_DEPOT_PLACES];
};

/* Edge CT, relaxed: the owner alone writes; stats read. */
typedef _Atomic uint64_t binadei_counter;

struct binadei_magazine {
    /* A hit touches this line and the entries. */
    alignas(64) atomic_uint count; /* Edge CT, relaxed */
    uint32_t capacity;             /* pushes stop here; in the budget */
    binade_devptr *entries;        /* see entry.h */
    binadei_counter alloc_count;
    binadei_counter free_count;
    binadei_counter requested_bytes;
    uint32_t room;       /* of `entries` */
    uint32_t refill;     /* blocks that the last miss took */
    uint64_t seen;       /* activity when the budget's hand passed */
    bool has_overflowed; /* since the last miss */
    bool has_bounced;    /* ran dry after it had overflowed */
    uint8_t same_misses; /* in a row, that asked for: */
    uint16_t missed_grains;
    bool is_mixed; /* misses ask for several lengths */
};

struct binadei_cache {
    struct binadei_magazine magazines[BINADEI_CLASSES];
    struct binadei_member *member;
    struct binadei_slot *slot;
    struct binadei_cache *next; /* the member's; the registry's lock */
    struct binadei_cache *next_in_bucket; /* the member's owner's */
    /* Edge CT, relaxed: which magazines have capacity or blocks, a bit each. Most have not. */
    _Atomic uint64_t in_use[BINADEI_CLASSES / 64];
    /* What counts of blocks by the longest of their class do not tell: all bytes
     * of runs, whose counts tell none, and what short blocks are short of, which
     * is taken off, so that each wraps around. */
    binadei_counter uneven_alloc_bytes;
    binadei_counter uneven_free_bytes;
    binadei_counter uneven_cached_bytes;
};

/* What members count. Sums over members are the pool's. */
enum binadei_count {
    BINADEI_COUNT_ALLOCS, /* of caches that are gone; so are the next four */
    BINADEI_COUNT_ALLOC_BYTES,
    BINADEI_COUNT_FREES,
    BINADEI_COUNT_FREE_BYTES,
    BINADEI_COUNT_REQUESTED_BYTES,
    BINADEI_COUNT_MISSES,
    BINADEI_COUNT_DEPOT_IN_BYTES,
    BINADEI_COUNT_DEPOT_OUT_BYTES,
    BINADEI_COUNT_DEPOT_EXCHANGES,
    BINADEI_COUNT_EPOCHS, /* closed behind an event */
    BINADEI_COUNT_EVENTS,
    BINADEI_COUNT_CONTEXT_EVENTS,
    BINADEI_COUNT_QUERIES,
    BINADEI_COUNT_STREAM_WAITS,
    BINADEI_COUNT_GUARDED,
    BINADEI_COUNT_DISTURBED,
    BINADEI_COUNT_RETRIES,
    BINADEI_COUNT_OOMS,
    BINADEI_COUNT_LADDER, /* the first of enum binadei_ladder */
    BINADEI_COUNT_LADDER_END = BINADEI_COUNT_LADDER + 11,
    BINADEI_COUNT_DOUBLE_FREES = BINADEI_COUNT_LADDER_END,
    BINADEI_COUNT_SHRINKS, /* of the caches' bounds */
    BINADEI_COUNTS
};

struct binadei_member {
    struct binadei_engine *engine;
    struct binadei_thread *thread;    /* NULL: it ended; registry's lock */
    struct binadei_member *of_thread; /* next; registry's lock */
    struct binadei_member *of_pool;   /* next; registry's lock */
    struct binadei_member *orphan;    /* next on the stack of orphans */
    struct binadei_cache *caches;     /* registry's lock; owner reads */
    /* The same by slot, once there are many; the owner's. NULL: there are few,
     * or there was no memory for it. */
    struct binadei_cache **cache_buckets;
    uint32_t cache_bucket_count;
    uint32_t cache_count;
    struct binadei_cache *done;
    struct binadei_home home;
    uint64_t granted_bytes;     /* capacities of all magazines */
    uint64_t told_bytes;        /* of these: what the engine knows of */
    uint32_t calm_misses;       /* that the engine does not know of */
    struct binadei_cache *hand; /* where the budget's clock stands */
    uint32_t hand_class;
    bool is_refused;        /* its caches had no room, for others' have it */
    uint64_t seen_activity; /* of its caches; registry's lock. See idle.c */
    uint64_t attention;     /* when its caches were last gone through */
    /* Others need memory. Edge CL: see idle.c. */
    atomic_bool is_wanted;
    struct binadei_bundle *bundles; /* spare */
    uint32_t bundle_count;
    binadei_counter counts[BINADEI_COUNTS];
    uint64_t poor_at_bytes; /* reserved when its caches gave little, last */
    uint64_t postponed;   /* caches that it could not take, ever: see idle.c */
    uint64_t given_bytes; /* ever, to the buddy */
    uint64_t looked_at_bytes; /* of these: when the watermark was looked at */
    /* Edge IN: see gate.h. Odd while an operation of its thread is inside. */
    _Atomic uint64_t operation;
    /* Out of an allocation that would fail, which goes on afterwards: the member
     * is not to be taken. Edge OU: as `serving` of thread.h. */
    atomic_bool is_calling_back;
    binade_oom_report oom; /* of the thread's last one that did */
    uint32_t thread_id; /* the kernel's number of the thread it was made for */
    bool is_new;        /* its thread has made no call with it yet */
    struct binadei_history_ring *history; /* NULL: the pool keeps none */
};

/* A block with something to look up besides: who else uses it. */
struct binadei_use {
    struct binadei_use *next;
    binade_devptr address;
    uint32_t slot_count;
    uint32_t slot_capacity;
    struct binadei_slot **slots; /* each counts this as a user */
    /* Once the block is freed and in ANY's maps: on which stream, counted too, or
     * NULL; where; and how often these had been closed. */
    struct binadei_slot *freed_on;
    binadei_grain start;
    uint64_t grains;
    uint64_t moves;
};

/* A table with chains, which doubles when there are as many notes as chains. Its
 * lock is the engine's. */
struct binadei_use_table {
    struct binadei_use **buckets; /* NULL: none was ever noted */
    uint32_t bucket_count;        /* a power of two */
    uint32_t use_count;
};

/* Events of all contexts that may be in flight. */
#define BINADEI_CONTEXT_EPOCHS 4U

/* Numbers go up from 1; a later event is over no earlier than one before. */
struct binadei_context_epochs {
    /* Edge RO, as of a stream's: its holder alone records and asks. */
    atomic_bool is_taken;
    /* Edge CE: recorded and passed (release) -> who finds that its number has
     * (acquire). */
    _Atomic uint64_t recorded;
    _Atomic uint64_t passed;
    CUevent events[BINADEI_CONTEXT_EPOCHS][BINADEI_CONTEXTS_MAX];
    unsigned counts[BINADEI_CONTEXT_EPOCHS]; /* of contexts */
};

struct binadei_engine {
    struct binade_pool *pool;
    const struct binadei_driver *driver;
    struct binadei_segments *segments;
    struct binadei_buddy *buddy;
    const struct binadei_lookup *lookup;
    uint64_t thread_cache_bytes;
    uint64_t cache_bytes;
    struct binadei_context_epochs context_epochs;
    /* Edge: none; relaxed, advice. Somebody needed what streams freed and a
     * capture guard was held: calls that name a stream record on it. */
    atomic_bool wants_own_epochs;
    struct binadei_engine *next; /* of all engines; the registry's lock */

    /* The pool's own first; only appended to. Edge CX: context_count (release) ->
     * its readers (acquire). */
    CUcontext contexts[BINADEI_CONTEXTS_MAX];
    atomic_uint context_count;

    pthread_mutex_t slots_lock;
    struct binadei_slot *buckets[BINADEI_SLOT_BUCKETS];
    /* Closed slots, in the order in which they are looked at to be used again;
     * by next_in_bucket. The slots' lock. */
    struct binadei_slot *closed_first;
    struct binadei_slot *closed_last;
    /* Edge: none; relaxed, advice: how many they are. */
    atomic_uint closed_count;
    struct binadei_slot *any;
    struct binadei_slot *done;
    /* Edge SN: slot_count (release) -> its readers (acquire); slots are never
     * freed before the engine, only used again. */
    _Atomic(struct binadei_slot *) slots[BINADEI_SLOTS_MAX];
    atomic_uint slot_count;
    /* Edge OR: exit (release) -> adopt (acquire), whole; and those that who
     * adopted a few of them left. */
    _Atomic(struct binadei_member *) orphans;
    _Atomic(struct binadei_member *) left_orphans;
    struct binadei_member *members; /* the registry's lock */
    /* Edge: none; relaxed, advice: how many there are. */
    atomic_uint member_count;
    uint64_t gone[BINADEI_COUNTS]; /* of members that are gone; the same */

    /* Edge SP: put (release) -> take (acquire), whole. */
    _Atomic(struct binadei_bundle *) spare_bundles;
    /* Edge: none; relaxed, see bounds.h. Of the two bounds above. Misses only read
     * it, so it is not on a line with what they change. */
    alignas(64) atomic_uint halvings;
    atomic_uint grown_steps; /* of threads' share, until it is whole again */

    /* Edge IN: odd while somebody takes the last look; see gate.h. */
    _Atomic uint64_t gate;
    /* Edge: none; relaxed, advice: when it may be closed again; see last_look.c. */
    _Atomic uint64_t next_look_ns;
    /* Edge: none; relaxed, advice: when who waits may take others' caches again. */
    _Atomic uint64_t next_idle_ns;
    /* Edge: none; relaxed, advice: when one may look again for threads that
     * rest. */
    _Atomic uint64_t next_rest_ns;
    /* Edge IN: allocations on their way out of memory, which are in and out of
     * operations. Up inside of one; down (release) too -> who destroys the pool
     * (acquire). */
    atomic_uint climber_count;
    /* Edge IN: odd while the pool is stopped; see stop.h. */
    _Atomic uint64_t stop;
    pthread_mutex_t stop_lock; /* who stops it has it */
    uint64_t gone_operations;  /* of members that are gone; registry's lock */

    /* Edge TG: binadei_engine_make_tags (release) -> binadei_tags (acquire). NULL
     * until the pool has a tenant; then unchanged to the end. */
    _Atomic(struct binadei_tags *) tags;

    /* What blocks were allocated for, by their first grain: see notes.h.
     * Constant; NULL: the pool does not note it. */
    binadei_note_word *notes;
    uint32_t noted_pages; /* that these are for */

    pthread_mutex_t uses_lock;
    struct binadei_use_table uses;
    /* Of blocks that are freed and wait for streams that can be asked, oldest
     * first. */
    struct binadei_use *freed_uses;
    struct binadei_use **freed_uses_end;
    uint64_t ask_round; /* by who has the role of ANY's slot */
    /* The pool's own context, contexts[0]: every section is entered by it. */
    struct binadei_context *home;

    struct binadei_history *history; /* constant; NULL: none is kept */

    /* What misses change. Edge: none; relaxed, bounds: bytes granted to members, and misses
     * since the last climb, each as far as members have told. */
    alignas(64) _Atomic uint64_t granted_bytes;
    atomic_uint calm_misses;
};

/* NULL: no block has a tag. */
static inline struct binadei_tags *
binadei_tags(const struct binadei_engine *engine)
{
    /* TG.acquire: the words are there. */
    return atomic_load_explicit(&engine->tags, memory_order_acquire);
}

static inline void binadei_count_add(binadei_counter *counter, uint64_t more)
{
    /* CT: the owner alone writes, so this needs no read-modify-write. */
    atomic_store_explicit(
        counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
        memory_order_relaxed);
}

static inline uint64_t binadei_count_read(const binadei_counter *counter)
{
    /* CT, relaxed: a sum is exact at rest. */
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void binadei_count(struct binadei_member *member,
                                 enum binadei_count which, uint64_t more)
{
    binadei_count_add(&member->counts[which], more);
}

#endif
