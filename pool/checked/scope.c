/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Capture scopes in a checked pool. Which blocks scopes keep, and which of them
 * serve again, is for pool/graph/scope_blocks.c; here is what becomes of the
 * record. What a scope keeps gets no pattern before its release: a graph may
 * write it whenever it runs, rightly. A block that serves again in its capture
 * does so with the very bounds that it has, which nodes from before may rely
 * on.
 */
#include <stdlib.h>

#include "pool/checked/state.h"

/* What captures freed is held back too, as far as that goes. */
static bool checked_scope_is_full(struct binadei_checked *checked)
{
    uint64_t may_bytes =
        checked->is_checked ? checked->body->options.quarantine_bytes : 0;
    pthread_mutex_lock(&checked->lock);
    bool is_full = checked->kept.bytes > may_bytes;
    pthread_mutex_unlock(&checked->lock);
    return is_full;
}

/* Lock held. */
static void keep_back(struct binadei_checked *checked,
                      struct binadei_watch *watch)
{
    watch->state = BINADEI_WATCH_HELD;
    binadei_queue_append(&checked->kept, watch);
}

/* Lock held. One that nobody else takes: it is in no list of its scope, or its
 * free is under way. */
static void take_back(struct binadei_checked *checked,
                      struct binadei_watch *watch)
{
    binadei_queue_remove(&checked->kept, watch);
    watch->state = BINADEI_WATCH_MOVING;
}

static struct binadei_watch *take_kept(struct binadei_checked *checked,
                                       binade_devptr address)
{
    pthread_mutex_lock(&checked->lock);
    struct binadei_watch *watch = binadei_watch_find(checked, address);
    take_back(checked, watch);
    pthread_mutex_unlock(&checked->lock);
    return watch;
}

/* A block that the scope gave again begins another life. */
static void revive(struct binadei_call *call, const struct binadei_wish *wish,
                   binade_devptr address)
{
    struct binadei_checked *checked = call->pool->body->checked;
    struct binadei_watch *watch = take_kept(checked, address);
    struct binadei_site site = {0};
    binadei_site_set(checked, &site, call->stream);
    binadei_watch_discharge(call, watch);
    pthread_mutex_lock(&checked->lock);
    binadei_watch_charge(watch, wish);
    binadei_watch_unset_freed(checked, watch);
    watch->sequence = ++checked->sequence;
    watch->allocated = site;
    watch->note = call->push->slot->note;
    watch->state = BINADEI_WATCH_LIVE;
    pthread_mutex_unlock(&checked->lock);
}

/* Of the very size, so that its bounds are right. */
static bool checked_scope_reuse(struct binadei_call *call, binade_scope number,
                                const struct binadei_wish *wish,
                                binade_devptr *out)
{
    const struct binadei_scope_want want = {
        .bytes = wish->size_bytes,
        .most_bytes = wish->size_bytes,
        .alignment_bytes = binadei_watch_alignment(wish),
    };
    binade_devptr address = binadei_scope_reuse(call, number, &want);
    if (!address)
        return false;
    revive(call, wish, address);
    *out = address;
    return true;
}

static binade_status checked_scope_take(struct binadei_call *call,
                                        binade_scope number,
                                        const struct binadei_wish *wish,
                                        binade_devptr *out)
{
    struct binadei_scope_block *note = calloc(1, sizeof(*note));
    if (!note)
        return binadei_scope_no_memory();
    binade_status status = binadei_watch_alloc(call, wish, number, note, out);
    if (status != BINADE_OK)
        free(note);
    return status;
}

/* Another block rather than one that was freed, as long as there are some. */
static binade_status take_or_reuse(struct binadei_call *call,
                                   binade_scope number,
                                   const struct binadei_wish *wish,
                                   binade_devptr *out)
{
    struct binadei_wish at_once = *wish;
    at_once.may_wait = false;
    if (!checked_scope_is_full(call->pool->body->checked) &&
        checked_scope_take(call, number, &at_once, out) == BINADE_OK)
        return BINADE_OK;
    return checked_scope_reuse(call, number, wish, out)
               ? BINADE_OK
               : checked_scope_take(call, number, wish, out);
}

/* The caller has the block. */
static void set_home(struct binadei_checked *checked, binade_devptr address,
                     const struct binadei_private_ref *home)
{
    pthread_mutex_lock(&checked->lock);
    struct binadei_watch *watch = binadei_watch_find(checked, address);
    if (watch)
        watch->home = *home;
    pthread_mutex_unlock(&checked->lock);
}

binade_status binadei_watch_alloc_for(struct binadei_call *call,
                                      binade_scope number,
                                      const struct binadei_private_ref *home,
                                      const struct binadei_wish *wish,
                                      binade_devptr *out)
{
    binade_status status = home->arena
                               ? binadei_private_charge(home, wish->size_bytes)
                               : BINADE_OK;
    if (status != BINADE_OK)
        return status;
    status = number ? take_or_reuse(call, number, wish, out)
                    : binadei_watch_alloc(call, wish, 0, NULL, out);
    if (home->arena && status == BINADE_OK)
        set_home(call->pool->body->checked, *out, home);
    else if (home->arena)
        binadei_private_discharge(home, wish->size_bytes);
    return status;
}

binade_status binadei_watch_alloc_captured(struct binadei_call *call,
                                           const struct binadei_wish *wish,
                                           binade_devptr *out)
{
    binade_scope number;
    binade_status status = binadei_scope_require(call, &number);
    if (status != BINADE_OK)
        return status;
    const struct binadei_private_ref home =
        binadei_private_of_scope(call, number);
    return binadei_watch_alloc_for(call, number, &home, wish, out);
}

/* The block is kept before the scope is asked: from then on another thread may
 * get it again, or release it. */
binade_status binadei_watch_keep(struct binadei_call *call,
                                 struct binadei_watch *watch,
                                 const struct binadei_site *site,
                                 bool *out_is_kept)
{
    struct binadei_checked *checked = call->pool->body->checked;
    *out_is_kept = false;
    if (!call->is_capturing &&
        !binadei_scopes_keep_any(call->pool->body->scopes))
        return BINADE_OK;
    pthread_mutex_lock(&checked->lock);
    binadei_watch_set_freed(checked, watch, site);
    keep_back(checked, watch);
    pthread_mutex_unlock(&checked->lock);
    binade_status status =
        binadei_scopes_free(call, NULL, watch->address, out_is_kept);
    if (*out_is_kept)
        return BINADE_OK;
    pthread_mutex_lock(&checked->lock);
    take_back(checked, watch);
    binadei_watch_unset_freed(checked, watch);
    pthread_mutex_unlock(&checked->lock);
    return status;
}

binade_status binadei_checked_release(struct binadei_call *call,
                                      binade_devptr address)
{
    struct binadei_checked *checked = call->pool->body->checked;
    struct binadei_watch *watch = take_kept(checked, address);
    binade_status status = binadei_watch_leave(call, watch, NULL);
    pthread_mutex_lock(&checked->lock);
    if (status == BINADE_OK)
        binadei_watch_count_free(checked, watch);
    else
        keep_back(checked, watch);
    pthread_mutex_unlock(&checked->lock);
    if (status != BINADE_OK)
        return status;
    binadei_watch_discharge(call, watch);
    binadei_shelf_add(call, watch);
    return BINADE_OK;
}
