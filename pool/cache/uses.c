/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A freed block that several streams use waits for all work, as if it was freed
 * with ANY: nobody records on a stream that the call does not name.
 */
#include "pool/cache/uses.h"

#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/cache/epoch.h"
#include "pool/cache/record.h"
#include "pool/cache/registry.h"
#include "pool/cache/slot.h"
#include "pool/cache/wait.h"
#include "pool/driver/section.h"

static binade_status no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory to note a block's streams");
}

#define FIRST_BUCKETS 64U

static struct binadei_use **bucket_of(const struct binadei_use_table *table,
                                      binade_devptr address)
{
    uint64_t mixed =
        address / BINADEI_GRAIN_BYTES * UINT64_C(0x9E3779B97F4A7C15);
    return &table->buckets[(mixed >> 32) & (table->bucket_count - 1)];
}

/* The place that leads to the note, or where it would be; NULL: there is no
 * table yet. Lock held. */
static struct binadei_use **find(const struct binadei_use_table *table,
                                 binade_devptr address)
{
    if (!table->buckets)
        return NULL;
    struct binadei_use **at = bucket_of(table, address);
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    return at;
}

static void insert(struct binadei_use_table *table, struct binadei_use *use)
{
    struct binadei_use **at = bucket_of(table, use->address);
    use->next = *at;
    *at = use;
}

/* Makes the table, or doubles it where its chains get long. False: there is none
 * for want of memory; with long chains a table works on. Lock held. */
static bool make_room(struct binadei_use_table *table)
{
    struct binadei_use_table larger = *table;
    if (table->use_count < table->bucket_count)
        return true;
    larger.bucket_count =
        table->bucket_count ? 2 * table->bucket_count : FIRST_BUCKETS;
    larger.buckets = calloc(larger.bucket_count, sizeof(*larger.buckets));
    if (!larger.buckets)
        return table->buckets != NULL;
    for (uint32_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i]) {
            struct binadei_use *use = table->buckets[i];
            table->buckets[i] = use->next;
            insert(&larger, use);
        }
    }
    free(table->buckets);
    *table = larger;
    return true;
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
static int note(struct binadei_use_table *table, binade_devptr address,
                struct binadei_slot *slot)
{
    if (!make_room(table))
        return -1;
    struct binadei_use *use = *find(table, address);
    if (!use) {
        use = calloc(1, sizeof(*use));
        if (!use)
            return -1;
        use->address = address;
        insert(table, use);
        table->use_count++;
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
    int noted = note(&engine->uses, address, slot);
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
    struct binadei_use **at = find(&engine->uses, address);
    bool is_noted = at && *at;
    pthread_mutex_unlock(&engine->uses_lock);
    return is_noted;
}

/* Takes what is noted of a block out of the table; NULL: nothing. */
static struct binadei_use *take_use(struct binadei_engine *engine,
                                    binade_devptr address)
{
    pthread_mutex_lock(&engine->uses_lock);
    struct binadei_use **at = find(&engine->uses, address);
    struct binadei_use *use = at ? *at : NULL;
    if (use) {
        *at = use->next;
        engine->uses.use_count--;
    }
    pthread_mutex_unlock(&engine->uses_lock);
    return use;
}

static void return_use(struct binadei_engine *engine, struct binadei_use *use)
{
    if (!use)
        return;
    pthread_mutex_lock(&engine->uses_lock);
    insert(&engine->uses, use);
    engine->uses.use_count++;
    pthread_mutex_unlock(&engine->uses_lock);
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

/* Whether the event is over; NULL is. BINADE_OK, or why the free is refused. */
static binade_status ask(const struct binadei_call *call, CUevent event,
                         bool *out_is_over)
{
    const struct binadei_engine *engine = call->engine;
    struct binadei_section section;
    binade_status status = binadei_context_enter(engine->home, &section);
    if (status != BINADE_OK)
        return status;
    bool is_captured = is_freed_in_capture(call, event);
    CUresult code = event ? engine->driver->cuEventQuery(event) : CUDA_SUCCESS;
    (void)binadei_section_leave(&section);
    *out_is_over = code == CUDA_SUCCESS;
    if (is_captured)
        return refuse_capture();
    return code == CUDA_ERROR_NOT_READY
               ? BINADE_OK
               : binadei_driver_status(BINADEI_ENTRY_cuEventQuery, code);
}

/* Whether nothing is pending on a block that is freed so. */
static bool is_done(const struct binadei_call *call,
                    const struct binadei_use *use, CUevent event,
                    bool is_event_over)
{
    return !use && is_event_over &&
           (event || call->push->slot->kind == BINADEI_SLOT_DONE);
}

/* Whether the stream that frees is the only one that the block waits for. */
static bool is_used_by_only(const struct binadei_use *use,
                            const struct binadei_slot *freed)
{
    uint32_t i = 0;
    while (use && i < use->slot_count && use->slots[i] == freed)
        i++;
    return use && i == use->slot_count;
}

binade_status binadei_put_used(struct binadei_call *call, binade_devptr address,
                               CUevent event)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_use *use = take_use(engine, address);
    bool is_event_over;
    binade_status status = ask(call, event, &is_event_over);
    if (status != BINADE_OK) {
        return_use(engine, use);
        return status;
    }
    struct binadei_slot *freed = call->push->slot;
    bool is_over = is_done(call, use, event, is_event_over);
    bool is_ordered = !event && is_used_by_only(use, freed);
    binadei_leave_block(call->member,
                        is_over      ? engine->done
                        : is_ordered ? freed
                                     : engine->any,
                        address);
    free_use(use);
    return BINADE_OK;
}

binade_status binadei_wait_begin(struct binadei_call *call,
                                 binade_devptr address, CUevent event,
                                 struct binadei_wait *out)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_use *use = take_use(engine, address);
    bool is_event_over = true;
    binade_status status = event ? ask(call, event, &is_event_over) : BINADE_OK;
    if (status != BINADE_OK) {
        return_use(engine, use);
        return status;
    }
    bool is_over = is_done(call, use, event, is_event_over);
    out->number = is_over ? 0 : binadei_epochs_next(engine);
    free_use(use);
    return BINADE_OK;
}

void binadei_uses_destroy(struct binadei_engine *engine)
{
    struct binadei_use_table *table = &engine->uses;
    for (uint32_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i]) {
            struct binadei_use *use = table->buckets[i];
            table->buckets[i] = use->next;
            free_use(use);
        }
    }
    free(table->buckets);
}
