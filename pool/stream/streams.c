/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The beginning and the end of what a pool knows of streams, and the contexts
 * that they are of.
 */
#include "pool/stream/streams.h"

#include "pool/base/failure.h"
#include "pool/base/lock.h"
#include "pool/driver/section.h"
#include "pool/stream/event.h"
#include "pool/stream/stream_state.h"

/* Makes the events of a context in advance, because creating one can block. An
 * event that the driver refuses is made when it is needed. */
static void make_events(const struct moietyi_streams *streams,
                        CUcontext context, CUevent out[MOIETYI_CONTEXT_EPOCHS])
{
    struct moietyi_section section;
    if (moietyi_context_enter(streams->own_context, &section) != MOIETY_OK)
        return;
    for (unsigned i = 0; i < MOIETYI_CONTEXT_EPOCHS; i++)
        out[i] = moietyi_event_make(streams, context);
    (void)moietyi_section_leave(&section);
}

/* The events of the context with that number, which nobody uses yet. */
static void set_events(struct moietyi_streams *streams, unsigned at,
                       CUevent events[MOIETYI_CONTEXT_EPOCHS])
{
    for (unsigned i = 0; i < MOIETYI_CONTEXT_EPOCHS; i++) {
        streams->context_epochs.events[i][at] = events[i];
        events[i] = NULL;
    }
}

bool moietyi_streams_init(struct moietyi_streams *streams,
                          struct moietyi_heap *any_heap)
{
    pthread_mutex_init(&streams->stream_states_lock, NULL);
    streams->contexts[0] = streams->own_context->handle;
    atomic_init(&streams->context_count, 1);
    streams->done =
        moietyi_stream_state_make(streams, MOIETYI_STREAM_STATE_DONE, NULL);
    streams->any =
        moietyi_stream_state_make(streams, MOIETYI_STREAM_STATE_ANY, any_heap);
    CUevent events[MOIETYI_CONTEXT_EPOCHS] = {NULL};
    if (!streams->done || !streams->any) {
        moietyi_streams_fini(streams);
        return false;
    }
    make_events(streams, streams->contexts[0], events);
    set_events(streams, 0, events);
    return true;
}

void moietyi_streams_fini(struct moietyi_streams *streams)
{
    moietyi_stream_states_destroy(streams);
    for (unsigned i = 0; i < MOIETYI_CONTEXT_EPOCHS; i++)
        for (unsigned j = 0; j < MOIETYI_CONTEXTS_MAX; j++)
            moietyi_event_destroy(streams,
                                  streams->context_epochs.events[i][j]);
    for (unsigned i = 0; i < MOIETYI_CONTEXTS_MAX; i++)
        moietyi_event_destroy(streams, streams->last_events[i]);
    pthread_mutex_destroy(&streams->stream_states_lock);
}

/* Adds it, unless it is known or there are too many. */
static moiety_status streams_append(struct moietyi_streams *streams,
                                    CUcontext context,
                                    CUevent events[MOIETYI_CONTEXT_EPOCHS])
{
    moiety_status status = MOIETY_OK;
    moietyi_lock(&streams->stream_states_lock);
    /* relaxed: the lock's holder alone writes. */
    unsigned count =
        atomic_load_explicit(&streams->context_count, memory_order_relaxed);
    bool is_known = moietyi_streams_know_context(streams, context);
    if (!is_known && count == MOIETYI_CONTEXTS_MAX) {
        status = moietyi_fail(MOIETY_E_NO_ROOM,
                              "a pool knows %u further contexts at most",
                              MOIETYI_CONTEXTS_MAX - 1);
    } else if (!is_known) {
        streams->contexts[count] = context;
        set_events(streams, count, events);
        /* CX.release: who sees the count sees the context. */
        atomic_store_explicit(&streams->context_count, count + 1,
                              memory_order_release);
    }
    moietyi_unlock(&streams->stream_states_lock);
    return status;
}

moiety_status moietyi_streams_add_context(struct moietyi_streams *streams,
                                          CUcontext context)
{
    CUevent events[MOIETYI_CONTEXT_EPOCHS] = {NULL};
    if (moietyi_streams_know_context(streams, context))
        return MOIETY_OK;
    /* Before the lock is taken: others' first calls for a stream need it. */
    make_events(streams, context, events);
    moiety_status status = streams_append(streams, context, events);
    for (unsigned i = 0; i < MOIETYI_CONTEXT_EPOCHS; i++)
        moietyi_event_destroy(streams, events[i]);
    return status;
}

bool moietyi_streams_know_context(const struct moietyi_streams *streams,
                                  CUcontext context)
{
    /* CX.acquire: the contexts that are counted. */
    unsigned count =
        atomic_load_explicit(&streams->context_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++)
        if (streams->contexts[i] == context)
            return true;
    return false;
}
