/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * When a stream's memory becomes everybody's. What was freed on a stream is
 * fresh in its heap. Closing the stream's epoch makes that ageing and records an
 * event; when the event is over, draining makes it done. Both are one role, which a
 * thread takes or passes by: two that close, or one that drains late, would move memory of the next epoch behind the event of this one.
 * The state says whether an epoch is in flight; an empty age does not, since the
 * stream may have taken all of it again.
 *
 * An event on a stream is recorded by calls that name the stream and may wait,
 * and by no others: recording can block, and races with a capture. A call that
 * needs what other streams freed closes them all and records one event in each
 * context, which is over when all that was queued before it is. The legacy
 * stream, whose own events are barriers, and what was freed with ANY always go
 * that way.
 */
#ifndef MOIETY_POOL_STREAM_EPOCH_H_
#define MOIETY_POOL_STREAM_EPOCH_H_

#include "pool/stream/streams.h"

/* Drains every stream whose event is over. Returns the grains that became done.
 * Asks the driver and waits for nothing. */
uint64_t moietyi_epochs_poll(const struct moietyi_stream_user *user);
/* The same of a few streams that were retired: those whose stream states are
 * looked at next to be used again. */
uint64_t moietyi_epochs_drain_closed(const struct moietyi_stream_user *user);
/* Closes the epoch of the user's stream and records on it. The call may wait. */
void moietyi_epochs_record_own(const struct moietyi_stream_user *user);
/* The same if a guard kept somebody from closing all. */
void moietyi_epochs_close_own(const struct moietyi_stream_user *user);
/* Closes the epochs of all streams behind an event in each context. Nothing
 * happens while a capture guard is held. Returns whether one was recorded. */
bool moietyi_epochs_close_all(const struct moietyi_stream_user *user);
/* The same before the first capture guard is held, while which no event of a
 * context may be recorded: what was freed until then becomes done meanwhile. The
 * guards' lock is held. */
void moietyi_epochs_close_before_capture_guard(struct moietyi_streams *streams);
/* For drivers that have no event of a context: waits for all work of all
 * contexts, if memory waits for that. Returns the grains that became done. */
uint64_t moietyi_epochs_synchronise(const struct moietyi_stream_user *user);
/* The last that may be tried: asks each stream whether it has anything left to
 * do, since an event of a context waits for all streams, and one of them may
 * never come to an end. In a section; the guard, which is not held at first, is
 * asked again for each stream. Blocks as long as another thread is blocked
 * launching on the stream. Returns the grains that became done. */
uint64_t moietyi_epochs_ask_streams(struct moietyi_streams *streams);
/* Lets the user's stream wait for the event of another's, and have what was freed
 * there. False: nothing is there, or another thread is at it. */
bool moietyi_epoch_hand_over(const struct moietyi_stream_user *user,
                             struct moietyi_stream_state *stream_state);
/* The number of the next event that is recorded in all contexts. */
uint64_t moietyi_epochs_next(const struct moietyi_streams *streams);
/* Whether it was recorded by now. */
bool moietyi_epochs_are_recorded(const struct moietyi_streams *streams,
                                 uint64_t number);
/* Whether an event of all contexts was recorded that is not known to be over:
 * later ones may have no room before it is. */
bool moietyi_epochs_are_in_flight(const struct moietyi_streams *streams);
/* Of the last event of all contexts that is known to be over. */
uint64_t moietyi_epochs_passed(const struct moietyi_streams *streams);
/* Whether that event is over; it is recorded if it was not and may be. In a
 * section. */
bool moietyi_epochs_have_passed(const struct moietyi_stream_user *user,
                                uint64_t number);
/* Whether memory waits in any heap, and how many bytes. */
bool moietyi_epochs_are_pending(const struct moietyi_streams *streams);
uint64_t moietyi_epochs_bytes(const struct moietyi_streams *streams);
/* Of these: what came since the last event was recorded. */
uint64_t moietyi_epochs_fresh_bytes(const struct moietyi_streams *streams);

/* A stream state of which memory waits for an event. */
struct moietyi_waiting {
    const struct moietyi_stream_state *stream_state;
    uint64_t bytes;
    uint64_t epoch_count;
    uint64_t oldest_ns; /* since its oldest epoch was closed */
};

/* The `capacity` stream states that wait longest, longest first; returns how
 * many wait in all. */
uint32_t moietyi_epochs_survey(const struct moietyi_streams *streams,
                               struct moietyi_waiting *out, uint32_t capacity);

/* Whether the stream state is a created stream that has nothing left to do. In
 * a section; no capture guard is held. */
bool moietyi_epoch_is_stream_idle(const struct moietyi_streams *streams,
                                  struct moietyi_stream_state *stream_state);
/* How often the stream state was closed so far. */
uint64_t moietyi_epoch_moves(const struct moietyi_stream_state *stream_state);
/* Whether what was given to the stream state's heap after it had been closed so
 * often is there still, for all that was drained; the role is held. */
bool moietyi_epoch_has_since(const struct moietyi_stream_state *stream_state,
                             uint64_t moves);

/* No call is under way, and all work is over: all of it is done. */
void moietyi_epoch_finish(struct moietyi_stream_state *stream_state);

#endif
