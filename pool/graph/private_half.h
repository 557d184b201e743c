/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The free memory of one half of a private arena: what captures use, or what
 * others do. It is in heaps, each with a key that says whom it may serve:
 *
 *   done     everybody of the half
 *   own      one stream; of captures, one stream in one capture
 *   pending  nobody, before an event of all contexts
 *
 * Of pending heaps and of those of streams outside of captures one event at a
 * time is waited for, by its number: closing moves what is fresh behind it, and
 * draining makes that done. The caller holds the arena's lock, and calls the
 * driver without it.
 */
#ifndef MOIETY_POOL_GRAPH_PRIVATE_HALF_H_
#define MOIETY_POOL_GRAPH_PRIVATE_HALF_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/scope.h"
#include "moiety/status.h"
#include "pool/heap/heap.h"
#include "pool/heap/space.h"

/* Whom memory may serve: the stream with this note (pool/stream/notes.h), 0 for
 * none; in a capture of that scope, 0 outside of captures. */
struct moietyi_private_key {
    uint32_t note;
    moiety_scope scope;
};

struct moietyi_private_own {
    struct moietyi_private_own *next;
    struct moietyi_private_key key;
    struct moietyi_heap *heap;
};

/* A block in use that a capture got whose scope is open. */
struct moietyi_private_fresh {
    struct moietyi_private_fresh *next;
    moiety_scope scope;
    moietyi_grain start;
};

struct moietyi_half {
    struct moietyi_space *done;
    struct moietyi_heap *pending;
    struct moietyi_private_own *owns;
    struct moietyi_private_fresh **fresh; /* lists by start; NULL: none yet */
    uint64_t number;   /* of the event that ageing memory waits for; 0: none */
    uint64_t closings; /* ever: which one it is that is waited for */
};

/* With offsets as its pool has them. False: no memory, and nothing to end. */
bool moietyi_half_init(struct moietyi_half *half, uint32_t page_capacity);
/* Memory that is still in it is lost. One that was never made is fine. */
void moietyi_half_fini(struct moietyi_half *half);

/* Takes whole pages out that are done, and next to each other. */
bool moietyi_half_remove(struct moietyi_half *half, uint32_t page_count,
                         moietyi_page *out_first);
bool moietyi_half_take(struct moietyi_half *half,
                       const struct moietyi_private_key *key, uint64_t grains,
                       moietyi_grain *out);
/* Takes exactly these, as far as they may serve the key; false: not all are free
 * for it. */
bool moietyi_half_extend(struct moietyi_half *half,
                         const struct moietyi_private_key *key,
                         moietyi_grain start, uint64_t grains);
/* Takes exactly these grains, also if they wait for events. MOIETY_OK or
 * MOIETY_E_IN_USE (not all of them are free). */
MOIETY_MUST_USE moiety_status moietyi_half_claim(struct moietyi_half *half,
                                                 moietyi_grain start,
                                                 uint64_t grains);

/* Notes a block of a scope that is open. For want of memory it is not noted. */
void moietyi_half_note_fresh(struct moietyi_half *half, moiety_scope scope,
                             moietyi_grain start);
/* The block is freed. Whether this very scope got it. */
bool moietyi_half_forget_fresh(struct moietyi_half *half, moiety_scope scope,
                               moietyi_grain start);

/* To the key's heap, or to the pending one where it has no stream, or there is
 * no memory for a heap. */
void moietyi_half_give(struct moietyi_half *half,
                       const struct moietyi_private_key *key,
                       moietyi_grain start, uint64_t grains);
void moietyi_half_give_done(struct moietyi_half *half, moietyi_grain start,
                            uint64_t grains);

/* Grains that wait for an event, recorded or not. */
uint64_t moietyi_half_waiting_grains(const struct moietyi_half *half);
/* Puts what is fresh behind the event with this number, unless another event is
 * waited for. */
void moietyi_half_close(struct moietyi_half *half, uint64_t number);
/* The event is over. */
void moietyi_half_drain(struct moietyi_half *half);

/* Memory that a capture freed is for all captures from now on. */
void moietyi_half_end_scope(struct moietyi_half *half, moiety_scope scope);
/* Takes out what is free from `start` on in one heap without a gap, up to `end`,
 * or what is done. Returns how many grains; 0: nothing is. */
uint64_t moietyi_half_pull(struct moietyi_half *half, moietyi_grain start,
                           moietyi_grain end, bool is_done_only);

#endif
