/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which tenant a block belongs to: a word for each grain of the offset space,
 * which is 0 but at the start of a tenant's block. Address space is reserved
 * when a pool gets its first tenant; memory is used where their blocks start.
 *
 * A word is its block's holder's, like the metadata byte.
 */
#ifndef BINADE_POOL_TENANT_TAGS_H_
#define BINADE_POOL_TENANT_TAGS_H_

#include <stdatomic.h>
#include <stdint.h>

#include "binade/status.h"
#include "pool/buddy/units.h"

/* The tenant's place in the directory plus one; 0: the block has none. */
typedef uint16_t binadei_tag;

/* Something else is noted of the block too: uses, exports. */
#define BINADEI_TAG_FURTHER ((binadei_tag)0x8000)

struct binadei_tags;

/* BINADE_OK or BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_tags_create(uint32_t page_capacity,
                                                  struct binadei_tags **out);
/* NULL is fine. */
void binadei_tags_destroy(struct binadei_tags *tags);

/* 0 where `tags` is NULL. */
binadei_tag binadei_tag_of(const struct binadei_tags *tags,
                           binadei_grain start);
void binadei_tag_set(struct binadei_tags *tags, binadei_grain start,
                     binadei_tag tag);
/* Sets BINADEI_TAG_FURTHER if the block has a tag; any thread that may note
 * something of it. */
void binadei_tag_note_further(struct binadei_tags *tags, binadei_grain start);

#endif
