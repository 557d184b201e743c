/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Slots are made when a thread first names a stream, and are used again once
 * their stream was retired and nothing refers to them.
 */
#include "pool/cache/slot.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/cache/epoch.h"
#include "pool/cache/record.h"

static struct binadei_slot **bucket_of(struct binadei_engine *engine,
                                       CUstream stream)
{
    uint64_t mixed = (uintptr_t)stream >> 3;
    mixed *= UINT64_C(0x9E3779B97F4A7C15);
    return &engine->buckets[(mixed >> 32) % BINADEI_SLOT_BUCKETS];
}

/* What the caller says, without synonyms. */
static CUstream normal(binade_stream stream)
{
    return stream ? stream : BINADE_STREAM_LEGACY;
}

static bool is_created(CUstream stream)
{
    return stream != BINADE_STREAM_LEGACY && stream != BINADE_STREAM_PER_THREAD;
}

/* Slots' lock held. */
static struct binadei_slot *find(struct binadei_engine *engine, CUstream stream,
                                 const struct binadei_member *member)
{
    struct binadei_slot *slot = *bucket_of(engine, stream);
    while (slot && (slot->stream != stream || slot->member != member))
        slot = slot->next_in_bucket;
    return slot;
}

/* A slot with a later one is not used again: its notes are used up. */
#define LAST_NOTE (UINT32_MAX - BINADEI_SLOTS_MAX)

static bool is_unused(const struct binadei_slot *slot)
{
    return binadei_slot_is_closed(slot) && slot->note <= LAST_NOTE &&
           /* relaxed: 0 only where the depot is empty. */
           atomic_load_explicit(&slot->depot_bytes, memory_order_relaxed) ==
               0 &&
           /* SU.acquire: what its users did. */
           atomic_load_explicit(&slot->cache_count, memory_order_acquire) ==
               0 &&
           !binadei_epoch_bytes(slot);
}

/* Slots' lock held. */
static void count_user(struct binadei_slot *slot)
{
    /* relaxed: the lock orders it with who would use the slot again. */
    atomic_fetch_add_explicit(&slot->cache_count, 1, memory_order_relaxed);
}

/* Slots' lock held. */
static void append_closed(struct binadei_engine *engine,
                          struct binadei_slot *slot)
{
    slot->next_in_bucket = NULL;
    if (engine->closed_last)
        engine->closed_last->next_in_bucket = slot;
    else
        engine->closed_first = slot;
    engine->closed_last = slot;
    /* relaxed: advice. */
    atomic_fetch_add_explicit(&engine->closed_count, 1, memory_order_relaxed);
}

/* The one that is looked at next; there is one. Slots' lock held. */
static struct binadei_slot *pop_closed(struct binadei_engine *engine)
{
    struct binadei_slot *slot = engine->closed_first;
    engine->closed_first = slot->next_in_bucket;
    if (!engine->closed_first)
        engine->closed_last = NULL;
    atomic_fetch_sub_explicit(&engine->closed_count, 1, memory_order_relaxed);
    return slot;
}

static unsigned closed_count(const struct binadei_engine *engine)
{
    /* relaxed: advice, or the slots' lock is held. */
    return atomic_load_explicit(&engine->closed_count, memory_order_relaxed);
}

static bool is_table_full(const struct binadei_engine *engine)
{
    /* relaxed: changed under the lock that is held. */
    return atomic_load_explicit(&engine->slot_count, memory_order_relaxed) ==
           BINADEI_SLOTS_MAX;
}

/* A closed slot that nothing refers to any more, and its epoch's role, so that
 * nobody asks for the event that is to be destroyed; slots' lock held. A few are
 * looked at, or all where there can be no new one. */
static struct binadei_slot *find_unused(struct binadei_engine *engine)
{
    unsigned looks = closed_count(engine);
    if (looks > BINADEI_CLOSED_LOOKS && !is_table_full(engine))
        looks = BINADEI_CLOSED_LOOKS;
    for (; looks; looks--) {
        struct binadei_slot *slot = pop_closed(engine);
        if (is_unused(slot) && binadei_epoch_try_take(slot)) {
            if (is_unused(slot))
                return slot;
            binadei_epoch_release(slot);
        }
        append_closed(engine, slot);
    }
    return NULL;
}

/* Whose memory a slot is for. */
struct identity {
    enum binadei_slot_kind kind;
    CUstream stream;
    CUcontext context;
    const struct binadei_member *member;
};

/* A thread that polls reads these fields with the epoch's role; so the caller has
 * the role, or nobody sees the slot yet. */
static void identify(struct binadei_slot *slot, const struct identity *who)
{
    slot->kind = who->kind;
    slot->stream = who->stream;
    slot->context = who->context;
    slot->member = who->member;
}

/* Slots' lock held. NULL: no memory, or the table is full. */
static struct binadei_slot *append(struct binadei_engine *engine,
                                   const struct identity *who,
                                   struct binadei_maps *maps)
{
    /* relaxed: changed under the lock that is held. */
    unsigned count =
        atomic_load_explicit(&engine->slot_count, memory_order_relaxed);
    if (count == BINADEI_SLOTS_MAX)
        return NULL;
    struct binadei_slot *slot =
        aligned_alloc(alignof(struct binadei_slot), sizeof(*slot));
    if (!slot)
        return NULL;
    memset(slot, 0, sizeof(*slot));
    slot->index = count;
    slot->note = count + 1;
    slot->maps = maps;
    identify(slot, who);
    /* relaxed: SN publishes it. */
    atomic_store_explicit(&engine->slots[count], slot, memory_order_relaxed);
    /* SN.release: pollers that see the count see the slot. */
    atomic_store_explicit(&engine->slot_count, count + 1, memory_order_release);
    return slot;
}

struct binadei_slot *binadei_slot_make(struct binadei_engine *engine,
                                       enum binadei_slot_kind kind,
                                       struct binadei_maps *maps)
{
    const struct identity who = {.kind = kind};
    pthread_mutex_lock(&engine->slots_lock);
    struct binadei_slot *slot = append(engine, &who, maps);
    pthread_mutex_unlock(&engine->slots_lock);
    return slot;
}

/* A new one, with maps of its own; slots' lock held. NULL: no memory. */
static struct binadei_slot *append_stream(struct binadei_engine *engine,
                                          const struct identity *who)
{
    struct binadei_maps *maps = binadei_maps_create(engine->buddy);
    struct binadei_slot *slot = maps ? append(engine, who, maps) : NULL;
    if (!slot)
        binadei_maps_destroy(maps);
    return slot;
}

/* Slots' lock held. `out_left` gets the final event of the stream that had the
 * slot before, or NULL. */
static struct binadei_slot *open_slot(struct binadei_engine *engine,
                                      const struct identity *who,
                                      CUevent *out_left)
{
    struct binadei_slot *slot = find_unused(engine);
    bool is_used_again = slot != NULL;
    if (!slot)
        slot = append_stream(engine, who);
    if (!slot)
        return NULL;
    if (is_used_again) {
        slot->note += BINADEI_SLOTS_MAX;
        identify(slot, who);
    }
    /* relaxed, here and below: who uses the slot now finds it under the lock that is
     * held. */
    *out_left = atomic_exchange_explicit(&slot->final_event, NULL,
                                         memory_order_relaxed);
    /* relaxed: as above. */
    atomic_store_explicit(&slot->is_closed, false, memory_order_relaxed);
    if (is_used_again)
        binadei_epoch_release(slot);
    struct binadei_slot **bucket = bucket_of(engine, who->stream);
    slot->next_in_bucket = *bucket;
    *bucket = slot;
    return slot;
}

static binade_status context_of(const struct binadei_engine *engine,
                                CUstream stream, CUcontext *out)
{
    *out = engine->contexts[0];
    return is_created(stream)
               ? BINADEI_CALL(engine->driver, cuStreamGetCtx, (stream, out))
               : BINADE_OK;
}

binade_status binadei_slot_use(struct binadei_member *member,
                               binade_stream stream, struct binadei_slot **out)
{
    struct binadei_engine *engine = member->engine;
    CUstream named = normal(stream);
    const struct binadei_member *owner =
        named == BINADE_STREAM_PER_THREAD ? member : NULL;
    CUcontext context;
    CUevent left = NULL;
    binade_status status = context_of(engine, named, &context);
    if (status != BINADE_OK)
        return status;
    pthread_mutex_lock(&engine->slots_lock);
    BINADEI_STEP("locked.slot");
    struct binadei_slot *slot = find(engine, named, owner);
    if (!slot) {
        const struct identity who = {owner ? BINADEI_SLOT_PER_THREAD
                                           : BINADEI_SLOT_STREAM,
                                     named, context, owner};
        slot = open_slot(engine, &who, &left);
        if (!slot)
            slot = engine->any;
    }
    count_user(slot);
    pthread_mutex_unlock(&engine->slots_lock);
    /* Of the stream that had the slot before, if any: it may be destroyed only
     * now that nobody refers to the slot. */
    binadei_event_destroy(engine, left);
    *out = slot;
    return BINADE_OK;
}

bool binadei_slot_use_slot(struct binadei_engine *engine,
                           struct binadei_slot *slot)
{
    pthread_mutex_lock(&engine->slots_lock);
    bool is_open = !binadei_slot_is_closed(slot);
    if (is_open)
        count_user(slot);
    pthread_mutex_unlock(&engine->slots_lock);
    return is_open;
}

struct binadei_slot *binadei_slot_use_noted(struct binadei_engine *engine,
                                            uint32_t note)
{
    pthread_mutex_lock(&engine->slots_lock);
    /* relaxed: written under the lock that is held. */
    struct binadei_slot *slot = atomic_load_explicit(
        &engine->slots[(note - 1) % BINADEI_SLOTS_MAX], memory_order_relaxed);
    if (slot && slot->note == note && !binadei_slot_is_closed(slot))
        count_user(slot);
    else
        slot = NULL;
    pthread_mutex_unlock(&engine->slots_lock);
    return slot;
}

void binadei_slot_unuse(struct binadei_slot *slot)
{
    /* SU.release: what was done with it, to who uses the slot again. */
    atomic_fetch_sub_explicit(&slot->cache_count, 1, memory_order_release);
}

/* Slots' lock held: no longer found by its stream. */
static void unlink_slot(struct binadei_engine *engine,
                        struct binadei_slot *slot)
{
    struct binadei_slot **at = bucket_of(engine, slot->stream);
    while (*at != slot)
        at = &(*at)->next_in_bucket;
    *at = slot->next_in_bucket;
    append_closed(engine, slot);
    /* PI.seq_cst: against binadei_slot_pin(). */
    atomic_store_explicit(&slot->is_closed, true, memory_order_seq_cst);
}

struct binadei_slot *binadei_slot_find(struct binadei_engine *engine,
                                       CUstream stream)
{
    pthread_mutex_lock(&engine->slots_lock);
    struct binadei_slot *slot = find(engine, stream, NULL);
    if (slot)
        count_user(slot);
    pthread_mutex_unlock(&engine->slots_lock);
    return slot;
}

bool binadei_slot_close(struct binadei_engine *engine,
                        struct binadei_slot *slot)
{
    pthread_mutex_lock(&engine->slots_lock);
    bool is_open = !binadei_slot_is_closed(slot);
    if (is_open)
        unlink_slot(engine, slot);
    pthread_mutex_unlock(&engine->slots_lock);
    /* PI.seq_cst: who pinned it before this records and goes on; who comes later
     * sees it closed. */
    while (is_open &&
           atomic_load_explicit(&slot->pins, memory_order_seq_cst) != 0)
        sched_yield();
    return is_open;
}

bool binadei_slot_try_close_of(struct binadei_member *member)
{
    struct binadei_engine *engine = member->engine;
    if (pthread_mutex_trylock(&engine->slots_lock) != 0)
        return false;
    struct binadei_slot *slot = find(engine, BINADE_STREAM_PER_THREAD, member);
    if (slot)
        unlink_slot(engine, slot);
    pthread_mutex_unlock(&engine->slots_lock);
    return true;
}

bool binadei_slot_pin(struct binadei_slot *slot)
{
    /* PI.seq_cst: counted first, then looked, so that either the one who closes
     * sees the count or we see it closed. */
    atomic_fetch_add_explicit(&slot->pins, 1, memory_order_seq_cst);
    /* PI.seq_cst: the look. */
    if (!atomic_load_explicit(&slot->is_closed, memory_order_seq_cst))
        return true;
    binadei_slot_unpin(slot);
    return false;
}

void binadei_slot_unpin(struct binadei_slot *slot)
{
    /* PI.seq_cst: what we recorded, to who closes; release is enough. */
    atomic_fetch_sub_explicit(&slot->pins, 1, memory_order_seq_cst);
}

unsigned
binadei_slots_closed_next(struct binadei_engine *engine,
                          struct binadei_slot *out[BINADEI_CLOSED_LOOKS])
{
    unsigned count = 0;
    if (!closed_count(engine))
        return 0;
    pthread_mutex_lock(&engine->slots_lock);
    for (struct binadei_slot *slot = engine->closed_first;
         slot && count < BINADEI_CLOSED_LOOKS; slot = slot->next_in_bucket)
        out[count++] = slot;
    pthread_mutex_unlock(&engine->slots_lock);
    return count;
}

void binadei_slots_destroy(struct binadei_engine *engine)
{
    /* relaxed, here and below: no call is under way. */
    unsigned count =
        atomic_load_explicit(&engine->slot_count, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++) {
        /* relaxed: as above. */
        struct binadei_slot *slot =
            atomic_load_explicit(&engine->slots[i], memory_order_relaxed);
        /* relaxed: as above. */
        binadei_event_destroy(
            engine,
            atomic_load_explicit(&slot->final_event, memory_order_relaxed));
        binadei_epoch_destroy(engine, slot);
        free(slot);
    }
}
