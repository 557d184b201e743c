/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A thread's coming and going. A thread that ends makes no driver call: it
 * leaves its thread states to the next slow path of their pools.
 */
#define _DEFAULT_SOURCE
#include "pool/cache/thread.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool/base/barrier.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/cache/registry.h"

/* What a thread is before its first call: nothing is ever found in it. */
static struct binadei_thread nobody;

_Thread_local struct binadei_thread *binadei_thread_self
    __attribute__((tls_model("initial-exec"))) = &nobody;

/* Edge: none; relaxed: so that threads differ, no more. */
static atomic_uint number_next;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool is_ready;
/* Pages of threads that ended; the registry's lock. */
static struct binadei_thread *free_threads;

static void *thread_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Tables that do not fit the thread's page have pages of their own. */
static struct binadei_route *map_routes(uint32_t order)
{
    return thread_map(sizeof(struct binadei_route) << order);
}

static void unmap_routes(const struct binadei_thread *thread,
                         struct binadei_route *routes, uint32_t order)
{
    if (routes && routes != thread->first_routes)
        munmap(routes, sizeof(struct binadei_route) << order);
}

static void return_page(struct binadei_thread *thread)
{
    binadei_registry_lock();
    thread->next_free = free_threads;
    free_threads = thread;
    binadei_registry_unlock();
}

static void cache_end_thread(void *context)
{
    struct binadei_thread *thread = context;
    /* In a child the pools are not its own. */
    if (binadei_is_forked())
        return;
    binadei_thread_states_abandon(thread);
    unmap_routes(thread, thread->routes, thread->route_order);
    memset(thread, 0, sizeof(*thread));
    binadei_thread_self = &nobody;
    return_page(thread);
}

/* Where the kernel does not empty the page: a child has one thread, this. */
static void thread_forget_in_child(void)
{
    binadei_thread_self = &nobody;
}

static void thread_get_ready(void)
{
    is_ready = pthread_key_create(&key, cache_end_thread) == 0 &&
               pthread_atfork(NULL, NULL, thread_forget_in_child) == 0;
}

/* A page that reads as zero in a child, however the child is made. */
static struct binadei_thread *new_page(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    struct binadei_thread *thread = thread_map(bytes);
    if (thread)
        (void)madvise(thread, bytes, MADV_WIPEONFORK);
    return thread;
}

static struct binadei_thread *thread_take_page(void)
{
    binadei_registry_lock();
    struct binadei_thread *thread = free_threads;
    if (thread)
        free_threads = thread->next_free;
    binadei_registry_unlock();
    if (thread)
        thread->next_free = NULL;
    return thread ? thread : new_page();
}

static binade_status thread_no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory for a thread's caches");
}

static binade_status attach(void)
{
    if (!binadei_fork_mark())
        return binadei_refuse_unmarked();
    if (pthread_once(&once, thread_get_ready) != 0 || !is_ready)
        return thread_no_memory();
    struct binadei_thread *thread = thread_take_page();
    if (!thread)
        return thread_no_memory();
    if (pthread_setspecific(key, thread) != 0) {
        return_page(thread);
        return thread_no_memory();
    }
    thread->routes = thread->first_routes;
    thread->route_order = BINADEI_FIRST_ROUTE_ORDER;
    thread->is_attached = 1;
    thread->number =
        atomic_fetch_add_explicit(&number_next, 1, memory_order_relaxed);
    /* relaxed: nobody knows the thread yet. */
    atomic_store_explicit(&thread->revocation,
                          binadei_barrier_is_there() ? 0
                                                     : BINADEI_REVOKE_FENCED,
                          memory_order_relaxed);
    binadei_thread_self = thread;
    return BINADE_OK;
}

binade_status binadei_thread_enter(struct binadei_thread **out)
{
    if (binadei_is_forked())
        return binadei_refuse_child();
    if (!binadei_thread_self->is_attached) {
        binade_status status = attach();
        if (status != BINADE_OK)
            return status;
    }
    struct binadei_thread *thread = binadei_thread_self;
    /* No message: this is a signal handler. */
    if (binadei_thread_is_inside(thread))
        return BINADE_E_BUSY;
    binadei_thread_reenter(thread);
    *out = thread;
    return BINADE_OK;
}

bool binadei_thread_is_revoked(struct binadei_thread *thread)
{
    uint32_t revocation = binadei_thread_revocation(thread);
    /* The thread that asks has no barrier for all others, so each goes inside
     * once more and looks again. */
    if (revocation & BINADEI_REVOKE_FENCED) {
        /* CL.seq_cst, both: of the owner and who asks, one sees the other. */
        (void)atomic_exchange_explicit(&thread->is_inside, 1,
                                       memory_order_seq_cst);
        /* CL.seq_cst: as above. */
        revocation =
            atomic_load_explicit(&thread->revocation, memory_order_seq_cst);
    }
    return revocation & ~BINADEI_REVOKE_FENCED;
}

static void forget_all(struct binadei_thread *thread)
{
    thread->last = NULL;
    thread->route_count = 0;
    memset(thread->routes, 0,
           sizeof(struct binadei_route) << thread->route_order);
}

void binadei_thread_settle(struct binadei_thread *thread)
{
    /* CL.acquire: that a thread state is gone, and from whose list. From here
     * on the one who asked fails. */
    uint32_t revocation = atomic_fetch_and_explicit(
        &thread->revocation, BINADEI_REVOKE_FENCED | BINADEI_REVOKE_BESIDE,
        memory_order_acq_rel);
    if (revocation & BINADEI_REVOKE_TAKEN)
        forget_all(thread);
}

static uint32_t thread_home_of(const struct binadei_thread *thread,
                               const struct binade_pool *pool,
                               binade_stream stream)
{
    /* Both are addresses, or small numbers; the golden ratio spreads them. */
    uint64_t mixed = ((uintptr_t)stream >> 3) ^ (uintptr_t)pool;
    return (uint32_t)((mixed * UINT64_C(0x9E3779B97F4A7C15)) >>
                      (64 - thread->route_order));
}

/* The route, or the empty one where it would be. */
static struct binadei_route *thread_probe(const struct binadei_thread *thread,
                                          const struct binade_pool *pool,
                                          binade_stream stream)
{
    uint32_t mask = (1U << thread->route_order) - 1;
    uint32_t at = thread_home_of(thread, pool, stream);
    while (thread->routes[at].pool && (thread->routes[at].pool != pool ||
                                       thread->routes[at].stream != stream))
        at = (at + 1) & mask;
    return &thread->routes[at];
}

struct binadei_route *binadei_thread_find(struct binadei_thread *thread,
                                          const struct binade_pool *pool,
                                          binade_stream stream)
{
    if (!thread->route_count)
        return NULL;
    struct binadei_route *route = thread_probe(thread, pool, stream);
    if (!route->pool)
        return NULL;
    thread->last = route;
    return route;
}

/* Routes of pools that are gone stay behind here. */
static bool is_live(const struct binadei_route *route)
{
    return route->pool && route->push && !binadei_is_dead(route->pool);
}

static bool thread_rehash(struct binadei_thread *thread, uint32_t order)
{
    struct binadei_route *old = thread->routes;
    uint32_t old_order = thread->route_order;
    uint32_t old_count = 1U << old_order;
    struct binadei_route *routes = map_routes(order);
    if (!routes)
        return false;
    thread->routes = routes;
    thread->route_order = order;
    thread->route_count = 0;
    thread->last = NULL;
    for (uint32_t i = 0; i < old_count; i++) {
        if (!is_live(&old[i]))
            continue;
        *thread_probe(thread, old[i].pool, old[i].stream) = old[i];
        thread->route_count++;
    }
    unmap_routes(thread, old, old_order);
    return true;
}

struct binadei_route *binadei_thread_add(struct binadei_thread *thread,
                                         const struct binade_pool *pool,
                                         binade_stream stream)
{
    uint32_t order = thread->route_order;
    /* Half full: perhaps of dead ones, so the same size may do. */
    if (thread->route_count >= 1U << (order - 1)) {
        if (!thread_rehash(thread, order))
            return NULL;
        if (thread->route_count >= 1U << (order - 2) &&
            !thread_rehash(thread, order + 1))
            return NULL;
    }
    struct binadei_route *route = thread_probe(thread, pool, stream);
    *route = (struct binadei_route){.pool = pool, .stream = stream};
    thread->route_count++;
    return route;
}

void binadei_thread_forget(struct binadei_thread *thread,
                           const struct binadei_cache *cache)
{
    thread->last = NULL;
    for (uint32_t i = 0; i < 1U << thread->route_order; i++) {
        if (thread->routes[i].push == cache || thread->routes[i].pop == cache) {
            thread->routes[i].push = thread->routes[i].pop = NULL;
            thread->routes[i].attention = BINADEI_ATTENTION_FLAGS;
        }
    }
}
