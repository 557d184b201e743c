/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/cache/epoch.h"

#include "pool/base/clock.h"
#include "pool/cache/guard.h"
#include "pool/cache/record.h"
#include "pool/cache/slot.h"
#include "pool/cache/uses.h"
#include "pool/driver/section.h"

static bool take_role(atomic_bool *is_taken)
{
    /* relaxed: a look. */
    if (atomic_load_explicit(is_taken, memory_order_relaxed))
        return false;
    /* RO.acquire: what the last holder did. */
    return !atomic_exchange_explicit(is_taken, true, memory_order_acquire);
}

static void release_role(atomic_bool *is_taken)
{
    /* RO.release. */
    atomic_store_explicit(is_taken, false, memory_order_release);
}

static uint32_t slot_count(const struct binadei_engine *engine)
{
    /* SN.acquire: the slots that are counted. */
    return atomic_load_explicit(&engine->slot_count, memory_order_acquire);
}

static struct binadei_slot *slot_at(const struct binadei_engine *engine,
                                    uint32_t index)
{
    /* relaxed: the count was read with acquire. */
    return atomic_load_explicit(&engine->slots[index], memory_order_relaxed);
}

static uint64_t grains_of(const struct binadei_slot *slot)
{
    return binadei_maps_grains(slot->maps, BINADEI_FRESH) +
           binadei_maps_grains(slot->maps, BINADEI_AGEING);
}

uint64_t binadei_epoch_bytes(const struct binadei_slot *slot)
{
    return grains_of(slot) * BINADEI_GRAIN_BYTES;
}

uint64_t binadei_epochs_bytes(const struct binadei_engine *engine)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < slot_count(engine); i++)
        bytes += binadei_epoch_bytes(slot_at(engine, i));
    return bytes;
}

bool binadei_epochs_are_pending(const struct binadei_engine *engine)
{
    for (uint32_t i = 0; i < slot_count(engine); i++)
        if (grains_of(slot_at(engine, i)))
            return true;
    return false;
}

bool binadei_epoch_give(struct binadei_engine *engine,
                        struct binadei_slot *slot, binadei_grain start,
                        uint64_t grains)
{
    enum binadei_map_give given = binadei_maps_give(slot->maps, start, grains);
    if (given == BINADEI_MAP_NO_MEMORY)
        given = binadei_maps_give(engine->any->maps, start, grains);
    return given == BINADEI_MAP_GIVEN;
}

bool binadei_epoch_try_take(struct binadei_slot *slot)
{
    return take_role(&slot->epoch.is_taken);
}

void binadei_epoch_release(struct binadei_slot *slot)
{
    release_role(&slot->epoch.is_taken);
}

static bool move_on(struct binadei_slot *slot)
{
    struct binadei_epoch *epoch = &slot->epoch;
    bool is_any = binadei_maps_close(slot->maps) != 0;
    /* MV.release: the move. relaxed: only the role's holder writes. */
    atomic_store_explicit(
        &epoch->moves,
        1 + atomic_load_explicit(&epoch->moves, memory_order_relaxed),
        memory_order_release);
    return is_any;
}

/* What was ageing has left the maps, or begins to; role held. */
static void note_leaving(struct binadei_epoch *epoch)
{
    epoch->state = BINADEI_EPOCH_IDLE;
    /* relaxed: our own, by the role. */
    epoch->left_at_moves =
        atomic_load_explicit(&epoch->moves, memory_order_relaxed);
}

/* Moves what is fresh on; role held. What was closed before and has no event is
 * behind the next one as well. */
static bool close_epoch(struct binadei_slot *slot)
{
    struct binadei_epoch *epoch = &slot->epoch;
    if (epoch->state == BINADEI_EPOCH_IDLE) {
        /* A drain may have left something: see binadei_maps_drain(). */
        if (!move_on(slot) && !binadei_maps_grains(slot->maps, BINADEI_AGEING))
            return false;
        epoch->state = BINADEI_EPOCH_UNRECORDED;
        atomic_store_explicit(&epoch->closed_ns, binadei_now_ns(),
                              memory_order_relaxed);
    } else if (epoch->state == BINADEI_EPOCH_UNRECORDED) {
        (void)move_on(slot);
    }
    return epoch->state == BINADEI_EPOCH_UNRECORDED;
}

static uint64_t drain_epoch(struct binadei_slot *slot)
{
    note_leaving(&slot->epoch);
    /* relaxed: for reports. */
    atomic_store_explicit(&slot->epoch.closed_ns, 0, memory_order_relaxed);
    return binadei_maps_drain(slot->maps, BINADEI_AGEING);
}

static bool has_passed(const struct binadei_engine *engine, uint64_t number)
{
    /* CE.acquire. */
    return atomic_load_explicit(&engine->context_epochs.passed,
                                memory_order_acquire) >= number;
}

static CUresult query(struct binadei_member *member, CUevent event)
{
    binadei_count(member, BINADEI_COUNT_QUERIES, 1);
    return member->engine->driver->cuEventQuery(event);
}

/* An event that a capture got is none, nor will it be: the next one comes after
 * as much. Any other error is no proof that the work is over. */
static bool is_own_over(struct binadei_member *member,
                        struct binadei_epoch *epoch)
{
    CUresult code = query(member, epoch->event);
    if (code == CUDA_ERROR_CAPTURED_EVENT || code == CUDA_ERROR_INVALID_VALUE) {
        binadei_event_destroy(member->engine, epoch->event);
        epoch->event = NULL;
        epoch->state = BINADEI_EPOCH_UNRECORDED;
    }
    return code == CUDA_SUCCESS;
}

/* A stream that is gone: everything waits for its final event, or, where it has
 * none, for all work. */
static uint64_t drain_closed(struct binadei_member *member,
                             struct binadei_slot *slot)
{
    struct binadei_engine *engine = member->engine;
    /* SF.acquire: the event was recorded. */
    CUevent event =
        atomic_load_explicit(&slot->final_event, memory_order_acquire);
    uint64_t grains = 0;
    if (event && query(member, event) != CUDA_SUCCESS)
        return 0;
    for (unsigned age = BINADEI_FRESH; age < BINADEI_AGES; age++) {
        if (event)
            grains += binadei_maps_drain(slot->maps, age);
        else
            (void)binadei_maps_hand(slot->maps, age, engine->any->maps);
    }
    slot->epoch.state = BINADEI_EPOCH_IDLE;
    return grains;
}

/* Role held; within a section. */
static uint64_t drain_slot(struct binadei_member *member,
                           struct binadei_slot *slot)
{
    struct binadei_epoch *epoch = &slot->epoch;
    if (binadei_slot_is_closed(slot))
        return drain_closed(member, slot);
    if (epoch->state == BINADEI_EPOCH_OWN && is_own_over(member, epoch))
        return drain_epoch(slot);
    if (epoch->state == BINADEI_EPOCH_CONTEXT &&
        has_passed(member->engine, epoch->number))
        return drain_epoch(slot);
    return 0;
}

/* Role of the context epochs held; within a section. */
static bool is_context_over(struct binadei_member *member, uint64_t number)
{
    struct binadei_context_epochs *epochs = &member->engine->context_epochs;
    unsigned at = number % BINADEI_CONTEXT_EPOCHS;
    for (unsigned i = 0; i < epochs->counts[at]; i++)
        if (query(member, epochs->events[at][i]) != CUDA_SUCCESS)
            return false;
    return true;
}

static void poll_contexts(struct binadei_member *member)
{
    struct binadei_context_epochs *epochs = &member->engine->context_epochs;
    if (!take_role(&epochs->is_taken))
        return;
    /* relaxed: our own, by the role. */
    uint64_t passed =
        atomic_load_explicit(&epochs->passed, memory_order_relaxed);
    /* relaxed: as above. */
    uint64_t recorded =
        atomic_load_explicit(&epochs->recorded, memory_order_relaxed);
    while (passed < recorded && is_context_over(member, passed + 1))
        passed++;
    /* CE.release: they are over. */
    atomic_store_explicit(&epochs->passed, passed, memory_order_release);
    release_role(&epochs->is_taken);
}

bool binadei_epochs_poll(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_section section;
    uint64_t grains = 0;
    if (!binadei_epochs_are_pending(engine) ||
        /* A query outside of a section would break a capture in global mode. */
        binadei_context_watch(engine->home, &section) != BINADE_OK)
        return false;
    poll_contexts(call->member);
    for (uint32_t i = 0; i < slot_count(engine); i++) {
        struct binadei_slot *slot = slot_at(engine, i);
        if (!grains_of(slot) || !take_role(&slot->epoch.is_taken))
            continue;
        uint64_t drained = drain_slot(call->member, slot);
        if (drained && slot == engine->any)
            binadei_uses_forget(engine);
        grains += drained;
        release_role(&slot->epoch.is_taken);
    }
    (void)binadei_section_leave(&section);
    call->member->given_bytes += grains * BINADEI_GRAIN_BYTES;
    return grains != 0;
}

void binadei_epochs_drain_closed(struct binadei_member *member)
{
    struct binadei_slot *slots[BINADEI_CLOSED_LOOKS];
    struct binadei_section section;
    uint64_t grains = 0;
    unsigned count = binadei_slots_closed_next(member->engine, slots);
    if (!count ||
        binadei_context_watch(member->engine->home, &section) != BINADE_OK)
        return;
    for (unsigned i = 0; i < count; i++) {
        if (!grains_of(slots[i]) || !take_role(&slots[i]->epoch.is_taken))
            continue;
        grains += drain_slot(member, slots[i]);
        release_role(&slots[i]->epoch.is_taken);
    }
    (void)binadei_section_leave(&section);
    member->given_bytes += grains * BINADEI_GRAIN_BYTES;
}

static CUevent make_event(const struct binadei_engine *engine,
                          CUcontext context)
{
    CUevent event = NULL;
    return binadei_event_create(engine, context, &event) == BINADE_OK ? event
                                                                      : NULL;
}

/* On its own stream; role held, within a section of the pool's context. */
static void record_own(struct binadei_member *member, struct binadei_slot *slot)
{
    struct binadei_engine *engine = member->engine;
    struct binadei_epoch *epoch = &slot->epoch;
    /* An event recorded now would become part of the graph. */
    if (binadei_is_capturing(engine, slot->stream))
        return;
    if (epoch->event && epoch->context != slot->context) {
        binadei_event_destroy(engine, epoch->event);
        epoch->event = NULL;
    }
    if (!epoch->event)
        epoch->event = make_event(engine, slot->context);
    epoch->context = slot->context;
    if (!epoch->event ||
        BINADEI_CALL(engine->driver, cuEventRecord,
                     (epoch->event, slot->stream)) != BINADE_OK)
        return;
    binadei_count(member, BINADEI_COUNT_EVENTS, 1);
    binadei_count(member, BINADEI_COUNT_EPOCHS, 1);
    epoch->state = BINADEI_EPOCH_OWN;
}

/* Whether this call may record on the stream of the slot. */
static bool names_stream(const struct binadei_call *call,
                         const struct binadei_slot *slot)
{
    if (!slot->maps || binadei_slot_is_closed(slot) || call->is_capturing)
        return false;
    return slot->kind == BINADEI_SLOT_PER_THREAD
               ? slot->member == call->member
               : binadei_slot_is_of_created_stream(slot);
}

void binadei_epochs_record_own(struct binadei_call *call)
{
    struct binadei_slot *slot = call->push->slot;
    struct binadei_section section;
    if (!names_stream(call, slot) ||
        !binadei_maps_grains(slot->maps, BINADEI_FRESH) ||
        !take_role(&slot->epoch.is_taken))
        return;
    if (binadei_context_enter(call->engine->home, &section) == BINADE_OK) {
        if (close_epoch(slot))
            record_own(call->member, slot);
        (void)binadei_section_leave(&section);
    }
    release_role(&slot->epoch.is_taken);
}

void binadei_epochs_close_own(struct binadei_call *call)
{
    /* relaxed: advice. */
    if (atomic_load_explicit(&call->engine->wants_own_epochs,
                             memory_order_relaxed))
        binadei_epochs_record_own(call);
}

/* Without events of contexts: created streams have events of their own. No guard
 * is held, and none begins meanwhile: see binadei_guard_recorder_begin(). */
static bool close_streams(struct binadei_member *member)
{
    struct binadei_engine *engine = member->engine;
    bool is_any = false;
    for (uint32_t i = 0; i < slot_count(engine); i++) {
        struct binadei_slot *slot = slot_at(engine, i);
        if (!grains_of(slot) || !take_role(&slot->epoch.is_taken))
            continue;
        if (binadei_slot_is_of_created_stream(slot) && binadei_slot_pin(slot)) {
            if (close_epoch(slot))
                record_own(member, slot);
            binadei_slot_unpin(slot);
        }
        is_any |= slot->epoch.state == BINADEI_EPOCH_OWN;
        release_role(&slot->epoch.is_taken);
    }
    return is_any;
}

/* Closes all streams that have something and nothing in flight, and keeps their
 * roles; the context epochs' is held. Returns whether there are any. */
static bool join_all(struct binadei_engine *engine)
{
    bool is_any = false;
    for (uint32_t i = 0; i < slot_count(engine); i++) {
        struct binadei_slot *slot = slot_at(engine, i);
        if (!grains_of(slot) || binadei_slot_is_closed(slot) ||
            !take_role(&slot->epoch.is_taken))
            continue;
        slot->epoch.is_joining = close_epoch(slot);
        is_any |= slot->epoch.is_joining;
        if (!slot->epoch.is_joining)
            release_role(&slot->epoch.is_taken);
    }
    return is_any;
}

/* Leaves what join_all() closed in `state`; the grains that were drained, if it
 * is done. */
static uint64_t end_joining(struct binadei_engine *engine,
                            enum binadei_epoch_state state, uint64_t number)
{
    uint64_t grains = 0;
    for (uint32_t i = 0; i < slot_count(engine); i++) {
        struct binadei_slot *slot = slot_at(engine, i);
        if (!slot->epoch.is_joining)
            continue;
        slot->epoch.is_joining = false;
        slot->epoch.number = number;
        slot->epoch.state = state;
        if (state == BINADEI_EPOCH_IDLE)
            grains += drain_epoch(slot);
        release_role(&slot->epoch.is_taken);
    }
    return grains;
}

/* One event in each context; role of the context epochs held, within a section,
 * between the guard's two calls. */
static bool record_contexts(struct binadei_member *member, uint64_t number)
{
    struct binadei_engine *engine = member->engine;
    struct binadei_context_epochs *epochs = &engine->context_epochs;
    unsigned at = number % BINADEI_CONTEXT_EPOCHS;
    /* CX.acquire: the contexts that are counted. */
    unsigned count =
        atomic_load_explicit(&engine->context_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        CUevent *event = &epochs->events[at][i];
        if (!*event)
            *event = make_event(engine, engine->contexts[i]);
        if (!*event || binadei_event_record_context(member, engine->contexts[i],
                                                    *event) != BINADE_OK)
            return false;
    }
    epochs->counts[at] = count;
    binadei_count(member, BINADEI_COUNT_EPOCHS, 1);
    /* CE.release: all of them are recorded. */
    atomic_store_explicit(&epochs->recorded, number, memory_order_release);
    return true;
}

/* Within a section; role of the context epochs held. `is_wanted`: the event is
 * of use though no memory is behind it. */
static bool close_contexts(struct binadei_member *member, bool is_wanted)
{
    struct binadei_engine *engine = member->engine;
    struct binadei_context_epochs *epochs = &engine->context_epochs;
    /* relaxed: both are ours, by the role. */
    uint64_t number =
        1 + atomic_load_explicit(&epochs->recorded, memory_order_relaxed);
    /* relaxed: as above. */
    if (number - atomic_load_explicit(&epochs->passed, memory_order_relaxed) >
            BINADEI_CONTEXT_EPOCHS ||
        /* A capture on a blocking stream would be lost. */
        binadei_is_capturing(engine, BINADE_STREAM_LEGACY) ||
        (!join_all(engine) && !is_wanted))
        return false;
    bool is_recorded = record_contexts(member, number);
    (void)end_joining(
        engine, is_recorded ? BINADEI_EPOCH_CONTEXT : BINADEI_EPOCH_UNRECORDED,
        number);
    return is_recorded;
}

/* Until binadei_guard_recorder_end(): false, a guard is held, and streams record
 * for themselves. */
static bool begin_recording(struct binadei_member *member)
{
    bool may_record = binadei_guard_recorder_begin();
    if (!may_record)
        binadei_count(member, BINADEI_COUNT_GUARDED, 1);
    /* relaxed: advice. */
    atomic_store_explicit(&member->engine->wants_own_epochs, !may_record,
                          memory_order_relaxed);
    return may_record;
}

/* The same behind the guard and with the role. */
static bool close_guarded(struct binadei_member *member, bool is_wanted)
{
    struct binadei_context_epochs *epochs = &member->engine->context_epochs;
    bool is_recorded = false;
    if (!begin_recording(member))
        return false;
    if (take_role(&epochs->is_taken)) {
        is_recorded = close_contexts(member, is_wanted);
        release_role(&epochs->is_taken);
    }
    binadei_guard_recorder_end();
    return is_recorded;
}

static bool close_streams_guarded(struct binadei_member *member)
{
    if (!begin_recording(member))
        return false;
    bool is_any = close_streams(member);
    binadei_guard_recorder_end();
    return is_any;
}

static bool close_all(struct binadei_member *member)
{
    struct binadei_engine *engine = member->engine;
    struct binadei_section section;
    if (!binadei_epochs_are_pending(engine) ||
        binadei_context_enter(engine->home, &section) != BINADE_OK)
        return false;
    bool is_recorded = engine->driver->cuCtxRecordEvent
                           ? close_guarded(member, false)
                           : close_streams_guarded(member);
    (void)binadei_section_leave(&section);
    return is_recorded;
}

bool binadei_epochs_close_all(struct binadei_call *call)
{
    /* An old driver's events are the streams' own, and recording one waits where
     * the stream's launch queue is full. */
    return (call->may_wait || call->engine->driver->cuCtxRecordEvent) &&
           close_all(call->member);
}

static uint64_t recorded(const struct binadei_engine *engine)
{
    /* CE.acquire. */
    return atomic_load_explicit(&engine->context_epochs.recorded,
                                memory_order_acquire);
}

/* The next one may be half recorded by now, before what the caller queued. */
uint64_t binadei_epochs_next(const struct binadei_engine *engine)
{
    return recorded(engine) + 2;
}

bool binadei_epochs_have_passed(struct binadei_call *call, uint64_t number)
{
    struct binadei_engine *engine = call->engine;
    if (has_passed(engine, number))
        return true;
    if (!engine->driver->cuCtxRecordEvent)
        return false;
    /* Those that are over leave room for more. */
    poll_contexts(call->member);
    while (recorded(engine) < number && close_guarded(call->member, true))
        continue;
    poll_contexts(call->member);
    return has_passed(engine, number);
}

void binadei_epochs_close_before_guard(struct binadei_engine *engine)
{
    struct binadei_member nobody = {.engine = engine};
    /* An old driver's record could wait, and the registry's lock is held. */
    if (!engine->driver->cuCtxRecordEvent || !close_all(&nobody))
        return;
    engine->gone[BINADEI_COUNT_CONTEXT_EVENTS] +=
        binadei_count_read(&nobody.counts[BINADEI_COUNT_CONTEXT_EVENTS]);
}

/* Outside of sections; role of the context epochs held. */
static uint64_t synchronise(struct binadei_engine *engine)
{
    if (!join_all(engine))
        return 0;
    bool is_over = binadei_synchronise(engine) == BINADE_OK;
    return end_joining(
        engine, is_over ? BINADEI_EPOCH_IDLE : BINADEI_EPOCH_UNRECORDED, 0);
}

bool binadei_epochs_synchronise(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_context_epochs *epochs = &engine->context_epochs;
    uint64_t grains = 0;
    if (engine->driver->cuCtxRecordEvent || !binadei_epochs_are_pending(engine))
        return false;
    if (!binadei_guard_recorder_begin()) {
        binadei_count(call->member, BINADEI_COUNT_GUARDED, 1);
        return false;
    }
    if (take_role(&epochs->is_taken)) {
        grains = synchronise(engine);
        release_role(&epochs->is_taken);
    }
    binadei_guard_recorder_end();
    call->member->given_bytes += grains * BINADEI_GRAIN_BYTES;
    return grains != 0;
}

/* Whether the stream has nothing to do. It is asked only while it is no graph's
 * and no guard is held, as a capture would be lost. A guard that begins just then
 * does not wait for the answer, which takes as long as a launcher is blocked on
 * the stream: perhaps until the guard's own thread lets it go on. */
static bool is_stream_idle(const struct binadei_engine *engine,
                           const struct binadei_slot *slot)
{
    return !binadei_guard_is_held() &&
           !binadei_is_capturing(engine, slot->stream) &&
           engine->driver->cuStreamQuery(slot->stream) == CUDA_SUCCESS;
}

/* Role held, slot pinned: what was freed before the question is done if the
 * answer is that nothing is left to do. What is fresh beside an epoch in flight
 * takes a second question, for it cannot go behind that one's event. */
static uint64_t ask_stream(struct binadei_engine *engine,
                           struct binadei_slot *slot)
{
    uint64_t grains = 0;
    for (unsigned i = 0; i < 2 && grains_of(slot); i++) {
        bool is_closed = slot->epoch.state <= BINADEI_EPOCH_UNRECORDED;
        if (is_closed)
            (void)close_epoch(slot);
        if (!is_stream_idle(engine, slot))
            break;
        grains += drain_epoch(slot);
        if (is_closed)
            break;
    }
    return grains;
}

bool binadei_epoch_is_stream_idle(const struct binadei_engine *engine,
                                  struct binadei_slot *slot)
{
    if (!binadei_slot_is_of_created_stream(slot) || !binadei_slot_pin(slot))
        return false;
    bool is_idle = is_stream_idle(engine, slot);
    binadei_slot_unpin(slot);
    return is_idle;
}

uint64_t binadei_epoch_moves(const struct binadei_slot *slot)
{
    /* MV.acquire: the moves that are counted are over. */
    return atomic_load_explicit(&slot->epoch.moves, memory_order_acquire);
}

bool binadei_epoch_has_since(const struct binadei_slot *slot, uint64_t moves)
{
    return slot->epoch.left_at_moves <= moves;
}

bool binadei_epochs_ask_streams(struct binadei_call *call)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_section section;
    uint64_t grains = 0;
    /* The guard is asked again for each stream. */
    if (binadei_guard_is_held() || !binadei_epochs_are_pending(engine) ||
        binadei_context_enter(engine->home, &section) != BINADE_OK)
        return false;
    for (uint32_t i = 0; i < slot_count(engine); i++) {
        struct binadei_slot *slot = slot_at(engine, i);
        if (!grains_of(slot) || !take_role(&slot->epoch.is_taken))
            continue;
        if (binadei_slot_is_of_created_stream(slot) && binadei_slot_pin(slot)) {
            grains += ask_stream(engine, slot);
            binadei_slot_unpin(slot);
        }
        release_role(&slot->epoch.is_taken);
    }
    grains += binadei_uses_ask(call->member);
    (void)binadei_section_leave(&section);
    call->member->given_bytes += grains * BINADEI_GRAIN_BYTES;
    return grains != 0;
}

static bool wait_for(struct binadei_call *call, CUevent event)
{
    binadei_count(call->member, BINADEI_COUNT_STREAM_WAITS, 1);
    return BINADEI_CALL(call->engine->driver, cuStreamWaitEvent,
                        (call->push->slot->stream, event, 0)) == BINADE_OK;
}

static bool wait_for_contexts(struct binadei_call *call, uint64_t number)
{
    struct binadei_context_epochs *epochs = &call->engine->context_epochs;
    unsigned at = number % BINADEI_CONTEXT_EPOCHS;
    bool is_waiting = take_role(&epochs->is_taken);
    if (!is_waiting)
        return false;
    for (unsigned i = 0; i < epochs->counts[at] && is_waiting; i++)
        is_waiting = has_passed(call->engine, number) ||
                     wait_for(call, epochs->events[at][i]);
    release_role(&epochs->is_taken);
    return is_waiting;
}

/* Role held, within a section: the call's stream has the memory when its own
 * work comes after the event. */
static void hand_over(struct binadei_call *call, struct binadei_slot *slot)
{
    struct binadei_epoch *epoch = &slot->epoch;
    /* SF.acquire: the event was recorded. */
    CUevent final_event =
        atomic_load_explicit(&slot->final_event, memory_order_acquire);
    if (binadei_slot_is_closed(slot)) {
        if (final_event && wait_for(call, final_event))
            for (unsigned age = BINADEI_FRESH; age < BINADEI_AGES; age++)
                (void)binadei_maps_hand(slot->maps, age,
                                        call->push->slot->maps);
        return;
    }
    bool is_waiting = epoch->state == BINADEI_EPOCH_OWN
                          ? wait_for(call, epoch->event)
                      : epoch->state == BINADEI_EPOCH_CONTEXT
                          ? wait_for_contexts(call, epoch->number)
                          : false;
    if (!is_waiting)
        return;
    note_leaving(epoch);
    (void)binadei_maps_hand(slot->maps, BINADEI_AGEING, call->push->slot->maps);
}

bool binadei_epochs_hand_over(struct binadei_call *call,
                              const struct binadei_request *request,
                              binade_devptr *out)
{
    struct binadei_engine *engine = call->engine;
    struct binadei_section section;
    (void)binadei_epochs_close_all(call);
    for (uint32_t i = 0; i < slot_count(engine); i++) {
        struct binadei_slot *slot = slot_at(engine, i);
        if (slot == call->push->slot || !grains_of(slot) ||
            !take_role(&slot->epoch.is_taken))
            continue;
        if (binadei_context_enter(engine->home, &section) == BINADE_OK) {
            hand_over(call, slot);
            (void)binadei_section_leave(&section);
        }
        release_role(&slot->epoch.is_taken);
        if (binadei_take(call, request, out))
            return true;
    }
    return false;
}

struct binadei_waiting binadei_epoch_survey(const struct binadei_slot *slot)
{
    struct binadei_waiting waiting = {.slot = slot,
                                      .bytes = binadei_epoch_bytes(slot)};
    /* relaxed: for a report. */
    uint64_t closed_ns =
        atomic_load_explicit(&slot->epoch.closed_ns, memory_order_relaxed);
    waiting.epoch_count = waiting.bytes != 0;
    if (waiting.bytes && closed_ns)
        waiting.oldest_ns = binadei_now_ns() - closed_ns;
    return waiting;
}

void binadei_epoch_finish(struct binadei_slot *slot)
{
    if (!slot->maps)
        return;
    (void)binadei_maps_drain(slot->maps, BINADEI_AGEING);
    (void)binadei_maps_drain(slot->maps, BINADEI_FRESH);
}

void binadei_epoch_destroy(const struct binadei_engine *engine,
                           struct binadei_slot *slot)
{
    binadei_event_destroy(engine, slot->epoch.event);
    if (slot->kind != BINADEI_SLOT_ANY)
        binadei_maps_destroy(slot->maps);
}

void binadei_context_epochs_prepare(struct binadei_engine *engine,
                                    unsigned context)
{
    for (unsigned i = 0; i < BINADEI_CONTEXT_EPOCHS; i++)
        engine->context_epochs.events[i][context] =
            make_event(engine, engine->contexts[context]);
}

void binadei_context_epochs_destroy(const struct binadei_engine *engine)
{
    for (unsigned i = 0; i < BINADEI_CONTEXT_EPOCHS; i++)
        for (unsigned j = 0; j < BINADEI_CONTEXTS_MAX; j++)
            binadei_event_destroy(engine, engine->context_epochs.events[i][j]);
}
