/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of a call, what was never freed, and the list of all pools.
 */
#include "pool/core/body.h"

#include <pthread.h>
#include <stddef.h>

#include "pool/base/lock.h"
#include "pool/core/ops.h"

moiety_status moietyi_begin(struct moiety_pool *pool, moiety_stream stream,
                            struct moietyi_call *out)
{
    if (!pool || !(moietyi_attention(pool) & MOIETYI_ATTENTION_WATCHED))
        return moietyi_call_begin(pool, stream, out);
    /* First without the stream: a dead one must not be asked anything else. */
    moiety_status status = moietyi_call_begin(pool, MOIETY_STREAM_DONE, out);
    if (status != MOIETY_OK)
        return status;
    status = pool->body->ops->recognise(out, stream);
    moietyi_call_leave(out);
    return status == MOIETY_OK ? moietyi_call_begin(pool, stream, out) : status;
}

/* Never freed: at rest, every metadata byte that is set. */
static void leaks_note(moiety_leaks *leaks, moiety_devptr address,
                       uint64_t grains)
{
    uint32_t room = sizeof(leaks->addresses) / sizeof(leaks->addresses[0]);
    leaks->block_count++;
    leaks->bytes += grains * MOIETYI_GRAIN_BYTES;
    if (leaks->address_count < room)
        leaks->addresses[leaks->address_count++] = address;
}

static void find_in(const struct moietyi_pool_body *body,
                    const struct moietyi_segment_info *info,
                    moiety_leaks *leaks)
{
    const uint64_t start = (uint64_t)info->first.index * MOIETYI_PAGE_GRAINS;
    const uint64_t end =
        start + (uint64_t)info->page_count * MOIETYI_PAGE_GRAINS;
    uint64_t at = start;
    while ((at = moietyi_space_next_class(body->space, moietyi_grain_at(at),
                                          moietyi_grain_at(end))
                     .index) < end) {
        moiety_devptr address =
            info->address + (at - start) * MOIETYI_GRAIN_BYTES;
        struct moietyi_block block = {.grains = 1};
        if (moietyi_block_at(body->engine, address, &block) == MOIETY_OK)
            leaks_note(leaks, address, block.grains);
        at += block.grains;
    }
}

void moietyi_leaks_find(const struct moietyi_pool_body *body, moiety_leaks *out)
{
    struct moietyi_segment_info info;
    moietyi_page from = {0};
    while (moietyi_segments_walk(body->segments, from, &info)) {
        find_in(body, &info, out);
        from.index = info.first.index + info.page_count;
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER; /* the last visitor */
/* The lock. */
static struct moietyi_pool_body *first;
static uint64_t last_id;

void moietyi_exposed_add(struct moietyi_pool_body *body)
{
    struct moietyi_exposed *place = &body->exposed;
    moietyi_lock(&lock);
    if (place->id == 0)
        place->id = ++last_id;
    place->previous = NULL;
    place->next = first;
    if (first)
        first->exposed.previous = body;
    first = body;
    moietyi_unlock(&lock);
}

void moietyi_exposed_remove(struct moietyi_pool_body *body)
{
    const struct moietyi_exposed *place = &body->exposed;
    moietyi_lock(&lock);
    if (place->next)
        place->next->exposed.previous = place->previous;
    if (place->previous)
        place->previous->exposed.next = place->next;
    else
        first = place->next;
    while (place->visitor_count)
        moietyi_lock_wait(&lock, &left);
    moietyi_unlock(&lock);
}

/* Lock held. The list is in no order, as a pool that could not be destroyed is
 * put back. */
static struct moietyi_pool_body *lowest_from(uint64_t least)
{
    struct moietyi_pool_body *found = NULL;
    for (struct moietyi_pool_body *body = first; body;
         body = body->exposed.next)
        if (body->exposed.id >= least &&
            (!found || body->exposed.id < found->exposed.id))
            found = body;
    return found;
}

struct moietyi_pool_body *moietyi_exposed_visit(uint64_t least,
                                                moietyi_choose_fn *choose,
                                                const void *context)
{
    moietyi_lock(&lock);
    struct moietyi_pool_body *body = lowest_from(least);
    while (body && !choose(body, context))
        body = lowest_from(body->exposed.id + 1);
    if (body)
        body->exposed.visitor_count++;
    moietyi_unlock(&lock);
    return body;
}

void moietyi_exposed_leave(struct moietyi_pool_body *body)
{
    moietyi_lock(&lock);
    if (--body->exposed.visitor_count == 0)
        pthread_cond_broadcast(&left);
    moietyi_unlock(&lock);
}

static bool is_any(const struct moietyi_pool_body *body, const void *context)
{
    (void)body;
    (void)context;
    return true;
}

/* Not under the lock: it may allocate. The pool's end waits for it. */
uint64_t moietyi_exposed_look(uint64_t least, moietyi_look_fn *look,
                              void *context)
{
    struct moietyi_pool_body *body = moietyi_exposed_visit(least, is_any, NULL);
    if (!body)
        return 0;
    uint64_t id = body->exposed.id;
    look(body, context);
    moietyi_exposed_leave(body);
    return id;
}
