/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which tenant a block belongs to: a word for each grain of the offset space,
 * which is 0 but at the start of a tenant's block. Address space is reserved
 * when a pool gets its first tenant; memory is used where their blocks start.
 *
 * A word is its block's holder's, like the metadata byte.
 */
#ifndef MOIETY_POOL_TENANT_TAGS_H_
#define MOIETY_POOL_TENANT_TAGS_H_

#include <stdatomic.h>
#include <stdint.h>

#include "moiety/status.h"
#include "pool/heap/units.h"

/* The tenant's place in the directory plus one; 0: the block has none. */
typedef uint16_t moietyi_tag;

/* Something else is noted of the block too: uses, exports. */
#define MOIETYI_TAG_FURTHER ((moietyi_tag)0x8000)

struct moietyi_tags;

/* MOIETY_OK or MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_tags_create(uint32_t page_capacity,
                                                  struct moietyi_tags **out);
/* NULL is fine. */
void moietyi_tags_destroy(struct moietyi_tags *tags);

/* 0 where `tags` is NULL. */
moietyi_tag moietyi_tag_of(const struct moietyi_tags *tags,
                           moietyi_grain start);
void moietyi_tag_set(struct moietyi_tags *tags, moietyi_grain start,
                     moietyi_tag tag);
/* Sets MOIETYI_TAG_FURTHER if the block has a tag; any thread that may note
 * something of it. */
void moietyi_tag_note_further(struct moietyi_tags *tags, moietyi_grain start);

#endif
