/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a pool does with a call that is no hit: one table for each kind of pool,
 * chosen when the pool is made. Plain pools have pool/api/plain.c; those that
 * are checked or pass all through to their source have pool/checked, and no
 * hits. A new kind of pool is a new table, not a test at each call.
 */
#ifndef MOIETY_POOL_CORE_OPS_H_
#define MOIETY_POOL_CORE_OPS_H_

#include <stdbool.h>
#include <stddef.h>

#include "moiety/pool.h"
#include "moiety/scope.h"
#include "moiety/stats.h"
#include "pool/cache/cache.h"
#include "pool/heap/classes.h"

struct moietyi_private_ref;
struct moietyi_tenant;

/* What a caller of the allocating functions asks for. */
struct moietyi_alloc_args {
    size_t size_bytes;
    size_t alignment_bytes;
    bool may_wait; /* as not with MOIETY_ALLOC_NO_WAIT */
    bool is_exact; /* never longer than its size makes it, whatever is cached */
    /* The tenant that was charged for it, in pools that know their blocks by
     * records; in others a block bears a tag. NULL: none. */
    struct moietyi_tenant *tenant;
};

/* What a tenant's block of so many bytes counts, whatever holds it. */
static inline uint64_t moietyi_tenant_bytes(size_t size_bytes)
{
    return moietyi_full_size_of_bytes(size_bytes).grains * MOIETYI_GRAIN_BYTES;
}

/* Each inside a call on a pool of the kind, unless it says otherwise; arguments
 * are checked, and statuses are those of the public function. */
struct moietyi_pool_ops {
    /* Blocks are known by records of the pool's own: no tags lie behind the
     * SPECIAL bit, and private arenas are accounts. */
    bool has_records;
    /* Before a call for this stream begins, inside one without a stream; only
     * where the pool has ATTENTION_WATCHED. */
    moiety_status (*recognise)(struct moietyi_call *call, moiety_stream stream);
    moiety_status (*alloc)(struct moietyi_call *call,
                           const struct moietyi_alloc_args *args,
                           moiety_devptr *out);
    /* For a private arena, the free memory at an address, outside of captures. */
    moiety_status (*claim)(struct moietyi_call *call,
                           const struct moietyi_private_ref *arena_ref,
                           moiety_devptr address, size_t size_bytes);
    /* For a private arena: in a capture of scope `number`, or outside (0). */
    moiety_status (*alloc_private)(struct moietyi_call *call,
                                   const struct moietyi_private_ref *arena_ref,
                                   moiety_scope number,
                                   const struct moietyi_alloc_args *args,
                                   moiety_devptr *out);
    /* `size_bytes` 0: not said. `out_bytes`: of the block, where that is known,
     * for the history. */
    moiety_status (*free)(struct moietyi_call *call, moiety_devptr address,
                          size_t size_bytes, uint64_t *out_bytes);
    moiety_status (*free_after)(struct moietyi_call *call,
                                moiety_devptr address, moiety_event event);
    /* What a capture scope kept is freed as with ANY. MOIETY_OK, or why it is
     * still the scope's. */
    moiety_status (*release)(struct moietyi_call *call, moiety_devptr address);
    /* A call for DONE goes on as one for the stream that the block at `address`
     * was allocated for, if one is there. */
    moiety_status (*turn)(struct moietyi_call *call, moiety_devptr address);
    moiety_status (*use)(struct moietyi_call *call, moiety_devptr address,
                         moiety_stream stream);
    moiety_status (*usable_size)(struct moietyi_call *call,
                                 moiety_devptr address, size_t *out);
    /* The bytes of a block that may be freed, 0 where none starts; nobody is told
     * what is wrong. */
    size_t (*live_bytes)(struct moietyi_call *call, moiety_devptr address);
    /* As moiety_resize(); neither is 0. */
    moiety_status (*resize)(struct moietyi_call *call, moiety_devptr address,
                            size_t size_bytes);
    /* A stream was retired. */
    void (*forget)(struct moietyi_call *call, moiety_stream stream);
    /* Lets go of what the kind alone holds back. Returns the bytes that went
     * back to the source by that. */
    uint64_t (*sweep)(struct moietyi_call *call);
    /* Peaks begin anew; outside of slow paths. */
    void (*reset_peaks)(struct moietyi_pool_body *body);
    /* What the caches cannot know. */
    void (*fill)(struct moietyi_call *call, moiety_pool_stats *stats);
    /* After the engine was drained, with no call under way: finds what was never
     * freed. `is_at_rest`: no work is pending. */
    void (*end)(struct moietyi_pool_body *body, bool is_at_rest,
                moiety_leaks *leaks);
};

/* moietyi_call_begin(), but a stream that is dead is recognised first. */
MOIETY_MUST_USE moiety_status moietyi_begin(struct moiety_pool *pool,
                                            moiety_stream stream,
                                            struct moietyi_call *out);

#endif
