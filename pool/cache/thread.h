/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread's own memory: which cache belongs to a pool and a stream. One
 * initial-exec thread-local pointer leads to it. It lies in memory that reads
 * as zero in the child of a fork, so that a child has no hits.
 */
#ifndef MOIETY_POOL_CACHE_THREAD_H_
#define MOIETY_POOL_CACHE_THREAD_H_

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/oom.h"
#include "moiety/status.h"
#include "moiety/stream.h"
#include "pool/base/log.h"
#include "pool/cache/handle.h"

struct moietyi_cache;
struct moietyi_thread_state;

/* Where a thread's calls for one stream go. Its owner alone reads and writes
 * it. */
struct moietyi_route {
    alignas(64) const struct moiety_pool *pool; /* NULL: empty */
    moiety_stream stream;                       /* as the caller names it */
    struct moietyi_cache *pop;
    struct moietyi_cache *push;
    uint64_t attention; /* of the pool, when this was right */
    /* The note of blocks that `push` takes; 0: the pool notes nothing. */
    uint32_t note;
};

/* What other threads want of a thread: the bits of its `revocation`. */
#define MOIETYI_REVOKE_FENCED 1U /* always set where there is no membarrier */
#define MOIETYI_REVOKE_ASKED 2U  /* for its caches, if it is outside */
#define MOIETYI_REVOKE_TAKEN 4U  /* a thread state of it is gone */
/* It is in a callback of an allocation, so its caches cannot be taken: no hits,
 * because nothing may stay in them. */
#define MOIETYI_REVOKE_BESIDE 8U

#define MOIETYI_INSIDE_CALL 2U

/* A pool that called a function of the program in the middle of a call; on the
 * stack of that call. Its thread's. */
struct moietyi_served {
    const struct moiety_pool *pool;
    const struct moietyi_served *outer; /* whose function called this pool */
};

/* With its first routes it fits a page. */
#define MOIETYI_FIRST_ROUTE_ORDER 5U

struct moietyi_thread {
    /* The route found last, or NULL. */
    struct moietyi_route *last;
    /* Not 0 while a call of this thread is inside: 1 in a hit and at the
     * beginning of other calls, MOIETYI_INSIDE_CALL in these. Then a signal
     * handler that interrupts it is refused, and nobody takes its caches. Edge
     * OU: leave (release) -> the thread that takes them (acquire). Edge CL: the
     * setting -> the look of the thread that takes them, over its barrier. */
    atomic_uint is_inside;
    /* Edge CL: the asking (sequentially consistent, then a barrier in all
     * threads) -> the look inside. */
    atomic_uint revocation;
    uint32_t is_attached; /* 1; reads as 0 in a child */
    uint32_t number;      /* of threads before it */
    /* While a source of the program works: its pool. Edge OU: as is_inside. */
    _Atomic(const struct moiety_pool *) serving;
    /* That pool and those around it, none of which can be used. The owner's. */
    const struct moietyi_served *served;
    /* Open addressing, 2^order routes; at most half of them are used. */
    struct moietyi_route *routes;
    uint32_t route_order;
    uint32_t route_count;
    /* Edge: the registry's lock. */
    struct moietyi_thread_state *thread_states;
    struct moietyi_thread *next_free;
    struct moietyi_route first_routes[1U << MOIETYI_FIRST_ROUTE_ORDER];
    /* The report of a thread state that was taken, for the next one of its
     * pool. Edge: the registry's lock. */
    moiety_oom_report left_oom;
};
_Static_assert(sizeof(struct moietyi_thread) <= 4096, "more than a page");

/* The calling thread's record; before its first call one without routes. Hidden
 * here too: otherwise the linker would name it in the shared library's
 * table. */
extern _Thread_local struct moietyi_thread *moietyi_thread_self
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Looks at `revocation` and takes back requests that are still open. Forgets
 * routes that may lead to what others took. */
void moietyi_thread_settle(struct moietyi_thread *thread);
/* Just inside: whether others asked for the caches, which then must not be
 * touched before moietyi_thread_settle(). */
bool moietyi_thread_is_revoked(struct moietyi_thread *thread);
/* The bits that the thread looks at first; 0: nobody asked. */
static inline uint32_t
moietyi_thread_revocation(const struct moietyi_thread *thread)
{
    /* CL.acquire: what was done before the asking. */
    return atomic_load_explicit(&thread->revocation, memory_order_acquire);
}

/* Goes inside; nothing of this thread's is read before. */
static inline void moietyi_thread_go_inside(struct moietyi_thread *thread)
{
    /* CL, relaxed: a thread that takes caches sees it over its barrier. */
    atomic_store_explicit(&thread->is_inside, 1, memory_order_relaxed);
    /* CL: the same for the compiler; the barrier stands for the rest. */
    atomic_signal_fence(memory_order_seq_cst);
}

static inline bool moietyi_thread_is_inside(const struct moietyi_thread *thread)
{
    /* relaxed: it is our own. */
    return atomic_load_explicit(&thread->is_inside, memory_order_relaxed);
}

/* Begins a call that is no hit. MOIETY_OK, MOIETY_E_FORKED, MOIETY_E_REENTRANT (from
 * a signal handler) or MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_thread_enter(struct moietyi_thread **out);
/* Continues it after moietyi_thread_leave(). */
static inline void moietyi_thread_reenter(struct moietyi_thread *thread)
{
    moietyi_thread_go_inside(thread);
    if (moietyi_thread_is_revoked(thread))
        moietyi_thread_settle(thread);
    /* OU.release: this is no hit; those that it had are over. */
    atomic_store_explicit(&thread->is_inside, MOIETYI_INSIDE_CALL,
                          memory_order_release);
}

/* Ends it, or leaves it for a while. */
static inline void moietyi_thread_leave(struct moietyi_thread *thread)
{
    /* OU: for a signal handler of this thread. */
    atomic_signal_fence(memory_order_seq_cst);
    /* OU.release: what we did with our caches. */
    atomic_store_explicit(&thread->is_inside, 0, memory_order_release);
}

/* A call of no pool that takes locks of the process: a signal handler that
 * interrupts it is refused, and the thread is not cancelled in the middle. */
struct moietyi_thread_call {
    struct moietyi_thread *thread; /* NULL: there was no memory to know it */
    int cancel_state;
};
/* MOIETY_OK, MOIETY_E_FORKED, or MOIETY_E_REENTRANT (from a signal handler). */
MOIETY_MUST_USE moiety_status
moietyi_thread_call_begin(struct moietyi_thread_call *out);
void moietyi_thread_call_end(const struct moietyi_thread_call *call);

static inline const struct moiety_pool *
moietyi_thread_serving(const struct moietyi_thread *thread)
{
    /* OU.acquire, for a thread that would take these caches. */
    return atomic_load_explicit(&thread->serving, memory_order_acquire);
}

/* Whether the calling thread is in a function that the pool, which may be NULL,
 * called. */
static inline bool moietyi_thread_serves(const struct moietyi_thread *thread,
                                         const struct moiety_pool *pool)
{
    const struct moietyi_served *served = thread->served;
    while (served && served->pool != pool)
        served = served->outer;
    return served != NULL;
}

static inline void
moietyi_thread_set_served(struct moietyi_thread *thread,
                          const struct moietyi_served *served)
{
    thread->served = served;
    /* OU.release: a thread that sees the end sees that we are inside, or that
     * we settled what was asked. */
    atomic_store_explicit(&thread->serving, served ? served->pool : NULL,
                          memory_order_release);
}

/* Marks one more pool as calling the program, until it ends in the opposite
 * order. */
static inline void moietyi_thread_serve(struct moietyi_thread *thread,
                                        const struct moiety_pool *pool,
                                        struct moietyi_served *out)
{
    *out = (struct moietyi_served){.pool = pool, .outer = thread->served};
    moietyi_thread_set_served(thread, out);
}

static inline void moietyi_thread_serve_end(struct moietyi_thread *thread,
                                            const struct moietyi_served *served)
{
    moietyi_thread_set_served(thread, served->outer);
}

/* After a call: delivers the thread's messages to the log function, unless a
 * pool around it is in the middle of a call. */
static inline void moietyi_thread_tell(const struct moietyi_thread *thread)
{
    if (!thread->served)
        moietyi_log_tell();
}

/* The route for a stream, or NULL; it becomes the last one. */
struct moietyi_route *moietyi_thread_find(struct moietyi_thread *thread,
                                          const struct moiety_pool *pool,
                                          moiety_stream stream);
/* A new one, empty but for its key. NULL: no memory. Routes move. */
struct moietyi_route *moietyi_thread_add(struct moietyi_thread *thread,
                                         const struct moiety_pool *pool,
                                         moiety_stream stream);
/* Forgets all routes that lead to this cache. */
void moietyi_thread_forget(struct moietyi_thread *thread,
                           const struct moietyi_cache *cache);

#endif
