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
#include "pool/base/cancel.h"
#include "pool/base/failure.h"
#include "pool/base/fork_mark.h"
#include "pool/cache/registry.h"

/* A thread before its first call: nothing is ever found in it. */
static struct moietyi_thread nobody;

_Thread_local struct moietyi_thread *moietyi_thread_self
    __attribute__((tls_model("initial-exec"))) = &nobody;

/* Edge: none; relaxed: threads get different numbers, no more. */
static atomic_uint number_next;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool is_ready;
/* Pages of threads that ended; the registry's lock. */
static struct moietyi_thread *free_threads;

static void *thread_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Tables that do not fit the thread's page have pages of their own. */
static struct moietyi_route *map_routes(uint32_t order)
{
    return thread_map(sizeof(struct moietyi_route) << order);
}

static void unmap_routes(const struct moietyi_thread *thread,
                         struct moietyi_route *routes, uint32_t order)
{
    if (routes && routes != thread->first_routes)
        munmap(routes, sizeof(struct moietyi_route) << order);
}

static void return_page(struct moietyi_thread *thread)
{
    moietyi_registry_lock();
    thread->next_free = free_threads;
    free_threads = thread;
    moietyi_registry_unlock();
}

static void cache_end_thread(void *context)
{
    struct moietyi_thread *thread = context;
    /* In a child the pools are not its own. */
    if (moietyi_is_forked())
        return;
    moietyi_thread_states_abandon(thread);
    unmap_routes(thread, thread->routes, thread->route_order);
    memset(thread, 0, sizeof(*thread));
    moietyi_thread_self = &nobody;
    return_page(thread);
}

/* If the kernel does not empty the page: a child has one thread, this one. */
static void thread_forget_in_child(void)
{
    moietyi_thread_self = &nobody;
}

static void thread_get_ready(void)
{
    is_ready = pthread_key_create(&key, cache_end_thread) == 0 &&
               pthread_atfork(NULL, NULL, thread_forget_in_child) == 0;
}

/* A page that reads as zero in a child, with any kind of fork. */
static struct moietyi_thread *new_page(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    struct moietyi_thread *thread = thread_map(bytes);
    if (thread)
        (void)madvise(thread, bytes, MADV_WIPEONFORK);
    return thread;
}

static struct moietyi_thread *thread_take_page(void)
{
    moietyi_registry_lock();
    struct moietyi_thread *thread = free_threads;
    if (thread)
        free_threads = thread->next_free;
    moietyi_registry_unlock();
    if (thread)
        thread->next_free = NULL;
    return thread ? thread : new_page();
}

static moiety_status thread_no_memory(void)
{
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "no memory for a thread's caches");
}

static moiety_status attach(void)
{
    if (!moietyi_fork_mark())
        return moietyi_refuse_unmarked();
    if (pthread_once(&once, thread_get_ready) != 0 || !is_ready)
        return thread_no_memory();
    struct moietyi_thread *thread = thread_take_page();
    if (!thread)
        return thread_no_memory();
    if (pthread_setspecific(key, thread) != 0) {
        return_page(thread);
        return thread_no_memory();
    }
    thread->routes = thread->first_routes;
    thread->route_order = MOIETYI_FIRST_ROUTE_ORDER;
    thread->is_attached = 1;
    thread->number =
        atomic_fetch_add_explicit(&number_next, 1, memory_order_relaxed);
    /* relaxed: nobody knows the thread yet. */
    atomic_store_explicit(&thread->revocation,
                          moietyi_barrier_is_there() ? 0
                                                     : MOIETYI_REVOKE_FENCED,
                          memory_order_relaxed);
    moietyi_thread_self = thread;
    return MOIETY_OK;
}

moiety_status moietyi_thread_enter(struct moietyi_thread **out)
{
    if (moietyi_is_forked())
        return moietyi_refuse_child();
    if (!moietyi_thread_self->is_attached) {
        moiety_status status = attach();
        if (status != MOIETY_OK)
            return status;
    }
    struct moietyi_thread *thread = moietyi_thread_self;
    /* No message: this is a signal handler. */
    if (moietyi_thread_is_inside(thread))
        return MOIETY_E_REENTRANT;
    moietyi_thread_reenter(thread);
    *out = thread;
    return MOIETY_OK;
}

moiety_status moietyi_thread_call_begin(struct moietyi_thread_call *out)
{
    *out = (struct moietyi_thread_call){NULL, PTHREAD_CANCEL_ENABLE};
    moiety_status status = moietyi_thread_enter(&out->thread);
    if (status == MOIETY_E_REENTRANT || status == MOIETY_E_FORKED)
        return status;
    out->cancel_state = moietyi_cancel_hold();
    return MOIETY_OK;
}

void moietyi_thread_call_end(const struct moietyi_thread_call *call)
{
    if (call->thread)
        moietyi_thread_leave(call->thread);
    moietyi_thread_tell(moietyi_thread_self);
    moietyi_cancel_restore(call->cancel_state);
}

bool moietyi_thread_is_revoked(struct moietyi_thread *thread)
{
    uint32_t revocation = moietyi_thread_revocation(thread);
    /* The asking thread has no barrier for all others, so each thread goes
     * inside once more and looks again. */
    if (revocation & MOIETYI_REVOKE_FENCED) {
        /* CL.seq_cst, both: of the owner and the asking thread, one sees the
         * other. */
        (void)atomic_exchange_explicit(&thread->is_inside, 1,
                                       memory_order_seq_cst);
        /* CL.seq_cst: as above. */
        revocation =
            atomic_load_explicit(&thread->revocation, memory_order_seq_cst);
    }
    return revocation & ~MOIETYI_REVOKE_FENCED;
}

static void forget_all(struct moietyi_thread *thread)
{
    thread->last = NULL;
    thread->route_count = 0;
    memset(thread->routes, 0,
           sizeof(struct moietyi_route) << thread->route_order);
}

void moietyi_thread_settle(struct moietyi_thread *thread)
{
    /* CL.acquire: a thread state is gone, and from which list. From here on the
     * asking thread fails. */
    uint32_t revocation = atomic_fetch_and_explicit(
        &thread->revocation, MOIETYI_REVOKE_FENCED | MOIETYI_REVOKE_BESIDE,
        memory_order_acq_rel);
    if (revocation & MOIETYI_REVOKE_TAKEN)
        forget_all(thread);
}

static uint32_t thread_home_of(const struct moietyi_thread *thread,
                               const struct moiety_pool *pool,
                               moiety_stream stream)
{
    /* Both are addresses, or small numbers; the golden ratio spreads them. */
    uint64_t mixed = ((uintptr_t)stream >> 3) ^ (uintptr_t)pool;
    return (uint32_t)((mixed * UINT64_C(0x9E3779B97F4A7C15)) >>
                      (64 - thread->route_order));
}

/* The route, or the empty place where it would be. */
static struct moietyi_route *thread_probe(const struct moietyi_thread *thread,
                                          const struct moiety_pool *pool,
                                          moiety_stream stream)
{
    uint32_t mask = (1U << thread->route_order) - 1;
    uint32_t at = thread_home_of(thread, pool, stream);
    while (thread->routes[at].pool && (thread->routes[at].pool != pool ||
                                       thread->routes[at].stream != stream))
        at = (at + 1) & mask;
    return &thread->routes[at];
}

struct moietyi_route *moietyi_thread_find(struct moietyi_thread *thread,
                                          const struct moiety_pool *pool,
                                          moiety_stream stream)
{
    if (!thread->route_count)
        return NULL;
    struct moietyi_route *route = thread_probe(thread, pool, stream);
    if (!route->pool)
        return NULL;
    thread->last = route;
    return route;
}

/* Routes of pools that are gone stay behind here. */
static bool is_live(const struct moietyi_route *route)
{
    return route->pool && route->push && !moietyi_is_dead(route->pool);
}

static bool thread_rehash(struct moietyi_thread *thread, uint32_t order)
{
    struct moietyi_route *old = thread->routes;
    uint32_t old_order = thread->route_order;
    uint32_t old_count = 1U << old_order;
    struct moietyi_route *routes = map_routes(order);
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

struct moietyi_route *moietyi_thread_add(struct moietyi_thread *thread,
                                         const struct moiety_pool *pool,
                                         moiety_stream stream)
{
    uint32_t order = thread->route_order;
    /* Half full, perhaps of dead routes, so the same size may do. */
    if (thread->route_count >= 1U << (order - 1)) {
        if (!thread_rehash(thread, order))
            return NULL;
        if (thread->route_count >= 1U << (order - 2) &&
            !thread_rehash(thread, order + 1))
            return NULL;
    }
    struct moietyi_route *route = thread_probe(thread, pool, stream);
    *route = (struct moietyi_route){.pool = pool, .stream = stream};
    thread->route_count++;
    return route;
}

void moietyi_thread_forget(struct moietyi_thread *thread,
                           const struct moietyi_cache *cache)
{
    thread->last = NULL;
    for (uint32_t i = 0; i < 1U << thread->route_order; i++) {
        if (thread->routes[i].push == cache || thread->routes[i].pop == cache) {
            thread->routes[i].push = thread->routes[i].pop = NULL;
            thread->routes[i].attention = MOIETYI_ATTENTION_FLAGS;
        }
    }
}
