/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _DEFAULT_SOURCE
#include "pool/stream/notes.h"

#include <stddef.h>
#include <sys/mman.h>

static size_t chunk_words(uint32_t page_capacity)
{
    return (size_t)page_capacity * BINADEI_PAGE_CHUNKS;
}

static size_t bytes_of(uint32_t page_capacity)
{
    return (chunk_words(page_capacity) +
            (size_t)page_capacity * BINADEI_PAGE_GRAINS) *
           sizeof(binadei_note_word);
}

binadei_note_word *binadei_notes_create(uint32_t page_capacity)
{
    void *map = mmap(NULL, bytes_of(page_capacity), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED
               ? NULL
               : (binadei_note_word *)map + chunk_words(page_capacity);
}

void binadei_notes_destroy(binadei_note_word *notes, uint32_t page_capacity)
{
    if (notes)
        munmap((void *)(notes - chunk_words(page_capacity)),
               bytes_of(page_capacity));
}
