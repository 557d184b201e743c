/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A freed block that several streams use waits for all work, as if it was freed
 * with ANY: nobody records on a stream that the call does not name.
 */
#include "pool/cache/uses.h"

#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/cache/registry.h"
#include "pool/driver/section.h"
#include "pool/stream/capture_guard.h"
#include "pool/stream/epoch.h"
#include "pool/stream/event.h"
#include "pool/stream/stream_state.h"

static binade_status uses_no_memory(void)
{
    return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                        "no memory to note a block's streams");
}

#define FIRST_BUCKETS 64U

static struct binadei_use **
uses_bucket_of(const struct binadei_use_table *table, binade_devptr address)
{
    uint64_t mixed =
        address / BINADEI_GRAIN_BYTES * UINT64_C(0x9E3779B97F4A7C15);
    return &table->buckets[(mixed >> 32) & (table->bucket_count - 1)];
}

/* The place that leads to the note, or where it would be; NULL: there is no
 * table yet. Lock held. */
static struct binadei_use **uses_find(const struct binadei_use_table *table,
                                      binade_devptr address)
{
    if (!table->buckets)
        return NULL;
    struct binadei_use **at = uses_bucket_of(table, address);
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    return at;
}

static void uses_insert(struct binadei_use_table *table,
                        struct binadei_use *use)
{
    struct binadei_use **at = uses_bucket_of(table, use->address);
    use->next = *at;
    *at = use;
}

/* Makes the table, or doubles it where its chains get long. False: there is none
 * for want of memory; with long chains a table works on. Lock held. */
static bool uses_make_room(struct binadei_use_table *table)
{
    struct binadei_use_table larger = *table;
    if (table->use_count < table->bucket_count)
        return true;
    larger.bucket_count =
        table->bucket_count ? 2 * table->bucket_count : FIRST_BUCKETS;
    larger.buckets = calloc(larger.bucket_count, sizeof(struct binadei_use *));
    if (!larger.buckets)
        return table->buckets != NULL;
    for (uint32_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i]) {
            struct binadei_use *use = table->buckets[i];
            table->buckets[i] = use->next;
            uses_insert(&larger, use);
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
    for (uint32_t i = 0; i < use->stream_state_count; i++)
        binadei_stream_state_unuse(use->stream_states[i]);
    if (use->freed_on)
        binadei_stream_state_unuse(use->freed_on);
    free(use->stream_states);
    free(use);
}

static bool has_stream_state(const struct binadei_use *use,
                             const struct binadei_stream_state *stream_state)
{
    for (uint32_t i = 0; i < use->stream_state_count; i++)
        if (use->stream_states[i] == stream_state)
            return true;
    return false;
}

/* 1: added, 0: it was there, -1: no memory. */
static int add_stream_state(struct binadei_use *use,
                            struct binadei_stream_state *stream_state)
{
    if (has_stream_state(use, stream_state))
        return 0;
    if (use->stream_state_count == use->stream_state_capacity) {
        uint32_t capacity =
            use->stream_state_capacity ? 2 * use->stream_state_capacity : 4;
        struct binadei_stream_state **stream_states =
            realloc(use->stream_states,
                    capacity * sizeof(struct binadei_stream_state *));
        if (!stream_states)
            return -1;
        use->stream_states = stream_states;
        use->stream_state_capacity = capacity;
    }
    use->stream_states[use->stream_state_count++] = stream_state;
    return 1;
}

/* Lock held. 1, 0 or -1 as above. */
static int uses_note(struct binadei_use_table *table, binade_devptr address,
                     struct binadei_stream_state *stream_state)
{
    if (!uses_make_room(table))
        return -1;
    struct binadei_use *use = *uses_find(table, address);
    if (!use) {
        use = calloc(1, sizeof(*use));
        if (!use)
            return -1;
        use->address = address;
        uses_insert(table, use);
        table->use_count++;
    }
    return add_stream_state(use, stream_state);
}

static binade_status uses_stream_state_of(struct binadei_call *call,
                                          binade_stream stream,
                                          struct binadei_stream_state **out)
{
    struct binadei_section section;
    if (stream == BINADE_STREAM_ANY) {
        *out = call->engine->streams.any;
        /* It is never closed. */
        (void)binadei_stream_state_use_found(&call->engine->streams, *out);
        return BINADE_OK;
    }
    binade_status status =
        binadei_context_enter(call->engine->streams.own_context, &section);
    if (status != BINADE_OK)
        return status;
    status = binadei_stream_state_use(&call->engine->streams,
                                      call->thread_state, stream, out);
    (void)binadei_section_leave(&section);
    return status;
}

/* `block` is NULL where the address has no metadata. */
static binade_status use_block(struct binadei_call *call,
                               const struct binadei_block *block,
                               binade_devptr address, binade_stream stream)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_stream_state *stream_state;
    binade_status status = uses_stream_state_of(call, stream, &stream_state);
    if (status != BINADE_OK)
        return status;
    pthread_mutex_lock(&engine->uses_lock);
    int noted = uses_note(&engine->uses, address, stream_state);
    if (noted >= 0 && block) {
        binadei_tag_note_further(binadei_tags(engine), block->start);
        binadei_buddy_set_class(engine->streams.buddy, block->start,
                                block->byte | BINADEI_BYTE_SPECIAL);
    }
    pthread_mutex_unlock(&engine->uses_lock);
    if (noted != 1)
        binadei_stream_state_unuse(stream_state);
    return noted < 0 ? uses_no_memory() : BINADE_OK;
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
    struct binadei_use **at = uses_find(&engine->uses, address);
    bool is_noted = at && *at;
    pthread_mutex_unlock(&engine->uses_lock);
    return is_noted;
}

/* Takes what is noted of a block out of the table; NULL: nothing. */
static struct binadei_use *take_use(struct binadei_engine *engine,
                                    binade_devptr address)
{
    pthread_mutex_lock(&engine->uses_lock);
    struct binadei_use **at = uses_find(&engine->uses, address);
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
    uses_insert(&engine->uses, use);
    engine->uses.use_count++;
    pthread_mutex_unlock(&engine->uses_lock);
}

/* Whether the stream that frees captures: its graph may use the block whenever
 * it runs. */
static bool is_freed_in_capture(const struct binadei_call *call, CUevent event)
{
    const struct binadei_stream_state *freed = call->push->stream_state;
    struct binadei_capture capture;
    if (event || freed->kind < BINADEI_STREAM_STATE_STREAM ||
        binadei_stream_state_is_closed(freed))
        return false;
    /* Whatever else the driver refuses, it refuses once more at the record. */
    if (binadei_capture_of(&call->engine->streams, freed->stream, &capture) !=
        BINADE_OK)
        return capture.kind != BINADEI_CAPTURE_NONE;
    return capture.kind >= BINADEI_CAPTURE_BROKEN;
}

static binade_status uses_refuse_capture(void)
{
    return binadei_fail(BINADE_E_BUSY,
                        "the stream is capturing a graph, which may use the "
                        "block whenever it runs");
}

/* Whether the event is over; NULL is. BINADE_OK, or why the free is refused. */
static binade_status uses_ask(const struct binadei_call *call, CUevent event,
                              bool *out_is_over)
{
    const struct binadei_engine *engine = call->engine;
    struct binadei_section section;
    binade_status status =
        binadei_context_enter(engine->streams.own_context, &section);
    if (status != BINADE_OK)
        return status;
    bool is_captured = is_freed_in_capture(call, event);
    CUresult code =
        event ? engine->streams.driver->cuEventQuery(event) : CUDA_SUCCESS;
    (void)binadei_section_leave(&section);
    *out_is_over = code == CUDA_SUCCESS;
    if (is_captured)
        return uses_refuse_capture();
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
           (event ||
            call->push->stream_state->kind == BINADEI_STREAM_STATE_DONE);
}

/* Whether all streams that the block waits for can be asked. The caller's counts
 * unless an event that is over stands for it, or nothing is pending there. */
static bool can_be_kept(const struct binadei_call *call,
                        struct binadei_use *use, CUevent event)
{
    struct binadei_stream_state *freed = call->push->stream_state;
    for (uint32_t i = 0; i < use->stream_state_count; i++)
        if (!binadei_stream_state_is_created(use->stream_states[i]))
            return false;
    if (event || freed->kind == BINADEI_STREAM_STATE_DONE)
        return true;
    if (!binadei_stream_state_is_created(freed) ||
        !binadei_stream_state_use_found(&call->engine->streams, freed))
        return false;
    use->freed_on = freed;
    return true;
}

/* Behind the others; what is NULL is not. */
static void keep_use(struct binadei_engine *engine, struct binadei_use *use)
{
    if (!use)
        return;
    use->next = NULL;
    pthread_mutex_lock(&engine->uses_lock);
    struct binadei_use **end = &engine->freed_uses;
    *(engine->freed_uses ? engine->freed_uses_end : end) = use;
    engine->freed_uses_end = &use->next;
    pthread_mutex_unlock(&engine->uses_lock);
}

/* Notes where the block is that is about to be freed. Returns the use, or NULL
 * where it is of no more use. */
static struct binadei_use *note_freed(const struct binadei_call *call,
                                      struct binadei_use *use,
                                      binade_devptr address, CUevent event)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_block block;
    if (!use || !can_be_kept(call, use, event) ||
        binadei_block_at(engine, address, &block) != BINADE_OK) {
        free_use(use);
        return NULL;
    }
    use->start = block.start;
    use->grains = block.grains;
    use->moves = binadei_epoch_moves(engine->streams.any);
    return use;
}

/* Each stream once a round; the role of ANY's stream state is held. */
static bool uses_is_idle(struct binadei_engine *engine,
                         struct binadei_stream_state *stream_state)
{
    if (stream_state->asked_round != engine->ask_round) {
        stream_state->asked_round = engine->ask_round;
        stream_state->was_idle =
            binadei_epoch_is_stream_idle(&engine->streams, stream_state);
    }
    return stream_state->was_idle;
}

static bool are_idle(struct binadei_engine *engine,
                     const struct binadei_use *use)
{
    if (use->freed_on && !uses_is_idle(engine, use->freed_on))
        return false;
    for (uint32_t i = 0; i < use->stream_state_count; i++)
        if (!uses_is_idle(engine, use->stream_states[i]))
            return false;
    return true;
}

/* Takes the block out of ANY's maps, where it is, and gives it to the buddy. */
static uint64_t give_used(struct binadei_thread_state *by,
                          const struct binadei_use *use)
{
    struct binadei_engine *engine = by->engine;
    const struct binadei_view view = {.buddy = engine->streams.buddy,
                                      .maps = engine->streams.any->maps,
                                      .is_own_only = true};
    if (!binadei_view_claim(&view, use->start, use->grains))
        return 0;
    (void)binadei_buddy_give(engine->streams.buddy, &by->affinity, use->start,
                             use->grains);
    return use->grains;
}

static struct binadei_use *uses_take_freed(struct binadei_engine *engine)
{
    pthread_mutex_lock(&engine->uses_lock);
    struct binadei_use *first = engine->freed_uses;
    engine->freed_uses = NULL;
    pthread_mutex_unlock(&engine->uses_lock);
    return first;
}

/* What stays. `by` is NULL where nobody is to be asked. */
static uint64_t sort_freed(struct binadei_engine *engine,
                           struct binadei_thread_state *by)
{
    struct binadei_use *use = uses_take_freed(engine);
    uint64_t grains = 0;
    while (use) {
        struct binadei_use *next = use->next;
        bool is_there =
            binadei_epoch_has_since(engine->streams.any, use->moves);
        bool is_over = is_there && by && are_idle(engine, use);
        if (is_over)
            grains += give_used(by, use);
        if (is_there && !is_over)
            keep_use(engine, use);
        else
            free_use(use);
        use = next;
    }
    return grains;
}

void binadei_uses_forget(struct binadei_engine *engine)
{
    (void)sort_freed(engine, NULL);
}

uint64_t binadei_uses_ask(struct binadei_thread_state *by)
{
    struct binadei_engine *engine = by->engine;
    if (!binadei_stream_state_grains(engine->streams.any) ||
        !binadei_stream_state_try_take(engine->streams.any))
        return 0;
    engine->ask_round++;
    uint64_t grains = sort_freed(engine, by);
    binadei_stream_state_release(engine->streams.any);
    return grains;
}

binade_status binadei_put_used(struct binadei_call *call, binade_devptr address,
                               CUevent event)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_use *use = take_use(engine, address);
    bool is_event_over;
    binade_status status = uses_ask(call, event, &is_event_over);
    if (status != BINADE_OK) {
        return_use(engine, use);
        return status;
    }
    bool is_over = is_done(call, use, event, is_event_over);
    if (is_event_over) {
        use = note_freed(call, use, address, event);
    } else {
        free_use(use);
        use = NULL;
    }
    binadei_flush_block(call->thread_state,
                        is_over ? engine->streams.done : engine->streams.any,
                        address);
    keep_use(engine, use);
    return BINADE_OK;
}

binade_status binadei_wait_begin(struct binadei_call *call,
                                 binade_devptr address, CUevent event,
                                 struct binadei_wait *out)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_use *use = take_use(engine, address);
    bool is_event_over = true;
    binade_status status =
        event ? uses_ask(call, event, &is_event_over) : BINADE_OK;
    if (status != BINADE_OK) {
        return_use(engine, use);
        return status;
    }
    bool is_over = is_done(call, use, event, is_event_over);
    out->number = is_over ? 0 : binadei_epochs_next(&engine->streams);
    free_use(use);
    return BINADE_OK;
}

void binadei_uses_destroy(struct binadei_engine *engine)
{
    struct binadei_use_table *table = &engine->uses;
    for (struct binadei_use *use = uses_take_freed(engine); use;) {
        struct binadei_use *next = use->next;
        free_use(use);
        use = next;
    }
    for (uint32_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i]) {
            struct binadei_use *use = table->buckets[i];
            table->buckets[i] = use->next;
            free_use(use);
        }
    }
    free(table->buckets);
}

struct binadei_wait binadei_wait_for_all(const struct binadei_call *call)
{
    return (struct binadei_wait){binadei_epochs_next(&call->engine->streams)};
}

bool binadei_wait_is_over(struct binadei_call *call,
                          const struct binadei_wait *wait)
{
    const struct binadei_stream_user user = binadei_call_user(call);
    return !wait->number || binadei_epochs_have_passed(&user, wait->number);
}

bool binadei_wait_needs_synchronise(const struct binadei_call *call,
                                    const struct binadei_wait *wait)
{
    return wait->number && !call->engine->streams.driver->cuCtxRecordEvent;
}

bool binadei_wait_synchronise(struct binadei_call *call)
{
    if (!binadei_capture_guard_recorder_begin())
        return false;
    binade_status status = binadei_synchronise(&call->engine->streams);
    binadei_capture_guard_recorder_end();
    return status == BINADE_OK;
}

bool binadei_wait_ask(struct binadei_call *call,
                      const struct binadei_wait *wait, bool may_wait)
{
    struct binadei_section section;
    if (binadei_wait_needs_synchronise(call, wait))
        return may_wait && binadei_wait_synchronise(call);
    if (binadei_context_enter(call->engine->streams.own_context, &section) !=
        BINADE_OK)
        return false;
    bool is_over = binadei_wait_is_over(call, wait);
    (void)binadei_section_leave(&section);
    return is_over;
}

bool binadei_wait_is_capturing(const struct binadei_call *call)
{
    const struct binadei_stream_state *stream_state = call->push->stream_state;
    if (call->is_capturing)
        return true;
    return stream_state->kind == BINADEI_STREAM_STATE_STREAM &&
           stream_state->stream != BINADE_STREAM_LEGACY &&
           binadei_is_capturing(&call->engine->streams, stream_state->stream);
}

CUstream binadei_wait_stream(const struct binadei_call *call)
{
    const struct binadei_stream_state *stream_state = call->push->stream_state;
    bool is_own = stream_state->kind == BINADEI_STREAM_STATE_PER_THREAD
                      ? stream_state->owner == call->thread_state
                      : stream_state->kind == BINADEI_STREAM_STATE_STREAM;
    return is_own &&
                   stream_state->context == call->engine->streams.contexts[0] &&
                   !binadei_is_capturing(&call->engine->streams,
                                         stream_state->stream)
               ? stream_state->stream
               : NULL;
}

bool binadei_wait_is_of_stranger(const struct binadei_call *call)
{
    const struct binadei_stream_state *stream_state = call->push->stream_state;
    return stream_state->kind == BINADEI_STREAM_STATE_STREAM &&
           !binadei_streams_know_context(&call->engine->streams,
                                         stream_state->context);
}
