/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a block is by its metadata, and the way of freed blocks out of a thread's
 * cache: into the heap of their stream, until an event; or, where nothing is
 * pending, to what is done.
 */
#ifndef MOIETY_POOL_CACHE_FLUSH_H_
#define MOIETY_POOL_CACHE_FLUSH_H_

#include "pool/cache/state.h"

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

/* Whether a request of this size may have got the block: one of its class, or
 * of its length if it has no class. */
static inline bool moietyi_block_may_have(const struct moietyi_block *block,
                                          size_t size_bytes)
{
    const struct moietyi_size size = moietyi_size_of_bytes(size_bytes);
    return size.grains <= block->grains &&
           size.class_index == block->class_index &&
           (size.class_index < MOIETYI_CLASSES || size.grains == block->grains);
}

/* The block that starts there with that metadata byte, and its grains. */
static inline uint64_t moietyi_block_grains(const struct moietyi_engine *engine,
                                            moietyi_grain start, uint8_t byte)
{
    uint8_t bare = byte & (uint8_t)~MOIETYI_BYTE_SPECIAL;
    return bare == MOIETYI_BYTE_RUN
               ? moietyi_space_run_grains(engine->streams.space, start)
               : moietyi_grains_of_byte(bare);
}

static inline struct moietyi_block
moietyi_block_of(const struct moietyi_engine *engine, moietyi_grain start,
                 uint8_t byte)
{
    uint64_t grains = moietyi_block_grains(engine, start, byte);
    return (struct moietyi_block){start, byte, moietyi_class_of_grains(grains),
                                  grains};
}

/* Here and below: blocks and memory of the stream state go to its heap, or to
 * DONE's if nothing is pending. */

/* At most so many leave at once. */
#define MOIETYI_FLUSH_BLOCKS 64U

/* Entries of a magazine. */
void moietyi_flush_entries(struct moietyi_thread_state *by,
                           struct moietyi_stream_state *stream_state,
                           const moiety_devptr *entries, uint32_t count);
/* One block. */
void moietyi_flush_block(struct moietyi_thread_state *by,
                         struct moietyi_stream_state *stream_state,
                         moiety_devptr address);
/* One that the caller knows. */
void moietyi_flush_known(struct moietyi_thread_state *by,
                         struct moietyi_stream_state *stream_state,
                         const struct moietyi_block *block);
/* One on which nothing is pending. */
void moietyi_give_block(struct moietyi_thread_state *by, moiety_devptr address);
/* Memory that is in no block. */
void moietyi_flush_grains(struct moietyi_thread_state *by,
                          struct moietyi_stream_state *stream_state,
                          moietyi_grain start, uint64_t grains);

#endif
