/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The way of freed blocks out of a thread's cache: into the depot of their
 * stream, for other threads; or behind an event, after which they are anybody's;
 * or, where nothing is pending, into the buddy.
 */
#ifndef BINADE_POOL_CACHE_LEAVE_H_
#define BINADE_POOL_CACHE_LEAVE_H_

#include "pool/cache/state.h"

/* A block as its metadata says. */
struct binadei_block {
    binadei_grain start;
    uint8_t byte;
    uint32_t class_index;
    uint64_t grains;
};

/* BINADE_OK, BINADE_E_FOREIGN, or BINADE_E_INVALID where no block starts. */
BINADE_MUST_USE binade_status
binadei_block_at(const struct binadei_engine *engine, binade_devptr address,
                 struct binadei_block *out);

/* The grains of the block that starts there with that metadata byte. */
uint64_t binadei_block_grains(const struct binadei_engine *engine,
                              binadei_grain start, uint8_t byte);

/* What blocks of a class hold. */
uint64_t binadei_block_bytes(const struct binadei_engine *engine,
                             uint32_t class_index, binade_devptr address);
uint64_t binadei_bundle_bytes(const struct binadei_engine *engine,
                              const struct binadei_bundle *bundle);

/* Gives blocks on which nothing is pending to the buddy; spares the bundle. */
void binadei_give_bundle(struct binadei_member *by,
                         struct binadei_bundle *bundle);
void binadei_give_block(struct binadei_member *by, binade_devptr address);

/* A bundle of the cache's slot leaves: `may_share`, to other threads on the
 * stream if they have room for it; otherwise on its way to an event. */
void binadei_leave_bundle(struct binadei_member *by,
                          struct binadei_cache *cache,
                          struct binadei_bundle *bundle, bool may_share);
/* Whether the block is the last of its class that left, and is still here. */
bool binadei_is_leaving_last(const struct binadei_cache *cache,
                             uint32_t class_index, binade_devptr address);
/* One block. False: no memory; nothing changed. */
bool binadei_leave_block(struct binadei_member *by, struct binadei_cache *cache,
                         uint32_t class_index, binade_devptr address);

/* A bundle that is leaving, back; NULL: there is none of the class. Only for
 * more work of the same stream. */
struct binadei_bundle *binadei_leaving_take(struct binadei_member *by,
                                            struct binadei_cache *cache,
                                            uint32_t class_index);

/* Retires what is leaving, behind an event or until one is asked for. BINADE_OK,
 * or why not: then it stays where it is. */
binade_status binadei_retire(struct binadei_member *by,
                             struct binadei_cache *cache);

/* The depot of a slot. Put: false if it is full. Take: NULL if it has none. */
bool binadei_depot_put(struct binadei_member *by, struct binadei_slot *slot,
                       struct binadei_bundle *bundle);
struct binadei_bundle *binadei_depot_take(struct binadei_member *by,
                                          struct binadei_slot *slot,
                                          uint32_t class_index);
/* Empties a depot: DONE's into the buddy, another's with what is leaving. */
void binadei_depot_drain(struct binadei_member *by,
                         struct binadei_cache *cache);

#endif
