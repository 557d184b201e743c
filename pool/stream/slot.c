/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/stream/slot.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/failure.h"
#include "pool/base/step.h"
#include "pool/stream/event.h"

static struct binadei_slot **slot_bucket_of(struct binadei_streams *streams,
                                            CUstream stream)
{
    uint64_t mixed = (uintptr_t)stream >> 3;
    mixed *= UINT64_C(0x9E3779B97F4A7C15);
    return &streams->buckets[(mixed >> 32) % BINADEI_SLOT_BUCKETS];
}

bool binadei_slot_try_take(struct binadei_slot *slot)
{
    return binadei_role_try_take(&slot->epoch.is_taken);
}

void binadei_slot_release(struct binadei_slot *slot)
{
    binadei_role_release(&slot->epoch.is_taken);
}

/* What the caller says, without synonyms. */
static CUstream normal(binade_stream stream)
{
    return stream ? stream : BINADE_STREAM_LEGACY;
}

static bool slot_is_created(CUstream stream)
{
    return stream != BINADE_STREAM_LEGACY && stream != BINADE_STREAM_PER_THREAD;
}

/* Slots' lock held. */
static struct binadei_slot *slot_find(struct binadei_streams *streams,
                                      CUstream stream, const void *owner)
{
    struct binadei_slot *slot = *slot_bucket_of(streams, stream);
    while (slot && (slot->stream != stream || slot->owner != owner))
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
           !binadei_slot_grains(slot);
}

/* Slots' lock held. */
static void count_user(struct binadei_slot *slot)
{
    /* relaxed: the lock orders it with a thread that would use the slot
     * again. */
    atomic_fetch_add_explicit(&slot->cache_count, 1, memory_order_relaxed);
}

/* Slots' lock held. */
static void append_closed(struct binadei_streams *streams,
                          struct binadei_slot *slot)
{
    slot->next_in_bucket = NULL;
    if (streams->closed_last)
        streams->closed_last->next_in_bucket = slot;
    else
        streams->closed_first = slot;
    streams->closed_last = slot;
    /* relaxed: advice. */
    atomic_fetch_add_explicit(&streams->closed_count, 1, memory_order_relaxed);
}

/* The one that is looked at next; there is one. Slots' lock held. */
static struct binadei_slot *pop_closed(struct binadei_streams *streams)
{
    struct binadei_slot *slot = streams->closed_first;
    streams->closed_first = slot->next_in_bucket;
    if (!streams->closed_first)
        streams->closed_last = NULL;
    atomic_fetch_sub_explicit(&streams->closed_count, 1, memory_order_relaxed);
    return slot;
}

static unsigned closed_count(const struct binadei_streams *streams)
{
    /* relaxed: advice, or the slots' lock is held. */
    return atomic_load_explicit(&streams->closed_count, memory_order_relaxed);
}

static bool is_table_full(const struct binadei_streams *streams)
{
    /* relaxed: changed under the lock that is held. */
    return atomic_load_explicit(&streams->slot_count, memory_order_relaxed) ==
           BINADEI_SLOTS_MAX;
}

/* A closed slot that nothing refers to any more, and its epoch's role, so that
 * nobody asks for the event that is to be destroyed; slots' lock held. A few are
 * looked at, or all where there can be no new one. */
static struct binadei_slot *find_unused(struct binadei_streams *streams)
{
    unsigned looks = closed_count(streams);
    if (looks > BINADEI_CLOSED_LOOKS && !is_table_full(streams))
        looks = BINADEI_CLOSED_LOOKS;
    for (; looks; looks--) {
        struct binadei_slot *slot = pop_closed(streams);
        if (is_unused(slot) && binadei_slot_try_take(slot)) {
            if (is_unused(slot))
                return slot;
            binadei_slot_release(slot);
        }
        append_closed(streams, slot);
    }
    return NULL;
}

/* Whose memory a slot is for. */
struct identity {
    enum binadei_slot_kind kind;
    CUstream stream;
    CUcontext context;
    const void *owner;
};

/* A thread that polls reads these fields with the epoch's role; so the caller has
 * the role, or nobody sees the slot yet. */
static void slot_identify(struct binadei_slot *slot, const struct identity *who)
{
    slot->kind = who->kind;
    slot->stream = who->stream;
    slot->context = who->context;
    slot->owner = who->owner;
}

/* Slots' lock held. NULL: no memory, or the table is full. */
static struct binadei_slot *slot_append(struct binadei_streams *streams,
                                        const struct identity *who,
                                        struct binadei_maps *maps)
{
    /* relaxed: changed under the lock that is held. */
    unsigned count =
        atomic_load_explicit(&streams->slot_count, memory_order_relaxed);
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
    slot_identify(slot, who);
    /* relaxed: SN publishes it. */
    atomic_store_explicit(&streams->slots[count], slot, memory_order_relaxed);
    /* SN.release: pollers that see the count see the slot. */
    atomic_store_explicit(&streams->slot_count, count + 1,
                          memory_order_release);
    return slot;
}

struct binadei_slot *binadei_slot_make(struct binadei_streams *streams,
                                       enum binadei_slot_kind kind,
                                       struct binadei_maps *maps)
{
    const struct identity who = {.kind = kind};
    pthread_mutex_lock(&streams->slots_lock);
    struct binadei_slot *slot = slot_append(streams, &who, maps);
    pthread_mutex_unlock(&streams->slots_lock);
    return slot;
}

/* A new one, with maps of its own; slots' lock held. NULL: no memory. */
static struct binadei_slot *append_stream(struct binadei_streams *streams,
                                          const struct identity *who)
{
    struct binadei_maps *maps = binadei_maps_create(streams->buddy);
    struct binadei_slot *slot = maps ? slot_append(streams, who, maps) : NULL;
    if (!slot)
        binadei_maps_destroy(maps);
    return slot;
}

/* Slots' lock held. `out_left` gets the final event of the stream that had the
 * slot before, or NULL. */
static struct binadei_slot *open_slot(struct binadei_streams *streams,
                                      const struct identity *who,
                                      CUevent *out_left)
{
    struct binadei_slot *slot = find_unused(streams);
    bool is_used_again = slot != NULL;
    if (!slot)
        slot = append_stream(streams, who);
    if (!slot)
        return NULL;
    if (is_used_again) {
        slot->note += BINADEI_SLOTS_MAX;
        slot_identify(slot, who);
    }
    /* relaxed, here and below: who uses the slot now finds it under the lock
     * that is held. */
    *out_left = atomic_exchange_explicit(&slot->final_event, NULL,
                                         memory_order_relaxed);
    /* relaxed: as above. */
    atomic_store_explicit(&slot->is_closed, false, memory_order_relaxed);
    if (is_used_again)
        binadei_slot_release(slot);
    struct binadei_slot **bucket = slot_bucket_of(streams, who->stream);
    slot->next_in_bucket = *bucket;
    *bucket = slot;
    return slot;
}

static binade_status slot_context_of(const struct binadei_streams *streams,
                                     CUstream stream, CUcontext *out)
{
    *out = streams->contexts[0];
    return slot_is_created(stream)
               ? BINADEI_CALL(streams->driver, cuStreamGetCtx, (stream, out))
               : BINADE_OK;
}

binade_status binadei_slot_use(struct binadei_streams *streams,
                               const void *thread, binade_stream stream,
                               struct binadei_slot **out)
{
    CUstream named = normal(stream);
    const void *owner = named == BINADE_STREAM_PER_THREAD ? thread : NULL;
    CUcontext context;
    CUevent left = NULL;
    binade_status status = slot_context_of(streams, named, &context);
    if (status != BINADE_OK)
        return status;
    pthread_mutex_lock(&streams->slots_lock);
    BINADEI_STEP("locked.slot");
    struct binadei_slot *slot = slot_find(streams, named, owner);
    if (!slot) {
        const struct identity who = {owner ? BINADEI_SLOT_PER_THREAD
                                           : BINADEI_SLOT_STREAM,
                                     named, context, owner};
        slot = open_slot(streams, &who, &left);
        if (!slot)
            slot = streams->any;
    }
    count_user(slot);
    pthread_mutex_unlock(&streams->slots_lock);
    /* Of the stream that had the slot before, if any: it may be destroyed only
     * now that nobody refers to the slot. */
    binadei_event_destroy(streams, left);
    *out = slot;
    return BINADE_OK;
}

bool binadei_slot_use_slot(struct binadei_streams *streams,
                           struct binadei_slot *slot)
{
    pthread_mutex_lock(&streams->slots_lock);
    bool is_open = !binadei_slot_is_closed(slot);
    if (is_open)
        count_user(slot);
    pthread_mutex_unlock(&streams->slots_lock);
    return is_open;
}

struct binadei_slot *binadei_slot_use_noted(struct binadei_streams *streams,
                                            uint32_t note)
{
    pthread_mutex_lock(&streams->slots_lock);
    /* relaxed: written under the lock that is held. */
    struct binadei_slot *slot = atomic_load_explicit(
        &streams->slots[(note - 1) % BINADEI_SLOTS_MAX], memory_order_relaxed);
    if (slot && slot->note == note && !binadei_slot_is_closed(slot))
        count_user(slot);
    else
        slot = NULL;
    pthread_mutex_unlock(&streams->slots_lock);
    return slot;
}

void binadei_slot_unuse(struct binadei_slot *slot)
{
    /* SU.release: what was done with it, to the thread that uses the slot
     * again. */
    atomic_fetch_sub_explicit(&slot->cache_count, 1, memory_order_release);
}

/* Slots' lock held: no longer found by its stream. */
static void unlink_slot(struct binadei_streams *streams,
                        struct binadei_slot *slot)
{
    struct binadei_slot **at = slot_bucket_of(streams, slot->stream);
    while (*at != slot)
        at = &(*at)->next_in_bucket;
    *at = slot->next_in_bucket;
    append_closed(streams, slot);
    /* PI.seq_cst: against binadei_slot_pin(). */
    atomic_store_explicit(&slot->is_closed, true, memory_order_seq_cst);
}

struct binadei_slot *binadei_slot_find(struct binadei_streams *streams,
                                       CUstream stream)
{
    pthread_mutex_lock(&streams->slots_lock);
    struct binadei_slot *slot = slot_find(streams, stream, NULL);
    if (slot)
        count_user(slot);
    pthread_mutex_unlock(&streams->slots_lock);
    return slot;
}

bool binadei_slot_close(struct binadei_streams *streams,
                        struct binadei_slot *slot)
{
    pthread_mutex_lock(&streams->slots_lock);
    bool is_open = !binadei_slot_is_closed(slot);
    if (is_open)
        unlink_slot(streams, slot);
    pthread_mutex_unlock(&streams->slots_lock);
    /* PI.seq_cst: who pinned it before this records and goes on; who comes later
     * sees it closed. */
    while (is_open &&
           atomic_load_explicit(&slot->pins, memory_order_seq_cst) != 0)
        sched_yield();
    return is_open;
}

bool binadei_slot_try_close_of(struct binadei_streams *streams,
                               const void *thread)
{
    if (pthread_mutex_trylock(&streams->slots_lock) != 0)
        return false;
    struct binadei_slot *slot =
        slot_find(streams, BINADE_STREAM_PER_THREAD, thread);
    if (slot)
        unlink_slot(streams, slot);
    pthread_mutex_unlock(&streams->slots_lock);
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
    /* PI.seq_cst: what we recorded, to the thread that closes; release is
     * enough. */
    atomic_fetch_sub_explicit(&slot->pins, 1, memory_order_seq_cst);
}

unsigned
binadei_slots_closed_next(struct binadei_streams *streams,
                          struct binadei_slot *out[BINADEI_CLOSED_LOOKS])
{
    unsigned count = 0;
    if (!closed_count(streams))
        return 0;
    pthread_mutex_lock(&streams->slots_lock);
    for (struct binadei_slot *slot = streams->closed_first;
         slot && count < BINADEI_CLOSED_LOOKS; slot = slot->next_in_bucket)
        out[count++] = slot;
    pthread_mutex_unlock(&streams->slots_lock);
    return count;
}

uint64_t binadei_slots_open_count(struct binadei_streams *streams)
{
    uint64_t count = 0;
    pthread_mutex_lock(&streams->slots_lock);
    for (uint32_t i = 0; i < binadei_slot_count(streams); i++) {
        const struct binadei_slot *slot = binadei_slot_at(streams, i);
        count +=
            slot->kind >= BINADEI_SLOT_STREAM && !binadei_slot_is_closed(slot);
    }
    pthread_mutex_unlock(&streams->slots_lock);
    return count;
}

/* No call is under way. */
static void destroy_slot(struct binadei_streams *streams,
                         struct binadei_slot *slot)
{
    /* relaxed: nobody else is there. */
    binadei_event_destroy(streams, atomic_load_explicit(&slot->final_event,
                                                        memory_order_relaxed));
    binadei_event_destroy(streams, slot->epoch.event);
    if (slot->kind != BINADEI_SLOT_ANY)
        binadei_maps_destroy(slot->maps);
    free(slot);
}

void binadei_slots_destroy(struct binadei_streams *streams)
{
    for (uint32_t i = 0; i < binadei_slot_count(streams); i++)
        destroy_slot(streams, binadei_slot_at(streams, i));
}
