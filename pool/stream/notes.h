/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which stream a block was allocated for, in pools that note it: a word for each
 * grain of the offset space, right at the start of a block that is in use. What
 * is in the magazine of a stream has that stream's note already, so a hit writes
 * none; a free writes one where the block was another stream's.
 *
 * A word is its block's holder's, like the metadata byte.
 */
#ifndef BINADE_POOL_STREAM_NOTES_H_
#define BINADE_POOL_STREAM_NOTES_H_

#include <stdatomic.h>
#include <stdint.h>

#include "pool/buddy/units.h"

/* Edge: none; relaxed: the holder of a block owns its word. */
typedef _Atomic uint32_t binadei_note_word;

/* The notes of the first stream states, DONE's and ANY's: no stream is to be
 * named. */
#define BINADEI_NOTE_DONE UINT32_C(1)
#define BINADEI_NOTE_ANY UINT32_C(2)

/* For so many pages; memory is used where blocks start. NULL: there is none. */
binadei_note_word *binadei_notes_create(uint32_t page_capacity);
/* NULL is fine. */
void binadei_notes_destroy(binadei_note_word *notes, uint32_t page_capacity);

static inline uint32_t binadei_note_at(const binadei_note_word *notes,
                                       binadei_grain start)
{
    /* relaxed: see binadei_note_word. */
    return atomic_load_explicit(&notes[start.index], memory_order_relaxed);
}

/* Written only where it changes: most blocks stay with their stream. */
static inline void binadei_note_put(binadei_note_word *notes,
                                    binadei_grain start, uint32_t note)
{
    /* relaxed: see binadei_note_word. */
    if (binadei_note_at(notes, start) != note)
        atomic_store_explicit(&notes[start.index], note, memory_order_relaxed);
}

#endif
