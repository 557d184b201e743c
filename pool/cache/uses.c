/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each of these blocks becomes a batch of its own, with an event on every
 * stream that uses it.
 */
#include "pool/cache/uses.h"

#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/cache/bundle.h"
#include "pool/cache/record.h"
#include "pool/cache/registry.h"
#include "pool/cache/retired.h"
#include "pool/cache/slot.h"
#include "pool/cache/wait.h"
#include "pool/driver/section.h"

static binade_status no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory to note a block's streams");
}

static struct binadei_use **bucket_of(struct binadei_engine *engine,
                                      binade_devptr address)
{
    uint64_t mixed =
        address / BINADEI_GRAIN_BYTES * UINT64_C(0x9E3779B97F4A7C15);
    return &engine->uses[(mixed >> 32) % BINADEI_USE_BUCKETS];
}

/* Lock held. */
static struct binadei_use **find(struct binadei_engine *engine,
                                 binade_devptr address)
{
    struct binadei_use **at = bucket_of(engine, address);
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    return at;
}

static void free_use(struct binadei_use *use)
{
    if (!use)
        return;
    for (uint32_t i = 0; i < use->slot_count; i++)
        binadei_slot_unuse(use->slots[i]);
    free(use->slots);
    free(use);
}

static bool has_slot(const struct binadei_use *use,
                     const struct binadei_slot *slot)
{
    for (uint32_t i = 0; i < use->slot_count; i++)
        if (use->slots[i] == slot)
            return true;
    return false;
}

/* 1: added, 0: it was there, -1: no memory. */
static int add_slot(struct binadei_use *use, struct binadei_slot *slot)
{
    if (has_slot(use, slot))
        return 0;
    if (use->slot_count == use->slot_capacity) {
        uint32_t capacity = use->slot_capacity ? 2 * use->slot_capacity : 4;
        struct binadei_slot **slots =
            realloc(use->slots, capacity * sizeof(struct binadei_slot *));
        if (!slots)
            return -1;
        use->slots = slots;
        use->slot_capacity = capacity;
    }
    use->slots[use->slot_count++] = slot;
    return 1;
}

/* Lock held. 1, 0 or -1 as above. */
static int note(struct binadei_engine *engine, binade_devptr address,
                struct binadei_slot *slot)
{
    struct binadei_use **at = find(engine, address);
    struct binadei_use *use = *at;
    if (!use) {
        use = calloc(1, sizeof(*use));
        if (!use)
            return -1;
        use->address = address;
        *at = use;
    }
    return add_slot(use, slot);
}

static binade_status slot_of(struct binadei_call *call, binade_stream stream,
                             struct binadei_slot **out)
{
    struct binadei_section section;
    if (stream == BINADE_STREAM_ANY) {
        *out = call->engine->any;
        /* It is never closed. */
        (void)binadei_slot_use_slot(call->engine, *out);
        return BINADE_OK;
    }
    binade_status status = binadei_context_enter(call->engine->home, &section);
    if (status != BINADE_OK)
        return status;
    status = binadei_slot_use(call->member, stream, out);
    (void)binadei_section_leave(&section);
    return status;
}

/* `block` is NULL where the address has no metadata. */
static binade_status use_block(struct binadei_call *call,
                               const struct binadei_block *block,
                               binade_devptr address, binade_stream stream)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_slot *slot;
    binade_status status = slot_of(call, stream, &slot);
    if (status != BINADE_OK)
        return status;
    pthread_mutex_lock(&engine->uses_lock);
    int noted = note(engine, address, slot);
    if (noted >= 0 && block) {
        binadei_tag_note_further(binadei_tags(engine), block->start);
        binadei_buddy_set_class(engine->buddy, block->start,
                                block->byte | BINADEI_BYTE_SPECIAL);
    }
    pthread_mutex_unlock(&engine->uses_lock);
    if (noted != 1)
        binadei_slot_unuse(slot);
    return noted < 0 ? no_memory() : BINADE_OK;
}

binade_status binadei_use(struct binadei_call *call,
                          const struct binadei_block *block,
                          binade_devptr address, binade_stream stream)
{
    return use_block(call, block, address, stream);
}

binade_status binadei_wait_note(struct binadei_call *call,
                                binade_devptr address, binade_stream stream)
{
    return use_block(call, NULL, address, stream);
}

bool binadei_is_used(struct binadei_engine *engine, binade_devptr address)
{
    pthread_mutex_lock(&engine->uses_lock);
    bool is_noted = *find(engine, address) != NULL;
    pthread_mutex_unlock(&engine->uses_lock);
    return is_noted;
}

/* Takes what is noted of a block out of the table; NULL: nothing. */
static struct binadei_use *take_use(struct binadei_engine *engine,
                                    binade_devptr address)
{
    pthread_mutex_lock(&engine->uses_lock);
    struct binadei_use **at = find(engine, address);
    struct binadei_use *use = *at;
    if (use)
        *at = use->next;
    pthread_mutex_unlock(&engine->uses_lock);
    return use;
}

static void return_use(struct binadei_engine *engine, struct binadei_use *use)
{
    if (!use)
        return;
    pthread_mutex_lock(&engine->uses_lock);
    struct binadei_use **at = bucket_of(engine, use->address);
    use->next = *at;
    *at = use;
    pthread_mutex_unlock(&engine->uses_lock);
}

/* What the free itself waits for. */
static binade_status record_free(struct binadei_call *call, CUevent event,
                                 struct binadei_batch *batch)
{
    struct binadei_slot *freed = call->push->slot;
    if (event)
        return binadei_record_after(call->member, event, batch);
    if (freed->kind == BINADEI_SLOT_DONE)
        return BINADE_OK;
    return binadei_record_slot(call->member, freed, batch);
}

/* Whether the stream that frees captures: its graph may use the block whenever
 * it runs. */
static bool is_freed_in_capture(const struct binadei_call *call, CUevent event)
{
    const struct binadei_slot *freed = call->push->slot;
    struct binadei_capture capture;
    if (event || freed->kind < BINADEI_SLOT_STREAM ||
        binadei_slot_is_closed(freed))
        return false;
    /* Whatever else the driver refuses, it refuses once more at the record. */
    if (binadei_capture_of(call->engine, freed->stream, &capture) != BINADE_OK)
        return capture.kind != BINADEI_CAPTURE_NONE;
    return capture.kind >= BINADEI_CAPTURE_BROKEN;
}

static binade_status refuse_capture(void)
{
    return binadei_fail(BINADE_E_BUSY,
                        "the stream is capturing a graph, which may use the "
                        "block whenever it runs");
}

/* One event for each stream. `out_is_later`: a capture is in the way of some.
 */
static binade_status record_all(struct binadei_call *call,
                                const struct binadei_use *use, CUevent event,
                                struct binadei_batch *batch, bool *out_is_later)
{
    struct binadei_slot *freed = call->push->slot;
    if (is_freed_in_capture(call, event))
        return refuse_capture();
    binade_status status = record_free(call, event, batch);
    for (uint32_t i = 0; use && i < use->slot_count && status == BINADE_OK; i++)
        if (use->slots[i] != freed || event)
            status = binadei_record_slot(call->member, use->slots[i], batch);
    *out_is_later = status == BINADE_E_BUSY;
    return status;
}

static binade_status record(struct binadei_call *call,
                            const struct binadei_use *use, CUevent event,
                            struct binadei_batch *batch, bool *out_is_later)
{
    struct binadei_section section;
    binade_status status = binadei_context_enter(call->engine->home, &section);
    if (status != BINADE_OK)
        return status;
    status = record_all(call, use, event, batch, out_is_later);
    (void)binadei_section_leave(&section);
    return status;
}

static void clear_special(const struct binadei_engine *engine,
                          const struct binadei_block *block)
{
    binadei_buddy_set_class(engine->buddy, block->start,
                            block->byte & (uint8_t)~BINADEI_BYTE_SPECIAL);
}

/* The batch's only block. */
static void fill(struct binadei_call *call, struct binadei_batch *batch,
                 struct binadei_bundle *bundle,
                 const struct binadei_block *block, binade_devptr address)
{
    clear_special(call->engine, block);
    bundle->addresses[0] = address;
    bundle->count = 1;
    batch->bundles = bundle;
    batch->bytes = block->grains * BINADEI_GRAIN_BYTES;
    binadei_count(call->member, BINADEI_COUNT_RETIRING_IN_BYTES, batch->bytes);
    binadei_count(call->member, BINADEI_COUNT_BATCHES, 1);
    /* Of no stream's own: it waits for more than one. */
    binadei_retired_push(call->engine, call->engine->any, batch);
}

/* A capture is in the way of one of the events: the block waits for a context
 * event, later, which stands for all streams. */
static binade_status leave_to_any(struct binadei_call *call,
                                  const struct binadei_block *block,
                                  binade_devptr address)
{
    struct binadei_member *member = call->member;
    struct binadei_slot *any = call->engine->any;
    struct binadei_cache *cache = binadei_cache_find(member, any);
    if (!cache)
        cache = binadei_cache_make(member, any);
    if (!cache)
        return no_memory();
    clear_special(call->engine, block);
    if (binadei_leave_block(member, cache, block->class_index, address))
        return BINADE_OK;
    binadei_buddy_set_class(call->engine->buddy, block->start, block->byte);
    return no_memory();
}

/* Records and publishes, or leaves the block where it waits longer. */
static binade_status put_behind(struct binadei_call *call,
                                const struct binadei_use *use,
                                const struct binadei_block *block,
                                binade_devptr address, CUevent event)
{
    struct binadei_member *member = call->member;
    bool is_later = false;
    struct binadei_bundle *bundle =
        binadei_bundle_take(member, block->class_index);
    if (!bundle)
        return no_memory();
    struct binadei_batch *batch = binadei_batch_take(member);
    if (!batch) {
        binadei_bundle_spare(member, bundle);
        return no_memory();
    }
    binade_status status = record(call, use, event, batch, &is_later);
    if (status == BINADE_OK) {
        fill(call, batch, bundle, block, address);
        return BINADE_OK;
    }
    binadei_batch_spare(member, batch);
    binadei_bundle_spare(member, bundle);
    return is_later ? leave_to_any(call, block, address) : status;
}

/* Where streams have maps: the block waits for all work, as if it was freed with
 * ANY, unless nobody else uses it and its event is over. */
static binade_status put_on_any(struct binadei_call *call,
                                const struct binadei_use *use,
                                const struct binadei_block *block,
                                binade_devptr address, CUevent event)
{
    const struct binadei_engine *engine = call->engine;
    struct binadei_section section;
    binade_status status = binadei_context_enter(engine->home, &section);
    if (status != BINADE_OK)
        return status;
    bool is_captured = is_freed_in_capture(call, event);
    CUresult code = event ? engine->driver->cuEventQuery(event) : CUDA_SUCCESS;
    (void)binadei_section_leave(&section);
    if (is_captured)
        return refuse_capture();
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY)
        return binadei_driver_status(BINADEI_ENTRY_cuEventQuery, code);
    if (use || code != CUDA_SUCCESS ||
        (!event && call->push->slot->kind != BINADEI_SLOT_DONE))
        return leave_to_any(call, block, address);
    clear_special(engine, block);
    binadei_give_block(call->member, address);
    return BINADE_OK;
}

binade_status binadei_put_used(struct binadei_call *call,
                               const struct binadei_block *block,
                               binade_devptr address, CUevent event)
{
    struct binadei_use *use = take_use(call->engine, address);
    binade_status status = call->engine->has_maps
                               ? put_on_any(call, use, block, address, event)
                               : put_behind(call, use, block, address, event);
    if (status == BINADE_OK)
        free_use(use);
    else
        return_use(call->engine, use);
    return status;
}

binade_status binadei_wait_record(struct binadei_call *call,
                                  binade_devptr address, CUevent event,
                                  struct binadei_batch *wait)
{
    bool is_later = false;
    struct binadei_use *use = take_use(call->engine, address);
    if (!use && !event && call->push->slot->kind == BINADEI_SLOT_DONE)
        return BINADE_OK;
    binade_status status = record(call, use, event, wait, &is_later);
    if (status != BINADE_OK && (is_later || !event)) {
        wait->event_count = 0;
        wait->needs_record = true;
        status = BINADE_OK;
    }
    if (status == BINADE_OK)
        free_use(use);
    else
        return_use(call->engine, use);
    return status;
}

void binadei_uses_destroy(struct binadei_engine *engine)
{
    for (unsigned i = 0; i < BINADEI_USE_BUCKETS; i++) {
        while (engine->uses[i]) {
            struct binadei_use *use = engine->uses[i];
            engine->uses[i] = use->next;
            free_use(use);
        }
    }
}
