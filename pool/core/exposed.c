/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/core/exposed.h"

#include <pthread.h>
#include <stddef.h>

#include "pool/core/body.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The lock. */
static struct binadei_pool_body *first;
static uint64_t last_id;

void binadei_exposed_add(struct binadei_pool_body *body)
{
    struct binadei_exposed *place = &body->exposed;
    pthread_mutex_lock(&lock);
    if (place->id == 0)
        place->id = ++last_id;
    place->previous = NULL;
    place->next = first;
    if (first)
        first->exposed.previous = body;
    first = body;
    pthread_mutex_unlock(&lock);
}

void binadei_exposed_remove(struct binadei_pool_body *body)
{
    const struct binadei_exposed *place = &body->exposed;
    pthread_mutex_lock(&lock);
    if (place->next)
        place->next->exposed.previous = place->previous;
    if (place->previous)
        place->previous->exposed.next = place->next;
    else
        first = place->next;
    pthread_mutex_unlock(&lock);
}

/* Lock held. The list is in no order, as a pool that could not be destroyed is
 * put back. */
static const struct binadei_pool_body *lowest_from(uint64_t least)
{
    const struct binadei_pool_body *found = NULL;
    for (const struct binadei_pool_body *body = first; body;
         body = body->exposed.next)
        if (body->exposed.id >= least &&
            (!found || body->exposed.id < found->exposed.id))
            found = body;
    return found;
}

uint64_t binadei_exposed_look(uint64_t least, binadei_look_fn *look,
                              void *context)
{
    uint64_t id = 0;
    pthread_mutex_lock(&lock);
    const struct binadei_pool_body *body = lowest_from(least);
    if (body) {
        id = body->exposed.id;
        look(body, context);
    }
    pthread_mutex_unlock(&lock);
    return id;
}
