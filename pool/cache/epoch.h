/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * When a stream's memory becomes everybody's. What was freed on a stream is in
 * its fresh map. Closing the stream's epoch moves that into the ageing map and
 * records an event; when the event is over, draining gives it to the buddy. Both
 * are one role, which a thread takes or passes by: two that close, or one that
 * drains late, would move bits of the next epoch behind the event of this one.
 * The state says whether an epoch is in flight; an empty map does not, since the
 * stream may have taken all of it again.
 *
 * An event on a stream is recorded by calls that name the stream and may wait,
 * and by no others: recording can block, and races with a capture. Whoever needs
 * what other streams freed closes them all and records one event in each context,
 * which is over when all that was queued before it is. The legacy stream, whose
 * own events are barriers, and what was freed with ANY always go that way.
 */
#ifndef BINADE_POOL_CACHE_EPOCH_H_
#define BINADE_POOL_CACHE_EPOCH_H_

#include "pool/cache/cache.h"

/* Drains every stream whose event is over. Returns whether memory became done.
 * Asks the driver and waits for nothing. */
bool binadei_epochs_poll(struct binadei_call *call);
/* The same of a few streams that were retired: those whose slots are looked at
 * next to be used again. Within an operation of the member's. */
void binadei_epochs_drain_closed(struct binadei_member *member);
/* Closes the epoch of the call's stream and records on it. The call may wait. */
void binadei_epochs_record_own(struct binadei_call *call);
/* The same if a guard kept somebody from closing all. */
void binadei_epochs_close_own(struct binadei_call *call);
/* Closes the epochs of all streams behind an event in each context. Nothing
 * happens while a capture guard is held. Returns whether one was recorded. */
bool binadei_epochs_close_all(struct binadei_call *call);
/* The same before the first capture guard is held, while which no event of a
 * context may be recorded: what was freed until then becomes done meanwhile. The
 * registry's lock is held. */
void binadei_epochs_close_before_guard(struct binadei_engine *engine);
/* For drivers that have no event of a context: waits for all work of all
 * contexts, if memory waits for that. Returns whether memory became done. */
bool binadei_epochs_synchronise(struct binadei_call *call);
/* The last that may be tried: asks each stream whether it has anything left to
 * do, since an event of a context waits for all streams, and one of them may
 * never come to an end. Not while a capture guard is held; blocks as long as
 * another thread is blocked launching on the stream. Returns whether memory
 * became done. */
bool binadei_epochs_ask_streams(struct binadei_call *call);
/* Lets the call's stream wait for others' events, stream by stream, until what
 * was freed there serves the request. */
bool binadei_epochs_hand_over(struct binadei_call *call,
                              const struct binadei_request *request,
                              binade_devptr *out);
/* The number of an event of all contexts that will be recorded after now. */
uint64_t binadei_epochs_next(const struct binadei_engine *engine);
/* Whether that event is over; it is recorded if it was not and may be. In a
 * section. */
bool binadei_epochs_have_passed(struct binadei_call *call, uint64_t number);
/* Whether memory waits in any map. */
bool binadei_epochs_are_pending(const struct binadei_engine *engine);
/* Bytes that do, of one slot and of all. */
uint64_t binadei_epoch_bytes(const struct binadei_slot *slot);
uint64_t binadei_epochs_bytes(const struct binadei_engine *engine);
/* What waits on a slot. */
struct binadei_waiting binadei_epoch_survey(const struct binadei_slot *slot);

/* Gives a freed interval to the maps of the slot, or to ANY's, which have words
 * for every segment, where there is no memory for that. False: a part of it is
 * free already. */
bool binadei_epoch_give(struct binadei_engine *engine,
                        struct binadei_slot *slot, binadei_grain start,
                        uint64_t grains);

/* Whether the slot is a created stream that has nothing left to do. In a section;
 * no capture guard is held. */
bool binadei_epoch_is_stream_idle(const struct binadei_engine *engine,
                                  struct binadei_slot *slot);
/* How often the slot was closed so far. */
uint64_t binadei_epoch_moves(const struct binadei_slot *slot);
/* Whether what was given to the slot's maps after it had been closed so often is
 * there still, for all that was drained; the role is held. */
bool binadei_epoch_has_since(const struct binadei_slot *slot, uint64_t moves);

/* The slot's role: false, somebody has it. It is not waited for. */
bool binadei_epoch_try_take(struct binadei_slot *slot);
void binadei_epoch_release(struct binadei_slot *slot);

/* No call is under way, and all work is over: all of it is done. */
void binadei_epoch_finish(struct binadei_slot *slot);
void binadei_epoch_destroy(const struct binadei_engine *engine,
                           struct binadei_slot *slot);
/* Makes the events of one of the engine's contexts, ahead: creating one can
 * block. What the driver refuses is made when it is needed. In a section. */
void binadei_context_epochs_prepare(struct binadei_engine *engine,
                                    unsigned context);
void binadei_context_epochs_destroy(const struct binadei_engine *engine);

#endif
