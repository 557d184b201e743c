/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * When memory that a stream freed becomes done. It is fresh in the stream's
 * heap. Closing the stream's epoch makes it ageing and records an event; when
 * the event is over, draining makes it done. One role covers both, and a thread
 * that does not get it goes on without. Without the role, a second closing or a
 * late drain could move memory of the next epoch behind this epoch's event. The
 * state says whether an epoch is in flight; an empty age does not, because the
 * stream may have taken all of its memory again.
 *
 * Only calls that name a stream and may wait record an event on it: recording
 * can block, and races with a capture. A call that needs memory of other
 * streams closes them all and records one event in each context, which is over
 * when all work queued before it is. The legacy stream, whose own events are
 * barriers, and memory freed with ANY always use that way.
 */
#ifndef MOIETY_POOL_STREAM_EPOCH_H_
#define MOIETY_POOL_STREAM_EPOCH_H_

#include "pool/stream/streams.h"

/* Drains every stream whose event is over. Returns the grains that became done.
 * Asks the driver and waits for nothing. */
uint64_t moietyi_epochs_poll(const struct moietyi_stream_user *user);
/* The same for a few retired streams: those whose stream states a new stream
 * looks at next. */
uint64_t moietyi_epochs_drain_closed(const struct moietyi_stream_user *user);
/* Closes the epoch of the user's stream and records on it. The call may wait. */
void moietyi_epochs_record_own(const struct moietyi_stream_user *user);
/* The same if a guard kept another call from closing all. */
void moietyi_epochs_close_own(const struct moietyi_stream_user *user);
/* Closes the epochs of all streams behind an event in each context. Nothing
 * happens while a capture guard is held. Returns whether one was recorded. */
bool moietyi_epochs_close_all(const struct moietyi_stream_user *user);
/* The same before the first capture guard is held, during which no event of a
 * context may be recorded: memory that was freed until then becomes done
 * meanwhile. The guards' lock is held. */
void moietyi_epochs_close_before_capture_guard(struct moietyi_streams *streams);
/* For drivers without events of contexts: waits for all work of all contexts,
 * if memory waits for that. Returns the grains that became done. */
uint64_t moietyi_epochs_synchronise(const struct moietyi_stream_user *user);
/* The last try: asks each stream whether it is idle, because an event of a
 * context waits for all streams, and one of them may never end. In a section;
 * the guard, which is not held at first, is checked again for each stream.
 * Blocks as long as another thread is blocked launching on the stream. Returns
 * the grains that became done. */
uint64_t moietyi_epochs_ask_streams(struct moietyi_streams *streams);
/* Makes the user's stream wait for the event of another stream, and gives it
 * that stream's freed memory. False: there is none, or another thread is at
 * it. */
bool moietyi_epoch_hand_over(const struct moietyi_stream_user *user,
                             struct moietyi_stream_state *stream_state);
/* The number of the next event that is recorded in all contexts. */
uint64_t moietyi_epochs_next(const struct moietyi_streams *streams);
/* Whether it was recorded by now. */
bool moietyi_epochs_are_recorded(const struct moietyi_streams *streams,
                                 uint64_t number);
/* Whether an event of all contexts was recorded and is not known to be over:
 * later events may have no room before it is. */
bool moietyi_epochs_are_in_flight(const struct moietyi_streams *streams);
/* The number of the last event of all contexts that is known to be over. */
uint64_t moietyi_epochs_passed(const struct moietyi_streams *streams);
/* Whether that event is over; records it if nobody has and no guard forbids it.
 * In a section. */
bool moietyi_epochs_have_passed(const struct moietyi_stream_user *user,
                                uint64_t number);
/* Whether memory waits in any heap, and how many bytes. */
bool moietyi_epochs_are_pending(const struct moietyi_streams *streams);
uint64_t moietyi_epochs_bytes(const struct moietyi_streams *streams);
/* Of these: the bytes freed since the last event was recorded. */
uint64_t moietyi_epochs_fresh_bytes(const struct moietyi_streams *streams);

/* A stream state whose memory waits for an event. */
struct moietyi_waiting {
    const struct moietyi_stream_state *stream_state;
    uint64_t bytes;
    uint64_t epoch_count;
    uint64_t oldest_ns; /* since its oldest epoch was closed */
};

/* Lists up to `capacity` stream states that wait longest, longest first;
 * returns how many wait in all. */
uint32_t moietyi_epochs_survey(const struct moietyi_streams *streams,
                               struct moietyi_waiting *out, uint32_t capacity);

/* Whether the stream state is a created stream that is idle. In a section; no
 * capture guard is held. */
bool moietyi_epoch_is_stream_idle(const struct moietyi_streams *streams,
                                  struct moietyi_stream_state *stream_state);
/* How often the stream state was closed so far. */
uint64_t moietyi_epoch_moves(const struct moietyi_stream_state *stream_state);
/* Whether memory that entered the stream state's heap after so many closings is
 * still there, as far as drains are concerned; the role is held. */
bool moietyi_epoch_has_since(const struct moietyi_stream_state *stream_state,
                             uint64_t moves);

/* No call is under way, and all work is over: makes all of it done. */
void moietyi_epoch_finish(struct moietyi_stream_state *stream_state);

#endif
