/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Stream states: a pool's record of each stream. They are made when a thread
 * first names a stream, and are used again once their stream was retired and
 * nothing refers to them.
 */
#ifndef BINADE_POOL_STREAM_STREAM_STATE_H_
#define BINADE_POOL_STREAM_STREAM_STATE_H_

#include "pool/stream/streams.h"

/* A stream state of no stream, DONE or ANY, with these maps, which outlive it;
 * NULL: no memory. For new streams. */
struct binadei_stream_state *
binadei_stream_state_make(struct binadei_streams *streams,
                          enum binadei_stream_state_kind kind,
                          struct binadei_maps *maps);
/* The stream state that `thread` means by a stream; ANY's where the pool knows
 * no more streams. Counts the caller as a user. BINADE_OK,
 * BINADE_E_NO_HOST_MEMORY, or what the driver said about the stream. */
BINADE_MUST_USE binade_status binadei_stream_state_use(
    struct binadei_streams *streams, const void *thread, binade_stream stream,
    struct binadei_stream_state **out);
/* The same for a stream state that was found otherwise; false: it is closed. */
bool binadei_stream_state_use_found(struct binadei_streams *streams,
                                    struct binadei_stream_state *stream_state);
/* The same for the stream state whose blocks have this note; NULL: its stream
 * was retired, or there is no such note. */
struct binadei_stream_state *
binadei_stream_state_use_noted(struct binadei_streams *streams, uint32_t note);
/* Takes what these counted back. */
void binadei_stream_state_unuse(struct binadei_stream_state *stream_state);
/* The stream state of a created stream if there is one, or NULL; the caller is
 * counted as a user. */
struct binadei_stream_state *
binadei_stream_state_find(struct binadei_streams *streams, CUstream stream);
/* Closes it: it is no longer found, and slow paths that were recording on the
 * stream have ended. False: another thread closed it. */
bool binadei_stream_state_close(struct binadei_streams *streams,
                                struct binadei_stream_state *stream_state);
/* Closes that of the default stream of a thread that has ended. False: another
 * thread is at the stream states, and this one does not wait. */
bool binadei_stream_state_try_close_of(struct binadei_streams *streams,
                                       const void *thread);

/* Keeps the stream from being retired until unpinned; false: it was. */
bool binadei_stream_state_pin(struct binadei_stream_state *stream_state);
void binadei_stream_state_unpin(struct binadei_stream_state *stream_state);

static inline bool
binadei_stream_state_is_closed(const struct binadei_stream_state *stream_state)
{
    /* PI.acquire: what the one who closed it did before. */
    return atomic_load_explicit(&stream_state->is_closed, memory_order_acquire);
}

/* The stream state's role, to close and drain its maps: false, somebody has it.
 * It is not waited for. */
bool binadei_stream_state_try_take(struct binadei_stream_state *stream_state);
void binadei_stream_state_release(struct binadei_stream_state *stream_state);

/* What was freed on it and is not done. */
static inline uint64_t
binadei_stream_state_grains(const struct binadei_stream_state *stream_state)
{
    return binadei_maps_grains(stream_state->maps, BINADEI_FRESH) +
           binadei_maps_grains(stream_state->maps, BINADEI_AGEING);
}

/* A stream that can be asked by its handle, and recorded on without a barrier.
 * The epoch's role is held, or the stream state has a user. */
static inline bool
binadei_stream_state_is_created(const struct binadei_stream_state *stream_state)
{
    return stream_state->kind == BINADEI_STREAM_STATE_STREAM &&
           stream_state->stream != BINADE_STREAM_LEGACY;
}

/* Closed stream states that a new stream looks at. */
#define BINADEI_CLOSED_LOOKS 8U

/* Those that the next new stream looks at; returns how many. They may be opened
 * meanwhile. */
unsigned binadei_stream_states_closed_next(
    struct binadei_streams *streams,
    struct binadei_stream_state *out[BINADEI_CLOSED_LOOKS]);

/* How many streams are open. */
uint64_t binadei_stream_states_open_count(struct binadei_streams *streams);
void binadei_stream_states_destroy(struct binadei_streams *streams);

#endif
