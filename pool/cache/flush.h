/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Bundles, and the way of freed blocks out of a thread's cache: into the depot of their
 * stream, for other threads; or into the maps of their stream, until an event;
 * or, where nothing is pending, into the buddy.
 */
#ifndef BINADE_POOL_CACHE_FLUSH_H_
#define BINADE_POOL_CACHE_FLUSH_H_

#include "pool/cache/state.h"

/* Bundles: a thread state keeps a few empty ones; what is too many goes on a
 * stack of the pool, which is taken whole. */

/* An empty one, or NULL: no memory. */
struct binadei_bundle *
binadei_bundle_take(struct binadei_thread_state *thread_state,
                    uint32_t class_index);
void binadei_bundle_recycle(struct binadei_thread_state *thread_state,
                            struct binadei_bundle *bundle);

/* Before a thread state is dropped: what it keeps goes to the pool. */
void binadei_bundle_freelist_share(struct binadei_thread_state *thread_state);
/* Frees all. For an engine that ends. */
void binadei_bundle_freelist_destroy(struct binadei_engine *engine);
void binadei_bundles_free(struct binadei_bundle *bundles);

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

/* Whether a request of this size may have got the block. */
static inline bool binadei_block_may_have(const struct binadei_block *block,
                                          size_t size_bytes)
{
    return size_bytes <= block->grains * BINADEI_GRAIN_BYTES &&
           binadei_size_of_bytes(size_bytes).class_index == block->class_index;
}

/* The grains of the block that starts there with that metadata byte. */
uint64_t binadei_block_grains(const struct binadei_engine *engine,
                              binadei_grain start, uint8_t byte);

/* What blocks of a class hold, by their entries. */
uint64_t binadei_entry_grains(const struct binadei_engine *engine,
                              uint32_t class_index, binade_devptr entry);
uint64_t binadei_bundle_bytes(const struct binadei_engine *engine,
                              const struct binadei_bundle *bundle);

/* Gives blocks on which nothing is pending to the buddy; recycles the bundle.
 *  */
void binadei_give_bundle(struct binadei_thread_state *by,
                         struct binadei_bundle *bundle);
void binadei_give_block(struct binadei_thread_state *by, binade_devptr address);

/* A bundle of the cache's stream state leaves: `may_share`, to other threads on
 * the stream if they have room for it; otherwise to the stream state's maps, or
 * the buddy. */
void binadei_flush_bundle(struct binadei_thread_state *by,
                          struct binadei_cache *cache,
                          struct binadei_bundle *bundle, bool may_share);
/* Memory that is in no block, to the stream state's maps or the buddy. */
void binadei_flush_grains(struct binadei_thread_state *by,
                          struct binadei_stream_state *stream_state,
                          binadei_grain start, uint64_t grains);
/* One block that was freed on the stream state. */
void binadei_flush_block(struct binadei_thread_state *by,
                         struct binadei_stream_state *stream_state,
                         binade_devptr address);

/* The depot of a stream state. Put: false if it is full. Take: NULL if it has
 * none. */
bool binadei_depot_put(struct binadei_thread_state *by,
                       struct binadei_stream_state *stream_state,
                       struct binadei_bundle *bundle);
struct binadei_bundle *
binadei_depot_take(struct binadei_thread_state *by,
                   struct binadei_stream_state *stream_state,
                   uint32_t class_index);
/* Empties a depot: DONE's into the buddy, another's into its maps. */
void binadei_depot_drain(struct binadei_thread_state *by,
                         struct binadei_stream_state *stream_state);

#endif
