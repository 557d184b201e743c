/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bundles, and the way of freed blocks out of a thread's cache: into the depot of their
 * stream, for other threads; or into the maps of their stream, until an event;
 * or, where nothing is pending, into the buddy.
 */
#ifndef MOIETY_POOL_CACHE_FLUSH_H_
#define MOIETY_POOL_CACHE_FLUSH_H_

#include "pool/cache/state.h"

/* Bundles: a thread state keeps a few empty ones; what is too many goes on a
 * stack of the pool, which is taken whole. */

/* An empty one, or NULL: no memory. */
struct moietyi_bundle *
moietyi_bundle_take(struct moietyi_thread_state *thread_state,
                    uint32_t class_index);
void moietyi_bundle_recycle(struct moietyi_thread_state *thread_state,
                            struct moietyi_bundle *bundle);

/* Before a thread state is dropped: what it keeps goes to the pool. */
void moietyi_bundle_freelist_share(struct moietyi_thread_state *thread_state);
/* Frees all. For an engine that ends. */
void moietyi_bundle_freelist_destroy(struct moietyi_engine *engine);
void moietyi_bundles_free(struct moietyi_bundle *bundles);

/* A block as its metadata says. */
struct moietyi_block {
    moietyi_grain start;
    uint8_t byte;
    uint32_t class_index;
    uint64_t grains;
};

/* MOIETY_OK, MOIETY_E_FOREIGN, or MOIETY_E_INVALID where no block starts. */
MOIETY_MUST_USE moiety_status
moietyi_block_at(const struct moietyi_engine *engine, moiety_devptr address,
                 struct moietyi_block *out);

/* Whether a request of this size may have got the block. */
static inline bool moietyi_block_may_have(const struct moietyi_block *block,
                                          size_t size_bytes)
{
    return size_bytes <= block->grains * MOIETYI_GRAIN_BYTES &&
           moietyi_size_of_bytes(size_bytes).class_index == block->class_index;
}

/* The block that starts there with that metadata byte, and its grains. */
struct moietyi_block moietyi_block_of(const struct moietyi_engine *engine,
                                      moietyi_grain start, uint8_t byte);
uint64_t moietyi_block_grains(const struct moietyi_engine *engine,
                              moietyi_grain start, uint8_t byte);

/* What blocks of a class hold, by their entries. */
uint64_t moietyi_entry_grains(const struct moietyi_engine *engine,
                              uint32_t class_index, moiety_devptr entry);
uint64_t moietyi_bundle_bytes(const struct moietyi_engine *engine,
                              const struct moietyi_bundle *bundle);

/* Gives blocks on which nothing is pending to the buddy; recycles the bundle.
 *  */
void moietyi_give_bundle(struct moietyi_thread_state *by,
                         struct moietyi_bundle *bundle);
void moietyi_give_block(struct moietyi_thread_state *by, moiety_devptr address);

/* A bundle of the cache's stream state leaves: `may_share`, to other threads on
 * the stream if they have room for it; otherwise to the stream state's maps, or
 * the buddy. */
void moietyi_flush_bundle(struct moietyi_thread_state *by,
                          struct moietyi_cache *cache,
                          struct moietyi_bundle *bundle, bool may_share);
/* Memory that is in no block, to the stream state's maps or the buddy. */
void moietyi_flush_grains(struct moietyi_thread_state *by,
                          struct moietyi_stream_state *stream_state,
                          moietyi_grain start, uint64_t grains);
/* One block that was freed on the stream state. */
void moietyi_flush_block(struct moietyi_thread_state *by,
                         struct moietyi_stream_state *stream_state,
                         moiety_devptr address);

/* The depot of a stream state. Put: false if it is full. Take: NULL if it has
 * none. */
bool moietyi_depot_put(struct moietyi_thread_state *by,
                       struct moietyi_stream_state *stream_state,
                       struct moietyi_bundle *bundle);
struct moietyi_bundle *
moietyi_depot_take(struct moietyi_thread_state *by,
                   struct moietyi_stream_state *stream_state,
                   uint32_t class_index);
/* Empties a depot: DONE's into the buddy, another's into its maps. */
void moietyi_depot_drain(struct moietyi_thread_state *by,
                         struct moietyi_stream_state *stream_state);

#endif
