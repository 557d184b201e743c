/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Spare bundles.
 */
#include "pool/cache/bundle.h"

#include <stdlib.h>

#include "pool/base/step.h"

#define KEPT_BUNDLES 64U

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

void binadei_spares_leave(struct binadei_member *member)
{
    if (member->bundles)
        share_bundles(member, last_bundle(member->bundles));
    member->bundle_count = 0;
}

void binadei_bundles_free(struct binadei_bundle *bundles)
{
    while (bundles) {
        struct binadei_bundle *next = bundles->next;
        free(bundles);
        bundles = next;
    }
}

void binadei_spares_destroy(struct binadei_engine *engine)
{
    /* relaxed: nobody else is left. */
    binadei_bundles_free(atomic_exchange_explicit(&engine->spare_bundles, NULL,
                                                  memory_order_relaxed));
}
