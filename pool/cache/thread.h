/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread's own memory: which cache belongs to a pool and a stream. One
 * initial-exec thread-local pointer leads to it. It lies in memory that reads
 * as zero in the child of a fork, so that a child has no hits.
 */
#ifndef BINADE_POOL_CACHE_THREAD_H_
#define BINADE_POOL_CACHE_THREAD_H_

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "binade/oom.h"
#include "binade/status.h"
#include "binade/stream.h"
#include "pool/base/log.h"
#include "pool/cache/handle.h"

struct binadei_cache;
struct binadei_thread_state;

/* Where a thread's calls for one stream go. Its owner alone reads and writes
 * it. */
struct binadei_route {
    alignas(64) const struct binade_pool *pool; /* NULL: empty */
    binade_stream stream;                       /* as the caller names it */
    struct binadei_cache *pop;
    struct binadei_cache *push;
    uint64_t attention; /* of the pool, when this was right */
    /* What blocks that `push` takes are noted by; 0: the pool notes nothing. */
    uint32_t note;
};

/* What others want of a thread: the bits of its `revocation`. */
#define BINADEI_REVOKE_FENCED 1U /* always set where there is no membarrier */
#define BINADEI_REVOKE_ASKED 2U  /* for its caches, if it is outside */
#define BINADEI_REVOKE_TAKEN 4U  /* a thread state of it is gone */
/* It is in a callback of an allocation's, so that its caches cannot be taken: no
 * hits, as nothing may stay there. */
#define BINADEI_REVOKE_BESIDE 8U

#define BINADEI_INSIDE_CALL 2U

/* A pool that called a function of the program's in the middle of a call; on the
 * stack of that call. Its thread's. */
struct binadei_served {
    const struct binade_pool *pool;
    const struct binadei_served *outer; /* whose function called this pool */
};

/* With its first routes it fits a page. */
#define BINADEI_FIRST_ROUTE_ORDER 5U

struct binadei_thread {
    /* The route found last, or NULL. */
    struct binadei_route *last;
    /* Not 0 while a call of this thread is inside: 1 in a hit and at the
     * beginning of other calls, BINADEI_INSIDE_CALL in these. Then a signal
     * handler that interrupts it is refused, and nobody takes its caches. Edge
     * OU: leave (release) -> who takes them (acquire). Edge CL: the setting ->
     * the look of the thread that takes them, over its barrier. */
    atomic_uint is_inside;
    /* Edge CL: the asking (sequentially consistent, then a barrier in all
     * threads) -> the look inside. */
    atomic_uint revocation;
    uint32_t is_attached; /* 1; reads as 0 in a child */
    uint32_t number;      /* of those that came before it */
    /* While a source of the caller's works: the pool that it serves. Edge OU: as
     * is_inside. */
    _Atomic(const struct binade_pool *) serving;
    /* The same with all around it, none of which can be used. The owner's. */
    const struct binadei_served *served;
    /* Open addressing, 2^order routes; at most half of them are used. */
    struct binadei_route *routes;
    uint32_t route_order;
    uint32_t route_count;
    /* Edge: the registry's lock. */
    struct binadei_thread_state *thread_states;
    struct binadei_thread *next_free;
    struct binadei_route first_routes[1U << BINADEI_FIRST_ROUTE_ORDER];
    /* The report of a thread state that was taken, for the next one of its
     * pool. Edge: the registry's lock. */
    binade_oom_report left_oom;
};
_Static_assert(sizeof(struct binadei_thread) <= 4096, "more than a page");

/* The calling thread's; before its first call it is one that has no route.
 * Hidden here too: the linker would name it in the shared library's table. */
extern _Thread_local struct binadei_thread *binadei_thread_self
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Looks at `revocation` and takes back what others only asked for. Routes that
 * may lead to what they took are forgotten. */
void binadei_thread_settle(struct binadei_thread *thread);
/* Just inside: whether others asked for the caches, which then are not to be
 * touched before binadei_thread_settle(). */
bool binadei_thread_is_revoked(struct binadei_thread *thread);
/* The bits that it looks at first; 0: nobody did. */
static inline uint32_t
binadei_thread_revocation(const struct binadei_thread *thread)
{
    /* CL.acquire: what was done before the asking. */
    return atomic_load_explicit(&thread->revocation, memory_order_acquire);
}

/* Goes inside; nothing of this thread's is read before. */
static inline void binadei_thread_go_inside(struct binadei_thread *thread)
{
    /* CL, relaxed: who takes caches sees it over its barrier. */
    atomic_store_explicit(&thread->is_inside, 1, memory_order_relaxed);
    /* CL: the same for the compiler; the barrier stands for the rest. */
    atomic_signal_fence(memory_order_seq_cst);
}

static inline bool binadei_thread_is_inside(const struct binadei_thread *thread)
{
    /* relaxed: it is our own. */
    return atomic_load_explicit(&thread->is_inside, memory_order_relaxed);
}

/* Begins a call that is no hit. BINADE_OK, BINADE_E_FORKED, BINADE_E_BUSY (from
 * a signal handler) or BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_thread_enter(struct binadei_thread **out);
/* Goes on with it after binadei_thread_leave(). */
static inline void binadei_thread_reenter(struct binadei_thread *thread)
{
    binadei_thread_go_inside(thread);
    if (binadei_thread_is_revoked(thread))
        binadei_thread_settle(thread);
    /* OU.release: this is no hit; those that it had are over. */
    atomic_store_explicit(&thread->is_inside, BINADEI_INSIDE_CALL,
                          memory_order_release);
}

/* Ends it, or lets go of it for a while. */
static inline void binadei_thread_leave(struct binadei_thread *thread)
{
    /* OU: for a signal handler of this thread. */
    atomic_signal_fence(memory_order_seq_cst);
    /* OU.release: what we did with our caches. */
    atomic_store_explicit(&thread->is_inside, 0, memory_order_release);
}

static inline const struct binade_pool *
binadei_thread_serving(const struct binadei_thread *thread)
{
    /* OU.acquire, for a thread that would take these caches. */
    return atomic_load_explicit(&thread->serving, memory_order_acquire);
}

/* Whether the pool, which may be NULL, is one of those that the calling thread
 * serves. */
static inline bool binadei_thread_serves(const struct binadei_thread *thread,
                                         const struct binade_pool *pool)
{
    const struct binadei_served *served = thread->served;
    while (served && served->pool != pool)
        served = served->outer;
    return served != NULL;
}

static inline void
binadei_thread_set_served(struct binadei_thread *thread,
                          const struct binadei_served *served)
{
    thread->served = served;
    /* OU.release: who sees that it ended sees that we are inside, or that we
     * settled what was asked. */
    atomic_store_explicit(&thread->serving, served ? served->pool : NULL,
                          memory_order_release);
}

/* Serves one more pool, until it ends in the opposite order. */
static inline void binadei_thread_serve(struct binadei_thread *thread,
                                        const struct binade_pool *pool,
                                        struct binadei_served *out)
{
    *out = (struct binadei_served){.pool = pool, .outer = thread->served};
    binadei_thread_set_served(thread, out);
}

static inline void binadei_thread_serve_end(struct binadei_thread *thread,
                                            const struct binadei_served *served)
{
    binadei_thread_set_served(thread, served->outer);
}

/* After a call: what the thread left for the log function, unless a pool around it
 * is in the middle of one. */
static inline void binadei_thread_tell(const struct binadei_thread *thread)
{
    if (!thread->served)
        binadei_log_tell();
}

/* The route for a stream, or NULL; it becomes the last one. */
struct binadei_route *binadei_thread_find(struct binadei_thread *thread,
                                          const struct binade_pool *pool,
                                          binade_stream stream);
/* A new one, empty but for its key. NULL: no memory. Routes move. */
struct binadei_route *binadei_thread_add(struct binadei_thread *thread,
                                         const struct binade_pool *pool,
                                         binade_stream stream);
/* Forgets all routes that lead to this cache. */
void binadei_thread_forget(struct binadei_thread *thread,
                           const struct binadei_cache *cache);

#endif
