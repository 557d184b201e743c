/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A slot's batches are taken whole, looked at by their holder alone, and what
 * is still to wait goes back as one chain. A stack has the newest on top, and
 * streams finish in order, so the holder looks from the bottom.
 */
#include "pool/cache/poll.h"

#include "pool/base/clock.h"
#include "pool/cache/bundle.h"
#include "pool/cache/cache.h"
#include "pool/cache/guard.h"
#include "pool/cache/leave.h"
#include "pool/cache/magazine.h"
#include "pool/cache/own.h"
#include "pool/cache/record.h"
#include "pool/cache/retired.h"
#include "pool/cache/slot.h"
#include "pool/driver/section.h"

/* Batches that are not done, after which a slot is left alone. */
#define PATIENCE 2U
#define ENDLESS UINT32_MAX
/* A look calls the driver, where threads wait for each other, so it is taken at
 * one miss of so many; before the pool grows, all slots are looked at. And to
 * find the oldest of a slot's batches, all of them are passed, so of many they
 * are passed more seldom still. */
#define MISSES_PER_LOOK 16U
#define BATCHES_PER_LOOK 8U
/* Batches of a stream that get their event at once after another wanted its
 * memory. */
#define RECORDED_AHEAD 16U

/* Oldest first. */
static struct binadei_batch *take_all(struct binadei_slot *slot)
{
    return binadei_retired_reversed(binadei_retired_take(slot));
}

/* The same, oldest first. */
static void put_back(struct binadei_slot *slot, struct binadei_batch *oldest)
{
    binadei_retired_return(slot, binadei_retired_reversed(oldest));
}

void binadei_poll_spare(struct binadei_poll *poll, struct binadei_batch *batch)
{
    /* Release, against is_unused(): our look at the slot is over. */
    atomic_fetch_sub_explicit(&batch->slot->batch_count, 1,
                              memory_order_release);
    binadei_batch_spare(poll->member, batch);
}

/* One bundle that is the caller's now. */
static void place(struct binadei_poll *poll, struct binadei_cache *wanting,
                  struct binadei_bundle *bundle)
{
    uint32_t count = bundle->count;
    if (bundle->class_index == poll->class_index &&
        poll->found < BINADEI_BUNDLE_BLOCKS &&
        binadei_magazine_load(poll->member, wanting, bundle))
        poll->found += count;
    else
        binadei_leave_bundle(poll->member, wanting, bundle, false);
}

/* A batch whose blocks are `to`'s slot's now, and no other's. */
static void hand_to(struct binadei_poll *poll, struct binadei_batch *batch,
                    struct binadei_cache *to)
{
    binadei_count(poll->member, BINADEI_COUNT_RETIRING_OUT_BYTES, batch->bytes);
    for (struct binadei_bundle *bundle = batch->bundles; bundle;) {
        struct binadei_bundle *next = bundle->next;
        place(poll, to, bundle);
        bundle = next;
    }
    binadei_poll_spare(poll, batch);
}

/* Done: nothing is pending on its blocks. */
static void dispose(struct binadei_poll *poll, struct binadei_batch *batch)
{
    poll->disposed += batch->bytes;
    hand_to(poll, batch, poll->member->done);
}

/* Takes what was published after `batch` without an event into it: one event
 * that is recorded now stands for all. */
static void gather(struct binadei_poll *poll, struct binadei_batch *batch)
{
    struct binadei_batch **at = &batch->next;
    while (*at) {
        struct binadei_batch *other = *at;
        if (!other->needs_record) {
            at = &other->next;
            continue;
        }
        struct binadei_bundle **end = &other->bundles;
        while (*end)
            end = &(*end)->next;
        *end = batch->bundles;
        batch->bundles = other->bundles;
        batch->bytes += other->bytes;
        *at = other->next;
        binadei_poll_spare(poll, other);
    }
}

/* True if the batch has its events, which nobody asked for before. */
static bool is_recorded(struct binadei_poll *poll, struct binadei_batch *batch)
{
    if (!batch->needs_record)
        return true;
    batch->event_count = 0;
    if (binadei_batch_record(poll->member, batch->slot, batch) != BINADE_OK)
        return false;
    batch->needs_record = false;
    poll->has_recorded = true;
    return true;
}

/* Whether the batch is done; an event is recorded if it needs one. */
static bool is_done(struct binadei_poll *poll, struct binadei_batch *batch)
{
    if (batch->needs_record) {
        gather(poll, batch);
        if (!poll->own || poll->own->slot != batch->slot)
            /* relaxed: a hint. */
            atomic_store_explicit(&batch->slot->record_ahead, RECORDED_AHEAD,
                                  memory_order_relaxed);
    }
    return is_recorded(poll, batch) &&
           binadei_batch_is_done(poll->member, batch);
}

/* Goes through batches, oldest first, until `patience` of them were not done.
 * Returns those that stay. */
static struct binadei_batch *
sift(struct binadei_poll *poll, struct binadei_batch *batch, uint32_t patience)
{
    struct binadei_batch *kept = NULL;
    struct binadei_batch **kept_end = &kept;
    while (batch && patience) {
        bool is_over = is_done(poll, batch);
        struct binadei_batch *next = batch->next;
        if (is_over) {
            dispose(poll, batch);
        } else {
            *kept_end = batch;
            kept_end = &batch->next;
            patience--;
        }
        batch = next;
    }
    *kept_end = batch;
    return kept;
}

static void poll_slot(struct binadei_poll *poll, struct binadei_slot *slot,
                      uint32_t patience)
{
    struct binadei_engine *engine = poll->member->engine;
    struct binadei_section section;
    struct binadei_batch *batch = take_all(slot);
    /* A query outside of a section would break a capture in global mode. */
    if (batch && binadei_context_watch(engine->home, &section) == BINADE_OK) {
        batch = sift(poll, batch, patience);
        (void)binadei_section_leave(&section);
    }
    put_back(slot, batch);
}

static struct binadei_slot *slot_at(const struct binadei_engine *engine,
                                    uint32_t index)
{
    /* relaxed: the count was read with acquire. */
    return atomic_load_explicit(&engine->slots[index], memory_order_relaxed);
}

static uint32_t slot_count(const struct binadei_engine *engine)
{
    return atomic_load_explicit(&engine->slot_count, memory_order_acquire);
}

bool binadei_poll_is_any_out(const struct binadei_engine *engine)
{
    for (uint32_t i = 0; i < slot_count(engine); i++) {
        /* relaxed: a hint. */
        if (atomic_load_explicit(&slot_at(engine, i)->batch_count,
                                 memory_order_relaxed))
            return true;
    }
    return false;
}

/* Whether it is a slot's turn. */
static bool is_due(struct binadei_member *member,
                   const struct binadei_slot *slot)
{
    /* relaxed: a hint. */
    uint32_t count =
        atomic_load_explicit(&slot->batch_count, memory_order_relaxed);
    return ++member->poll_turn % (MISSES_PER_LOOK + count / BATCHES_PER_LOOK) ==
           0;
}

/* What other streams freed is left to them while the buddy has memory: they
 * will want it again, and to take it costs them an event. */
void binadei_poll_own(struct binadei_poll *poll, struct binadei_slot *slot)
{
    if (poll->own)
        binadei_own_reuse(poll);
    if (!poll->found && is_due(poll->member, slot))
        poll_slot(poll, slot, PATIENCE);
}

void binadei_poll_all(struct binadei_poll *poll)
{
    uint32_t count = slot_count(poll->member->engine);
    for (uint32_t i = 0; i < count; i++)
        poll_slot(poll, slot_at(poll->member->engine, i), ENDLESS);
}

void binadei_poll_synchronise(struct binadei_poll *poll)
{
    struct binadei_engine *engine = poll->member->engine;
    /* Taken first: what is retired meanwhile may be used by later work. */
    struct binadei_batch *batch = take_all(engine->any);
    bool is_needed = false;
    for (struct binadei_batch *at = batch; at; at = at->next)
        is_needed |= at->needs_synchronise;
    if (is_needed && binadei_guard_recorder_begin()) {
        if (binadei_synchronise(engine) == BINADE_OK)
            for (struct binadei_batch *at = batch; at; at = at->next)
                at->needs_synchronise = false;
        binadei_guard_recorder_end();
    }
    put_back(engine->any, batch);
    if (is_needed)
        poll_slot(poll, engine->any, ENDLESS);
}

static bool wait_on(struct binadei_poll *poll,
                    const struct binadei_batch *batch, CUstream stream)
{
    const struct binadei_engine *engine = poll->member->engine;
    struct binadei_section section;
    if (batch->needs_synchronise ||
        binadei_context_enter(engine->home, &section) != BINADE_OK)
        return false;
    bool is_waiting = true;
    for (uint32_t i = 0; i < batch->event_count && is_waiting; i++) {
        is_waiting =
            batch->events[i].is_done ||
            BINADEI_CALL(engine->driver, cuStreamWaitEvent,
                         (stream, batch->events[i].event, 0)) == BINADE_OK;
        binadei_count(poll->member, BINADEI_COUNT_STREAM_WAITS, 1);
    }
    (void)binadei_section_leave(&section);
    return is_waiting;
}

bool binadei_poll_hand_over(struct binadei_poll *poll, struct binadei_cache *to)
{
    struct binadei_engine *engine = poll->member->engine;
    uint32_t count = slot_count(engine);
    for (uint32_t i = 0; i < count; i++) {
        struct binadei_slot *slot = slot_at(engine, i);
        struct binadei_batch *all = take_all(slot);
        struct binadei_batch **at = &all;
        while (*at && !*binadei_link_of_class(*at, poll->class_index))
            at = &(*at)->next;
        struct binadei_batch *batch = *at;
        if (batch && is_recorded(poll, batch) &&
            wait_on(poll, batch, to->slot->stream)) {
            *at = batch->next;
            put_back(slot, all);
            hand_to(poll, batch, to);
            return true;
        }
        put_back(slot, all);
    }
    return false;
}

struct binadei_waiting binadei_poll_survey(struct binadei_slot *slot)
{
    struct binadei_waiting waiting = {.slot = slot};
    uint64_t now_ns = binadei_now_ns();
    struct binadei_batch *newest = binadei_retired_take(slot);
    for (struct binadei_batch *at = newest; at; at = at->next) {
        uint64_t age_ns = now_ns - at->published_ns;
        if (age_ns > waiting.oldest_ns)
            waiting.oldest_ns = age_ns;
        waiting.bytes += at->bytes;
        waiting.batch_count++;
    }
    binadei_retired_return(slot, newest);
    return waiting;
}
