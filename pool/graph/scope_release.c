/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What scopes kept comes back: what was freed as by a free with ANY, since the
 * graph may still be running on any stream. One block at a time, so that a
 * refusal leaves the others where they are.
 */
#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/core/body.h"
#include "pool/core/ops.h"
#include "pool/graph/privates.h"
#include "pool/graph/scopes.h"

/* Lock held. What was freed in the capture of another scope is that one's. */
static bool hand_on(struct binadei_scopes *scopes,
                    struct binadei_scope_block *block)
{
    struct binadei_scope *other =
        block->also ? binadei_scope_find(scopes, block->also) : NULL;
    block->also = 0;
    if (!other)
        return false;
    block->is_reusable = false;
    binadei_scope_block_add(scopes, other, block);
    return true;
}

/* Lock held. Takes a freed block out, or returns NULL. */
static struct binadei_scope_block *
scope_release_take_freed(struct binadei_scopes *scopes,
                         struct binadei_scope *scope)
{
    struct binadei_scope_block *block;
    while ((block = scope->freed)) {
        binadei_scope_block_remove(scopes, scope, block);
        if (!hand_on(scopes, block))
            break;
    }
    return block;
}

/* Lock held. Its blocks are ordinary ones from now on: they keep the SPECIAL
 * bit, which their owners' frees find nothing behind. */
static void scope_release_end(struct binadei_scopes *scopes,
                              struct binadei_scope *scope)
{
    struct binadei_scope **at = &scopes->first;
    while (scope->live) {
        struct binadei_scope_block *block = scope->live;
        binadei_scope_block_remove(scopes, scope, block);
        free(block);
    }
    while (*at != scope)
        at = &(*at)->next;
    *at = scope->next;
    free(scope);
}

/* What could not be freed is the scope's again. */
static void put_back(struct binadei_scopes *scopes, struct binadei_scope *scope,
                     struct binadei_scope_block *block)
{
    pthread_mutex_lock(&scopes->lock);
    binadei_scope_block_add(scopes, scope, block);
    scope->is_releasing = false;
    pthread_mutex_unlock(&scopes->lock);
}

/* `scope` is marked, so that it stays. */
static binade_status graph_release(struct binadei_call *call,
                                   struct binadei_scope *scope)
{
    struct binadei_scopes *scopes = call->pool->body->scopes;
    const binade_scope number = scope->number;
    struct binadei_private *arena = scope->arena;
    for (;;) {
        pthread_mutex_lock(&scopes->lock);
        struct binadei_scope_block *block =
            scope_release_take_freed(scopes, scope);
        if (!block)
            scope_release_end(scopes, scope);
        pthread_mutex_unlock(&scopes->lock);
        if (!block)
            break;
        binade_status status =
            call->pool->body->ops->release(call, block->address);
        if (status != BINADE_OK) {
            put_back(scopes, scope, block);
            return status;
        }
        free(block);
    }
    binadei_scope_unname(number);
    if (arena)
        binadei_private_drop_scope(call, arena);
    return BINADE_OK;
}

/* Lock held. */
static binade_status scope_release_check(const struct binadei_scope *scope)
{
    if (!scope)
        return binadei_fail(BINADE_E_INVALID,
                            "the capture scope was released before");
    if (scope->is_open)
        return binadei_fail(BINADE_E_BUSY,
                            "the capture scope is open: it is ended first");
    if (scope->is_releasing)
        return binadei_fail(BINADE_E_BUSY,
                            "another thread releases the capture scope");
    return BINADE_OK;
}

binade_status binadei_scope_release(struct binadei_call *call,
                                    binade_scope number)
{
    struct binadei_scopes *scopes = call->pool->body->scopes;
    pthread_mutex_lock(&scopes->lock);
    struct binadei_scope *scope = binadei_scope_find(scopes, number);
    binade_status status = scope_release_check(scope);
    if (status == BINADE_OK)
        scope->is_releasing = true;
    pthread_mutex_unlock(&scopes->lock);
    return status == BINADE_OK ? graph_release(call, scope) : status;
}

/* The next one, by number, that is not open; 0: there is none. */
static binade_scope next_closed(struct binadei_scopes *scopes,
                                binade_scope after)
{
    binade_scope best = 0;
    pthread_mutex_lock(&scopes->lock);
    for (const struct binadei_scope *scope = scopes->first; scope;
         scope = scope->next)
        if (!scope->is_open && scope->number > after &&
            (!best || scope->number < best))
            best = scope->number;
    pthread_mutex_unlock(&scopes->lock);
    return best;
}

binade_status binadei_scopes_release(struct binadei_call *call)
{
    struct binadei_scopes *scopes = call->pool->body->scopes;
    binade_scope number = 0;
    binade_status status = BINADE_OK;
    while (status == BINADE_OK && (number = next_closed(scopes, number)))
        status = binadei_scope_release(call, number);
    return status;
}

void binadei_scopes_drain(struct binadei_scopes *scopes,
                          struct binadei_engine *engine)
{
    /* Nobody's, so that it needs no memory. */
    struct binadei_thread_state by = {.engine = engine};
    for (const struct binadei_scope *scope = scopes->first; scope;
         scope = scope->next)
        for (const struct binadei_scope_block *block = scope->freed; block;
             block = block->next_listed)
            binadei_give_block(&by, block->address);
}
