/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which stream a block was allocated for, in pools that note it: a word for each
 * grain of the offset space, right at the start of a block that is in use. A
 * block whose metadata byte is MOIETYI_BYTE_RUN has the word of its chunk
 * instead, as one of them starts in a chunk at most: such blocks start anywhere,
 * and words of grains would be memory, and lines, of their own for each place.
 * What is in the magazine of a stream has that stream's note already, so a hit
 * writes none; a free writes one where the block was another stream's.
 *
 * A word is its block's holder's, like the metadata byte.
 */
#ifndef MOIETY_POOL_STREAM_NOTES_H_
#define MOIETY_POOL_STREAM_NOTES_H_

#include <stdatomic.h>
#include <stdint.h>

#include "pool/heap/classes.h"
#include "pool/heap/units.h"

/* Edge: none; relaxed: the holder of a block owns its word. */
typedef _Atomic uint32_t moietyi_note_word;

/* The notes of the first stream states, DONE's and ANY's, which name no
 * stream. */
#define MOIETYI_NOTE_DONE UINT32_C(1)
#define MOIETYI_NOTE_ANY UINT32_C(2)

/* For so many pages: the words of grains, and before them, backwards, those of
 * chunks. Memory is used where blocks start. NULL: there is none. */
moietyi_note_word *moietyi_notes_create(uint32_t page_capacity);
/* NULL is fine. */
void moietyi_notes_destroy(moietyi_note_word *notes, uint32_t page_capacity);

/* Of the block that starts there with this metadata byte. */
static inline moietyi_note_word *
moietyi_note_of(moietyi_note_word *notes, moietyi_grain start, uint8_t byte)
{
    return (byte & (uint8_t)~MOIETYI_BYTE_SPECIAL) == MOIETYI_BYTE_RUN
               ? notes - 1 - start.index / MOIETYI_CHUNK_GRAINS
               : notes + start.index;
}

static inline uint32_t moietyi_note_at(moietyi_note_word *notes,
                                       moietyi_grain start, uint8_t byte)
{
    /* relaxed: see moietyi_note_word. */
    return atomic_load_explicit(moietyi_note_of(notes, start, byte),
                                memory_order_relaxed);
}

/* Written only if it changes: most blocks stay with their stream. */
static inline void moietyi_note_put(moietyi_note_word *notes,
                                    moietyi_grain start, uint8_t byte,
                                    uint32_t note)
{
    moietyi_note_word *word = moietyi_note_of(notes, start, byte);
    /* relaxed: see moietyi_note_word. */
    if (atomic_load_explicit(word, memory_order_relaxed) != note)
        atomic_store_explicit(word, note, memory_order_relaxed);
}

#endif
