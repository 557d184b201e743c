/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The blocks that scopes keep. What is handed out in a scope has nothing
 * pending: either it was done, or the same capture freed it on the same stream,
 * whose nodes come one after the other. Whatever is freed meanwhile stays here.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/core/body.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"
#include "pool/oom/escalate.h"

binade_status binadei_scope_no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory to note a block of a capture scope");
}

/* From now on a free of it is no hit. */
static void scope_blocks_mark(const struct binadei_call *call,
                              const struct binadei_block *block)
{
    binadei_tag_note_further(binadei_tags(call->engine), block->start);
    binadei_buddy_set_class(call->engine->streams.buddy, block->start,
                            block->byte | BINADEI_BYTE_SPECIAL);
}

static bool scope_blocks_fits(const struct binadei_scope_block *block,
                              const struct binadei_scope_want *want)
{
    return block->bytes >= want->bytes && block->bytes <= want->most_bytes &&
           !(block->address & (want->alignment_bytes - 1));
}

/* Lock held. What the same stream freed in this scope; 0: nothing. */
static binade_devptr
scope_blocks_take_freed(struct binadei_scope *scope,
                        const struct binadei_scope_want *want,
                        const struct binadei_scope_stream *stream)
{
    struct binadei_scope_block *block = scope->freed;
    while (block && !(block->is_reusable && scope_blocks_fits(block, want) &&
                      binadei_scope_stream_is(&block->freed_on, stream)))
        block = block->next_listed;
    if (!block)
        return 0;
    binadei_scope_block_set_freed(block, false);
    return block->address;
}

binade_devptr binadei_scope_reuse(struct binadei_call *call,
                                  binade_scope number,
                                  const struct binadei_scope_want *want)
{
    struct binadei_scopes *scopes = call->pool->body->scopes;
    const struct binadei_scope_stream stream = binadei_scope_stream_of(call);
    pthread_mutex_lock(&scopes->lock);
    struct binadei_scope *scope = binadei_scope_find(scopes, number);
    binade_devptr address =
        scope ? scope_blocks_take_freed(scope, want, &stream) : 0;
    pthread_mutex_unlock(&scopes->lock);
    return address;
}

bool binadei_scope_keep(struct binadei_call *call, binade_scope number,
                        struct binadei_scope_block *note,
                        const struct binadei_block *block)
{
    struct binadei_scopes *scopes = call->pool->body->scopes;
    pthread_mutex_lock(&scopes->lock);
    struct binadei_scope *scope = binadei_scope_find(scopes, number);
    if (scope) {
        if (block)
            scope_blocks_mark(call, block);
        binadei_scope_block_add(scopes, scope, note);
    }
    pthread_mutex_unlock(&scopes->lock);
    return scope != NULL;
}

binade_status binadei_scope_refuse(void)
{
    return binadei_fail(BINADE_E_CAPTURING,
                        "the stream captures a graph, outside any scope: call "
                        "binade_scope_begin() before the capture, or make the "
                        "pool with BINADE_POOL_AUTO_SCOPE");
}

binade_status binadei_scope_require(struct binadei_call *call,
                                    binade_scope *out)
{
    binade_status status = binadei_scope_of(call, out);
    return status != BINADE_OK || *out ? status : binadei_scope_refuse();
}

static binade_devptr scope_blocks_reuse(struct binadei_call *call,
                                        binade_scope number,
                                        const struct binadei_request *request)
{
    uint64_t bytes = request->size.grains * BINADEI_GRAIN_BYTES;
    const struct binadei_scope_want want = {
        .bytes = bytes,
        .most_bytes = request->is_exact ? bytes : bytes + bytes / 8,
        .alignment_bytes = request->alignment_grains * BINADEI_GRAIN_BYTES,
    };
    struct binadei_block block;
    binade_devptr address = binadei_scope_reuse(call, number, &want);
    /* Its last life may have been a tenant's. */
    if (address && binadei_block_at(call->engine, address, &block) == BINADE_OK)
        binadei_discharge(call, &block);
    return address;
}

/* A block that is done becomes the scope's, unless that is gone. */
static bool scope_blocks_keep(struct binadei_call *call, binade_scope number,
                              struct binadei_scope_block *note)
{
    struct binadei_block block;
    if (binadei_block_at(call->engine, note->address, &block) != BINADE_OK)
        return false;
    note->bytes = block.grains * BINADEI_GRAIN_BYTES;
    return binadei_scope_keep(call, number, note, &block);
}

/* A block that is done, from the pool. */
static binade_status scope_blocks_take(struct binadei_call *call,
                                       binade_scope number,
                                       const struct binadei_request *request,
                                       bool may_wait, binade_devptr *out)
{
    struct binadei_scope_block *note = calloc(1, sizeof(*note));
    if (!note)
        return binadei_scope_no_memory();
    binade_status status =
        binadei_alloc_escalating(call, request, may_wait, &note->address);
    if (status != BINADE_OK) {
        free(note);
        return status;
    }
    binade_devptr address = note->address;
    if (scope_blocks_keep(call, number, note)) {
        *out = address;
        return BINADE_OK;
    }
    binadei_give_block(call->thread_state, address);
    free(note);
    return binadei_scope_refuse();
}

binade_status binadei_scopes_alloc(struct binadei_call *call,
                                   const struct binadei_request *request,
                                   bool may_wait, binade_devptr *out)
{
    binade_scope number;
    binade_status status = binadei_scope_require(call, &number);
    if (status != BINADE_OK)
        return status;
    const struct binadei_private_ref ref =
        binadei_private_of_scope(call, number);
    if (ref.arena)
        return binadei_private_take(call, &ref, number, request, may_wait, out);
    binade_devptr address = scope_blocks_reuse(call, number, request);
    if (!address)
        return scope_blocks_take(call, number, request, may_wait, out);
    *out = address;
    return BINADE_OK;
}

bool binadei_scopes_keep_any(const struct binadei_scopes *scopes)
{
    /* relaxed: who has a block's address knows that it was counted. */
    return atomic_load_explicit(&scopes->block_count, memory_order_relaxed) !=
           0;
}

bool binadei_scopes_has(struct binadei_scopes *scopes, binade_devptr address)
{
    if (!binadei_scopes_keep_any(scopes))
        return false;
    pthread_mutex_lock(&scopes->lock);
    bool is_kept = *binadei_scope_block_at(scopes, address) != NULL;
    pthread_mutex_unlock(&scopes->lock);
    return is_kept;
}

binade_status binadei_scopes_check_after(struct binadei_scopes *scopes,
                                         binade_devptr address)
{
    return binadei_scopes_has(scopes, address)
               ? binadei_fail(BINADE_E_BUSY,
                              "the block at 0x%llx is kept by a capture "
                              "scope: free it on a stream, or release the "
                              "scope first",
                              address)
               : BINADE_OK;
}

/* Whether others than the stream that frees it may use the block. */
static bool is_shared(const struct binadei_call *call, binade_devptr address)
{
    struct binadei_exports *exports = call->pool->body->exports;
    return binadei_is_used(call->engine, address) ||
           (exports && binadei_exports_has(exports, address));
}

/* Lock held. */
static void note_free(struct binadei_scope_block *note,
                      const struct binadei_call *call, binade_scope number,
                      bool is_shared)
{
    bool is_here = note->scope->number == number;
    binadei_scope_block_set_freed(note, true);
    note->is_reusable =
        is_here && !is_shared && call->capture.kind == BINADEI_CAPTURE_ACTIVE;
    note->freed_on = binadei_scope_stream_of(call);
    note->also = is_here ? 0 : number;
}

/* A block that a scope has. False: none has it. */
static bool free_kept(struct binadei_call *call, binade_scope number,
                      binade_devptr address, binade_status *out_status)
{
    struct binadei_scopes *scopes = call->pool->body->scopes;
    bool is_used_by_others = is_shared(call, address);
    *out_status = BINADE_OK;
    pthread_mutex_lock(&scopes->lock);
    struct binadei_scope_block *note =
        scopes->bucket_count ? *binadei_scope_block_at(scopes, address) : NULL;
    if (note && note->is_freed)
        *out_status = binadei_fail(
            BINADE_E_INVALID, "the block at 0x%llx was freed before", address);
    else if (note)
        note_free(note, call, number, is_used_by_others);
    pthread_mutex_unlock(&scopes->lock);
    return note != NULL;
}

/* An ordinary block that a capture frees: its graph may use it, and it may have
 * work pending that the graph does not come after. */
static binade_status scope_blocks_adopt(struct binadei_call *call,
                                        binade_scope number,
                                        const struct binadei_block *block,
                                        binade_devptr address,
                                        bool *out_is_kept)
{
    struct binadei_scopes *scopes = call->pool->body->scopes;
    struct binadei_scope_block *note = calloc(1, sizeof(*note));
    if (!note)
        return binadei_scope_no_memory();
    note->address = address;
    note->bytes = block ? block->grains * BINADEI_GRAIN_BYTES : 0;
    pthread_mutex_lock(&scopes->lock);
    struct binadei_scope *scope = binadei_scope_find(scopes, number);
    if (scope) {
        if (block)
            scope_blocks_mark(call, block);
        binadei_scope_block_add(scopes, scope, note);
        note_free(note, call, number, true);
    }
    pthread_mutex_unlock(&scopes->lock);
    *out_is_kept = scope != NULL;
    if (!scope)
        free(note);
    return BINADE_OK;
}

binade_status binadei_scopes_free(struct binadei_call *call,
                                  const struct binadei_block *block,
                                  binade_devptr address, bool *out_is_kept)
{
    const struct binadei_scopes *scopes = call->pool->body->scopes;
    binade_scope number = 0;
    binade_status status = BINADE_OK;
    bool is_captured = call->capture.kind >= BINADEI_CAPTURE_BROKEN;
    bool may_be_kept = !block || block->byte & BINADEI_BYTE_SPECIAL;
    *out_is_kept = false;
    if (is_captured)
        status = binadei_scope_of(call, &number);
    if (status != BINADE_OK)
        return status;
    if (may_be_kept && binadei_scopes_keep_any(scopes) &&
        free_kept(call, number, address, &status)) {
        *out_is_kept = true;
        return status;
    }
    return number
               ? scope_blocks_adopt(call, number, block, address, out_is_kept)
               : status;
}
