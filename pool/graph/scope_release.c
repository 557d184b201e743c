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

/* Lock held. What may be of another scope's graph is that one's: first what the
 * two share, then what was freed in the other's capture. `partner` is NULL where
 * there is none. */
static bool hand_on(struct moietyi_scopes *scopes,
                    struct moietyi_scope *partner,
                    struct moietyi_scope_block *block)
{
    struct moietyi_scope *other = partner;
    if (!other && block->also)
        other = moietyi_scope_find(scopes, block->also);
    if (!partner)
        block->also = 0;
    if (!other)
        return false;
    block->is_reusable = false;
    moietyi_scope_block_add(scopes, other, block);
    return true;
}

/* Lock held. Takes a freed block out, or returns NULL. */
static struct moietyi_scope_block *
scope_release_take_freed(struct moietyi_scopes *scopes,
                         struct moietyi_scope *scope)
{
    struct moietyi_scope *partner = moietyi_scope_partner(scopes, scope);
    struct moietyi_scope_block *block;
    while ((block = scope->freed)) {
        moietyi_scope_block_remove(scopes, scope, block);
        if (!hand_on(scopes, partner, block))
            break;
    }
    return block;
}

/* Lock held. Its blocks are ordinary ones from now on: they keep the SPECIAL
 * bit, which their owners' frees find nothing behind. Those that may be of a graph
 * of another scope are that one's. */
static void scope_release_end(struct moietyi_scopes *scopes,
                              struct moietyi_scope *scope)
{
    struct moietyi_scope **at = &scopes->first;
    struct moietyi_scope *partner = moietyi_scope_partner(scopes, scope);
    if (partner)
        moietyi_scope_hand_all(scopes, scope, partner);
    while (scope->live) {
        struct moietyi_scope_block *block = scope->live;
        moietyi_scope_block_remove(scopes, scope, block);
        free(block);
    }
    while (*at != scope)
        at = &(*at)->next;
    *at = scope->next;
    free(scope);
}

/* Blocks that could not be freed are the scope's again. */
static void put_back(struct moietyi_scopes *scopes, struct moietyi_scope *scope,
                     struct moietyi_scope_block *block)
{
    pthread_mutex_lock(&scopes->lock);
    moietyi_scope_block_add(scopes, scope, block);
    scope->is_releasing = false;
    pthread_mutex_unlock(&scopes->lock);
}

/* `scope` is marked, so that it stays. */
static moiety_status graph_release(struct moietyi_call *call,
                                   struct moietyi_scope *scope)
{
    struct moietyi_scopes *scopes = call->pool->body->scopes;
    moiety_scope number = scope->number;
    struct moietyi_private *arena = scope->arena;
    for (;;) {
        pthread_mutex_lock(&scopes->lock);
        struct moietyi_scope_block *block =
            scope_release_take_freed(scopes, scope);
        if (!block)
            scope_release_end(scopes, scope);
        pthread_mutex_unlock(&scopes->lock);
        if (!block)
            break;
        moiety_status status =
            call->pool->body->ops->release(call, block->address);
        if (status != MOIETY_OK) {
            put_back(scopes, scope, block);
            return status;
        }
        free(block);
    }
    moietyi_scope_unname(moietyi_number_of_scope(number));
    if (arena)
        moietyi_private_drop_scope(call, arena);
    return MOIETY_OK;
}

/* Lock held. */
static moiety_status scope_release_check(const struct moietyi_scope *scope)
{
    if (!scope)
        return moietyi_fail(MOIETY_E_DESTROYED,
                            "the capture scope was released before");
    if (scope->is_open)
        return moietyi_fail(MOIETY_E_IN_USE,
                            "the capture scope is open: it is ended first");
    if (scope->is_releasing)
        return moietyi_fail(MOIETY_E_IN_USE,
                            "another thread releases the capture scope");
    return MOIETY_OK;
}

moiety_status moietyi_scope_release(struct moietyi_call *call,
                                    moiety_scope number)
{
    struct moietyi_scopes *scopes = call->pool->body->scopes;
    pthread_mutex_lock(&scopes->lock);
    struct moietyi_scope *scope = moietyi_scope_find(scopes, number);
    moiety_status status = scope_release_check(scope);
    if (status == MOIETY_OK)
        scope->is_releasing = true;
    pthread_mutex_unlock(&scopes->lock);
    return status == MOIETY_OK ? graph_release(call, scope) : status;
}

/* The next one, by number, that is not open; NULL: there is none. */
static moiety_scope next_closed(struct moietyi_scopes *scopes,
                                moiety_scope after)
{
    moiety_scope best = NULL;
    pthread_mutex_lock(&scopes->lock);
    for (const struct moietyi_scope *scope = scopes->first; scope;
         scope = scope->next)
        if (!scope->is_open && moietyi_scope_is_newer(scope->number, after) &&
            (!best || moietyi_scope_is_newer(best, scope->number)))
            best = scope->number;
    pthread_mutex_unlock(&scopes->lock);
    return best;
}

moiety_status moietyi_scopes_release(struct moietyi_call *call)
{
    struct moietyi_scopes *scopes = call->pool->body->scopes;
    moiety_scope number = NULL;
    moiety_status status = MOIETY_OK;
    while (status == MOIETY_OK && (number = next_closed(scopes, number)))
        status = moietyi_scope_release(call, number);
    return status;
}

void moietyi_scopes_drain(struct moietyi_scopes *scopes,
                          struct moietyi_engine *engine)
{
    /* Nobody's, so that it needs no memory. */
    struct moietyi_thread_state by = {.engine = engine};
    for (const struct moietyi_scope *scope = scopes->first; scope;
         scope = scope->next)
        for (const struct moietyi_scope_block *block = scope->freed; block;
             block = block->next_listed)
            moietyi_give_block(&by, block->address);
}
