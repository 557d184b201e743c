/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Taking over what is in the caches of others.
 */
#ifndef BINADE_POOL_CACHE_RECLAIM_H_
#define BINADE_POOL_CACHE_RECLAIM_H_

#include "pool/cache/state.h"

/* Everything of a chain of members that no thread has. A member that cannot be
 * adopted now goes to the pool's orphans. True: some were. */
bool binadei_adopt_all(struct binadei_member *by,
                       struct binadei_member *orphan);

/* Leaves a chain of members that no thread has to calls that are not cheap anyhow,
 * a few at a time. NULL is fine. */
void binadei_leave_orphans(struct binadei_engine *engine,
                           struct binadei_member *rest);

/* What a member's own thread gives up: its magazines. */
void binadei_member_empty(struct binadei_member *member);

#endif
