/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The free memory of one half of a private arena: what captures use, or what
 * others do. It is in maps, each with a key that says whom it may serve:
 *
 *   done     everybody of the half
 *   own      one stream; of captures, one stream in one capture
 *   pending  nobody, before an event of all contexts
 *
 * Of pending maps and of those of streams outside of captures one event at a
 * time is waited for, by its number: closing moves what is fresh behind it, and
 * draining makes that done. The caller holds the arena's lock, and calls the
 * driver without it.
 */
#ifndef BINADE_POOL_GRAPH_PRIVATE_HALF_H_
#define BINADE_POOL_GRAPH_PRIVATE_HALF_H_

#include <stdbool.h>
#include <stdint.h>

#include "binade/scope.h"
#include "binade/status.h"
#include "pool/buddy/buddy.h"
#include "pool/buddy/map.h"

/* Whom memory may serve: the stream with this note (pool/stream/notes.h), 0 for
 * none; in a capture of that scope, 0 outside of captures. */
struct binadei_private_key {
    uint32_t note;
    binade_scope scope;
};

struct binadei_private_own {
    struct binadei_private_own *next;
    struct binadei_private_key key;
    struct binadei_maps *maps;
};

struct binadei_half {
    struct binadei_buddy *done;
    struct binadei_maps *pending; /* has words for every page of the half */
    struct binadei_private_own *owns;
    uint64_t number;   /* of the event that ageing maps wait for; 0: none */
    uint64_t closings; /* ever: which one it is that is waited for */
};

/* With offsets as its pool has them. BINADE_OK or BINADE_E_NO_HOST_MEMORY; then there is nothing to end. */
BINADE_MUST_USE binade_status binadei_half_init(struct binadei_half *half,
                                                uint32_t page_capacity);
/* What is still in it is lost. One that was never made is fine. */
void binadei_half_fini(struct binadei_half *half);

/* Pages that are done become the half's. False: no memory. */
bool binadei_half_add(struct binadei_half *half, binadei_page first,
                      uint32_t page_count);
/* Takes whole pages out that are done, and next to each other. */
bool binadei_half_remove(struct binadei_half *half, uint32_t page_count,
                         binadei_page *out_first);
/* How many whole pages could be taken out at once. */
uint32_t binadei_half_longest(const struct binadei_half *half);

bool binadei_half_take(struct binadei_half *half,
                       const struct binadei_private_key *key, uint64_t grains,
                       binadei_grain *out);
/* Takes exactly these, as far as they may serve the key; false: not all are free
 * for it. */
bool binadei_half_extend(struct binadei_half *half,
                         const struct binadei_private_key *key,
                         binadei_grain start, uint64_t grains);
/* Takes exactly these, whatever they wait for. BINADE_OK, BINADE_E_BUSY (not all
 * of them are free) or BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_half_claim(struct binadei_half *half,
                                                 binadei_grain start,
                                                 uint64_t grains);

/* To the key's maps, or to the pending ones where it has no stream, or there is
 * no memory for maps. */
void binadei_half_give(struct binadei_half *half,
                       const struct binadei_private_key *key,
                       binadei_grain start, uint64_t grains);
void binadei_half_give_done(struct binadei_half *half, binadei_grain start,
                            uint64_t grains);

/* Whether memory waits for an event, recorded or not. */
bool binadei_half_is_waiting(const struct binadei_half *half);
uint64_t binadei_half_waiting_grains(const struct binadei_half *half);
/* Puts what is fresh behind the event with this number, unless another event is
 * waited for. */
void binadei_half_close(struct binadei_half *half, uint64_t number);
/* The event is over. */
void binadei_half_drain(struct binadei_half *half);

/* What a capture freed is for all captures from now on. */
void binadei_half_end_scope(struct binadei_half *half, binade_scope scope);
/* Takes out what is free from `start` on in one map without a gap, up to `end`,
 * or what is done. Returns how many grains; 0: nothing is. */
uint64_t binadei_half_pull(struct binadei_half *half, binadei_grain start,
                           binadei_grain end, bool is_done_only);

#endif
