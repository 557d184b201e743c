/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The blocks that scopes keep. What is handed out in a scope has nothing
 * pending: either it was done, or the same capture freed it on the same stream,
 * whose nodes come one after the other. Whatever is freed meanwhile stays here.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/body.h"
#include "pool/ladder.h"
#include "pool/scopes.h"

#define FIRST_BUCKETS 64U

static binade_status no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory to note a block of a capture scope");
}

static size_t bucket_of(binade_devptr address, size_t bucket_count)
{
    uint64_t mixed =
        address / BINADEI_GRAIN_BYTES * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(mixed >> 32) & (bucket_count - 1);
}

struct binadei_scope_block **
binadei_scope_block_at(const struct binadei_scopes *scopes,
                       binade_devptr address)
{
    struct binadei_scope_block **at =
        &scopes->buckets[bucket_of(address, scopes->bucket_count)];
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    return at;
}

static void rehash(struct binadei_scopes *scopes,
                   struct binadei_scope_block **buckets, size_t bucket_count)
{
    for (size_t i = 0; i < scopes->bucket_count; i++) {
        while (scopes->buckets[i]) {
            struct binadei_scope_block *block = scopes->buckets[i];
            size_t to = bucket_of(block->address, bucket_count);
            scopes->buckets[i] = block->next;
            block->next = buckets[to];
            buckets[to] = block;
        }
    }
}

bool binadei_scopes_reserve(struct binadei_scopes *scopes)
{
    /* relaxed: the lock is held. */
    size_t count =
        atomic_load_explicit(&scopes->block_count, memory_order_relaxed);
    if (scopes->bucket_count && count < scopes->bucket_count)
        return true;
    size_t bucket_count =
        scopes->bucket_count ? 2 * scopes->bucket_count : FIRST_BUCKETS;
    struct binadei_scope_block **buckets =
        calloc(bucket_count, sizeof(struct binadei_scope_block *));
    /* Longer chains will do. */
    if (!buckets)
        return scopes->bucket_count != 0;
    rehash(scopes, buckets, bucket_count);
    free(scopes->buckets);
    scopes->buckets = buckets;
    scopes->bucket_count = bucket_count;
    return true;
}

/* Lock held, as for the next three. */
static struct binadei_scope_block **
list_of(struct binadei_scope *scope, const struct binadei_scope_block *block)
{
    return block->is_freed ? &scope->freed : &scope->live;
}

static void list(struct binadei_scope *scope, struct binadei_scope_block *block)
{
    struct binadei_scope_block **first = list_of(scope, block);
    block->previous_listed = NULL;
    block->next_listed = *first;
    if (*first)
        (*first)->previous_listed = block;
    *first = block;
}

static void unlist(struct binadei_scope *scope,
                   const struct binadei_scope_block *block)
{
    if (block->previous_listed)
        block->previous_listed->next_listed = block->next_listed;
    else
        *list_of(scope, block) = block->next_listed;
    if (block->next_listed)
        block->next_listed->previous_listed = block->previous_listed;
}

static void set_freed(struct binadei_scope_block *block, bool is_freed)
{
    unlist(block->scope, block);
    block->is_freed = is_freed;
    list(block->scope, block);
}

void binadei_scope_block_add(struct binadei_scopes *scopes,
                             struct binadei_scope *scope,
                             struct binadei_scope_block *block)
{
    struct binadei_scope_block **at =
        binadei_scope_block_at(scopes, block->address);
    block->next = *at;
    *at = block;
    block->scope = scope;
    list(scope, block);
    /* relaxed: the lock is held. */
    atomic_fetch_add_explicit(&scopes->block_count, 1, memory_order_relaxed);
    (void)binadei_scopes_reserve(scopes);
}

void binadei_scope_block_remove(struct binadei_scopes *scopes,
                                struct binadei_scope *scope,
                                struct binadei_scope_block *block)
{
    *binadei_scope_block_at(scopes, block->address) = block->next;
    unlist(scope, block);
    /* relaxed: the lock is held. */
    atomic_fetch_sub_explicit(&scopes->block_count, 1, memory_order_relaxed);
}

/* From now on a free of it is no hit. */
static void mark(const struct binadei_call *call,
                 const struct binadei_block *block)
{
    binadei_tag_note_further(binadei_tags(call->engine), block->start);
    binadei_buddy_set_class(call->engine->buddy, block->start,
                            block->byte | BINADEI_BYTE_SPECIAL);
}

static bool fits(const struct binadei_scope_block *block,
                 const struct binadei_request *request)
{
    uint64_t bytes = request->size.grains * BINADEI_GRAIN_BYTES;
    uint64_t alignment = request->alignment_grains * BINADEI_GRAIN_BYTES;
    uint64_t most_bytes = request->is_exact ? bytes : bytes + bytes / 8;
    return block->bytes >= bytes && block->bytes <= most_bytes &&
           !(block->address & (alignment - 1));
}

/* Lock held. What the same stream freed in this scope; 0: nothing. */
static binade_devptr take_freed(struct binadei_scope *scope,
                                const struct binadei_request *request,
                                const struct binadei_scope_stream *stream)
{
    struct binadei_scope_block *block = scope->freed;
    while (block && !(block->is_reusable && fits(block, request) &&
                      binadei_scope_stream_is(&block->freed_on, stream)))
        block = block->next_listed;
    if (!block)
        return 0;
    set_freed(block, false);
    return block->address;
}

/* Its last life may have been a tenant's. */
static void discharge(const struct binadei_call *call, binade_devptr address)
{
    struct binadei_block block;
    if (binadei_block_at(call->engine, address, &block) == BINADE_OK)
        binadei_discharge(call, &block);
}

static binade_devptr reuse(struct binadei_call *call, binade_scope number,
                           const struct binadei_request *request)
{
    struct binadei_scopes *scopes = &call->pool->body->scopes;
    const struct binadei_scope_stream stream = binadei_scope_stream_of(call);
    pthread_mutex_lock(&scopes->lock);
    struct binadei_scope *scope = binadei_scope_find(scopes, number);
    binade_devptr address = scope ? take_freed(scope, request, &stream) : 0;
    pthread_mutex_unlock(&scopes->lock);
    if (address)
        discharge(call, address);
    return address;
}

/* A block that is done becomes the scope's, unless that is gone. */
static bool keep(struct binadei_call *call, binade_scope number,
                 struct binadei_scope_block *note)
{
    struct binadei_scopes *scopes = &call->pool->body->scopes;
    struct binadei_block block;
    if (binadei_block_at(call->engine, note->address, &block) != BINADE_OK)
        return false;
    note->bytes = block.grains * BINADEI_GRAIN_BYTES;
    pthread_mutex_lock(&scopes->lock);
    struct binadei_scope *scope = binadei_scope_find(scopes, number);
    if (scope) {
        mark(call, &block);
        binadei_scope_block_add(scopes, scope, note);
    }
    pthread_mutex_unlock(&scopes->lock);
    return scope != NULL;
}

static binade_status refuse(void)
{
    return binadei_fail(BINADE_E_CAPTURING,
                        "the stream captures a graph, outside any scope: call "
                        "binade_scope_begin() before the capture, or make the "
                        "pool with BINADE_POOL_AUTO_SCOPE");
}

/* A block that is done, from the pool. */
static binade_status take(struct binadei_call *call, binade_scope number,
                          const struct binadei_request *request, bool may_wait,
                          binade_devptr *out)
{
    struct binadei_scope_block *note = calloc(1, sizeof(*note));
    if (!note)
        return no_memory();
    binade_status status =
        binadei_climb(call, request, may_wait, &note->address);
    if (status != BINADE_OK) {
        free(note);
        return status;
    }
    binade_devptr address = note->address;
    if (keep(call, number, note)) {
        *out = address;
        return BINADE_OK;
    }
    binadei_give_block(call->member, address);
    free(note);
    return refuse();
}

binade_status binadei_scopes_alloc(struct binadei_call *call,
                                   const struct binadei_request *request,
                                   bool may_wait, binade_devptr *out)
{
    binade_scope number;
    binade_status status = binadei_scope_of(call, &number);
    if (status != BINADE_OK)
        return status;
    if (!number)
        return refuse();
    binade_devptr address = reuse(call, number, request);
    if (!address)
        return take(call, number, request, may_wait, out);
    *out = address;
    return BINADE_OK;
}

bool binadei_scopes_have(struct binadei_scopes *scopes, binade_devptr address)
{
    /* relaxed: who has a block's address knows that it was counted. */
    if (!atomic_load_explicit(&scopes->block_count, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&scopes->lock);
    bool is_there = *binadei_scope_block_at(scopes, address) != NULL;
    pthread_mutex_unlock(&scopes->lock);
    return is_there;
}

static void add_to(struct binadei_exported_list *list,
                   const struct binadei_scope_block *block)
{
    for (; block; block = block->next_listed) {
        if (list->count < list->capacity)
            list->blocks[list->count] =
                (struct binadei_exported){block->address, block->is_freed};
        list->count++;
    }
}

void binadei_scopes_list(struct binadei_scopes *scopes,
                         struct binadei_exported_list *out)
{
    pthread_mutex_lock(&scopes->lock);
    for (const struct binadei_scope *scope = scopes->first; scope;
         scope = scope->next) {
        add_to(out, scope->live);
        add_to(out, scope->freed);
    }
    pthread_mutex_unlock(&scopes->lock);
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
    set_freed(note, true);
    note->is_reusable =
        is_here && !is_shared && call->capture.kind == BINADEI_CAPTURE_ACTIVE;
    note->freed_on = binadei_scope_stream_of(call);
    note->also = is_here ? 0 : number;
}

/* A block that a scope has. False: none has it. */
static bool free_kept(struct binadei_call *call, binade_scope number,
                      binade_devptr address, binade_status *out_status)
{
    struct binadei_scopes *scopes = &call->pool->body->scopes;
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
static binade_status adopt(struct binadei_call *call, binade_scope number,
                           const struct binadei_block *block,
                           binade_devptr address, bool *out_is_kept)
{
    struct binadei_scopes *scopes = &call->pool->body->scopes;
    struct binadei_scope_block *note = calloc(1, sizeof(*note));
    if (!note)
        return no_memory();
    note->address = address;
    note->bytes = block->grains * BINADEI_GRAIN_BYTES;
    pthread_mutex_lock(&scopes->lock);
    struct binadei_scope *scope = binadei_scope_find(scopes, number);
    if (scope) {
        mark(call, block);
        binadei_scope_block_add(scopes, scope, note);
        note_free(note, call, number, true);
    }
    pthread_mutex_unlock(&scopes->lock);
    *out_is_kept = scope != NULL;
    if (!scope)
        free(note);
    return BINADE_OK;
}

static bool has_any(const struct binadei_scopes *scopes)
{
    /* relaxed: as above. */
    return atomic_load_explicit(&scopes->block_count, memory_order_relaxed) !=
           0;
}

binade_status binadei_scopes_free(struct binadei_call *call,
                                  const struct binadei_block *block,
                                  binade_devptr address, bool *out_is_kept)
{
    const struct binadei_scopes *scopes = &call->pool->body->scopes;
    binade_scope number = 0;
    binade_status status = BINADE_OK;
    bool is_captured = call->capture.kind >= BINADEI_CAPTURE_BROKEN;
    *out_is_kept = false;
    if (is_captured)
        status = binadei_scope_of(call, &number);
    if (status != BINADE_OK)
        return status;
    if (block->byte & BINADEI_BYTE_SPECIAL && has_any(scopes) &&
        free_kept(call, number, address, &status)) {
        *out_is_kept = true;
        return status;
    }
    return number ? adopt(call, number, block, address, out_is_kept) : status;
}
