/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/tenant/tags.h"

#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/base/table.h"

struct moietyi_tags {
    /* Edge: none; relaxed: the holder of a block owns its word. Several threads
     * may note something of one block at a time, hence a read-modify-write. */
    _Atomic moietyi_tag *words;
    size_t word_bytes;
};

moiety_status moietyi_tags_create(uint32_t page_capacity,
                                  struct moietyi_tags **out)
{
    size_t bytes =
        (size_t)page_capacity * MOIETYI_PAGE_GRAINS * sizeof(moietyi_tag);
    struct moietyi_tags *tags = calloc(1, sizeof(*tags));
    void *words = tags ? moietyi_table_reserve(bytes) : NULL;
    if (!words) {
        free(tags);
        return moietyi_fail(MOIETY_E_NO_HOST_MEMORY,
                            "no memory to note tenants' blocks");
    }
    tags->words = words;
    tags->word_bytes = bytes;
    *out = tags;
    return MOIETY_OK;
}

void moietyi_tags_destroy(struct moietyi_tags *tags)
{
    if (!tags)
        return;
    moietyi_table_release((void *)tags->words, tags->word_bytes);
    free(tags);
}

moietyi_tag moietyi_tag_of(const struct moietyi_tags *tags, moietyi_grain start)
{
    return tags ? atomic_load_explicit(&tags->words[start.index],
                                       memory_order_relaxed)
                : 0;
}

void moietyi_tag_set(struct moietyi_tags *tags, moietyi_grain start,
                     moietyi_tag tag)
{
    atomic_store_explicit(&tags->words[start.index], tag, memory_order_relaxed);
}

void moietyi_tag_note_further(struct moietyi_tags *tags, moietyi_grain start)
{
    if (moietyi_tag_of(tags, start))
        atomic_fetch_or_explicit(&tags->words[start.index], MOIETYI_TAG_FURTHER,
                                 memory_order_relaxed);
}
