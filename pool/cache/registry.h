/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which threads and which pools there are, and which thread is a member of
 * which pool. One lock for the process: it is taken when a thread first uses a
 * pool or a stream, when a thread or a pool ends, and by stats; never across a
 * driver call.
 */
#ifndef BINADE_POOL_CACHE_REGISTRY_H_
#define BINADE_POOL_CACHE_REGISTRY_H_

#include "pool/cache/state.h"
#include "pool/cache/thread.h"

void binadei_registry_lock(void);
void binadei_registry_unlock(void);

/* The calling thread's member of a pool, made at its first call. NULL: no
 * memory. */
struct binadei_member *binadei_member_of(struct binadei_thread *thread,
                                         struct binadei_engine *engine);
/* The member's cache of a slot, or NULL. Its owner's. */
struct binadei_cache *binadei_cache_find(const struct binadei_member *member,
                                         const struct binadei_slot *slot);
/* A new one; NULL: no memory. Counts as a user of the slot. */
struct binadei_cache *binadei_cache_make(struct binadei_member *member,
                                         struct binadei_slot *slot);
/* Ends one that is empty; keeps what it counted. False: another thread holds
 * the lock, and this one does not wait: try again later. */
bool binadei_cache_try_drop(struct binadei_cache *cache);
/* Ends a member whose caches are gone; likewise. */
bool binadei_member_try_drop(struct binadei_member *member);
/* Ends all members, whatever they hold. The pool is ending. */
void binadei_members_destroy(struct binadei_engine *engine);
/* Takes a member from its thread; the lock is held. */
void binadei_member_unlink(struct binadei_member *member);
/* Puts a member that no thread has on its pool's stack of orphans. */
void binadei_orphan_push(struct binadei_member *member);
/* At the end of a thread: its members become orphans of their pools. */
void binadei_members_abandon(struct binadei_thread *thread);

#endif
