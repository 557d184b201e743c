/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pool/api/tenant.h"

#include "pool/cache/hit.h"
#include "pool/tenant/directory.h"

bool binadei_tenant_free(const struct binadei_thread *thread,
                         const struct binadei_route *route, binade_pool *pool,
                         binade_devptr address)
{
    struct binadei_engine *engine = pool->engine;
    struct binadei_tags *tags = binadei_tags(engine);
    if (!tags)
        return false;
    binadei_grain start = {0};
    uint8_t byte = binadei_hit_byte(pool, address, &start);
    uint8_t bare = byte & (uint8_t)~BINADEI_BYTE_SPECIAL;
    /* A tenant's block is not short. */
    if (byte == bare || !bare || bare > BINADEI_SMALL_CLASSES)
        return false;
    binadei_tag tag = binadei_tag_of(tags, start);
    if (!tag || tag & BINADEI_TAG_FURTHER)
        return false;
    binadei_tag_set(tags, start, 0);
    binadei_buddy_set_class(engine->buddy, start, bare);
    if (!binadei_hit_free_noted(route, address, bare, start)) {
        binadei_tag_set(tags, start, tag);
        binadei_buddy_set_class(engine->buddy, start, byte);
        return false;
    }
    binadei_account_release(&binadei_tenant_of_tag(tag)->account,
                            thread->number, binadei_class_bytes(bare - 1U));
    return true;
}
