/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that change their length where they lie: arguments, what is noted of a
 * block beside its length, and its tenant's budget.
 */
#include "moiety/pool.h"

#include "pool/api/plain.h"
#include "pool/base/failure.h"
#include "pool/core/body.h"
#include "pool/core/recorded.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"
#include "pool/ipc/exports.h"
#include "pool/tenant/directory.h"

static moiety_status resize_refuse(moiety_status status, moiety_devptr address,
                                   const char *why)
{
    return moietyi_fail(status, "the block at 0x%llx keeps its length: %s",
                        address, why);
}

/* Whether others than its holder count on the block's length. */
static moiety_status resize_check_kept(const struct moietyi_call *call,
                                       const struct moietyi_block *block,
                                       moiety_devptr address)
{
    const struct moietyi_pool_body *body = call->pool->body;
    if (!(block->byte & MOIETYI_BYTE_SPECIAL))
        return MOIETY_OK;
    if (moietyi_scopes_has(body->scopes, address))
        return resize_refuse(MOIETY_E_IN_USE, address,
                             "a capture scope keeps it");
    return body->exports && moietyi_exports_has(body->exports, address)
               ? resize_refuse(MOIETY_E_IN_USE, address, "it is exported")
               : MOIETY_OK;
}

/* Notes a free of the whole block, at `ticks`, and an allocation in its place,
 * as readers of the history expect. */
static void resize_note(const struct moietyi_call *call,
                        const struct moietyi_block *block,
                        moiety_devptr address, size_t size_bytes,
                        uint64_t ticks)
{
    const struct moietyi_note freed = {
        .kind = MOIETY_HISTORY_FREE,
        .ticks = ticks,
        .address = address,
        .size_bytes = block->grains * MOIETYI_GRAIN_BYTES,
        .stream = call->stream,
    };
    const struct moietyi_note taken = {
        .kind = MOIETY_HISTORY_ALLOC,
        .address = address,
        .size_bytes = size_bytes,
        .stream = call->stream,
    };
    moietyi_note(call, &freed);
    moietyi_note(call, &taken);
}

static bool resize_is_private(const struct moietyi_call *call,
                              const struct moietyi_block *block)
{
    return block->byte & MOIETYI_BYTE_SPECIAL &&
           moietyi_privates_owner(call->pool->body->privates, block->start);
}

static moiety_status resize_grow(struct moietyi_call *call,
                                 const struct moietyi_block *block,
                                 moiety_devptr address, size_t size_bytes,
                                 uint64_t grains)
{
    if (moietyi_plain_is_on_page(call, size_bytes) &&
        address % MOIETYI_PAGE_BYTES != 0)
        return resize_refuse(MOIETY_E_NO_ROOM, address,
                             "so large a block of an exportable pool begins at "
                             "a multiple of 2 MiB");
    moietyi_call_pass_gate(call);
    moiety_status status = resize_is_private(call, block)
                               ? moietyi_private_grow(call, block, grains)
                           : moietyi_block_grow(call, block, grains, size_bytes)
                               ? MOIETY_OK
                               : resize_refuse(MOIETY_E_NO_ROOM, address,
                                               "there is no room behind it");
    if (status != MOIETY_OK)
        return status;
    moietyi_note_stream(call, address);
    resize_note(call, block, address, size_bytes, moietyi_ticks_before(call));
    return MOIETY_OK;
}

/* The tenant of a block; NULL: none. */
static struct moietyi_tenant *
resize_tenant_of(const struct moietyi_call *call,
                 const struct moietyi_block *block)
{
    moietyi_tag tag =
        block->byte & MOIETYI_BYTE_SPECIAL
            ? moietyi_tag_of(moietyi_tags(call->engine), block->start)
            : 0;
    return tag ? moietyi_tenant_of_tag(tag) : NULL;
}

static moiety_status resize_grow_charged(struct moietyi_call *call,
                                         const struct moietyi_block *block,
                                         moiety_devptr address,
                                         size_t size_bytes, uint64_t grains)
{
    struct moietyi_tenant *tenant = resize_tenant_of(call, block);
    uint64_t bytes = (grains - block->grains) * MOIETYI_GRAIN_BYTES;
    uint32_t number = call->thread->number;
    if (!tenant)
        return resize_grow(call, block, address, size_bytes, grains);
    if (!moietyi_account_charge(&tenant->account, number, bytes))
        return moietyi_fail(MOIETY_E_BUDGET,
                            "%llu bytes more: above the budget of tenant '%s'",
                            (unsigned long long)bytes, tenant->name);
    moiety_status status =
        resize_grow(call, block, address, size_bytes, grains);
    if (status != MOIETY_OK)
        moietyi_account_release(&tenant->account, number, bytes);
    return status;
}

static moiety_status resize_cut(struct moietyi_call *call,
                                const struct moietyi_block *block,
                                uint64_t grains)
{
    if (resize_is_private(call, block))
        return moietyi_private_cut(call, block, grains);
    moietyi_block_shrink(call, block, grains);
    return MOIETY_OK;
}

/* The free has a time before any other thread can have the end. */
static moiety_status resize_shrink(struct moietyi_call *call,
                                   const struct moietyi_block *block,
                                   moiety_devptr address, size_t size_bytes,
                                   uint64_t grains)
{
    struct moietyi_tenant *tenant = resize_tenant_of(call, block);
    uint64_t ticks = moietyi_ticks_before(call);
    moiety_status status = resize_cut(call, block, grains);
    if (status != MOIETY_OK) {
        moietyi_ticks_drop(call);
        return status;
    }
    resize_note(call, block, address, size_bytes, ticks);
    if (tenant)
        moietyi_account_release(&tenant->account, call->thread->number,
                                (block->grains - grains) * MOIETYI_GRAIN_BYTES);
    return MOIETY_OK;
}

/* True if the block fits already: its length is right, or both lengths are of
 * one class. */
static bool resize_serves(const struct moietyi_call *call,
                          const struct moietyi_block *block,
                          const struct moietyi_size *size)
{
    return block->grains == size->grains ||
           (block->grains > size->grains &&
            block->class_index == size->class_index &&
            size->class_index < MOIETYI_CLASSES &&
            !resize_tenant_of(call, block));
}

moiety_status moietyi_plain_resize(struct moietyi_call *call,
                                   moiety_devptr address, size_t size_bytes)
{
    struct moietyi_block block;
    moiety_status status = moietyi_block_at(call->engine, address, &block);
    if (status == MOIETY_OK)
        status = resize_check_kept(call, &block, address);
    if (status != MOIETY_OK)
        return status;
    const struct moietyi_size size =
        resize_tenant_of(call, &block) ? moietyi_full_size_of_bytes(size_bytes)
                                       : moietyi_size_of_bytes(size_bytes);
    if (resize_serves(call, &block, &size))
        return MOIETY_OK;
    return size.grains > block.grains
               ? resize_grow_charged(call, &block, address, size_bytes,
                                     size.grains)
               : resize_shrink(call, &block, address, size_bytes, size.grains);
}

static moiety_status resize_in(struct moietyi_call *call, moiety_devptr address,
                               size_t size_bytes)
{
    uint64_t limit_bytes = moietyi_limit_of(call->pool->body);
    if (call->is_capturing)
        return moietyi_fail(MOIETY_E_CAPTURING,
                            "the stream is capturing a graph: a block keeps "
                            "its length there");
    if (size_bytes > limit_bytes)
        return moietyi_fail(MOIETY_E_TOO_LARGE,
                            "%zu bytes: the pool never reserves more than %llu",
                            size_bytes, (unsigned long long)limit_bytes);
    if (moietyi_is_lost(call->pool))
        return moietyi_fail(MOIETY_E_CONTEXT_DESTROYED,
                            "the pool's context is gone, and its blocks");
    return call->pool->body->ops->resize(call, address, size_bytes);
}

moiety_status moiety_resize(moiety_pool *pool, moiety_devptr address,
                            size_t size_bytes, moiety_stream stream)
{
    struct moietyi_call call;
    if (!address || !size_bytes)
        return moietyi_fail(MOIETY_E_INVALID, "moiety_resize: %s is 0",
                            address ? "size_bytes" : "address");
    moiety_status status = moietyi_begin(pool, stream, &call);
    if (status != MOIETY_OK)
        return status;
    status = resize_in(&call, address, size_bytes);
    moietyi_call_end(&call);
    return status;
}
