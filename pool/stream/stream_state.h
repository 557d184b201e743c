/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Stream states: a pool's record of each stream. They are made when a thread
 * first names a stream, and are used again once their stream was retired and
 * nothing refers to them.
 */
#ifndef MOIETY_POOL_STREAM_STREAM_STATE_H_
#define MOIETY_POOL_STREAM_STREAM_STATE_H_

#include "pool/stream/streams.h"

/* A stream state of no stream, DONE or ANY, with this heap, which outlives it;
 * NULL: no memory. For new streams. */
struct moietyi_stream_state *
moietyi_stream_state_make(struct moietyi_streams *streams,
                          enum moietyi_stream_state_kind kind,
                          struct moietyi_heap *heap);
/* The stream state of the stream that `thread` names; ANY's if the pool has no
 * room for more streams. Counts the caller as a user. MOIETY_OK,
 * MOIETY_E_NO_HOST_MEMORY, or the driver's error for the stream. */
MOIETY_MUST_USE moiety_status moietyi_stream_state_use(
    struct moietyi_streams *streams, const void *thread, moiety_stream stream,
    struct moietyi_stream_state **out);
/* The same for a stream state that was found otherwise; false: it is closed. */
bool moietyi_stream_state_use_found(struct moietyi_streams *streams,
                                    struct moietyi_stream_state *stream_state);
/* The same for the stream state whose blocks have this note; NULL: its stream
 * was retired, or there is no such note. */
struct moietyi_stream_state *
moietyi_stream_state_use_noted(struct moietyi_streams *streams, uint32_t note);
/* The caller is no longer a user. */
void moietyi_stream_state_unuse(struct moietyi_stream_state *stream_state);
/* The stream state of a created stream if there is one, or NULL; the caller is
 * counted as a user. */
struct moietyi_stream_state *
moietyi_stream_state_find(struct moietyi_streams *streams, CUstream stream);
/* Closes it: it is no longer found, and slow paths that were recording on the
 * stream have ended. False: another thread closed it. */
bool moietyi_stream_state_close(struct moietyi_streams *streams,
                                struct moietyi_stream_state *stream_state);
/* Closes the stream state of the default stream of an ended thread. False:
 * another thread is at the stream states, and this one does not wait. */
bool moietyi_stream_state_try_close_of(struct moietyi_streams *streams,
                                       const void *thread);

/* Keeps the stream from being retired until unpinned; false: it was. */
bool moietyi_stream_state_pin(struct moietyi_stream_state *stream_state);
void moietyi_stream_state_unpin(struct moietyi_stream_state *stream_state);

static inline bool
moietyi_stream_state_is_closed(const struct moietyi_stream_state *stream_state)
{
    /* PI.acquire: what the closing thread did before. */
    return atomic_load_explicit(&stream_state->is_closed, memory_order_acquire);
}

/* Tries to take the stream state's role, to close and drain its heap. False:
 * another thread has it. */
bool moietyi_stream_state_try_take(struct moietyi_stream_state *stream_state);
void moietyi_stream_state_release(struct moietyi_stream_state *stream_state);

/* Grains that were freed on it and are not done. */
static inline uint64_t
moietyi_stream_state_grains(const struct moietyi_stream_state *stream_state)
{
    return moietyi_heap_grains(stream_state->heap, MOIETYI_FRESH) +
           moietyi_heap_grains(stream_state->heap, MOIETYI_AGEING);
}

/* A created stream: it can be asked by its handle, and an event on it is no
 * barrier. The epoch's role is held, or the stream state has a user. */
static inline bool
moietyi_stream_state_is_created(const struct moietyi_stream_state *stream_state)
{
    return stream_state->kind == MOIETYI_STREAM_STATE_STREAM &&
           stream_state->stream != MOIETY_STREAM_LEGACY;
}

/* Closed stream states that a new stream looks at. */
#define MOIETYI_CLOSED_LOOKS 8U

/* The ones that the next new stream looks at; returns how many. They may be
 * opened meanwhile. */
unsigned moietyi_stream_states_closed_next(
    struct moietyi_streams *streams,
    struct moietyi_stream_state *out[MOIETYI_CLOSED_LOOKS]);

/* How many streams are open. */
uint64_t moietyi_stream_states_open_count(struct moietyi_streams *streams);
void moietyi_stream_states_destroy(struct moietyi_streams *streams);

#endif
