/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/cache/own.h"

#include "pool/cache/bundle.h"
#include "pool/cache/leave.h"
#include "pool/cache/magazine.h"
#include "pool/cache/retired.h"

/* Batches that a search looks into, newest first. */
#define DEPTH 32U

static void leave_batch(struct binadei_poll *poll, struct binadei_batch *batch,
                        uint64_t bytes)
{
    batch->bytes -= bytes;
    binadei_count(poll->member, BINADEI_COUNT_RETIRING_OUT_BYTES, bytes);
}

/* A block of no class: what it must have, and where it is once it is found. */
struct wish {
    uint64_t bytes;
    uint64_t most_bytes;
    binade_devptr address;
};

/* True: the batch had what is wanted, and the search is over. */
typedef bool take_fn(struct binadei_poll *poll, struct binadei_batch *batch,
                     struct wish *wish);

/* Goes through the batches of the caller's stream. */
static bool search(struct binadei_poll *poll, take_fn *take, struct wish *wish)
{
    struct binadei_slot *slot = poll->own->slot;
    struct binadei_batch *newest = binadei_retired_take(slot);
    struct binadei_batch **at = &newest;
    uint32_t depth = 0;
    while (*at && depth < DEPTH && !take(poll, *at, wish)) {
        at = &(*at)->next;
        depth++;
    }
    struct binadei_batch *batch = depth < DEPTH ? *at : NULL;
    bool is_found = batch != NULL;
    if (batch && !batch->bundles) {
        *at = batch->next;
        binadei_poll_spare(poll, batch);
    }
    binadei_retired_return(slot, newest);
    return is_found;
}

/* One bundle of the class for the caller's magazine. */
static bool reuse_bundle(struct binadei_poll *poll, struct binadei_batch *batch)
{
    struct binadei_bundle **at =
        binadei_link_of_class(batch, poll->class_index);
    struct binadei_bundle *bundle = *at;
    if (!bundle)
        return false;
    uint32_t count = bundle->count;
    uint64_t bytes = binadei_bundle_bytes(poll->member->engine, bundle);
    struct binadei_bundle *rest = bundle->next;
    if (!binadei_magazine_load(poll->member, poll->own, bundle))
        return false;
    *at = rest;
    leave_batch(poll, batch, bytes);
    poll->found += count;
    return true;
}

static bool take_bundles(struct binadei_poll *poll, struct binadei_batch *batch,
                         struct wish *unused)
{
    (void)unused;
    if (!*binadei_link_of_class(batch, poll->class_index))
        return false;
    while (poll->found < BINADEI_BUNDLE_BLOCKS && reuse_bundle(poll, batch))
        continue;
    return true;
}

/* Where in the bundle such a block is, or its count. */
static uint32_t find_block(const struct binadei_engine *engine,
                           const struct binadei_bundle *bundle,
                           const struct wish *wish)
{
    uint32_t i = 0;
    while (i < bundle->count) {
        uint64_t held = binadei_block_bytes(engine, bundle->class_index,
                                            bundle->addresses[i]);
        if (held >= wish->bytes && held <= wish->most_bytes)
            break;
        i++;
    }
    return i;
}

static bool take_block(struct binadei_poll *poll, struct binadei_batch *batch,
                       struct wish *wish)
{
    const struct binadei_engine *engine = poll->member->engine;
    struct binadei_bundle **at = binadei_link_of_class(batch, BINADEI_CLASSES);
    struct binadei_bundle *bundle = *at;
    uint32_t i = bundle ? find_block(engine, bundle, wish) : 0;
    if (!bundle || i == bundle->count)
        return false;
    wish->address = bundle->addresses[i];
    leave_batch(poll, batch,
                binadei_block_bytes(engine, BINADEI_CLASSES, wish->address));
    bundle->addresses[i] = bundle->addresses[--bundle->count];
    if (!bundle->count) {
        *at = bundle->next;
        binadei_bundle_spare(poll->member, bundle);
    }
    return true;
}

void binadei_own_reuse(struct binadei_poll *poll)
{
    (void)search(poll, take_bundles, NULL);
}

bool binadei_own_reuse_block(struct binadei_poll *poll, uint64_t bytes,
                             uint64_t most_bytes, binade_devptr *out)
{
    struct wish wish = {bytes, most_bytes, 0};
    if (!search(poll, take_block, &wish))
        return false;
    *out = wish.address;
    return true;
}
