/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a pool does with a call that is no hit: one table for each kind of pool,
 * chosen when the pool is made. Plain pools have pool/api/plain.c; those that
 * are checked or pass all through to their source have pool/checked, and no
 * hits. A new kind of pool is a new table, not a test at each call.
 */
#ifndef BINADE_POOL_CORE_OPS_H_
#define BINADE_POOL_CORE_OPS_H_

#include <stdbool.h>
#include <stddef.h>

#include "binade/pool.h"
#include "binade/scope.h"
#include "binade/stats.h"
#include "pool/buddy/classes.h"
#include "pool/cache/cache.h"

struct binadei_private_ref;
struct binadei_tenant;

/* What a caller of the allocating functions asks for. */
struct binadei_alloc_args {
    size_t size_bytes;
    size_t alignment_bytes;
    bool may_wait; /* as not for binade_try_alloc() */
    bool is_exact; /* never longer than its size makes it, whatever is cached */
    /* The tenant that was charged for it, in pools that know their blocks by
     * records; in others a block bears a tag. NULL: none. */
    struct binadei_tenant *tenant;
    bool is_quick; /* of what is free, and BINADE_E_BUSY where there is none */
};

/* What a tenant's block of so many bytes counts, whatever holds it. */
static inline uint64_t binadei_tenant_bytes(size_t size_bytes)
{
    return binadei_full_size_of_bytes(size_bytes).grains * BINADEI_GRAIN_BYTES;
}

/* Each inside a call on a pool of the kind, unless it says otherwise; arguments
 * are checked, and statuses are those of the public function. */
struct binadei_pool_ops {
    /* Blocks are known by records of the pool's own: no tags lie behind the
     * SPECIAL bit, and private arenas are accounts. */
    bool has_records;
    /* Before a call for this stream begins, inside one without a stream; only
     * where the pool has ATTENTION_WATCHED. */
    binade_status (*recognise)(struct binadei_call *call, binade_stream stream);
    binade_status (*alloc)(struct binadei_call *call,
                           const struct binadei_alloc_args *args,
                           binade_devptr *out);
    /* For a private arena, the free memory at an address, outside of captures. */
    binade_status (*claim)(struct binadei_call *call,
                           const struct binadei_private_ref *arena_ref,
                           binade_devptr address, size_t size_bytes);
    /* For a private arena: in a capture of scope `number`, or outside (0). */
    binade_status (*alloc_private)(struct binadei_call *call,
                                   const struct binadei_private_ref *arena_ref,
                                   binade_scope number, size_t size_bytes,
                                   binade_devptr *out);
    /* `size_bytes` 0: not said. `out_bytes`: of the block, where that is known,
     * for the history. */
    binade_status (*free)(struct binadei_call *call, binade_devptr address,
                          size_t size_bytes, uint64_t *out_bytes);
    binade_status (*free_after)(struct binadei_call *call,
                                binade_devptr address, binade_event event);
    /* What a capture scope kept is freed as with ANY. BINADE_OK, or why it is
     * still the scope's. */
    binade_status (*release)(struct binadei_call *call, binade_devptr address);
    /* A call for DONE goes on as one for the stream that the block at `address`
     * was allocated for, if one is there. */
    binade_status (*turn)(struct binadei_call *call, binade_devptr address);
    binade_status (*use)(struct binadei_call *call, binade_devptr address,
                         binade_stream stream);
    binade_status (*usable_size)(struct binadei_call *call,
                                 binade_devptr address, size_t *out);
    /* The bytes of a block that may be freed, 0 where none starts; nobody is told
     * what is wrong. */
    size_t (*live_bytes)(struct binadei_call *call, binade_devptr address);
    /* As binade_resize(); neither is 0. */
    binade_status (*resize)(struct binadei_call *call, binade_devptr address,
                            size_t size_bytes);
    /* A stream was retired. */
    void (*forget)(struct binadei_call *call, binade_stream stream);
    /* Lets go of what the kind alone holds back. Returns the bytes that went
     * back to the source by that. */
    uint64_t (*sweep)(struct binadei_call *call);
    /* Peaks begin anew; outside of slow paths. */
    void (*reset_peaks)(struct binadei_pool_body *body);
    /* What the caches cannot know. */
    void (*fill)(struct binadei_call *call, binade_stats *stats);
    /* After the engine was drained, with no call under way: finds what was never
     * freed. `is_at_rest`: no work is pending. */
    void (*end)(struct binadei_pool_body *body, bool is_at_rest,
                binade_leaks *leaks);
};

/* binadei_call_begin(), but a stream that is dead is recognised first. */
BINADE_MUST_USE binade_status binadei_begin(struct binade_pool *pool,
                                            binade_stream stream,
                                            struct binadei_call *out);

#endif
