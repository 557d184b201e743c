/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which scope a capture belongs to. A scope is opened for a stream before the
 * driver has a number for the capture; it gets that when somebody allocates or
 * frees on a capturing stream whose capture has no scope yet. No lock is held
 * while the driver is asked.
 */
#include "pool/graph/scopes.h"

#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/core/body.h"

static binade_status scopes_no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory for a capture scope");
}

void binadei_scopes_init(struct binadei_scopes *scopes)
{
    pthread_mutex_init(&scopes->lock, NULL);
}

static void free_blocks(struct binadei_scope_block *block)
{
    while (block) {
        struct binadei_scope_block *next = block->next_listed;
        free(block);
        block = next;
    }
}

void binadei_scopes_fini(struct binadei_scopes *scopes)
{
    while (scopes->first) {
        struct binadei_scope *scope = scopes->first;
        scopes->first = scope->next;
        binadei_scope_unname(scope->number);
        free_blocks(scope->live);
        free_blocks(scope->freed);
        free(scope);
    }
    free(scopes->buckets);
    pthread_mutex_destroy(&scopes->lock);
}

struct binadei_scope_stream
binadei_scope_stream_of(const struct binadei_call *call)
{
    bool is_per_thread = call->stream == BINADE_STREAM_PER_THREAD;
    return (struct binadei_scope_stream){call->stream ? call->stream
                                                      : BINADE_STREAM_LEGACY,
                                         is_per_thread ? call->thread : NULL};
}

bool binadei_scope_stream_is(const struct binadei_scope_stream *one,
                             const struct binadei_scope_stream *other)
{
    return one->handle == other->handle && one->thread == other->thread;
}

struct binadei_scope *binadei_scope_find(const struct binadei_scopes *scopes,
                                         binade_scope number)
{
    struct binadei_scope *scope = scopes->first;
    while (scope && scope->number != number)
        scope = scope->next;
    return scope;
}

/* Lock held. */
static struct binadei_scope *
scopes_find_open(const struct binadei_scopes *scopes,
                 const struct binadei_scope_stream *stream)
{
    struct binadei_scope *scope = scopes->first;
    while (scope &&
           !(scope->is_open && binadei_scope_stream_is(&scope->stream, stream)))
        scope = scope->next;
    return scope;
}

/* Links it, unless its stream has an open one. */
static bool scopes_insert(struct binadei_scopes *scopes,
                          struct binadei_scope *scope, bool *out_is_taken)
{
    pthread_mutex_lock(&scopes->lock);
    *out_is_taken = scope->is_open && scopes_find_open(scopes, &scope->stream);
    bool is_linked = !*out_is_taken && binadei_scopes_reserve(scopes);
    if (is_linked) {
        scope->next = scopes->first;
        scopes->first = scope;
    }
    pthread_mutex_unlock(&scopes->lock);
    return is_linked;
}

/* A new one, as `like` says but for its number. */
static binade_status scopes_add(struct binadei_call *call,
                                const struct binadei_scope *like,
                                binade_scope *out)
{
    struct binadei_scopes *scopes = call->pool->body->scopes;
    bool is_taken = false;
    struct binadei_scope *scope = malloc(sizeof(*scope));
    if (!scope)
        return scopes_no_memory();
    *scope = *like;
    const binade_scope number = binadei_scope_next_number();
    scope->number = number;
    bool is_named = binadei_scope_name(number, call->pool);
    if (is_named && scopes_insert(scopes, scope, &is_taken)) {
        *out = number;
        return BINADE_OK;
    }
    if (is_named)
        binadei_scope_unname(number);
    free(scope);
    return is_taken ? binadei_fail(BINADE_E_INVALID,
                                   "the stream has an open scope in this pool")
                    : scopes_no_memory();
}

binade_status binadei_scope_open(struct binadei_call *call,
                                 struct binadei_private *arena,
                                 binade_scope *out)
{
    const struct binadei_scope like = {.stream = binadei_scope_stream_of(call),
                                       .arena = arena,
                                       .is_open = true};
    return scopes_add(call, &like, out);
}

struct binadei_private *binadei_scope_arena(struct binadei_scopes *scopes,
                                            binade_scope number)
{
    pthread_mutex_lock(&scopes->lock);
    const struct binadei_scope *scope = binadei_scope_find(scopes, number);
    struct binadei_private *arena = scope ? scope->arena : NULL;
    pthread_mutex_unlock(&scopes->lock);
    return arena;
}

binade_scope binadei_scope_of_arena(struct binadei_scopes *scopes,
                                    const struct binadei_private *arena)
{
    pthread_mutex_lock(&scopes->lock);
    const struct binadei_scope *scope = scopes->first;
    while (scope && scope->arena != arena)
        scope = scope->next;
    binade_scope number = scope ? scope->number : 0;
    pthread_mutex_unlock(&scopes->lock);
    return number;
}

binade_status binadei_scope_close(struct binadei_scopes *scopes,
                                  binade_scope number)
{
    pthread_mutex_lock(&scopes->lock);
    struct binadei_scope *scope = binadei_scope_find(scopes, number);
    bool is_open = scope && scope->is_open;
    if (is_open)
        scope->is_open = false;
    pthread_mutex_unlock(&scopes->lock);
    return is_open ? BINADE_OK
                   : binadei_fail(BINADE_E_INVALID,
                                  "the capture scope was ended before");
}

/* Lock held. The one that has the call's capture; where that is broken it has
 * no number any more, but its stream may have a scope. */
static struct binadei_scope *find_bound(const struct binadei_scopes *scopes,
                                        const struct binadei_call *call)
{
    const struct binadei_scope_stream stream = binadei_scope_stream_of(call);
    if (call->capture.kind == BINADEI_CAPTURE_BROKEN)
        return scopes_find_open(scopes, &stream);
    struct binadei_scope *scope = scopes->first;
    while (scope &&
           !((scope->is_open || scope->is_automatic) && !scope->is_releasing &&
             scope->has_capture && scope->capture_id == call->capture.id))
        scope = scope->next;
    return scope;
}

static void scopes_bind(struct binadei_scope *scope, uint64_t capture_id)
{
    scope->has_capture = true;
    scope->capture_id = capture_id;
}

/* Lock held. */
static struct binadei_scope *find_or_bind(struct binadei_scopes *scopes,
                                          const struct binadei_call *call)
{
    const struct binadei_scope_stream stream = binadei_scope_stream_of(call);
    struct binadei_scope *scope = find_bound(scopes, call);
    if (scope)
        return scope;
    scope = scopes_find_open(scopes, &stream);
    if (!scope || scope->has_capture)
        return NULL;
    scopes_bind(scope, call->capture.id);
    return scope;
}

/* Lock held, as for the next. Whether this thread can ask for its capture. */
static bool may_be_asked(const struct binadei_scope *scope,
                         const struct binadei_call *call)
{
    return scope->is_open && !scope->has_capture &&
           (!scope->stream.thread || scope->stream.thread == call->thread);
}

/* The next open scope, by number, that has no capture yet. */
static const struct binadei_scope *
next_unbound(const struct binadei_scopes *scopes,
             const struct binadei_call *call, binade_scope after)
{
    const struct binadei_scope *best = NULL;
    const struct binadei_scope *scope;
    for (scope = scopes->first; scope; scope = scope->next)
        if (may_be_asked(scope, call) && scope->number > after &&
            (!best || scope->number < best->number))
            best = scope;
    return best;
}

/* Moves on to the next scope without a capture and asks whether its stream has
 * begun the call's. False: there is no further one. */
static bool ask_next(struct binadei_scopes *scopes,
                     const struct binadei_call *call, binade_scope *at)
{
    struct binadei_capture capture = {BINADEI_CAPTURE_NONE, 0};
    pthread_mutex_lock(&scopes->lock);
    const struct binadei_scope *next = next_unbound(scopes, call, *at);
    binade_stream stream = next ? next->stream.handle : NULL;
    *at = next ? next->number : 0;
    pthread_mutex_unlock(&scopes->lock);
    if (!*at)
        return false;
    if (binadei_look_for_capture(call, stream, &capture) != BINADE_OK ||
        capture.kind != BINADEI_CAPTURE_ACTIVE)
        return true;
    pthread_mutex_lock(&scopes->lock);
    struct binadei_scope *scope = binadei_scope_find(scopes, *at);
    if (scope && scope->is_open && !scope->has_capture)
        scopes_bind(scope, capture.id);
    pthread_mutex_unlock(&scopes->lock);
    return true;
}

static binade_scope scopes_look(struct binadei_scopes *scopes,
                                const struct binadei_call *call)
{
    pthread_mutex_lock(&scopes->lock);
    const struct binadei_scope *scope = find_or_bind(scopes, call);
    binade_scope number = scope ? scope->number : 0;
    pthread_mutex_unlock(&scopes->lock);
    return number;
}

binade_status binadei_scope_of(struct binadei_call *call, binade_scope *out)
{
    const struct binadei_pool_body *body = call->pool->body;
    struct binadei_scopes *scopes = call->pool->body->scopes;
    binade_scope at = 0;
    *out = scopes_look(scopes, call);
    if (*out || call->capture.kind == BINADEI_CAPTURE_BROKEN)
        return BINADE_OK;
    /* The stream may have joined the capture of another. */
    while (ask_next(scopes, call, &at))
        continue;
    *out = scopes_look(scopes, call);
    if (*out || !(body->options.flags & BINADE_POOL_AUTO_SCOPE))
        return BINADE_OK;
    const struct binadei_scope like = {.stream = binadei_scope_stream_of(call),
                                       .is_automatic = true,
                                       .has_capture = true,
                                       .capture_id = call->capture.id};
    return scopes_add(call, &like, out);
}

bool binadei_scopes_are_open(struct binadei_scopes *scopes)
{
    bool is_open = false;
    pthread_mutex_lock(&scopes->lock);
    for (const struct binadei_scope *scope = scopes->first; scope;
         scope = scope->next)
        is_open |= scope->is_open;
    pthread_mutex_unlock(&scopes->lock);
    return is_open;
}

binade_status binadei_scopes_retire(const struct binadei_call *call,
                                    binade_stream stream)
{
    struct binadei_scopes *scopes = call->pool->body->scopes;
    const struct binadei_scope_stream named = {stream, NULL};
    pthread_mutex_lock(&scopes->lock);
    bool is_open = scopes_find_open(scopes, &named) != NULL;
    pthread_mutex_unlock(&scopes->lock);
    return is_open ? binadei_fail(BINADE_E_BUSY,
                                  "a capture scope is open for the stream")
                   : BINADE_OK;
}
