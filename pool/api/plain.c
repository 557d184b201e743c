/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A plain pool's calls that are no hits. Whatever else is noted of a block (a
 * scope, an arena, an export, a tenant) is behind the SPECIAL bit, and is asked
 * in this order before the caches take the block.
 */
#include "pool/api/plain.h"

#include "pool/base/failure.h"
#include "pool/core/body.h"
#include "pool/core/recorded.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"
#include "pool/ipc/exports.h"
#include "pool/oom/escalate.h"

/* Only pools that have no hits ask. */
static binade_status plain_recognise(struct binadei_call *call,
                                     binade_stream stream)
{
    (void)call;
    (void)stream;
    return BINADE_OK;
}

static uint32_t alignment_grains(const struct binadei_call *call,
                                 const struct binadei_alloc_args *args)
{
    if (binadei_plain_is_on_page(call, args->size_bytes))
        return BINADEI_PAGE_GRAINS;
    return args->alignment_bytes > BINADEI_GRAIN_BYTES
               ? (uint32_t)(args->alignment_bytes / BINADEI_GRAIN_BYTES)
               : 1;
}

/* A miss in vain is the next call's. */
static binade_status take_if_free(struct binadei_call *call,
                                  const struct binadei_request *request,
                                  binade_devptr *out)
{
    if (binadei_take(call, request, out))
        return BINADE_OK;
    if (call->has_missed)
        binadei_count(call->thread_state, BINADEI_COUNT_MISSES, UINT64_MAX);
    return BINADE_E_BUSY;
}

static binade_status plain_alloc(struct binadei_call *call,
                                 const struct binadei_alloc_args *args,
                                 binade_devptr *out)
{
    const struct binadei_request request = {
        args->is_exact ? binadei_full_size_of_bytes(args->size_bytes)
                       : binadei_size_of_bytes(args->size_bytes),
        args->size_bytes, alignment_grains(call, args), args->is_exact};
    binade_status status;
    if (args->is_quick)
        status = take_if_free(call, &request, out);
    else if (call->capture.kind >= BINADEI_CAPTURE_BROKEN)
        status = binadei_scopes_alloc(call, &request, args->may_wait, out);
    else
        status = binadei_alloc_escalating(call, &request, args->may_wait, out);
    if (status == BINADE_OK)
        binadei_note_stream(call, *out);
    return status;
}

static binade_status
plain_alloc_private(struct binadei_call *call,
                    const struct binadei_private_ref *arena_ref,
                    binade_scope number, size_t size_bytes, binade_devptr *out)
{
    const struct binadei_request request = {binadei_size_of_bytes(size_bytes),
                                            size_bytes, 1, true};
    return binadei_private_take(call, arena_ref, number, &request, true, out);
}

static binade_status plain_claim(struct binadei_call *call,
                                 const struct binadei_private_ref *arena_ref,
                                 binade_devptr address, size_t size_bytes)
{
    const struct binadei_request request = {binadei_size_of_bytes(size_bytes),
                                            size_bytes, 1, true};
    return binadei_private_take_at(call, arena_ref, address, &request);
}

/* A size that the caller claims; 0: none. */
static binade_status plain_check_size(const struct binadei_block *block,
                                      size_t size_bytes)
{
    uint64_t held_bytes = block->grains * BINADEI_GRAIN_BYTES;
    if (!size_bytes)
        return BINADE_OK;
    if (binadei_block_may_have(block, size_bytes))
        return BINADE_OK;
    return binadei_fail(BINADE_E_INVALID, "size %zu: the block has %llu bytes",
                        size_bytes, (unsigned long long)held_bytes);
}

/* A block that was exported stays where it is until its exports are released:
 * peers may use it. */
static binade_status put_shared(struct binadei_call *call,
                                const struct binadei_block *block,
                                binade_devptr address)
{
    struct binadei_exports *exports = call->pool->body->exports;
    enum binadei_export_free found =
        exports && block->byte & BINADEI_BYTE_SPECIAL &&
                !binadei_is_lost(call->pool)
            ? binadei_exports_free(exports, address)
            : BINADEI_EXPORT_NONE;
    if (found == BINADEI_EXPORT_NONE)
        return binadei_put(call, block, address);
    if (found == BINADEI_EXPORT_KEPT)
        return BINADE_OK;
    return binadei_fail(BINADE_E_INVALID,
                        "the block at 0x%llx was freed before", address);
}

/* What a graph may use is kept for it, by its scope or by its scope's arena; and
 * what is an arena's, by that. */
static binade_status plain_put(struct binadei_call *call,
                               const struct binadei_block *block,
                               binade_devptr address)
{
    bool is_special = (block->byte & BINADEI_BYTE_SPECIAL) != 0;
    bool is_kept = false;
    binade_status status = BINADE_OK;
    if (is_special && call->is_capturing)
        status = binadei_privates_free(call, block, address, NULL, &is_kept);
    if (status == BINADE_OK && !is_kept && (is_special || call->is_capturing))
        status = binadei_scopes_free(call, block, address, &is_kept);
    if (status == BINADE_OK && !is_kept && is_special && !call->is_capturing)
        status = binadei_privates_free(call, block, address, NULL, &is_kept);
    return status == BINADE_OK && !is_kept ? put_shared(call, block, address)
                                           : status;
}

static binade_status plain_free_block(struct binadei_call *call,
                                      binade_devptr address, size_t size_bytes,
                                      uint64_t *out_bytes)
{
    struct binadei_block block;
    binade_status status = binadei_block_at(call->engine, address, &block);
    if (status != BINADE_OK)
        return status;
    *out_bytes = block.grains * BINADEI_GRAIN_BYTES;
    status = plain_check_size(&block, size_bytes);
    return status == BINADE_OK ? plain_put(call, &block, address) : status;
}

static binade_status plain_free_after(struct binadei_call *call,
                                      binade_devptr address, binade_event event)
{
    struct binadei_exports *exports = call->pool->body->exports;
    binade_status status =
        binadei_scopes_check_after(call->pool->body->scopes, address);
    if (status != BINADE_OK)
        return status;
    if (exports && !binadei_is_lost(call->pool) &&
        binadei_exports_has(exports, address)) {
        return binadei_fail(BINADE_E_BUSY,
                            "the block at 0x%llx is exported: free it on a "
                            "stream, or release its exports first",
                            address);
    }
    struct binadei_block block;
    bool is_private = false;
    status = binadei_block_at(call->engine, address, &block);
    if (status == BINADE_OK && block.byte & BINADEI_BYTE_SPECIAL)
        status =
            binadei_privates_free(call, &block, address, event, &is_private);
    return status == BINADE_OK && !is_private
               ? binadei_put_after(call, address, event)
               : status;
}

static binade_status plain_release(struct binadei_call *call,
                                   binade_devptr address)
{
    struct binadei_exports *exports = call->pool->body->exports;
    struct binadei_block block;
    binade_status status = binadei_block_at(call->engine, address, &block);
    bool is_private = false;
    if (status == BINADE_OK)
        status =
            binadei_privates_free(call, &block, address, NULL, &is_private);
    if (status != BINADE_OK || is_private)
        return status;
    /* Peers may use it, until its exports are released. */
    if (exports &&
        binadei_exports_free(exports, address) != BINADEI_EXPORT_NONE)
        return BINADE_OK;
    if (!binadei_is_used(call->engine, address) &&
        !binadei_tag_of(binadei_tags(call->engine), block.start)) {
        block.byte &= (uint8_t)~BINADEI_BYTE_SPECIAL;
        binadei_buddy_set_class(call->engine->streams.buddy, block.start,
                                block.byte);
    }
    return binadei_put(call, &block, address);
}

/* An address that is no block's is for the free to refuse. */
static binade_status turn(struct binadei_call *call, binade_devptr address)
{
    struct binadei_block block;
    if (binadei_block_at(call->engine, address, &block) != BINADE_OK)
        return BINADE_OK;
    binade_status status = binadei_call_turn(
        call, binadei_note_at(call->engine->notes, block.start, block.byte));
    return status == BINADE_OK ? binadei_call_look(call) : status;
}

/* On no stream is anything pending on memory that went with its context. */
static binade_status use_if_there(struct binadei_call *call,
                                  const struct binadei_block *block,
                                  binade_devptr address, binade_stream stream)
{
    if (binadei_is_lost(call->pool))
        return BINADE_OK;
    binade_status status = binadei_use(call, block, address, stream);
    return binadei_is_lost(call->pool) ? BINADE_OK : status;
}

static void note_use(const struct binadei_call *call, binade_status status,
                     const struct binadei_block *block, binade_devptr address,
                     binade_stream stream)
{
    const struct binadei_note note = {
        .kind = BINADE_HISTORY_RECORD_USE,
        .status = status,
        .address = address,
        .size_bytes = block->grains * BINADEI_GRAIN_BYTES,
        .stream = stream,
    };
    binadei_note(call, &note);
}

static binade_status use(struct binadei_call *call, binade_devptr address,
                         binade_stream stream)
{
    struct binadei_block block = {.grains = 0};
    binade_status status = binadei_block_at(call->engine, address, &block);
    if (status == BINADE_OK)
        status = use_if_there(call, &block, address, stream);
    note_use(call, status, &block, address, stream);
    return status;
}

static binade_status usable_size(struct binadei_call *call,
                                 binade_devptr address, size_t *out)
{
    struct binadei_block block;
    binade_status status = binadei_block_at(call->engine, address, &block);
    if (status == BINADE_OK)
        *out = block.grains * BINADEI_GRAIN_BYTES;
    return status;
}

static size_t plain_live_bytes(struct binadei_call *call, binade_devptr address)
{
    size_t size_bytes = 0;
    return usable_size(call, address, &size_bytes) == BINADE_OK ? size_bytes
                                                                : 0;
}

static void plain_forget(struct binadei_call *call, binade_stream stream)
{
    (void)call;
    (void)stream;
}

static uint64_t plain_sweep(struct binadei_call *call)
{
    (void)call;
    return 0;
}

static void plain_reset_peaks(struct binadei_pool_body *body)
{
    binadei_segments_reset_peak(body->segments);
    binadei_engine_reset_live_peak(body->engine);
}

static void plain_fill(struct binadei_call *call, binade_stats *stats)
{
    (void)call;
    (void)stats;
}

static void plain_end(struct binadei_pool_body *body, bool is_at_rest,
                      binade_leaks *leaks)
{
    (void)is_at_rest;
    binadei_scopes_drain(body->scopes, body->engine);
    binadei_leaks_find(body, leaks);
}

const struct binadei_pool_ops binadei_plain_ops = {
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
    .resize = binadei_plain_resize,
    .forget = plain_forget,
    .sweep = plain_sweep,
    .reset_peaks = plain_reset_peaks,
    .fill = plain_fill,
    .end = plain_end,
};
