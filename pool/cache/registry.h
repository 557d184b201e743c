/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which threads and which pools there are, and which threads have a state in
 * which pool. One lock for the process: it is taken when a thread first uses a
 * pool or a stream, when a thread or a pool ends, and by stats; never across a
 * driver call.
 */
#ifndef MOIETY_POOL_CACHE_REGISTRY_H_
#define MOIETY_POOL_CACHE_REGISTRY_H_

#include "pool/cache/state.h"
#include "pool/cache/thread.h"

void moietyi_registry_lock(void);
void moietyi_registry_unlock(void);

/* The calling thread's state of a pool, made at its first call. NULL: no
 * memory. */
struct moietyi_thread_state *
moietyi_thread_state_of(struct moietyi_thread *thread,
                        struct moietyi_engine *engine);
/* The thread state's cache of a stream state, or NULL. Its owner's. */
struct moietyi_cache *
moietyi_cache_find(const struct moietyi_thread_state *thread_state,
                   const struct moietyi_stream_state *stream_state);
/* A new one; NULL: no memory. Counts as a user of the stream state. */
struct moietyi_cache *
moietyi_cache_make(struct moietyi_thread_state *thread_state,
                   struct moietyi_stream_state *stream_state);
/* Adds what it counted, ALLOCS to REQUESTED_BYTES. */
void moietyi_cache_counts(const struct moietyi_cache *cache, uint64_t *counts);
/* Ends an empty cache; keeps its counts. False: another thread holds the lock,
 * and this one does not wait: try again later. */
bool moietyi_cache_try_drop(struct moietyi_cache *cache);
/* Ends a thread state whose caches are gone; likewise. */
bool moietyi_thread_state_try_drop(struct moietyi_thread_state *thread_state);
/* Ends all thread states, with all that they hold. The pool is ending. */
void moietyi_thread_states_destroy(struct moietyi_engine *engine);
/* Takes a thread state from its thread; the lock is held. */
void moietyi_thread_state_unlink(struct moietyi_thread_state *thread_state);
/* Puts a thread state without a thread on its pool's stack of abandoned thread
 * states. */
void moietyi_abandoned_push(struct moietyi_thread_state *thread_state);
/* At the end of a thread: its thread states become abandoned thread states of
 * their pools. */
void moietyi_thread_states_abandon(struct moietyi_thread *thread);

#endif
