/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which scope a capture belongs to. A scope is opened for a stream before the
 * driver has a number for the capture; it gets that when somebody allocates or
 * frees on a capturing stream whose capture has no scope yet. No lock is held
 * while the driver is asked.
 *
 * The driver does not say on which stream a capture began. If several open scopes
 * are of streams that are in it, any of them may be the graph's: they share it,
 * and what one keeps stays until the last is released.
 */
#include "pool/graph/scopes.h"

#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/core/body.h"

static moiety_status scopes_no_memory(void)
{
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "no memory for a capture scope");
}

void moietyi_scopes_init(struct moietyi_scopes *scopes)
{
    pthread_mutex_init(&scopes->lock, NULL);
}

static void free_blocks(struct moietyi_scope_block *block)
{
    while (block) {
        struct moietyi_scope_block *next = block->next_listed;
        free(block);
        block = next;
    }
}

void moietyi_scopes_fini(struct moietyi_scopes *scopes)
{
    while (scopes->first) {
        struct moietyi_scope *scope = scopes->first;
        scopes->first = scope->next;
        moietyi_scope_unname(moietyi_number_of_scope(scope->number));
        free_blocks(scope->live);
        free_blocks(scope->freed);
        free(scope);
    }
    free(scopes->buckets);
    pthread_mutex_destroy(&scopes->lock);
}

struct moietyi_scope_stream
moietyi_scope_stream_of(const struct moietyi_call *call)
{
    bool is_per_thread = call->stream == MOIETY_STREAM_PER_THREAD;
    return (struct moietyi_scope_stream){call->stream ? call->stream
                                                      : MOIETY_STREAM_LEGACY,
                                         is_per_thread ? call->thread : NULL};
}

bool moietyi_scope_stream_is(const struct moietyi_scope_stream *one,
                             const struct moietyi_scope_stream *other)
{
    return one->handle == other->handle && one->thread == other->thread;
}

struct moietyi_scope *moietyi_scope_find(const struct moietyi_scopes *scopes,
                                         moiety_scope number)
{
    struct moietyi_scope *scope = scopes->first;
    while (scope && scope->number != number)
        scope = scope->next;
    return scope;
}

/* Lock held. */
static struct moietyi_scope *
scopes_find_open(const struct moietyi_scopes *scopes,
                 const struct moietyi_scope_stream *stream)
{
    struct moietyi_scope *scope = scopes->first;
    while (scope &&
           !(scope->is_open && moietyi_scope_stream_is(&scope->stream, stream)))
        scope = scope->next;
    return scope;
}

/* Links it, unless its stream has an open one. */
static bool scopes_insert(struct moietyi_scopes *scopes,
                          struct moietyi_scope *scope, bool *out_is_taken)
{
    pthread_mutex_lock(&scopes->lock);
    *out_is_taken = scope->is_open && scopes_find_open(scopes, &scope->stream);
    bool is_linked = !*out_is_taken && moietyi_scopes_reserve(scopes);
    if (is_linked) {
        scope->next = scopes->first;
        scopes->first = scope;
    }
    pthread_mutex_unlock(&scopes->lock);
    return is_linked;
}

/* A new one, as `like` says but for its number. */
static moiety_status scopes_add(struct moietyi_call *call,
                                const struct moietyi_scope *like,
                                moiety_scope *out)
{
    struct moietyi_scopes *scopes = call->pool->body->scopes;
    bool is_taken = false;
    struct moietyi_scope *scope = malloc(sizeof(*scope));
    if (!scope)
        return scopes_no_memory();
    *scope = *like;
    const uint64_t number = moietyi_scope_next_number();
    scope->number = moietyi_scope_of_number(number);
    bool is_named = moietyi_scope_name(number, call->pool);
    if (is_named && scopes_insert(scopes, scope, &is_taken)) {
        *out = moietyi_scope_of_number(number);
        return MOIETY_OK;
    }
    if (is_named)
        moietyi_scope_unname(number);
    free(scope);
    return is_taken ? moietyi_fail(MOIETY_E_INVALID,
                                   "the stream has an open scope in this pool")
                    : scopes_no_memory();
}

moiety_status moietyi_scope_open(struct moietyi_call *call,
                                 struct moietyi_private *arena,
                                 moiety_scope *out)
{
    const struct moietyi_scope like = {.stream = moietyi_scope_stream_of(call),
                                       .arena = arena,
                                       .is_open = true};
    return scopes_add(call, &like, out);
}

struct moietyi_private *moietyi_scope_arena(struct moietyi_scopes *scopes,
                                            moiety_scope number)
{
    pthread_mutex_lock(&scopes->lock);
    const struct moietyi_scope *scope = moietyi_scope_find(scopes, number);
    struct moietyi_private *arena = scope ? scope->arena : NULL;
    pthread_mutex_unlock(&scopes->lock);
    return arena;
}

moiety_scope moietyi_scope_of_arena(struct moietyi_scopes *scopes,
                                    const struct moietyi_private *arena)
{
    pthread_mutex_lock(&scopes->lock);
    const struct moietyi_scope *scope = scopes->first;
    while (scope && scope->arena != arena)
        scope = scope->next;
    moiety_scope number = scope ? scope->number : NULL;
    pthread_mutex_unlock(&scopes->lock);
    return number;
}

moiety_status moietyi_scope_close(struct moietyi_scopes *scopes,
                                  moiety_scope number)
{
    pthread_mutex_lock(&scopes->lock);
    struct moietyi_scope *scope = moietyi_scope_find(scopes, number);
    bool is_open = scope && scope->is_open;
    if (is_open)
        scope->is_open = false;
    pthread_mutex_unlock(&scopes->lock);
    return is_open ? MOIETY_OK
                   : moietyi_fail(MOIETY_E_DESTROYED,
                                  "the capture scope was ended before");
}

static bool scope_has(const struct moietyi_scope *scope, uint64_t capture_id)
{
    return scope->has_capture && scope->capture_id == capture_id;
}

struct moietyi_scope *moietyi_scope_partner(const struct moietyi_scopes *scopes,
                                            const struct moietyi_scope *scope)
{
    struct moietyi_scope *other = scope->is_shared ? scopes->first : NULL;
    while (other &&
           (other == scope || !other->is_shared || other->is_releasing ||
            !scope_has(other, scope->capture_id)))
        other = other->next;
    return other;
}

/* Lock held. The one that has the call's capture; where that is broken it has
 * no number any more, but its stream may have a scope. Of several the one without
 * an arena, whose memory others take when its scope is released. */
static struct moietyi_scope *find_bound(const struct moietyi_scopes *scopes,
                                        const struct moietyi_call *call)
{
    const struct moietyi_scope_stream stream = moietyi_scope_stream_of(call);
    struct moietyi_scope *found = NULL;
    if (call->capture.kind == MOIETYI_CAPTURE_BROKEN)
        return scopes_find_open(scopes, &stream);
    for (struct moietyi_scope *scope = scopes->first; scope;
         scope = scope->next) {
        if ((scope->is_open || scope->is_automatic) && !scope->is_releasing &&
            scope_has(scope, call->capture.id) &&
            (!found || (found->arena && !scope->arena)))
            found = scope;
    }
    return found;
}

/* Lock held, as for the next. Whether this thread can ask for its capture. One
 * that shares a capture may be another's, which begins later. */
static bool may_be_asked(const struct moietyi_scope *scope,
                         const struct moietyi_call *call)
{
    return scope->is_open && (!scope->has_capture || scope->is_shared) &&
           (!scope->stream.thread || scope->stream.thread == call->thread);
}

/* The next open scope, by number, that has no capture yet. */
static const struct moietyi_scope *
next_unbound(const struct moietyi_scopes *scopes,
             const struct moietyi_call *call, moiety_scope after)
{
    const struct moietyi_scope *best = NULL;
    const struct moietyi_scope *scope;
    for (scope = scopes->first; scope; scope = scope->next) {
        if (may_be_asked(scope, call) &&
            moietyi_scope_is_newer(scope->number, after) &&
            (!best || moietyi_scope_is_newer(best->number, scope->number))) {
            best = scope;
        }
    }
    return best;
}

/* Moves on to the next scope without a capture and asks which one its stream is
 * in. False: there is no further one. */
static bool ask_next(struct moietyi_scopes *scopes,
                     const struct moietyi_call *call, moiety_scope *at)
{
    struct moietyi_capture capture = {MOIETYI_CAPTURE_NONE, 0};
    pthread_mutex_lock(&scopes->lock);
    const struct moietyi_scope *next = next_unbound(scopes, call, *at);
    moiety_stream stream = next ? next->stream.handle : NULL;
    *at = next ? next->number : NULL;
    pthread_mutex_unlock(&scopes->lock);
    if (!*at)
        return false;
    bool is_active =
        moietyi_look_for_capture(call, stream, &capture) == MOIETY_OK &&
        capture.kind == MOIETYI_CAPTURE_ACTIVE;
    pthread_mutex_lock(&scopes->lock);
    struct moietyi_scope *scope = moietyi_scope_find(scopes, *at);
    if (scope)
        scope->asked_id = is_active ? capture.id : 0;
    pthread_mutex_unlock(&scopes->lock);
    return true;
}

/* Lock held. */
static void scopes_bind(struct moietyi_scopes *scopes,
                        struct moietyi_scope *scope, uint64_t capture_id,
                        bool is_shared)
{
    struct moietyi_scope *partner = moietyi_scope_partner(scopes, scope);
    if (partner)
        moietyi_scope_hand_all(scopes, scope, partner);
    /* Blocks that it still keeps are of an earlier graph. */
    for (struct moietyi_scope_block *block = scope->freed; block;
         block = block->next_listed)
        block->is_reusable = false;
    scope->has_capture = true;
    scope->is_shared = is_shared;
    scope->capture_id = capture_id;
}

/* Lock held. Binds all whose streams were found in the call's capture. */
static void bind_asked(struct moietyi_scopes *scopes,
                       const struct moietyi_call *call)
{
    unsigned count = 0;
    struct moietyi_scope *scope;
    for (scope = scopes->first; scope; scope = scope->next)
        count +=
            may_be_asked(scope, call) && scope->asked_id == call->capture.id;
    for (scope = scopes->first; scope; scope = scope->next)
        if (may_be_asked(scope, call) && scope->asked_id == call->capture.id)
            scopes_bind(scopes, scope, call->capture.id, count > 1);
}

static moiety_scope scopes_look(struct moietyi_scopes *scopes,
                                const struct moietyi_call *call, bool may_bind)
{
    pthread_mutex_lock(&scopes->lock);
    const struct moietyi_scope *scope = find_bound(scopes, call);
    if (!scope && may_bind) {
        bind_asked(scopes, call);
        scope = find_bound(scopes, call);
    }
    moiety_scope number = scope ? scope->number : NULL;
    pthread_mutex_unlock(&scopes->lock);
    return number;
}

moiety_status moietyi_scope_of(struct moietyi_call *call, moiety_scope *out)
{
    const struct moietyi_pool_body *body = call->pool->body;
    struct moietyi_scopes *scopes = call->pool->body->scopes;
    moiety_scope at = NULL;
    *out = scopes_look(scopes, call, false);
    if (*out || call->capture.kind == MOIETYI_CAPTURE_BROKEN)
        return MOIETY_OK;
    /* The stream may have joined the capture of another, and have a scope of its
     * own nevertheless. */
    while (ask_next(scopes, call, &at))
        continue;
    *out = scopes_look(scopes, call, true);
    if (*out || !(body->options.flags & MOIETY_POOL_AUTO_SCOPE))
        return MOIETY_OK;
    const struct moietyi_scope like = {.stream = moietyi_scope_stream_of(call),
                                       .is_automatic = true,
                                       .has_capture = true,
                                       .capture_id = call->capture.id};
    return scopes_add(call, &like, out);
}

bool moietyi_scopes_are_open(struct moietyi_scopes *scopes)
{
    bool is_open = false;
    pthread_mutex_lock(&scopes->lock);
    for (const struct moietyi_scope *scope = scopes->first; scope;
         scope = scope->next)
        is_open |= scope->is_open;
    pthread_mutex_unlock(&scopes->lock);
    return is_open;
}

moiety_status moietyi_scopes_retire(const struct moietyi_call *call,
                                    moiety_stream stream)
{
    struct moietyi_scopes *scopes = call->pool->body->scopes;
    const struct moietyi_scope_stream named = {stream, NULL};
    pthread_mutex_lock(&scopes->lock);
    bool is_open = scopes_find_open(scopes, &named) != NULL;
    pthread_mutex_unlock(&scopes->lock);
    return is_open ? moietyi_fail(MOIETY_E_IN_USE,
                                  "a capture scope is open for the stream")
                   : MOIETY_OK;
}
