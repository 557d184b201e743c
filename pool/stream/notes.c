/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/stream/notes.h"

#include <stddef.h>

#include "pool/base/table.h"

static size_t chunk_words(uint32_t page_capacity)
{
    return (size_t)page_capacity * MOIETYI_PAGE_CHUNKS;
}

static size_t bytes_of(uint32_t page_capacity)
{
    return (chunk_words(page_capacity) +
            (size_t)page_capacity * MOIETYI_PAGE_GRAINS) *
           sizeof(moietyi_note_word);
}

moietyi_note_word *moietyi_notes_create(uint32_t page_capacity)
{
    moietyi_note_word *table = moietyi_table_reserve(bytes_of(page_capacity));
    return table ? table + chunk_words(page_capacity) : NULL;
}

void moietyi_notes_destroy(moietyi_note_word *notes, uint32_t page_capacity)
{
    if (notes)
        moietyi_table_release((void *)(notes - chunk_words(page_capacity)),
                              bytes_of(page_capacity));
}
