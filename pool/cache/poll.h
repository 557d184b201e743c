/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Taking retired batches back: those that are done, for anybody; those of the
 * caller's own stream, for that stream, at once.
 */
#ifndef BINADE_POOL_CACHE_POLL_H_
#define BINADE_POOL_CACHE_POLL_H_

#include "pool/cache/state.h"

struct binadei_poll {
    struct binadei_member *member;
    /* Blocks of this class are wanted: BINADEI_CLASSES for none. What is done
     * goes to the member's DONE magazine, the rest to the buddy; what is of
     * `own`'s stream and not done goes to `own`. */
    uint32_t class_index;
    struct binadei_cache *own;
    uint32_t found;    /* blocks that magazines got */
    uint64_t disposed; /* bytes that were done */
    bool has_recorded; /* an event, just now: it may soon be over */
};

/* A few batches of the slot that the caller frees on. */
void binadei_poll_own(struct binadei_poll *poll, struct binadei_slot *slot);
/* Ends a batch whose blocks are others' now. */
void binadei_poll_spare(struct binadei_poll *poll, struct binadei_batch *batch);
/* All batches of all slots. */
void binadei_poll_all(struct binadei_poll *poll);
/* Waits for all work if there is memory that nothing else tells to be done: an
 * old driver. Blocks. */
void binadei_poll_synchronise(struct binadei_poll *poll);
/* Lets `stream` wait for one batch that has blocks of the class, and hands the
 * whole batch to `to`, a cache of that stream. False: there is none. */
bool binadei_poll_hand_over(struct binadei_poll *poll,
                            struct binadei_cache *to);
/* What waits in the slot's batches. */
struct binadei_waiting;
struct binadei_waiting binadei_poll_survey(struct binadei_slot *slot);
/* Whether any batch is out. */
bool binadei_poll_is_any_out(const struct binadei_engine *engine);

#endif
