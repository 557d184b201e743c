/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the caches consist of. Private to pool/cache; docs/streams.md explains
 * how the parts work together.
 *
 *   engine        one per pool
 *   thread state  one per pool and thread
 *   cache         one per thread state and stream state: a magazine for each
 *                 size class
 *
 * Stream states are in pool/stream.
 */
#ifndef MOIETY_POOL_CACHE_STATE_H_
#define MOIETY_POOL_CACHE_STATE_H_

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/oom.h"
#include "moiety/status.h"
#include "moiety/types.h"
#include "pool/base/atomics.h"
#include "pool/cache/handle.h"
#include "pool/driver/context.h"
#include "pool/driver/driver_table.h"
#include "pool/heap/classes.h"
#include "pool/heap/heap.h"
#include "pool/segment/segment.h"
#include "pool/stream/notes.h"
#include "pool/stream/streams.h"
#include "pool/tenant/tags.h"

struct moietyi_history;
struct moietyi_history_ring;

struct moietyi_magazine {
    /* A hit touches this line and the entries. */
    alignas(64) atomic_uint count; /* Edge CT, relaxed */
    uint32_t capacity;             /* pushes stop here; 0: it has no room */
    moiety_devptr *entries;        /* see magazine.h; NULL: it never had room */
    uint32_t entries_room;
    bool has_overflowed;   /* since it ran dry */
    uint8_t missed_grains; /* of the last miss, if that was short; 0: none */
    moietyi_counter alloc_count;
    moietyi_counter free_count;
    moietyi_counter requested_bytes;
    uint64_t seen; /* its activity when the hand passed last */
    /* The bound of the thread's bytes at which the magazine has all the room
     * that it may; 0: not known. */
    uint64_t fitted_bytes;
};

struct moietyi_cache {
    struct moietyi_magazine magazines[MOIETYI_CLASSES];
    struct moietyi_thread_state *thread_state;
    struct moietyi_stream_state *stream_state;
    struct moietyi_cache *next; /* the thread state's; the registry's lock */
    struct moietyi_cache *next_in_bucket; /* the thread state's owner's */
    /* Edge CT, relaxed: which magazines have capacity or blocks, a bit each.
     * Most have not. */
    _Atomic uint64_t in_use[MOIETYI_CLASS_WORDS];
    /* Counts of blocks take each as long as its class. These sums hold the
     * bytes by which short blocks are shorter; they are subtracted, so they
     * wrap. */
    moietyi_counter uneven_alloc_bytes;
    moietyi_counter uneven_free_bytes;
    moietyi_counter uneven_cached_bytes;
    /* What the peak has counted, see live.h; the owner's. */
    uint64_t told_counts[MOIETYI_CLASSES];
    uint64_t told_uneven_bytes;
};

/* The counters of thread states. The pool's numbers are their sums. */
enum moietyi_count {
    MOIETYI_COUNT_ALLOCS, /* of caches that are gone; so are the next four */
    MOIETYI_COUNT_ALLOC_BYTES,
    MOIETYI_COUNT_FREES,
    MOIETYI_COUNT_FREE_BYTES,
    MOIETYI_COUNT_REQUESTED_BYTES,
    MOIETYI_COUNT_MISSES,
    MOIETYI_COUNT_STREAM, /* the first of enum moietyi_stream_count */
    MOIETYI_COUNT_STREAM_END = MOIETYI_COUNT_STREAM + MOIETYI_STREAM_COUNTS,
    MOIETYI_COUNT_RETRIES = MOIETYI_COUNT_STREAM_END,
    MOIETYI_COUNT_OOMS,
    MOIETYI_COUNT_ESCALATION, /* of MOIETY_OOM_ steps */
    MOIETYI_COUNT_ESCALATION_END = MOIETYI_COUNT_ESCALATION + 10,
    MOIETYI_COUNT_DOUBLE_FREES = MOIETYI_COUNT_ESCALATION_END,
    MOIETYI_COUNT_SHRINKS,      /* of the caches' bounds */
    MOIETYI_COUNT_OTHERS_ASKED, /* see pool/oom/others.c */
    MOIETYI_COUNT_OTHERS_GOT_BYTES,
    MOIETYI_COUNT_OTHERS_GIVEN_BYTES,
    MOIETYI_COUNTS
};

struct moietyi_thread_state {
    struct moietyi_engine *engine;
    struct moietyi_thread *thread; /* NULL: it ended; registry's lock */
    struct moietyi_thread_state *of_thread; /* next; registry's lock */
    struct moietyi_thread_state *of_pool;   /* next; registry's lock */
    /* next on the stack of abandoned thread states */
    struct moietyi_thread_state *next_abandoned;
    struct moietyi_cache *caches; /* registry's lock; owner reads */
    /* The same by stream state, if there are many; the owner's. NULL: there are
     * few, or there was no memory for it. */
    struct moietyi_cache **cache_buckets;
    uint32_t cache_bucket_count;
    uint32_t cache_count;
    struct moietyi_cache *done;
    struct moietyi_records records; /* see pool/heap/heap.h */
    uint64_t granted_bytes;         /* capacities of all magazines */
    uint32_t calm_misses;           /* that the engine has not counted yet */
    struct moietyi_cache *hand;     /* where the budget's clock stands */
    uint32_t hand_class;
    bool is_refused;        /* its caches had no room, for others' have it */
    uint64_t seen_activity; /* of its caches; registry's lock. See reclaim.c */
    uint64_t attention;     /* when its caches were last gone through */
    /* Others need memory. Edge CL: see reclaim.c. */
    atomic_bool is_wanted;
    moietyi_counter counts[MOIETYI_COUNTS];
    uint64_t poor_at_bytes; /* reserved when its caches gave little, last */
    uint64_t postponed; /* caches that it could not take, ever: see reclaim.c */
    uint64_t given_bytes;     /* ever, to the space */
    uint64_t looked_at_bytes; /* of these: when the watermark was looked at */
    /* Its thread's: looks at the watermark, and whether the device's work kept
     * segments above it at the last one. */
    uint32_t watermark_looks;
    bool is_held_up;
    uint64_t counted_bytes; /* live by its own counts, see live.h */
    uint64_t untold_bytes;  /* that became live, see live.h */
    /* Edge IN: see gate.h. Odd while a slow path of its thread is inside. */
    _Atomic uint64_t slow_path;
    /* The thread is in a callback of an allocation that would fail. The
     * allocation goes on afterwards, so nobody may take this thread state. Edge
     * OU: as `serving` of thread.h. */
    atomic_bool is_calling_back;
    moiety_oom_report oom; /* of the thread's last one that did */
    uint32_t thread_id; /* the kernel's number of the thread it was made for */
    bool is_new;        /* its thread has made no call with it yet */
    uint32_t
        passed_by; /* misses that do not try the short way: see api/alloc.c */
    struct moietyi_history_ring *history; /* NULL: the pool keeps none */
};

/* A block that other streams use as well. */
struct moietyi_use {
    struct moietyi_use *next;
    moiety_devptr address;
    uint32_t stream_state_count;
    uint32_t stream_state_capacity;
    /* each counts this as a user */
    struct moietyi_stream_state **stream_states;
    /* Once the block is freed and in ANY's heap: the stream of the free,
     * counted too, or NULL; its place; and how often ANY's epochs had been
     * closed. */
    struct moietyi_stream_state *freed_on;
    moietyi_grain start;
    uint64_t grains;
    uint64_t moves;
};

/* A table with chains, which doubles when there are as many notes as chains. Its
 * lock is the engine's. */
struct moietyi_use_table {
    struct moietyi_use **buckets; /* NULL: none was ever noted */
    uint32_t bucket_count;        /* a power of two */
    uint32_t use_count;
};

struct moietyi_engine {
    struct moiety_pool *pool;
    struct moietyi_segments *segments;
    const struct moietyi_lookup *lookup;
    struct moietyi_streams streams;
    uint64_t thread_cache_bytes;
    uint64_t cache_bytes;
    /* Edge OR: exit (release) -> adopt (acquire), whole; and those that who
     * adopted a few of them left. */
    _Atomic(struct moietyi_thread_state *) abandoned;
    _Atomic(struct moietyi_thread_state *) abandoned_rest;
    struct moietyi_thread_state *thread_states; /* the registry's lock */
    /* Edge: none; relaxed, advice: how many there are. */
    atomic_uint thread_state_count;
    /* of thread states that are gone; the same */
    uint64_t gone[MOIETYI_COUNTS];

    /* Edge: none; relaxed, see magazine.h. Of the two bounds above. Misses only
     * read it, so it is not on a line with what they change. */
    alignas(64) atomic_uint halvings;

    /* Edge IN: odd while somebody takes the final scan; see gate.h. */
    _Atomic uint64_t gate;
    /* Edge: none; relaxed, advice: when it may be closed again; see
     * final_scan.c. */
    _Atomic uint64_t next_scan_ns;
    /* Edge: none; relaxed, advice: when a waiter may take others' caches
     * again. */
    _Atomic uint64_t next_steal_ns;
    /* Edge: none; relaxed, advice: when to look for resting threads again. */
    _Atomic uint64_t next_rest_ns;
    /* Edge IN: allocations that escalate, which are in and out of slow paths.
     * Up inside of one; down (release) too -> the thread that destroys the pool
     * (acquire). */
    atomic_uint escalating_count;
    /* Edge IN: odd while the pool is stopped; see
     * pool/observe/heap/stop_world.h. */
    _Atomic uint64_t stop;
    pthread_mutex_t stop_lock; /* who stops it has it */
    /* Of thread states that are gone, and of threads that ended; registry's
     * lock. */
    uint64_t gone_slow_paths;
    uint64_t abandoned_count;

    /* Edge TG: moietyi_engine_make_tags (release) -> moietyi_tags (acquire). NULL
     * until the pool has a tenant; then unchanged to the end. */
    _Atomic(struct moietyi_tags *) tags;

    /* The streams that blocks were allocated for, by first grain: see notes.h.
     * Constant; NULL: the pool does not note it. */
    moietyi_note_word *notes;
    uint32_t noted_pages; /* that these are for */

    pthread_mutex_t uses_lock;
    struct moietyi_use_table uses;
    /* Uses of freed blocks that wait for streams that can be asked, oldest
     * first. */
    struct moietyi_use *freed_uses;
    struct moietyi_use **freed_uses_end;
    uint64_t ask_round; /* by who has the role of ANY's stream state */

    struct moietyi_history *history; /* constant; NULL: none is kept */

    /* Written by misses. Edge: none; relaxed, bounds: bytes granted to thread
     * states, and misses since the last escalation as far as they were
     * reported. */
    alignas(64) _Atomic uint64_t granted_bytes;
    atomic_uint calm_misses;

    /* Edge: none; relaxed, numbers: live bytes, as far as thread states have
     * reported, and the most of that; see live.h. */
    alignas(64) _Atomic uint64_t live_bytes;
    _Atomic uint64_t live_peak_bytes;
};

/* Whether the pool may have abandoned thread states. */
static inline bool moietyi_is_any_abandoned(const struct moietyi_engine *engine)
{
    /* relaxed, both: a look. */
    return atomic_load_explicit(&engine->abandoned, memory_order_relaxed) ||
           /* relaxed: as above. */
           atomic_load_explicit(&engine->abandoned_rest, memory_order_relaxed);
}

/* NULL: no block has a tag. */
static inline struct moietyi_tags *
moietyi_tags(const struct moietyi_engine *engine)
{
    /* TG.acquire: the words are there. */
    return atomic_load_explicit(&engine->tags, memory_order_acquire);
}

/* As one who asks pool/stream; it names no stream. */
static inline struct moietyi_stream_user
moietyi_thread_state_user(struct moietyi_thread_state *thread_state)
{
    return (struct moietyi_stream_user){
        .streams = &thread_state->engine->streams,
        .counts = &thread_state->counts[MOIETYI_COUNT_STREAM],
        .thread = thread_state};
}

static inline void moietyi_count(struct moietyi_thread_state *thread_state,
                                 enum moietyi_count which, uint64_t more)
{
    moietyi_count_add(&thread_state->counts[which], more);
}

#endif
