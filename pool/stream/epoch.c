/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/stream/epoch.h"

#include "pool/base/clock.h"
#include "pool/base/step.h"
#include "pool/driver/section.h"
#include "pool/stream/capture_guard.h"
#include "pool/stream/event.h"
#include "pool/stream/last.h"
#include "pool/stream/stream_state.h"

uint64_t moietyi_epochs_bytes(const struct moietyi_streams *streams)
{
    uint64_t grains = 0;
    for (uint32_t i = 0; i < moietyi_stream_state_count(streams); i++)
        grains +=
            moietyi_stream_state_grains(moietyi_stream_state_at(streams, i));
    return grains * MOIETYI_GRAIN_BYTES;
}

uint64_t moietyi_epochs_fresh_bytes(const struct moietyi_streams *streams)
{
    uint64_t grains = 0;
    for (uint32_t i = 0; i < moietyi_stream_state_count(streams); i++)
        grains += moietyi_heap_grains(moietyi_stream_state_at(streams, i)->heap,
                                      MOIETYI_FRESH);
    return grains * MOIETYI_GRAIN_BYTES;
}

bool moietyi_epochs_are_pending(const struct moietyi_streams *streams)
{
    for (uint32_t i = 0; i < moietyi_stream_state_count(streams); i++)
        if (moietyi_stream_state_grains(moietyi_stream_state_at(streams, i)))
            return true;
    return false;
}

static bool move_on(struct moietyi_stream_state *stream_state)
{
    struct moietyi_epoch *epoch = &stream_state->epoch;
    bool is_any = moietyi_heap_close(stream_state->heap) != 0;
    /* MV.release: the move. relaxed: only the role's holder writes. */
    atomic_store_explicit(
        &epoch->moves,
        1 + atomic_load_explicit(&epoch->moves, memory_order_relaxed),
        memory_order_release);
    return is_any;
}

/* The ageing memory has left the heap, or begins to; role held. */
static void note_leaving(struct moietyi_epoch *epoch)
{
    epoch->state = MOIETYI_EPOCH_IDLE;
    /* relaxed: our own, by the role. */
    epoch->left_at_moves =
        atomic_load_explicit(&epoch->moves, memory_order_relaxed);
}

/* Makes fresh memory ageing; role held. Memory that was closed before and has
 * no event yet is behind the next event too. */
static bool close_epoch(struct moietyi_stream_state *stream_state)
{
    struct moietyi_epoch *epoch = &stream_state->epoch;
    if (epoch->state == MOIETYI_EPOCH_IDLE) {
        /* A drain may have left some memory: see moietyi_heap_drain(). */
        if (!move_on(stream_state) &&
            !moietyi_heap_grains(stream_state->heap, MOIETYI_AGEING))
            return false;
        epoch->state = MOIETYI_EPOCH_UNRECORDED;
        atomic_store_explicit(&epoch->closed_ns, moietyi_now_ns(),
                              memory_order_relaxed);
    } else if (epoch->state == MOIETYI_EPOCH_UNRECORDED) {
        (void)move_on(stream_state);
    }
    return epoch->state == MOIETYI_EPOCH_UNRECORDED;
}

static uint64_t drain_epoch(struct moietyi_stream_state *stream_state)
{
    note_leaving(&stream_state->epoch);
    /* relaxed: for reports. */
    atomic_store_explicit(&stream_state->epoch.closed_ns, 0,
                          memory_order_relaxed);
    return moietyi_heap_drain(stream_state->heap, MOIETYI_AGEING);
}

uint64_t moietyi_epochs_passed(const struct moietyi_streams *streams)
{
    /* CE.acquire. */
    return atomic_load_explicit(&streams->context_epochs.passed,
                                memory_order_acquire);
}

static bool has_passed(const struct moietyi_streams *streams, uint64_t number)
{
    return moietyi_epochs_passed(streams) >= number;
}

static CUresult epoch_query(const struct moietyi_stream_user *user,
                            CUevent event)
{
    return user->streams->driver->cuEventQuery(event);
}

/* A capture that took the event has spoilt it: the next event is recorded later
 * and will do. No other error proves that the work is over. */
static bool is_own_over(const struct moietyi_stream_user *user,
                        struct moietyi_epoch *epoch)
{
    CUresult code = epoch_query(user, epoch->event);
    if (code == CUDA_ERROR_CAPTURED_EVENT || code == CUDA_ERROR_INVALID_VALUE) {
        moietyi_event_destroy(user->streams, epoch->event);
        epoch->event = NULL;
        epoch->state = MOIETYI_EPOCH_UNRECORDED;
    }
    return code == CUDA_SUCCESS;
}

/* A retired stream: its memory waits for the final event, or for all work if
 * there is no final event. */
static uint64_t epoch_drain_closed(const struct moietyi_stream_user *user,
                                   struct moietyi_stream_state *stream_state)
{
    struct moietyi_streams *streams = user->streams;
    /* SF.acquire: the event was recorded. */
    CUevent event =
        atomic_load_explicit(&stream_state->final_event, memory_order_acquire);
    uint64_t grains = 0;
    if (event && epoch_query(user, event) != CUDA_SUCCESS)
        return 0;
    for (unsigned age = MOIETYI_FRESH; age < MOIETYI_AGES; age++) {
        if (event)
            grains += moietyi_heap_drain(stream_state->heap, age);
        else
            (void)moietyi_heap_hand(stream_state->heap, age,
                                    streams->any->heap);
    }
    stream_state->epoch.state = MOIETYI_EPOCH_IDLE;
    return grains;
}

/* Role held; within a section. */
static uint64_t drain_stream_state(const struct moietyi_stream_user *user,
                                   struct moietyi_stream_state *stream_state)
{
    struct moietyi_epoch *epoch = &stream_state->epoch;
    if (moietyi_stream_state_is_closed(stream_state))
        return epoch_drain_closed(user, stream_state);
    if (epoch->state == MOIETYI_EPOCH_OWN && is_own_over(user, epoch))
        return drain_epoch(stream_state);
    if (epoch->state == MOIETYI_EPOCH_CONTEXT &&
        has_passed(user->streams, epoch->number))
        return drain_epoch(stream_state);
    return 0;
}

/* Role of the context epochs held; within a section. */
static bool is_context_over(const struct moietyi_stream_user *user,
                            uint64_t number)
{
    struct moietyi_context_epochs *epochs = &user->streams->context_epochs;
    unsigned at = number % MOIETYI_CONTEXT_EPOCHS;
    for (unsigned i = 0; i < epochs->counts[at]; i++)
        if (epoch_query(user, epochs->events[at][i]) != CUDA_SUCCESS)
            return false;
    return true;
}

static void poll_contexts(const struct moietyi_stream_user *user)
{
    struct moietyi_context_epochs *epochs = &user->streams->context_epochs;
    if (!moietyi_role_try_take(&epochs->is_taken))
        return;
    /* relaxed: our own, by the role. */
    uint64_t passed =
        atomic_load_explicit(&epochs->passed, memory_order_relaxed);
    /* relaxed: as above. */
    uint64_t recorded =
        atomic_load_explicit(&epochs->recorded, memory_order_relaxed);
    while (passed < recorded && is_context_over(user, passed + 1))
        passed++;
    /* CE.release: they are over. */
    atomic_store_explicit(&epochs->passed, passed, memory_order_release);
    moietyi_role_release(&epochs->is_taken);
}

uint64_t moietyi_epochs_poll(const struct moietyi_stream_user *user)
{
    struct moietyi_streams *streams = user->streams;
    struct moietyi_section section;
    uint64_t grains = 0;
    if (!moietyi_epochs_are_pending(streams) ||
        /* A query outside of a section would break a capture in global mode. */
        moietyi_context_watch(streams->own_context, &section) != MOIETY_OK)
        return 0;
    poll_contexts(user);
    for (uint32_t i = 0; i < moietyi_stream_state_count(streams); i++) {
        struct moietyi_stream_state *stream_state =
            moietyi_stream_state_at(streams, i);
        if (!moietyi_stream_state_grains(stream_state) ||
            !moietyi_stream_state_try_take(stream_state))
            continue;
        uint64_t drained = drain_stream_state(user, stream_state);
        if (drained && stream_state == streams->any)
            streams->hooks.any_drained(streams);
        grains += drained;
        moietyi_stream_state_release(stream_state);
    }
    (void)moietyi_section_leave(&section);
    return grains;
}

uint64_t moietyi_epochs_drain_closed(const struct moietyi_stream_user *user)
{
    struct moietyi_stream_state *stream_states[MOIETYI_CLOSED_LOOKS];
    struct moietyi_section section;
    uint64_t grains = 0;
    unsigned count =
        moietyi_stream_states_closed_next(user->streams, stream_states);
    if (!count || moietyi_context_watch(user->streams->own_context, &section) !=
                      MOIETY_OK)
        return 0;
    for (unsigned i = 0; i < count; i++) {
        if (!moietyi_stream_state_grains(stream_states[i]) ||
            !moietyi_stream_state_try_take(stream_states[i]))
            continue;
        grains += drain_stream_state(user, stream_states[i]);
        moietyi_stream_state_release(stream_states[i]);
    }
    (void)moietyi_section_leave(&section);
    return grains;
}

/* On its own stream; role held, within a section of the pool's context. */
static void record_own(const struct moietyi_stream_user *user,
                       struct moietyi_stream_state *stream_state)
{
    struct moietyi_streams *streams = user->streams;
    struct moietyi_epoch *epoch = &stream_state->epoch;
    /* An event recorded now would become part of the graph. */
    if (moietyi_is_capturing(streams, stream_state->stream))
        return;
    if (epoch->event && epoch->context != stream_state->context) {
        moietyi_event_destroy(streams, epoch->event);
        epoch->event = NULL;
    }
    if (!epoch->event)
        epoch->event = moietyi_event_make(streams, stream_state->context);
    epoch->context = stream_state->context;
    if (!epoch->event ||
        MOIETYI_CALL(streams->driver, cuEventRecord,
                     (epoch->event, stream_state->stream)) != MOIETY_OK)
        return;
    moietyi_stream_tally(user, MOIETYI_STREAM_EVENTS);
    moietyi_stream_tally(user, MOIETYI_STREAM_EPOCHS);
    epoch->state = MOIETYI_EPOCH_OWN;
}

/* Whether this call may record on the stream of the stream state. */
static bool names_stream(const struct moietyi_stream_user *user,
                         const struct moietyi_stream_state *stream_state)
{
    if (!stream_state->heap || moietyi_stream_state_is_closed(stream_state) ||
        user->is_capturing)
        return false;
    return stream_state->kind == MOIETYI_STREAM_STATE_PER_THREAD
               ? stream_state->owner == user->thread
               : moietyi_stream_state_is_created(stream_state);
}

void moietyi_epochs_record_own(const struct moietyi_stream_user *user)
{
    struct moietyi_stream_state *stream_state = user->stream_state;
    struct moietyi_section section;
    if (!names_stream(user, stream_state) ||
        !moietyi_heap_grains(stream_state->heap, MOIETYI_FRESH) ||
        !moietyi_stream_state_try_take(stream_state))
        return;
    if (moietyi_context_enter(user->streams->own_context, &section) ==
        MOIETY_OK) {
        if (close_epoch(stream_state))
            record_own(user, stream_state);
        (void)moietyi_section_leave(&section);
    }
    moietyi_stream_state_release(stream_state);
}

void moietyi_epochs_close_own(const struct moietyi_stream_user *user)
{
    /* relaxed: advice. */
    if (atomic_load_explicit(&user->streams->wants_own_epochs,
                             memory_order_relaxed))
        moietyi_epochs_record_own(user);
}

/* Without events of contexts: created streams have events of their own. No
 * guard is held, and none begins meanwhile: see
 * moietyi_capture_guard_recorder_begin(). */
static bool close_streams(const struct moietyi_stream_user *user)
{
    struct moietyi_streams *streams = user->streams;
    bool is_any = false;
    for (uint32_t i = 0; i < moietyi_stream_state_count(streams); i++) {
        struct moietyi_stream_state *stream_state =
            moietyi_stream_state_at(streams, i);
        if (!moietyi_stream_state_grains(stream_state) ||
            !moietyi_stream_state_try_take(stream_state))
            continue;
        if (moietyi_stream_state_is_created(stream_state) &&
            moietyi_stream_state_pin(stream_state)) {
            if (close_epoch(stream_state))
                record_own(user, stream_state);
            moietyi_stream_state_unpin(stream_state);
        }
        is_any |= stream_state->epoch.state == MOIETYI_EPOCH_OWN;
        moietyi_stream_state_release(stream_state);
    }
    return is_any;
}

/* Closes all streams that have memory and nothing in flight, and keeps their
 * roles; the role of the context epochs is held. Returns whether there are
 * any. */
static bool join_all(struct moietyi_streams *streams)
{
    bool is_any = false;
    for (uint32_t i = 0; i < moietyi_stream_state_count(streams); i++) {
        struct moietyi_stream_state *stream_state =
            moietyi_stream_state_at(streams, i);
        if (!moietyi_stream_state_grains(stream_state) ||
            moietyi_stream_state_is_closed(stream_state) ||
            !moietyi_stream_state_try_take(stream_state))
            continue;
        stream_state->epoch.is_joining = close_epoch(stream_state);
        is_any |= stream_state->epoch.is_joining;
        if (!stream_state->epoch.is_joining)
            moietyi_stream_state_release(stream_state);
    }
    return is_any;
}

/* Leaves in `state` what join_all() closed. Returns the drained grains, if
 * `state` is done. */
static uint64_t end_joining(struct moietyi_streams *streams,
                            enum moietyi_epoch_state state, uint64_t number)
{
    uint64_t grains = 0;
    for (uint32_t i = 0; i < moietyi_stream_state_count(streams); i++) {
        struct moietyi_stream_state *stream_state =
            moietyi_stream_state_at(streams, i);
        if (!stream_state->epoch.is_joining)
            continue;
        stream_state->epoch.is_joining = false;
        stream_state->epoch.number = number;
        stream_state->epoch.state = state;
        if (state == MOIETYI_EPOCH_IDLE)
            grains += drain_epoch(stream_state);
        moietyi_stream_state_release(stream_state);
    }
    return grains;
}

/* One event in each context; role of the context epochs held, within a section,
 * between the guard's two calls. */
static bool record_contexts(const struct moietyi_stream_user *user,
                            uint64_t number)
{
    struct moietyi_streams *streams = user->streams;
    struct moietyi_context_epochs *epochs = &streams->context_epochs;
    unsigned at = number % MOIETYI_CONTEXT_EPOCHS;
    /* CX.acquire: the contexts that are counted. */
    unsigned count =
        atomic_load_explicit(&streams->context_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        CUevent *event = &epochs->events[at][i];
        if (!*event)
            *event = moietyi_event_make(streams, streams->contexts[i]);
        if (!*event || moietyi_event_record_context(user, streams->contexts[i],
                                                    *event) != MOIETY_OK)
            return false;
    }
    epochs->counts[at] = count;
    moietyi_stream_tally(user, MOIETYI_STREAM_EPOCHS);
    MOIETYI_STEP("epoch.recorded");
    /* CE.release: all of them are recorded. */
    atomic_store_explicit(&epochs->recorded, number, memory_order_release);
    return true;
}

/* Within a section; role of the context epochs held. `is_wanted`: the event is
 * needed even if no memory is behind it. */
static bool close_contexts(const struct moietyi_stream_user *user,
                           bool is_wanted)
{
    struct moietyi_streams *streams = user->streams;
    struct moietyi_context_epochs *epochs = &streams->context_epochs;
    /* relaxed: both are ours, by the role. */
    uint64_t number =
        1 + atomic_load_explicit(&epochs->recorded, memory_order_relaxed);
    /* relaxed: as above. */
    if (number - atomic_load_explicit(&epochs->passed, memory_order_relaxed) >
            MOIETYI_CONTEXT_EPOCHS ||
        /* It would break a capture on a blocking stream. */
        moietyi_is_capturing(streams, MOIETY_STREAM_LEGACY) ||
        (!join_all(streams) && !is_wanted))
        return false;
    bool is_recorded = record_contexts(user, number);
    (void)end_joining(
        streams, is_recorded ? MOIETYI_EPOCH_CONTEXT : MOIETYI_EPOCH_UNRECORDED,
        number);
    return is_recorded;
}

/* Until moietyi_capture_guard_recorder_end(). False: a guard is held, and
 * streams record for themselves. */
static bool begin_recording(const struct moietyi_stream_user *user)
{
    bool may_record = moietyi_capture_guard_recorder_begin();
    if (!may_record)
        moietyi_stream_tally(user, MOIETYI_STREAM_GUARDED);
    /* relaxed: advice. */
    atomic_store_explicit(&user->streams->wants_own_epochs, !may_record,
                          memory_order_relaxed);
    return may_record;
}

/* The same behind the guard and with the role. */
static bool close_guarded(const struct moietyi_stream_user *user,
                          bool is_wanted)
{
    struct moietyi_context_epochs *epochs = &user->streams->context_epochs;
    bool is_recorded = false;
    if (!begin_recording(user))
        return false;
    if (moietyi_role_try_take(&epochs->is_taken)) {
        is_recorded = close_contexts(user, is_wanted);
        moietyi_role_release(&epochs->is_taken);
    }
    moietyi_capture_guard_recorder_end();
    return is_recorded;
}

static bool close_streams_guarded(const struct moietyi_stream_user *user)
{
    if (!begin_recording(user))
        return false;
    bool is_any = close_streams(user);
    moietyi_capture_guard_recorder_end();
    return is_any;
}

static bool close_all(const struct moietyi_stream_user *user)
{
    struct moietyi_streams *streams = user->streams;
    struct moietyi_section section;
    if (!moietyi_epochs_are_pending(streams) ||
        moietyi_context_enter(streams->own_context, &section) != MOIETY_OK)
        return false;
    bool is_recorded = streams->driver->cuCtxRecordEvent
                           ? close_guarded(user, false)
                           : close_streams_guarded(user);
    (void)moietyi_section_leave(&section);
    return is_recorded;
}

bool moietyi_epochs_close_all(const struct moietyi_stream_user *user)
{
    /* An old driver's events are the streams' own, and recording one waits where
     * the stream's launch queue is full. */
    return (user->may_wait || user->streams->driver->cuCtxRecordEvent) &&
           close_all(user);
}

static uint64_t recorded(const struct moietyi_streams *streams)
{
    /* CE.acquire. */
    return atomic_load_explicit(&streams->context_epochs.recorded,
                                memory_order_acquire);
}

/* The next event may be half recorded by now, before the caller's work was
 * queued. */
uint64_t moietyi_epochs_next(const struct moietyi_streams *streams)
{
    return recorded(streams) + 2;
}

bool moietyi_epochs_are_recorded(const struct moietyi_streams *streams,
                                 uint64_t number)
{
    return recorded(streams) >= number;
}

bool moietyi_epochs_are_in_flight(const struct moietyi_streams *streams)
{
    return moietyi_epochs_passed(streams) < recorded(streams);
}

bool moietyi_epochs_have_passed(const struct moietyi_stream_user *user,
                                uint64_t number)
{
    struct moietyi_streams *streams = user->streams;
    if (has_passed(streams, number))
        return true;
    if (!streams->driver->cuCtxRecordEvent)
        return false;
    /* Events that are over leave room for more. */
    poll_contexts(user);
    while (recorded(streams) < number && close_guarded(user, true))
        continue;
    poll_contexts(user);
    return has_passed(streams, number);
}

void moietyi_epochs_close_before_capture_guard(struct moietyi_streams *streams)
{
    moietyi_counter counts[MOIETYI_STREAM_COUNTS] = {0};
    const struct moietyi_stream_user nobody = {.streams = streams,
                                               .counts = counts};
    /* An old driver's record could wait. */
    if (!streams->driver->cuCtxRecordEvent || !close_all(&nobody))
        return;
    /* CT, relaxed: a number; two guards may begin at once. */
    atomic_fetch_add_explicit(
        &streams->guard_events,
        moietyi_count_read(&counts[MOIETYI_STREAM_CONTEXT_EVENTS]),
        memory_order_relaxed);
}

/* Outside of sections; role of the context epochs held. */
static uint64_t epoch_synchronise(struct moietyi_streams *streams)
{
    if (!join_all(streams))
        return 0;
    bool is_over = moietyi_synchronise(streams) == MOIETY_OK;
    return end_joining(
        streams, is_over ? MOIETYI_EPOCH_IDLE : MOIETYI_EPOCH_UNRECORDED, 0);
}

uint64_t moietyi_epochs_synchronise(const struct moietyi_stream_user *user)
{
    struct moietyi_streams *streams = user->streams;
    struct moietyi_context_epochs *epochs = &streams->context_epochs;
    uint64_t grains = 0;
    if (streams->driver->cuCtxRecordEvent ||
        !moietyi_epochs_are_pending(streams))
        return 0;
    if (!moietyi_capture_guard_recorder_begin()) {
        moietyi_stream_tally(user, MOIETYI_STREAM_GUARDED);
        return 0;
    }
    if (moietyi_role_try_take(&epochs->is_taken)) {
        grains = epoch_synchronise(streams);
        moietyi_role_release(&epochs->is_taken);
    }
    moietyi_capture_guard_recorder_end();
    return grains;
}

/* Whether the stream is idle. It is asked only while it belongs to no graph and
 * no guard is held, because the question would break a capture. A guard that
 * begins just then does not wait for the answer. The answer takes as long as a
 * launcher is blocked on the stream: perhaps until the guard's own thread
 * unblocks it. */
static bool is_stream_idle(const struct moietyi_streams *streams,
                           const struct moietyi_stream_state *stream_state)
{
    return !moietyi_capture_guard_is_held() &&
           !moietyi_is_capturing(streams, stream_state->stream) &&
           streams->driver->cuStreamQuery(stream_state->stream) == CUDA_SUCCESS;
}

/* Role held, stream state pinned. If the stream is idle, what was freed before
 * the question is done. Fresh memory next to an epoch in flight takes a second
 * question, because it must not go behind that epoch's event. */
static uint64_t ask_stream(struct moietyi_streams *streams,
                           struct moietyi_stream_state *stream_state)
{
    uint64_t grains = 0;
    for (unsigned i = 0; i < 2 && moietyi_stream_state_grains(stream_state);
         i++) {
        bool is_closed = stream_state->epoch.state <= MOIETYI_EPOCH_UNRECORDED;
        if (is_closed)
            (void)close_epoch(stream_state);
        if (!is_stream_idle(streams, stream_state))
            break;
        grains += drain_epoch(stream_state);
        if (is_closed)
            break;
    }
    return grains;
}

bool moietyi_epoch_is_stream_idle(const struct moietyi_streams *streams,
                                  struct moietyi_stream_state *stream_state)
{
    if (!moietyi_stream_state_is_created(stream_state) ||
        !moietyi_stream_state_pin(stream_state))
        return false;
    bool is_idle = is_stream_idle(streams, stream_state);
    moietyi_stream_state_unpin(stream_state);
    return is_idle;
}

uint64_t moietyi_epoch_moves(const struct moietyi_stream_state *stream_state)
{
    /* MV.acquire: the moves that are counted are over. */
    return atomic_load_explicit(&stream_state->epoch.moves,
                                memory_order_acquire);
}

bool moietyi_epoch_has_since(const struct moietyi_stream_state *stream_state,
                             uint64_t moves)
{
    return stream_state->epoch.left_at_moves <= moves;
}

uint64_t moietyi_epochs_ask_streams(struct moietyi_streams *streams)
{
    uint64_t grains = 0;
    for (uint32_t i = 0; i < moietyi_stream_state_count(streams); i++) {
        struct moietyi_stream_state *stream_state =
            moietyi_stream_state_at(streams, i);
        if (!moietyi_stream_state_grains(stream_state) ||
            !moietyi_stream_state_try_take(stream_state))
            continue;
        if (moietyi_stream_state_is_created(stream_state) &&
            moietyi_stream_state_pin(stream_state)) {
            grains += ask_stream(streams, stream_state);
            moietyi_stream_state_unpin(stream_state);
        }
        moietyi_stream_state_release(stream_state);
    }
    return grains;
}

static bool wait_for(const struct moietyi_stream_user *user, CUevent event)
{
    moietyi_stream_tally(user, MOIETYI_STREAM_WAITS);
    return MOIETYI_CALL(user->streams->driver, cuStreamWaitEvent,
                        (user->stream_state->stream, event, 0)) == MOIETY_OK;
}

static bool wait_for_contexts(const struct moietyi_stream_user *user,
                              uint64_t number)
{
    struct moietyi_context_epochs *epochs = &user->streams->context_epochs;
    unsigned at = number % MOIETYI_CONTEXT_EPOCHS;
    bool is_waiting = moietyi_role_try_take(&epochs->is_taken);
    if (!is_waiting)
        return false;
    for (unsigned i = 0; i < epochs->counts[at] && is_waiting; i++)
        is_waiting = has_passed(user->streams, number) ||
                     wait_for(user, epochs->events[at][i]);
    moietyi_role_release(&epochs->is_taken);
    return is_waiting;
}

/* Role held, within a section. The call's stream gets the memory once its own
 * work comes after the event. */
static void epoch_hand_over(const struct moietyi_stream_user *user,
                            struct moietyi_stream_state *stream_state)
{
    struct moietyi_epoch *epoch = &stream_state->epoch;
    /* SF.acquire: the event was recorded. */
    CUevent final_event =
        atomic_load_explicit(&stream_state->final_event, memory_order_acquire);
    if (moietyi_stream_state_is_closed(stream_state)) {
        if (final_event && wait_for(user, final_event))
            for (unsigned age = MOIETYI_FRESH; age < MOIETYI_AGES; age++)
                (void)moietyi_heap_hand(stream_state->heap, age,
                                        user->stream_state->heap);
        return;
    }
    bool is_waiting = epoch->state == MOIETYI_EPOCH_OWN
                          ? wait_for(user, epoch->event)
                      : epoch->state == MOIETYI_EPOCH_CONTEXT
                          ? wait_for_contexts(user, epoch->number)
                          : false;
    if (!is_waiting)
        return;
    note_leaving(epoch);
    (void)moietyi_heap_hand(stream_state->heap, MOIETYI_AGEING,
                            user->stream_state->heap);
}

bool moietyi_epoch_hand_over(const struct moietyi_stream_user *user,
                             struct moietyi_stream_state *stream_state)
{
    struct moietyi_section section;
    if (stream_state == user->stream_state ||
        !moietyi_stream_state_grains(stream_state) ||
        !moietyi_stream_state_try_take(stream_state))
        return false;
    if (moietyi_context_enter(user->streams->own_context, &section) ==
        MOIETY_OK) {
        epoch_hand_over(user, stream_state);
        (void)moietyi_section_leave(&section);
    }
    moietyi_stream_state_release(stream_state);
    return true;
}

static struct moietyi_waiting
survey(const struct moietyi_stream_state *stream_state)
{
    struct moietyi_waiting waiting = {
        .stream_state = stream_state,
        .bytes =
            moietyi_stream_state_grains(stream_state) * MOIETYI_GRAIN_BYTES};
    /* relaxed: for a report. */
    uint64_t closed_ns = atomic_load_explicit(&stream_state->epoch.closed_ns,
                                              memory_order_relaxed);
    waiting.epoch_count = waiting.bytes != 0;
    if (waiting.bytes && closed_ns)
        waiting.oldest_ns = moietyi_now_ns() - closed_ns;
    return waiting;
}

/* Sorts it in among the longest. */
static void epoch_insert(struct moietyi_waiting *list, uint32_t capacity,
                         uint32_t count, const struct moietyi_waiting *waiting)
{
    uint32_t at = count < capacity ? count : capacity;
    while (at && list[at - 1].oldest_ns < waiting->oldest_ns) {
        if (at < capacity)
            list[at] = list[at - 1];
        at--;
    }
    if (at < capacity)
        list[at] = *waiting;
}

uint32_t moietyi_epochs_survey(const struct moietyi_streams *streams,
                               struct moietyi_waiting *out, uint32_t capacity)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < moietyi_stream_state_count(streams); i++) {
        const struct moietyi_waiting waiting =
            survey(moietyi_stream_state_at(streams, i));
        if (waiting.epoch_count)
            epoch_insert(out, capacity, found++, &waiting);
    }
    return found;
}

void moietyi_epoch_finish(struct moietyi_stream_state *stream_state)
{
    if (!stream_state->heap)
        return;
    (void)moietyi_heap_drain(stream_state->heap, MOIETYI_AGEING);
    (void)moietyi_heap_drain(stream_state->heap, MOIETYI_FRESH);
}
