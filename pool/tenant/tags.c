/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/tenant/tags.h"

#include <stdlib.h>

#include "pool/base/failure.h"
#include "pool/base/table.h"

struct binadei_tags {
    /* Edge: none; relaxed: the holder of a block owns its word. Several threads
     * may note something of one block at a time, hence a read-modify-write. */
    _Atomic binadei_tag *words;
    size_t word_bytes;
};

binade_status binadei_tags_create(uint32_t page_capacity,
                                  struct binadei_tags **out)
{
    size_t bytes =
        (size_t)page_capacity * BINADEI_PAGE_GRAINS * sizeof(binadei_tag);
    struct binadei_tags *tags = calloc(1, sizeof(*tags));
    void *words = tags ? binadei_table_reserve(bytes) : NULL;
    if (!words) {
        free(tags);
        return binadei_fail(BINADE_E_NO_HOST_MEMORY,
                            "no memory to note tenants' blocks");
    }
    tags->words = words;
    tags->word_bytes = bytes;
    *out = tags;
    return BINADE_OK;
}

void binadei_tags_destroy(struct binadei_tags *tags)
{
    if (!tags)
        return;
    binadei_table_release((void *)tags->words, tags->word_bytes);
    free(tags);
}

binadei_tag binadei_tag_of(const struct binadei_tags *tags, binadei_grain start)
{
    return tags ? atomic_load_explicit(&tags->words[start.index],
                                       memory_order_relaxed)
                : 0;
}

void binadei_tag_set(struct binadei_tags *tags, binadei_grain start,
                     binadei_tag tag)
{
    atomic_store_explicit(&tags->words[start.index], tag, memory_order_relaxed);
}

void binadei_tag_note_further(struct binadei_tags *tags, binadei_grain start)
{
    if (binadei_tag_of(tags, start))
        atomic_fetch_or_explicit(&tags->words[start.index], BINADEI_TAG_FURTHER,
                                 memory_order_relaxed);
}
