/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Slots: a pool's record of each stream. They are made when a thread first names
 * a stream, and are used again once their stream was retired and nothing refers
 * to them.
 */
#ifndef BINADE_POOL_STREAM_SLOT_H_
#define BINADE_POOL_STREAM_SLOT_H_

#include "pool/stream/streams.h"

/* A slot of no stream, DONE or ANY, with these maps, which outlive it; NULL: no
 * memory. For new streams. */
struct binadei_slot *binadei_slot_make(struct binadei_streams *streams,
                                       enum binadei_slot_kind kind,
                                       struct binadei_maps *maps);
/* The slot that `thread` means by a stream; ANY's where the pool knows no more
 * streams. Counts the caller as a user. BINADE_OK, BINADE_E_NO_HOST_MEMORY, or
 * what the driver said about the stream. */
BINADE_MUST_USE binade_status binadei_slot_use(struct binadei_streams *streams,
                                               const void *thread,
                                               binade_stream stream,
                                               struct binadei_slot **out);
/* The same for a slot that was found otherwise; false: it is closed. */
bool binadei_slot_use_slot(struct binadei_streams *streams,
                           struct binadei_slot *slot);
/* The same for the slot whose blocks have this note; NULL: its stream was
 * retired, or there is no such note. */
struct binadei_slot *binadei_slot_use_noted(struct binadei_streams *streams,
                                            uint32_t note);
/* Takes what these counted back. */
void binadei_slot_unuse(struct binadei_slot *slot);
/* The slot of a created stream if there is one, or NULL; the caller is counted
 * as a user. */
struct binadei_slot *binadei_slot_find(struct binadei_streams *streams,
                                       CUstream stream);
/* Closes it: it is no longer found, and slow paths that were recording on the
 * stream have ended. False: another thread closed it. */
bool binadei_slot_close(struct binadei_streams *streams,
                        struct binadei_slot *slot);
/* Closes that of the default stream of a thread that has ended. False: another
 * thread is at the slots, and this one does not wait. */
bool binadei_slot_try_close_of(struct binadei_streams *streams,
                               const void *thread);

/* Keeps the stream from being retired until unpinned; false: it was. */
bool binadei_slot_pin(struct binadei_slot *slot);
void binadei_slot_unpin(struct binadei_slot *slot);

static inline bool binadei_slot_is_closed(const struct binadei_slot *slot)
{
    /* PI.acquire: what the one who closed it did before. */
    return atomic_load_explicit(&slot->is_closed, memory_order_acquire);
}

/* The slot's role, to close and drain its maps: false, somebody has it. It is not
 * waited for. */
bool binadei_slot_try_take(struct binadei_slot *slot);
void binadei_slot_release(struct binadei_slot *slot);

/* What was freed on it and is not done. */
static inline uint64_t binadei_slot_grains(const struct binadei_slot *slot)
{
    return binadei_maps_grains(slot->maps, BINADEI_FRESH) +
           binadei_maps_grains(slot->maps, BINADEI_AGEING);
}

/* A stream that can be asked by its handle, and recorded on without a barrier.
 * The epoch's role is held, or the slot has a user. */
static inline bool
binadei_slot_is_of_created_stream(const struct binadei_slot *slot)
{
    return slot->kind == BINADEI_SLOT_STREAM &&
           slot->stream != BINADE_STREAM_LEGACY;
}

/* Closed slots that a new stream looks at. */
#define BINADEI_CLOSED_LOOKS 8U

/* Those that the next new stream looks at; returns how many. They may be opened
 * meanwhile. */
unsigned
binadei_slots_closed_next(struct binadei_streams *streams,
                          struct binadei_slot *out[BINADEI_CLOSED_LOOKS]);

/* How many streams are open. */
uint64_t binadei_slots_open_count(struct binadei_streams *streams);
void binadei_slots_destroy(struct binadei_streams *streams);

#endif
