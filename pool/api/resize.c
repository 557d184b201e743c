/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that change their length where they lie: arguments, what is noted of a
 * block beside its length, and its tenant's budget.
 */
#include "binade/pool.h"

#include "pool/api/plain.h"
#include "pool/base/failure.h"
#include "pool/core/body.h"
#include "pool/core/recorded.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"
#include "pool/ipc/exports.h"
#include "pool/tenant/directory.h"

static binade_status resize_busy(binade_devptr address, const char *why)
{
    return binadei_fail(BINADE_E_BUSY,
                        "the block at 0x%llx keeps its length: %s", address,
                        why);
}

/* Whether others than its holder count on the block's length. */
static binade_status resize_check_kept(const struct binadei_call *call,
                                       const struct binadei_block *block,
                                       binade_devptr address)
{
    const struct binadei_pool_body *body = call->pool->body;
    if (!(block->byte & BINADEI_BYTE_SPECIAL))
        return BINADE_OK;
    if (binadei_scopes_has(body->scopes, address))
        return resize_busy(address, "a capture scope keeps it");
    return body->exports && binadei_exports_has(body->exports, address)
               ? resize_busy(address, "it is exported")
               : BINADE_OK;
}

/* A free of the whole block, at `ticks`, and an allocation in its place: what
 * readers of the history know. */
static void resize_note(const struct binadei_call *call,
                        const struct binadei_block *block,
                        binade_devptr address, size_t size_bytes,
                        uint64_t ticks)
{
    const struct binadei_note freed = {
        .kind = BINADE_HISTORY_FREE,
        .ticks = ticks,
        .address = address,
        .size_bytes = block->grains * BINADEI_GRAIN_BYTES,
        .stream = call->stream,
    };
    const struct binadei_note taken = {
        .kind = BINADE_HISTORY_ALLOC,
        .address = address,
        .size_bytes = size_bytes,
        .stream = call->stream,
    };
    binadei_note(call, &freed);
    binadei_note(call, &taken);
}

static bool resize_is_private(const struct binadei_call *call,
                              const struct binadei_block *block)
{
    return block->byte & BINADEI_BYTE_SPECIAL &&
           binadei_privates_owner(call->pool->body->privates, block->start);
}

static binade_status resize_grow(struct binadei_call *call,
                                 const struct binadei_block *block,
                                 binade_devptr address, size_t size_bytes,
                                 uint64_t grains)
{
    if (binadei_plain_is_on_page(call, size_bytes) &&
        address % BINADEI_PAGE_BYTES != 0)
        return resize_busy(address, "so large a block of an exportable pool "
                                    "begins at a multiple of 2 MiB");
    binadei_call_pass_gate(call);
    if (resize_is_private(call, block)
            ? !binadei_private_grow(call, block, grains)
            : !binadei_block_grow(call, block, grains, size_bytes))
        return resize_busy(address, "there is no room behind it");
    binadei_note_stream(call, address);
    resize_note(call, block, address, size_bytes, binadei_ticks_before(call));
    return BINADE_OK;
}

/* The tenant of a block; NULL: none. */
static struct binadei_tenant *
resize_tenant_of(const struct binadei_call *call,
                 const struct binadei_block *block)
{
    binadei_tag tag =
        block->byte & BINADEI_BYTE_SPECIAL
            ? binadei_tag_of(binadei_tags(call->engine), block->start)
            : 0;
    return tag ? binadei_tenant_of_tag(tag) : NULL;
}

static binade_status resize_grow_charged(struct binadei_call *call,
                                         const struct binadei_block *block,
                                         binade_devptr address,
                                         size_t size_bytes, uint64_t grains)
{
    struct binadei_tenant *tenant = resize_tenant_of(call, block);
    uint64_t bytes = (grains - block->grains) * BINADEI_GRAIN_BYTES;
    uint32_t number = call->thread->number;
    if (!tenant)
        return resize_grow(call, block, address, size_bytes, grains);
    if (!binadei_account_charge(&tenant->account, number, bytes))
        return binadei_fail(BINADE_E_BUDGET,
                            "%llu bytes more: above the budget of tenant '%s'",
                            (unsigned long long)bytes, tenant->name);
    binade_status status =
        resize_grow(call, block, address, size_bytes, grains);
    if (status != BINADE_OK)
        binadei_account_release(&tenant->account, number, bytes);
    return status;
}

static bool resize_cut(struct binadei_call *call,
                       const struct binadei_block *block, uint64_t grains)
{
    if (resize_is_private(call, block))
        return binadei_private_cut(call, block, grains);
    binadei_block_shrink(call, block, grains);
    return true;
}

/* The free has a moment before anybody else can have the end. */
static binade_status resize_shrink(struct binadei_call *call,
                                   const struct binadei_block *block,
                                   binade_devptr address, size_t size_bytes,
                                   uint64_t grains)
{
    struct binadei_tenant *tenant = resize_tenant_of(call, block);
    uint64_t ticks = binadei_ticks_before(call);
    if (!resize_cut(call, block, grains)) {
        binadei_ticks_drop(call);
        return resize_busy(address, "a capture has it, or its arena is paused");
    }
    resize_note(call, block, address, size_bytes, ticks);
    if (tenant)
        binadei_account_release(&tenant->account, call->thread->number,
                                (block->grains - grains) * BINADEI_GRAIN_BYTES);
    return BINADE_OK;
}

/* Whether the block serves as it is: of a small class sizes serve each other. */
static bool resize_serves(const struct binadei_call *call,
                          const struct binadei_block *block,
                          const struct binadei_size *size)
{
    return block->grains == size->grains ||
           (block->grains > size->grains &&
            block->class_index == size->class_index &&
            binadei_class_is_small(size->class_index) &&
            !resize_tenant_of(call, block));
}

binade_status binadei_plain_resize(struct binadei_call *call,
                                   binade_devptr address, size_t size_bytes)
{
    struct binadei_block block;
    binade_status status = binadei_block_at(call->engine, address, &block);
    if (status == BINADE_OK)
        status = resize_check_kept(call, &block, address);
    if (status != BINADE_OK)
        return status;
    const struct binadei_size size =
        resize_tenant_of(call, &block) ? binadei_full_size_of_bytes(size_bytes)
                                       : binadei_size_of_bytes(size_bytes);
    if (resize_serves(call, &block, &size))
        return BINADE_OK;
    return size.grains > block.grains
               ? resize_grow_charged(call, &block, address, size_bytes,
                                     size.grains)
               : resize_shrink(call, &block, address, size_bytes, size.grains);
}

static binade_status resize_in(struct binadei_call *call, binade_devptr address,
                               size_t size_bytes)
{
    uint64_t limit_bytes = binadei_limit_of(call->pool->body);
    if (call->is_capturing)
        return binadei_fail(BINADE_E_CAPTURING,
                            "the stream is capturing a graph: a block keeps "
                            "its length there");
    if (size_bytes > limit_bytes)
        return binadei_fail(BINADE_E_TOO_LARGE,
                            "%zu bytes: the pool never reserves more than %llu",
                            size_bytes, (unsigned long long)limit_bytes);
    if (binadei_is_lost(call->pool))
        return binadei_fail(BINADE_E_CONTEXT_DESTROYED,
                            "the pool's context is gone, and its blocks");
    return call->pool->body->ops->resize(call, address, size_bytes);
}

binade_status binade_resize(binade_pool *pool, binade_devptr address,
                            size_t size_bytes, binade_stream stream)
{
    struct binadei_call call;
    if (!address || !size_bytes)
        return binadei_fail(BINADE_E_INVALID, "binade_resize: %s is 0",
                            address ? "size_bytes" : "address");
    binade_status status = binadei_begin(pool, stream, &call);
    if (status != BINADE_OK)
        return status;
    status = resize_in(&call, address, size_bytes);
    binadei_call_end(&call);
    return status;
}
