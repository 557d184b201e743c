/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plain pool's calls that are no hits. Whatever else is noted of a block (a
 * scope, an arena, an export, a tenant) is behind the SPECIAL bit, and is asked
 * in this order before the caches take the block.
 */
#include "pool/api/plain.h"

#include "pool/base/failure.h"
#include "pool/cache/magazine.h"
#include "pool/core/body.h"
#include "pool/core/recorded.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"
#include "pool/ipc/exports.h"
#include "pool/oom/escalate.h"

/* Only pools that have no hits ask. */
static moiety_status plain_recognise(struct moietyi_call *call,
                                     moiety_stream stream)
{
    (void)call;
    (void)stream;
    return MOIETY_OK;
}

static uint32_t alignment_grains(const struct moietyi_call *call,
                                 const struct moietyi_alloc_args *args)
{
    if (moietyi_plain_is_on_page(call, args->size_bytes))
        return MOIETYI_PAGE_GRAINS;
    return args->alignment_bytes > MOIETYI_GRAIN_BYTES
               ? (uint32_t)(args->alignment_bytes / MOIETYI_GRAIN_BYTES)
               : 1;
}

static moiety_status plain_alloc(struct moietyi_call *call,
                                 const struct moietyi_alloc_args *args,
                                 moiety_devptr *out)
{
    const struct moietyi_request request = {
        args->is_exact ? moietyi_full_size_of_bytes(args->size_bytes)
                       : moietyi_size_of_bytes(args->size_bytes),
        args->size_bytes, alignment_grains(call, args), args->is_exact};
    moiety_status status;
    if (call->capture.kind >= MOIETYI_CAPTURE_BROKEN)
        status = moietyi_scopes_alloc(call, &request, args->may_wait, out);
    else
        status = moietyi_alloc_escalating(call, &request, args->may_wait, out);
    if (status == MOIETY_OK)
        moietyi_note_stream(call, *out);
    return status;
}

static moiety_status
plain_alloc_private(struct moietyi_call *call,
                    const struct moietyi_private_ref *arena_ref,
                    moiety_scope number, const struct moietyi_alloc_args *args,
                    moiety_devptr *out)
{
    const struct moietyi_request request = {
        moietyi_size_of_bytes(args->size_bytes), args->size_bytes, 1, true};
    return moietyi_private_take(call, arena_ref, number, &request,
                                args->may_wait, out);
}

static moiety_status plain_claim(struct moietyi_call *call,
                                 const struct moietyi_private_ref *arena_ref,
                                 moiety_devptr address, size_t size_bytes)
{
    const struct moietyi_request request = {moietyi_size_of_bytes(size_bytes),
                                            size_bytes, 1, true};
    return moietyi_private_take_at(call, arena_ref, address, &request);
}

/* A size that the caller claims; 0: none. */
static moiety_status plain_check_size(const struct moietyi_block *block,
                                      size_t size_bytes)
{
    uint64_t held_bytes = block->grains * MOIETYI_GRAIN_BYTES;
    if (!size_bytes)
        return MOIETY_OK;
    if (moietyi_block_may_have(block, size_bytes))
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_INVALID, "size %zu: the block has %llu bytes",
                        size_bytes, (unsigned long long)held_bytes);
}

/* A block that was exported stays where it is until its exports are released:
 * peers may use it. */
static moiety_status put_shared(struct moietyi_call *call,
                                const struct moietyi_block *block,
                                moiety_devptr address)
{
    struct moietyi_exports *exports = call->pool->body->exports;
    enum moietyi_export_free found =
        exports && block->byte & MOIETYI_BYTE_SPECIAL &&
                !moietyi_is_lost(call->pool)
            ? moietyi_exports_free(exports, address)
            : MOIETYI_EXPORT_NONE;
    if (found == MOIETYI_EXPORT_NONE)
        return moietyi_put(call, block, address);
    if (found == MOIETYI_EXPORT_KEPT)
        return MOIETY_OK;
    return moietyi_fail(MOIETY_E_DOUBLE_FREE,
                        "the block at 0x%llx was freed before", address);
}

/* Blocks of scopes and of private arenas go to their owner: a graph may use
 * them whenever it runs. */
static moiety_status plain_put(struct moietyi_call *call,
                               const struct moietyi_block *block,
                               moiety_devptr address)
{
    bool is_special = (block->byte & MOIETYI_BYTE_SPECIAL) != 0;
    bool is_kept = false;
    moiety_status status = MOIETY_OK;
    if (is_special && call->is_capturing)
        status = moietyi_privates_free(call, block, address, NULL, &is_kept);
    if (status == MOIETY_OK && !is_kept && (is_special || call->is_capturing))
        status = moietyi_scopes_free(call, block, address, &is_kept);
    if (status == MOIETY_OK && !is_kept && is_special && !call->is_capturing)
        status = moietyi_privates_free(call, block, address, NULL, &is_kept);
    return status == MOIETY_OK && !is_kept ? put_shared(call, block, address)
                                           : status;
}

static moiety_status plain_free_block(struct moietyi_call *call,
                                      moiety_devptr address, size_t size_bytes,
                                      uint64_t *out_bytes)
{
    struct moietyi_block block;
    moiety_status status = moietyi_block_at(call->engine, address, &block);
    if (status != MOIETY_OK)
        return status;
    *out_bytes = block.grains * MOIETYI_GRAIN_BYTES;
    status = plain_check_size(&block, size_bytes);
    return status == MOIETY_OK ? plain_put(call, &block, address) : status;
}

static moiety_status plain_free_after(struct moietyi_call *call,
                                      moiety_devptr address, moiety_event event)
{
    struct moietyi_exports *exports = call->pool->body->exports;
    moiety_status status =
        moietyi_scopes_check_after(call->pool->body->scopes, address);
    if (status != MOIETY_OK)
        return status;
    if (exports && !moietyi_is_lost(call->pool) &&
        moietyi_exports_has(exports, address)) {
        return moietyi_fail(MOIETY_E_IN_USE,
                            "the block at 0x%llx is exported: free it on a "
                            "stream, or release its exports first",
                            address);
    }
    struct moietyi_block block;
    bool is_private = false;
    status = moietyi_block_at(call->engine, address, &block);
    if (status == MOIETY_OK && block.byte & MOIETYI_BYTE_SPECIAL)
        status =
            moietyi_privates_free(call, &block, address, event, &is_private);
    return status == MOIETY_OK && !is_private
               ? moietyi_put_after(call, &block, address, event)
               : status;
}

static moiety_status plain_release(struct moietyi_call *call,
                                   moiety_devptr address)
{
    struct moietyi_exports *exports = call->pool->body->exports;
    struct moietyi_block block;
    moiety_status status = moietyi_block_at(call->engine, address, &block);
    bool is_private = false;
    if (status == MOIETY_OK)
        status =
            moietyi_privates_free(call, &block, address, NULL, &is_private);
    if (status != MOIETY_OK || is_private)
        return status;
    /* Peers may use it, until its exports are released. */
    if (exports &&
        moietyi_exports_free(exports, address) != MOIETYI_EXPORT_NONE)
        return MOIETY_OK;
    if (!moietyi_is_used(call->engine, address) &&
        !moietyi_tag_of(moietyi_tags(call->engine), block.start)) {
        block.byte &= (uint8_t)~MOIETYI_BYTE_SPECIAL;
        moietyi_space_set_class(call->engine->streams.space, block.start,
                                block.byte);
    }
    return moietyi_put(call, &block, address);
}

/* The free refuses an address of no block. */
static moiety_status turn(struct moietyi_call *call, moiety_devptr address)
{
    struct moietyi_block block;
    if (moietyi_block_at(call->engine, address, &block) != MOIETY_OK)
        return MOIETY_OK;
    moiety_status status = moietyi_call_turn(
        call, moietyi_note_at(call->engine->notes, block.start, block.byte));
    return status == MOIETY_OK ? moietyi_call_look(call) : status;
}

/* Memory of a lost context has no pending work. */
static moiety_status use_if_there(struct moietyi_call *call,
                                  const struct moietyi_block *block,
                                  moiety_devptr address, moiety_stream stream)
{
    if (moietyi_is_lost(call->pool))
        return MOIETY_OK;
    moiety_status status = moietyi_use(call, block, address, stream);
    return moietyi_is_lost(call->pool) ? MOIETY_OK : status;
}

static void note_use(const struct moietyi_call *call, moiety_status status,
                     const struct moietyi_block *block, moiety_devptr address,
                     moiety_stream stream)
{
    const struct moietyi_note note = {
        .kind = MOIETY_HISTORY_RECORD_USE,
        .status = status,
        .address = address,
        .size_bytes = block->grains * MOIETYI_GRAIN_BYTES,
        .stream = stream,
    };
    moietyi_note(call, &note);
}

static moiety_status use(struct moietyi_call *call, moiety_devptr address,
                         moiety_stream stream)
{
    struct moietyi_block block = {.grains = 0};
    moiety_status status = moietyi_block_at(call->engine, address, &block);
    if (status == MOIETY_OK)
        status = use_if_there(call, &block, address, stream);
    note_use(call, status, &block, address, stream);
    return status;
}

static moiety_status usable_size(struct moietyi_call *call,
                                 moiety_devptr address, size_t *out)
{
    struct moietyi_block block;
    moiety_status status = moietyi_block_at(call->engine, address, &block);
    if (status == MOIETY_OK)
        *out = block.grains * MOIETYI_GRAIN_BYTES;
    return status;
}

static size_t plain_live_bytes(struct moietyi_call *call, moiety_devptr address)
{
    size_t size_bytes = 0;
    return usable_size(call, address, &size_bytes) == MOIETY_OK ? size_bytes
                                                                : 0;
}

static void plain_forget(struct moietyi_call *call, moiety_stream stream)
{
    (void)call;
    (void)stream;
}

static uint64_t plain_sweep(struct moietyi_call *call)
{
    (void)call;
    return 0;
}

static void plain_reset_peaks(struct moietyi_pool_body *body)
{
    moietyi_segments_reset_peak(body->segments);
    moietyi_engine_reset_live_peak(body->engine);
}

static void plain_fill(struct moietyi_call *call, moiety_pool_stats *stats)
{
    (void)call;
    (void)stats;
}

static void plain_end(struct moietyi_pool_body *body, bool is_at_rest,
                      moiety_leaks *leaks)
{
    (void)is_at_rest;
    moietyi_scopes_drain(body->scopes, body->engine);
    moietyi_leaks_find(body, leaks);
}

const struct moietyi_pool_ops moietyi_plain_ops = {
    .has_records = false,
    .recognise = plain_recognise,
    .alloc = plain_alloc,
    .claim = plain_claim,
    .alloc_private = plain_alloc_private,
    .free = plain_free_block,
    .free_after = plain_free_after,
    .release = plain_release,
    .turn = turn,
    .use = use,
    .usable_size = usable_size,
    .live_bytes = plain_live_bytes,
    .resize = moietyi_plain_resize,
    .forget = plain_forget,
    .sweep = plain_sweep,
    .reset_peaks = plain_reset_peaks,
    .fill = plain_fill,
    .end = plain_end,
};
