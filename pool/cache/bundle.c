/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Spare bundles and batches.
 */
#include "pool/cache/bundle.h"

#include <stdlib.h>

#include "pool/base/step.h"
#include "pool/cache/record.h"

#define KEPT_BUNDLES 64U
/* More than are on their way at a time, as a rule: a batch that another thread
 * holds for the moment is made anew, with a call of the driver. */
#define KEPT_BATCHES 256U
/* Made at once when there is none. */
#define STOCK_BATCHES 16U
/* Taken from the pool at once. */
#define FETCHED_BATCHES 16U

static struct binadei_bundle *last_bundle(struct binadei_bundle *bundle)
{
    while (bundle->next)
        bundle = bundle->next;
    return bundle;
}

static struct binadei_bundle *take_bundles(struct binadei_engine *engine)
{
    /* SP.acquire: the links. */
    return atomic_exchange_explicit(&engine->spare_bundles, NULL,
                                    memory_order_acquire);
}

/* A chain goes to the pool. It may be long, and what came meanwhile is short,
 * so that is taken, put in front, and the whole pushed. */
static void push_bundles(struct binadei_engine *engine,
                         struct binadei_bundle *first)
{
    struct binadei_bundle *nothing = NULL;
    /* SP.release: the taker sees the links. On failure nothing was published.
     */
    while (first && !atomic_compare_exchange_strong_explicit(
                        &engine->spare_bundles, &nothing, first,
                        memory_order_release, memory_order_relaxed)) {
        struct binadei_bundle *newer = take_bundles(engine);
        nothing = NULL;
        if (!newer)
            continue;
        last_bundle(newer)->next = first;
        first = newer;
    }
}

/* Some of the pool's spare ones. */
static void fetch_bundles(struct binadei_member *member)
{
    struct binadei_engine *engine = member->engine;
    /* relaxed: a hint. */
    if (!atomic_load_explicit(&engine->spare_bundles, memory_order_relaxed))
        return;
    struct binadei_bundle *all = take_bundles(engine);
    BINADEI_STEP("spare.taken");
    while (all && member->bundle_count < KEPT_BUNDLES / 2) {
        struct binadei_bundle *bundle = all;
        all = bundle->next;
        bundle->next = member->bundles;
        member->bundles = bundle;
        member->bundle_count++;
    }
    push_bundles(engine, all);
}

struct binadei_bundle *binadei_bundle_take(struct binadei_member *member,
                                           uint32_t class_index)
{
    if (!member->bundles)
        fetch_bundles(member);
    struct binadei_bundle *bundle = member->bundles;
    if (bundle) {
        member->bundles = bundle->next;
        member->bundle_count--;
    } else {
        bundle = malloc(sizeof(*bundle));
        if (!bundle)
            return NULL;
    }
    bundle->next = NULL;
    bundle->class_index = class_index;
    bundle->count = 0;
    return bundle;
}

/* A few of the member's, up to `last`, go to the pool. */
static void share_bundles(struct binadei_member *member,
                          struct binadei_bundle *last)
{
    struct binadei_bundle *first = member->bundles;
    member->bundles = last->next;
    last->next = take_bundles(member->engine);
    push_bundles(member->engine, first);
}

/* Half of what the member keeps. */
static void share_half_of_bundles(struct binadei_member *member)
{
    struct binadei_bundle *last = member->bundles;
    for (uint32_t i = 1; i < KEPT_BUNDLES / 2; i++)
        last = last->next;
    member->bundle_count -= KEPT_BUNDLES / 2;
    share_bundles(member, last);
}

void binadei_bundle_spare(struct binadei_member *member,
                          struct binadei_bundle *bundle)
{
    bundle->next = member->bundles;
    member->bundles = bundle;
    if (++member->bundle_count >= KEPT_BUNDLES)
        share_half_of_bundles(member);
}

static struct binadei_batch *last_batch(struct binadei_batch *batch)
{
    while (batch->next)
        batch = batch->next;
    return batch;
}

static struct binadei_batch *take_batches(struct binadei_engine *engine)
{
    /* SP.acquire: the links and the events. */
    return atomic_exchange_explicit(&engine->spare_batches, NULL,
                                    memory_order_acquire);
}

/* As push_bundles(). */
void binadei_batches_share(struct binadei_engine *engine,
                           struct binadei_batch *first)
{
    struct binadei_batch *nothing = NULL;
    /* SP.release: the taker sees the links and the events. */
    while (first && !atomic_compare_exchange_strong_explicit(
                        &engine->spare_batches, &nothing, first,
                        memory_order_release, memory_order_relaxed)) {
        struct binadei_batch *newer = take_batches(engine);
        nothing = NULL;
        if (!newer)
            continue;
        last_batch(newer)->next = first;
        first = newer;
    }
}

/* A few of the member's, up to `last`, go to the pool. */
static void share_batches(struct binadei_member *member,
                          struct binadei_batch *last)
{
    struct binadei_batch *first = member->batches;
    member->batches = last->next;
    last->next = take_batches(member->engine);
    binadei_batches_share(member->engine, first);
}

/* Half of what the member keeps. */
static void share_half_of_batches(struct binadei_member *member)
{
    struct binadei_batch *last = member->batches;
    for (uint32_t i = 1; i < KEPT_BATCHES / 2; i++)
        last = last->next;
    member->batch_count -= KEPT_BATCHES / 2;
    share_batches(member, last);
}

static void fetch_batches(struct binadei_member *member)
{
    /* relaxed: a hint. */
    if (!atomic_load_explicit(&member->engine->spare_batches,
                              memory_order_relaxed))
        return;
    struct binadei_batch *all = take_batches(member->engine);
    while (all && member->batch_count < FETCHED_BATCHES) {
        struct binadei_batch *batch = all;
        all = batch->next;
        batch->next = member->batches;
        member->batches = batch;
        member->batch_count++;
    }
    binadei_batches_share(member->engine, all);
}

struct binadei_batch *binadei_batch_take(struct binadei_member *member)
{
    if (!member->batches)
        fetch_batches(member);
    if (!member->batches) {
        binadei_record_stock(member->engine, STOCK_BATCHES);
        fetch_batches(member);
    }
    struct binadei_batch *batch = member->batches;
    if (!batch)
        return calloc(1, sizeof(*batch));
    member->batches = batch->next;
    member->batch_count--;
    batch->next = NULL;
    return batch;
}

void binadei_batch_spare(struct binadei_member *member,
                         struct binadei_batch *batch)
{
    batch->bundles = NULL;
    batch->bytes = 0;
    batch->event_count = 0;
    batch->needs_record = false;
    batch->needs_synchronise = false;
    batch->slot = NULL;
    batch->next = member->batches;
    member->batches = batch;
    if (++member->batch_count >= KEPT_BATCHES)
        share_half_of_batches(member);
}

bool binadei_batch_reserve(struct binadei_batch *batch, uint32_t count)
{
    if (count <= batch->event_capacity)
        return true;
    struct binadei_event *events =
        realloc(batch->events, count * sizeof(*events));
    if (!events)
        return false;
    for (uint32_t i = batch->event_capacity; i < count; i++)
        events[i] = (struct binadei_event){NULL, NULL, false};
    batch->events = events;
    batch->event_capacity = count;
    return true;
}

void binadei_spares_leave(struct binadei_member *member)
{
    if (member->bundles)
        share_bundles(member, last_bundle(member->bundles));
    if (member->batches)
        share_batches(member, last_batch(member->batches));
    member->bundle_count = member->batch_count = 0;
}

void binadei_bundles_free(struct binadei_bundle *bundles)
{
    while (bundles) {
        struct binadei_bundle *next = bundles->next;
        free(bundles);
        bundles = next;
    }
}

void binadei_batches_free(const struct binadei_engine *engine,
                          struct binadei_batch *batches)
{
    while (batches) {
        struct binadei_batch *next = batches->next;
        for (uint32_t i = 0; i < batches->event_capacity; i++)
            binadei_event_destroy(engine, batches->events[i].event);
        binadei_bundles_free(batches->bundles);
        free(batches->events);
        free(batches);
        batches = next;
    }
}

void binadei_spares_destroy(struct binadei_engine *engine)
{
    /* relaxed: nobody else is left. */
    binadei_bundles_free(atomic_exchange_explicit(&engine->spare_bundles, NULL,
                                                  memory_order_relaxed));
    binadei_batches_free(engine,
                         atomic_exchange_explicit(&engine->spare_batches, NULL,
                                                  memory_order_relaxed));
}
