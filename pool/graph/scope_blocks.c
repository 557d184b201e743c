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

moiety_status moietyi_scope_no_memory(void)
{
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "no memory to note a block of a capture scope");
}

/* From now on a free of it is no hit. */
static void scope_blocks_mark(const struct moietyi_call *call,
                              const struct moietyi_block *block)
{
    moietyi_tag_note_further(moietyi_tags(call->engine), block->start);
    moietyi_space_set_class(call->engine->streams.space, block->start,
                            block->byte | MOIETYI_BYTE_SPECIAL);
}

static bool scope_blocks_fits(const struct moietyi_scope_block *block,
                              const struct moietyi_scope_want *want)
{
    return block->bytes >= want->bytes && block->bytes <= want->most_bytes &&
           !(block->address & (want->alignment_bytes - 1));
}

/* Lock held. Memory that the same stream freed in this scope; 0: none. */
static moiety_devptr
scope_blocks_take_freed(struct moietyi_scope *scope,
                        const struct moietyi_scope_want *want,
                        const struct moietyi_scope_stream *stream)
{
    struct moietyi_scope_block *block = scope->freed;
    while (block && !(block->is_reusable && scope_blocks_fits(block, want) &&
                      moietyi_scope_stream_is(&block->freed_on, stream)))
        block = block->next_listed;
    if (!block)
        return 0;
    moietyi_scope_block_set_freed(block, false);
    return block->address;
}

moiety_devptr moietyi_scope_reuse(struct moietyi_call *call,
                                  moiety_scope number,
                                  const struct moietyi_scope_want *want)
{
    struct moietyi_scopes *scopes = call->pool->body->scopes;
    const struct moietyi_scope_stream stream = moietyi_scope_stream_of(call);
    pthread_mutex_lock(&scopes->lock);
    struct moietyi_scope *scope = moietyi_scope_find(scopes, number);
    moiety_devptr address =
        scope ? scope_blocks_take_freed(scope, want, &stream) : 0;
    pthread_mutex_unlock(&scopes->lock);
    return address;
}

/* Lock held. */
static void note_free(struct moietyi_scope_block *note,
                      const struct moietyi_call *call, moiety_scope number,
                      bool is_shared)
{
    bool is_here = note->scope->number == number;
    moietyi_scope_block_set_freed(note, true);
    note->is_reusable =
        is_here && !is_shared && call->capture.kind == MOIETYI_CAPTURE_ACTIVE;
    note->freed_on = moietyi_scope_stream_of(call);
    note->also = is_here ? 0 : number;
}

static bool scope_blocks_enter(struct moietyi_call *call, moiety_scope number,
                               struct moietyi_scope_block *note,
                               const struct moietyi_block *block, bool is_freed)
{
    struct moietyi_scopes *scopes = call->pool->body->scopes;
    pthread_mutex_lock(&scopes->lock);
    struct moietyi_scope *scope = moietyi_scope_find(scopes, number);
    if (scope) {
        if (block)
            scope_blocks_mark(call, block);
        moietyi_scope_block_add(scopes, scope, note);
        if (is_freed)
            note_free(note, call, number, true);
    }
    pthread_mutex_unlock(&scopes->lock);
    return scope != NULL;
}

bool moietyi_scope_keep(struct moietyi_call *call, moiety_scope number,
                        struct moietyi_scope_block *note,
                        const struct moietyi_block *block)
{
    return scope_blocks_enter(call, number, note, block, false);
}

moiety_status moietyi_scope_refuse(void)
{
    return moietyi_fail(MOIETY_E_CAPTURING,
                        "the stream captures a graph, outside any scope: call "
                        "moiety_scope_begin() before the capture, or make the "
                        "pool with MOIETY_POOL_AUTO_SCOPE");
}

moiety_status moietyi_scope_require(struct moietyi_call *call,
                                    moiety_scope *out)
{
    moiety_status status = moietyi_scope_of(call, out);
    return status != MOIETY_OK || *out ? status : moietyi_scope_refuse();
}

static moiety_devptr scope_blocks_reuse(struct moietyi_call *call,
                                        moiety_scope number,
                                        const struct moietyi_request *request)
{
    uint64_t bytes = request->size.grains * MOIETYI_GRAIN_BYTES;
    const struct moietyi_scope_want want = {
        .bytes = bytes,
        .most_bytes = request->is_exact ? bytes : bytes + bytes / 8,
        .alignment_bytes = request->alignment_grains * MOIETYI_GRAIN_BYTES,
    };
    struct moietyi_block block;
    moiety_devptr address = moietyi_scope_reuse(call, number, &want);
    /* Its last life may have been a tenant's. */
    if (address && moietyi_block_at(call->engine, address, &block) == MOIETY_OK)
        moietyi_discharge(call, &block);
    return address;
}

/* A block that is done becomes the scope's, unless that is gone. */
static bool scope_blocks_keep(struct moietyi_call *call, moiety_scope number,
                              struct moietyi_scope_block *note)
{
    struct moietyi_block block;
    if (moietyi_block_at(call->engine, note->address, &block) != MOIETY_OK)
        return false;
    note->bytes = block.grains * MOIETYI_GRAIN_BYTES;
    return moietyi_scope_keep(call, number, note, &block);
}

/* A block that is done, from the pool. */
static moiety_status scope_blocks_take(struct moietyi_call *call,
                                       moiety_scope number,
                                       const struct moietyi_request *request,
                                       bool may_wait, moiety_devptr *out)
{
    struct moietyi_scope_block *note = calloc(1, sizeof(*note));
    if (!note)
        return moietyi_scope_no_memory();
    moiety_status status =
        moietyi_alloc_escalating(call, request, may_wait, &note->address);
    if (status != MOIETY_OK) {
        free(note);
        return status;
    }
    moiety_devptr address = note->address;
    if (scope_blocks_keep(call, number, note)) {
        *out = address;
        return MOIETY_OK;
    }
    moietyi_give_block(call->thread_state, address);
    free(note);
    return moietyi_scope_refuse();
}

moiety_status moietyi_scopes_alloc(struct moietyi_call *call,
                                   const struct moietyi_request *request,
                                   bool may_wait, moiety_devptr *out)
{
    moiety_scope number;
    moiety_status status = moietyi_scope_require(call, &number);
    if (status != MOIETY_OK)
        return status;
    const struct moietyi_private_ref ref =
        moietyi_private_of_scope(call, number);
    if (ref.arena)
        return moietyi_private_take(call, &ref, number, request, may_wait, out);
    moiety_devptr address = scope_blocks_reuse(call, number, request);
    if (!address)
        return scope_blocks_take(call, number, request, may_wait, out);
    *out = address;
    return MOIETY_OK;
}

bool moietyi_scopes_keep_any(const struct moietyi_scopes *scopes)
{
    /* relaxed: a thread with a block's address knows that it was counted. */
    return atomic_load_explicit(&scopes->block_count, memory_order_relaxed) !=
           0;
}

bool moietyi_scopes_has(struct moietyi_scopes *scopes, moiety_devptr address)
{
    if (!moietyi_scopes_keep_any(scopes))
        return false;
    pthread_mutex_lock(&scopes->lock);
    bool is_kept = *moietyi_scope_block_at(scopes, address) != NULL;
    pthread_mutex_unlock(&scopes->lock);
    return is_kept;
}

moiety_status moietyi_scopes_check_after(struct moietyi_scopes *scopes,
                                         moiety_devptr address)
{
    return moietyi_scopes_has(scopes, address)
               ? moietyi_fail(MOIETY_E_IN_USE,
                              "the block at 0x%llx is kept by a capture "
                              "scope: free it on a stream, or release the "
                              "scope first",
                              address)
               : MOIETY_OK;
}

/* Whether others than the stream that frees it may use the block. */
static bool is_shared(const struct moietyi_call *call, moiety_devptr address)
{
    struct moietyi_exports *exports = call->pool->body->exports;
    return moietyi_is_used(call->engine, address) ||
           (exports && moietyi_exports_has(exports, address));
}

/* A block that a scope has. False: none has it. */
static bool free_kept(struct moietyi_call *call, moiety_scope number,
                      moiety_devptr address, moiety_status *out_status)
{
    struct moietyi_scopes *scopes = call->pool->body->scopes;
    bool is_used_by_others = is_shared(call, address);
    *out_status = MOIETY_OK;
    pthread_mutex_lock(&scopes->lock);
    struct moietyi_scope_block *note =
        scopes->bucket_count ? *moietyi_scope_block_at(scopes, address) : NULL;
    if (note && note->is_freed) {
        *out_status =
            moietyi_fail(MOIETY_E_DOUBLE_FREE,
                         "the block at 0x%llx was freed before", address);
    } else if (note) {
        note_free(note, call, number, is_used_by_others);
    }
    pthread_mutex_unlock(&scopes->lock);
    return note != NULL;
}

/* An ordinary block that a capture frees: its graph may use it, and it may have
 * work pending that the graph does not come after. */
static moiety_status scope_blocks_adopt(struct moietyi_call *call,
                                        moiety_scope number,
                                        const struct moietyi_block *block,
                                        moiety_devptr address,
                                        bool *out_is_kept)
{
    struct moietyi_scope_block *note = calloc(1, sizeof(*note));
    if (!note)
        return moietyi_scope_no_memory();
    note->address = address;
    note->bytes = block ? block->grains * MOIETYI_GRAIN_BYTES : 0;
    *out_is_kept = scope_blocks_enter(call, number, note, block, true);
    if (!*out_is_kept)
        free(note);
    return MOIETY_OK;
}

moiety_status moietyi_scopes_free(struct moietyi_call *call,
                                  const struct moietyi_block *block,
                                  moiety_devptr address, bool *out_is_kept)
{
    const struct moietyi_scopes *scopes = call->pool->body->scopes;
    moiety_scope number = 0;
    moiety_status status = MOIETY_OK;
    bool is_captured = call->capture.kind >= MOIETYI_CAPTURE_BROKEN;
    bool may_be_kept = !block || block->byte & MOIETYI_BYTE_SPECIAL;
    *out_is_kept = false;
    if (is_captured)
        status = moietyi_scope_of(call, &number);
    if (status != MOIETY_OK)
        return status;
    if (may_be_kept && moietyi_scopes_keep_any(scopes) &&
        free_kept(call, number, address, &status)) {
        *out_is_kept = true;
        return status;
    }
    return number
               ? scope_blocks_adopt(call, number, block, address, out_is_kept)
               : status;
}
