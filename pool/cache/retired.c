/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every push is a read-modify-write, so it extends the release sequence of those
 * before: who takes the stack sees all of its batches, not only the last.
 */
#include "pool/cache/retired.h"

#include "pool/base/clock.h"
#include "pool/base/step.h"
#include "pool/cache/slot.h"

void binadei_retired_push(struct binadei_engine *engine,
                          struct binadei_slot *slot,
                          struct binadei_batch *batch)
{
    /* What waits for a stream that is gone is no stream's own. */
    struct binadei_slot *to = binadei_slot_is_closed(slot) ? engine->any : slot;
    batch->slot = to;
    batch->published_ns = binadei_now_ns();
    /* relaxed: it goes up before anyone can take the batch. */
    atomic_fetch_add_explicit(&to->batch_count, 1, memory_order_relaxed);
    BINADEI_STEP("batch.recorded");
    struct binadei_batch *seen =
        atomic_load_explicit(&to->retired, memory_order_relaxed);
    do {
        batch->next = seen;
        /* RS.release: the batch is whole, and what it waits for is recorded or
         * queued. On failure nothing was published. */
    } while (!atomic_compare_exchange_weak_explicit(&to->retired, &seen, batch,
                                                    memory_order_release,
                                                    memory_order_relaxed));
    BINADEI_STEP("batch.published");
}

struct binadei_batch *binadei_retired_take(struct binadei_slot *slot)
{
    /* relaxed: a look, so that an empty stack costs no exchange. */
    if (!atomic_load_explicit(&slot->retired, memory_order_relaxed))
        return NULL;
    /* RS.acquire. */
    struct binadei_batch *newest =
        atomic_exchange_explicit(&slot->retired, NULL, memory_order_acquire);
    BINADEI_STEP("poll.taken");
    return newest;
}

struct binadei_batch *binadei_retired_reversed(struct binadei_batch *batch)
{
    struct binadei_batch *before = NULL;
    while (batch) {
        struct binadei_batch *next = batch->next;
        batch->next = before;
        before = batch;
        batch = next;
    }
    return before;
}

static struct binadei_batch *joined(struct binadei_batch *first,
                                    struct binadei_batch *second)
{
    struct binadei_batch *last = first;
    if (!first)
        return second;
    while (last->next)
        last = last->next;
    last->next = second;
    return first;
}

/* The chain may be long, and what came meanwhile is short, so that is taken,
 * put in front, and the whole pushed. */
void binadei_retired_return(struct binadei_slot *slot,
                            struct binadei_batch *newest)
{
    struct binadei_batch *nothing = NULL;
    if (!newest)
        return;
    /* RS.release: as for a first push; what changed is the links. On failure
     * nothing was published. */
    while (!atomic_compare_exchange_strong_explicit(
        &slot->retired, &nothing, newest, memory_order_release,
        memory_order_relaxed)) {
        /* RS.acquire. */
        struct binadei_batch *newer = atomic_exchange_explicit(
            &slot->retired, NULL, memory_order_acquire);
        newest = joined(newer, newest);
        nothing = NULL;
    }
    BINADEI_STEP("poll.returned");
}
