/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A freed block that several streams use waits for all work, as if it was freed
 * with ANY: the pool records events only on streams that the call names.
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

static moiety_status uses_no_memory(void)
{
    return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                        "no memory to note a block's streams");
}

#define FIRST_BUCKETS 64U

static struct moietyi_use **
uses_bucket_of(const struct moietyi_use_table *table, moiety_devptr address)
{
    uint64_t mixed =
        address / MOIETYI_GRAIN_BYTES * UINT64_C(0x9E3779B97F4A7C15);
    return &table->buckets[(mixed >> 32) & (table->bucket_count - 1)];
}

/* The link to the note, or where it would be; NULL: there is no table yet. Lock
 * held. */
static struct moietyi_use **uses_find(const struct moietyi_use_table *table,
                                      moiety_devptr address)
{
    if (!table->buckets)
        return NULL;
    struct moietyi_use **at = uses_bucket_of(table, address);
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    return at;
}

static void uses_insert(struct moietyi_use_table *table,
                        struct moietyi_use *use)
{
    struct moietyi_use **at = uses_bucket_of(table, use->address);
    use->next = *at;
    *at = use;
}

/* Makes the table, or doubles it if its chains get long. False: there is none
 * for want of memory; a table with long chains still works. Lock held. */
static bool uses_make_room(struct moietyi_use_table *table)
{
    struct moietyi_use_table larger = *table;
    if (table->use_count < table->bucket_count)
        return true;
    larger.bucket_count =
        table->bucket_count ? 2 * table->bucket_count : FIRST_BUCKETS;
    larger.buckets = calloc(larger.bucket_count, sizeof(struct moietyi_use *));
    if (!larger.buckets)
        return table->buckets != NULL;
    for (uint32_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i]) {
            struct moietyi_use *use = table->buckets[i];
            table->buckets[i] = use->next;
            uses_insert(&larger, use);
        }
    }
    free(table->buckets);
    *table = larger;
    return true;
}

static void free_use(struct moietyi_use *use)
{
    if (!use)
        return;
    for (uint32_t i = 0; i < use->stream_state_count; i++)
        moietyi_stream_state_unuse(use->stream_states[i]);
    if (use->freed_on)
        moietyi_stream_state_unuse(use->freed_on);
    free(use->stream_states);
    free(use);
}

static bool has_stream_state(const struct moietyi_use *use,
                             const struct moietyi_stream_state *stream_state)
{
    for (uint32_t i = 0; i < use->stream_state_count; i++)
        if (use->stream_states[i] == stream_state)
            return true;
    return false;
}

/* 1: added, 0: it was there, -1: no memory. */
static int add_stream_state(struct moietyi_use *use,
                            struct moietyi_stream_state *stream_state)
{
    if (has_stream_state(use, stream_state))
        return 0;
    if (use->stream_state_count == use->stream_state_capacity) {
        uint32_t capacity =
            use->stream_state_capacity ? 2 * use->stream_state_capacity : 4;
        struct moietyi_stream_state **stream_states =
            realloc(use->stream_states,
                    capacity * sizeof(struct moietyi_stream_state *));
        if (!stream_states)
            return -1;
        use->stream_states = stream_states;
        use->stream_state_capacity = capacity;
    }
    use->stream_states[use->stream_state_count++] = stream_state;
    return 1;
}

/* Lock held. 1, 0 or -1 as above. */
static int uses_note(struct moietyi_use_table *table, moiety_devptr address,
                     struct moietyi_stream_state *stream_state)
{
    if (!uses_make_room(table))
        return -1;
    struct moietyi_use *use = *uses_find(table, address);
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

static moiety_status uses_stream_state_of(struct moietyi_call *call,
                                          moiety_stream stream,
                                          struct moietyi_stream_state **out)
{
    struct moietyi_section section;
    if (stream == MOIETY_STREAM_ANY) {
        *out = call->engine->streams.any;
        /* It is never closed. */
        (void)moietyi_stream_state_use_found(&call->engine->streams, *out);
        return MOIETY_OK;
    }
    moiety_status status =
        moietyi_context_enter(call->engine->streams.own_context, &section);
    if (status != MOIETY_OK)
        return status;
    status = moietyi_stream_state_use(&call->engine->streams,
                                      call->thread_state, stream, out);
    (void)moietyi_section_leave(&section);
    return status;
}

moiety_status moietyi_use(struct moietyi_call *call,
                          const struct moietyi_block *block,
                          moiety_devptr address, moiety_stream stream)
{
    struct moietyi_engine *engine = call->engine;
    struct moietyi_stream_state *stream_state;
    moiety_status status = uses_stream_state_of(call, stream, &stream_state);
    if (status != MOIETY_OK)
        return status;
    pthread_mutex_lock(&engine->uses_lock);
    int noted = uses_note(&engine->uses, address, stream_state);
    if (noted >= 0 && block) {
        moietyi_tag_note_further(moietyi_tags(engine), block->start);
        moietyi_space_set_class(engine->streams.space, block->start,
                                block->byte | MOIETYI_BYTE_SPECIAL);
    }
    pthread_mutex_unlock(&engine->uses_lock);
    if (noted != 1)
        moietyi_stream_state_unuse(stream_state);
    return noted < 0 ? uses_no_memory() : MOIETY_OK;
}

bool moietyi_is_used(struct moietyi_engine *engine, moiety_devptr address)
{
    pthread_mutex_lock(&engine->uses_lock);
    struct moietyi_use **at = uses_find(&engine->uses, address);
    bool is_noted = at && *at;
    pthread_mutex_unlock(&engine->uses_lock);
    return is_noted;
}

/* Takes the note of a block out of the table; NULL: there is none. */
static struct moietyi_use *take_use(struct moietyi_engine *engine,
                                    moiety_devptr address)
{
    pthread_mutex_lock(&engine->uses_lock);
    struct moietyi_use **at = uses_find(&engine->uses, address);
    struct moietyi_use *use = at ? *at : NULL;
    if (use) {
        *at = use->next;
        engine->uses.use_count--;
    }
    pthread_mutex_unlock(&engine->uses_lock);
    return use;
}

static void return_use(struct moietyi_engine *engine, struct moietyi_use *use)
{
    if (!use)
        return;
    pthread_mutex_lock(&engine->uses_lock);
    uses_insert(&engine->uses, use);
    engine->uses.use_count++;
    pthread_mutex_unlock(&engine->uses_lock);
}

/* Whether the stream of the free captures: its graph may use the block whenever
 * it runs. */
static bool is_freed_in_capture(const struct moietyi_call *call, CUevent event)
{
    const struct moietyi_stream_state *freed = call->push->stream_state;
    struct moietyi_capture capture;
    if (event || freed->kind < MOIETYI_STREAM_STATE_STREAM ||
        moietyi_stream_state_is_closed(freed))
        return false;
    /* Any other refusal of the driver comes again at the record. */
    if (moietyi_capture_of(&call->engine->streams, freed->stream, &capture) !=
        MOIETY_OK)
        return capture.kind != MOIETYI_CAPTURE_NONE;
    return capture.kind >= MOIETYI_CAPTURE_BROKEN;
}

static moiety_status uses_refuse_capture(void)
{
    return moietyi_fail(MOIETY_E_CAPTURING,
                        "the stream is capturing a graph, which may use the "
                        "block whenever it runs");
}

/* Whether the event is over; NULL counts as over. MOIETY_OK, or why the free is
 * refused. */
static moiety_status uses_ask(const struct moietyi_call *call, CUevent event,
                              bool *out_is_over)
{
    const struct moietyi_engine *engine = call->engine;
    struct moietyi_section section;
    moiety_status status =
        moietyi_context_enter(engine->streams.own_context, &section);
    if (status != MOIETY_OK)
        return status;
    bool is_captured = is_freed_in_capture(call, event);
    CUresult code =
        event ? engine->streams.driver->cuEventQuery(event) : CUDA_SUCCESS;
    (void)moietyi_section_leave(&section);
    *out_is_over = code == CUDA_SUCCESS;
    if (is_captured)
        return uses_refuse_capture();
    return code == CUDA_ERROR_NOT_READY
               ? MOIETY_OK
               : moietyi_driver_status(MOIETYI_ENTRY_cuEventQuery, code);
}

/* Whether a block that is freed this way has no pending work. */
static bool is_done(const struct moietyi_call *call,
                    const struct moietyi_use *use, CUevent event,
                    bool is_event_over)
{
    return !use && is_event_over &&
           (event ||
            call->push->stream_state->kind == MOIETYI_STREAM_STATE_DONE);
}

/* Whether all streams that the block waits for can be asked. The caller's
 * stream is one of them, unless an event stands for it or it has no pending
 * work. */
static bool can_be_kept(const struct moietyi_call *call,
                        struct moietyi_use *use, CUevent event)
{
    struct moietyi_stream_state *freed = call->push->stream_state;
    for (uint32_t i = 0; i < use->stream_state_count; i++)
        if (!moietyi_stream_state_is_created(use->stream_states[i]))
            return false;
    if (event || freed->kind == MOIETYI_STREAM_STATE_DONE)
        return true;
    if (!moietyi_stream_state_is_created(freed) ||
        !moietyi_stream_state_use_found(&call->engine->streams, freed))
        return false;
    use->freed_on = freed;
    return true;
}

/* Appends it; NULL is ignored. */
static void keep_use(struct moietyi_engine *engine, struct moietyi_use *use)
{
    if (!use)
        return;
    use->next = NULL;
    pthread_mutex_lock(&engine->uses_lock);
    struct moietyi_use **end = &engine->freed_uses;
    *(engine->freed_uses ? engine->freed_uses_end : end) = use;
    engine->freed_uses_end = &use->next;
    pthread_mutex_unlock(&engine->uses_lock);
}

/* Notes the place of the block that is about to be freed. Returns the use, or
 * NULL if it is no longer needed. */
static struct moietyi_use *note_freed(const struct moietyi_call *call,
                                      struct moietyi_use *use,
                                      moiety_devptr address, CUevent event)
{
    struct moietyi_engine *engine = call->engine;
    struct moietyi_block block;
    if (!use || !can_be_kept(call, use, event) ||
        moietyi_block_at(engine, address, &block) != MOIETY_OK) {
        free_use(use);
        return NULL;
    }
    use->start = block.start;
    use->grains = block.grains;
    use->moves = moietyi_epoch_moves(engine->streams.any);
    return use;
}

/* Asks each stream once a round; the role of ANY's stream state is held. */
static bool uses_is_idle(struct moietyi_engine *engine,
                         struct moietyi_stream_state *stream_state)
{
    if (stream_state->asked_round != engine->ask_round) {
        stream_state->asked_round = engine->ask_round;
        stream_state->was_idle =
            moietyi_epoch_is_stream_idle(&engine->streams, stream_state);
    }
    return stream_state->was_idle;
}

static bool are_idle(struct moietyi_engine *engine,
                     const struct moietyi_use *use)
{
    if (use->freed_on && !uses_is_idle(engine, use->freed_on))
        return false;
    for (uint32_t i = 0; i < use->stream_state_count; i++)
        if (!uses_is_idle(engine, use->stream_states[i]))
            return false;
    return true;
}

/* Moves the block from ANY's heap, where it is, to the space. */
static uint64_t give_used(struct moietyi_thread_state *by,
                          const struct moietyi_use *use)
{
    struct moietyi_engine *engine = by->engine;
    const struct moietyi_view view = {.space = engine->streams.space,
                                      .heap = engine->streams.any->heap,
                                      .is_own_only = true};
    if (!moietyi_view_claim(&view, use->start, use->grains))
        return 0;
    (void)moietyi_space_give(engine->streams.space, use->start, use->grains);
    return use->grains;
}

static struct moietyi_use *uses_take_freed(struct moietyi_engine *engine)
{
    pthread_mutex_lock(&engine->uses_lock);
    struct moietyi_use *first = engine->freed_uses;
    engine->freed_uses = NULL;
    pthread_mutex_unlock(&engine->uses_lock);
    return first;
}

/* Keeps the uses that still wait. `by` is NULL if no stream is to be asked. */
static uint64_t sort_freed(struct moietyi_engine *engine,
                           struct moietyi_thread_state *by)
{
    struct moietyi_use *use = uses_take_freed(engine);
    uint64_t grains = 0;
    while (use) {
        struct moietyi_use *next = use->next;
        bool is_there =
            moietyi_epoch_has_since(engine->streams.any, use->moves);
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

void moietyi_uses_forget(struct moietyi_engine *engine)
{
    (void)sort_freed(engine, NULL);
}

uint64_t moietyi_uses_ask(struct moietyi_thread_state *by)
{
    struct moietyi_engine *engine = by->engine;
    if (!moietyi_stream_state_grains(engine->streams.any) ||
        !moietyi_stream_state_try_take(engine->streams.any))
        return 0;
    engine->ask_round++;
    uint64_t grains = sort_freed(engine, by);
    moietyi_stream_state_release(engine->streams.any);
    return grains;
}

moiety_status moietyi_put_used(struct moietyi_call *call, moiety_devptr address,
                               CUevent event)
{
    struct moietyi_engine *engine = call->engine;
    struct moietyi_use *use = take_use(engine, address);
    bool is_event_over;
    moiety_status status = uses_ask(call, event, &is_event_over);
    if (status != MOIETY_OK) {
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
    moietyi_flush_block(call->thread_state,
                        is_over ? engine->streams.done : engine->streams.any,
                        address);
    keep_use(engine, use);
    return MOIETY_OK;
}

moiety_status moietyi_wait_begin(struct moietyi_call *call,
                                 moiety_devptr address, CUevent event,
                                 struct moietyi_wait *out)
{
    struct moietyi_engine *engine = call->engine;
    struct moietyi_use *use = take_use(engine, address);
    bool is_event_over = true;
    moiety_status status =
        event ? uses_ask(call, event, &is_event_over) : MOIETY_OK;
    if (status != MOIETY_OK) {
        return_use(engine, use);
        return status;
    }
    bool is_over = is_done(call, use, event, is_event_over);
    out->number = is_over ? 0 : moietyi_epochs_next(&engine->streams);
    free_use(use);
    return MOIETY_OK;
}

void moietyi_uses_destroy(struct moietyi_engine *engine)
{
    struct moietyi_use_table *table = &engine->uses;
    for (struct moietyi_use *use = uses_take_freed(engine); use;) {
        struct moietyi_use *next = use->next;
        free_use(use);
        use = next;
    }
    for (uint32_t i = 0; i < table->bucket_count; i++) {
        while (table->buckets[i]) {
            struct moietyi_use *use = table->buckets[i];
            table->buckets[i] = use->next;
            free_use(use);
        }
    }
    free(table->buckets);
}

struct moietyi_wait moietyi_wait_for_all(const struct moietyi_call *call)
{
    return (struct moietyi_wait){moietyi_epochs_next(&call->engine->streams)};
}

bool moietyi_wait_is_over(struct moietyi_call *call,
                          const struct moietyi_wait *wait)
{
    const struct moietyi_stream_user user = moietyi_call_user(call);
    return !wait->number || moietyi_epochs_have_passed(&user, wait->number);
}

bool moietyi_wait_needs_synchronise(const struct moietyi_call *call,
                                    const struct moietyi_wait *wait)
{
    return wait->number && !call->engine->streams.driver->cuCtxRecordEvent;
}

bool moietyi_wait_synchronise(struct moietyi_call *call)
{
    if (!moietyi_capture_guard_recorder_begin())
        return false;
    moiety_status status = moietyi_synchronise(&call->engine->streams);
    moietyi_capture_guard_recorder_end();
    return status == MOIETY_OK;
}

bool moietyi_wait_ask(struct moietyi_call *call,
                      const struct moietyi_wait *wait, bool may_wait)
{
    struct moietyi_section section;
    if (moietyi_wait_needs_synchronise(call, wait))
        return may_wait && moietyi_wait_synchronise(call);
    if (moietyi_context_enter(call->engine->streams.own_context, &section) !=
        MOIETY_OK)
        return false;
    bool is_over = moietyi_wait_is_over(call, wait);
    (void)moietyi_section_leave(&section);
    return is_over;
}

bool moietyi_wait_is_capturing(const struct moietyi_call *call)
{
    const struct moietyi_stream_state *stream_state = call->push->stream_state;
    if (call->is_capturing)
        return true;
    return stream_state->kind == MOIETYI_STREAM_STATE_STREAM &&
           stream_state->stream != MOIETY_STREAM_LEGACY &&
           moietyi_is_capturing(&call->engine->streams, stream_state->stream);
}

CUstream moietyi_wait_stream(const struct moietyi_call *call)
{
    const struct moietyi_stream_state *stream_state = call->push->stream_state;
    bool is_own = stream_state->kind == MOIETYI_STREAM_STATE_PER_THREAD
                      ? stream_state->owner == call->thread_state
                      : stream_state->kind == MOIETYI_STREAM_STATE_STREAM;
    return is_own &&
                   stream_state->context == call->engine->streams.contexts[0] &&
                   !moietyi_is_capturing(&call->engine->streams,
                                         stream_state->stream)
               ? stream_state->stream
               : NULL;
}

bool moietyi_wait_is_of_stranger(const struct moietyi_call *call)
{
    const struct moietyi_stream_state *stream_state = call->push->stream_state;
    return stream_state->kind == MOIETYI_STREAM_STATE_STREAM &&
           !moietyi_streams_know_context(&call->engine->streams,
                                         stream_state->context);
}
