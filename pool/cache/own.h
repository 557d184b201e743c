/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a stream gets back of its own retired batches, at once and without an
 * event: work that is queued on it later runs later.
 */
#ifndef BINADE_POOL_CACHE_OWN_H_
#define BINADE_POOL_CACHE_OWN_H_

#include "pool/cache/poll.h"

/* Bundles of the class that is wanted go to `own`'s magazine. */
void binadei_own_reuse(struct binadei_poll *poll);
/* One block of no class that has `bytes` and not more than `most_bytes`;
 * false: there is none. */
bool binadei_own_reuse_block(struct binadei_poll *poll, uint64_t bytes,
                             uint64_t most_bytes, binade_devptr *out);

/* The link to a batch's first bundle of a class; to NULL: it has none. */
static inline struct binadei_bundle **
binadei_link_of_class(struct binadei_batch *batch, uint32_t class_index)
{
    struct binadei_bundle **at = &batch->bundles;
    while (*at && (*at)->class_index != class_index)
        at = &(*at)->next;
    return at;
}

#endif
