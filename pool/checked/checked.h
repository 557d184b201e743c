/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pools whose every call takes a path of its own: checked ones, and those that
 * pass all through to their source. The attention word keeps them from having
 * hits, and they have this table of operations.
 * docs/debugging.md explains it.
 */
#ifndef MOIETY_POOL_CHECKED_CHECKED_H_
#define MOIETY_POOL_CHECKED_CHECKED_H_

#include "moiety/pool.h"
#include "pool/core/ops.h"

struct moietyi_checked;
struct moietyi_pool_body;

/* For a pool that is whole but for this; `source` is what it reserves from.
 * MOIETY_OK, MOIETY_E_NO_HOST_MEMORY, or what the driver said. */
MOIETY_MUST_USE moiety_status moietyi_checked_create(
    struct moietyi_pool_body *body, const moiety_source *source);
/* NULL does nothing. MOIETY_OK, or what the source said first. */
moiety_status moietyi_checked_destroy(struct moietyi_checked *checked);

/* The number of the block that was given out last. */
uint64_t moietyi_checked_sequence(struct moietyi_checked *checked);
/* A live block with this number or a lower one, in the first bucket from `*bucket`
 * on that has one; 0: there is none. */
moiety_devptr moietyi_checked_live(struct moietyi_checked *checked,
                                   uint64_t sequence, uint32_t *bucket);

/* Of such a pool. */
extern const struct moietyi_pool_ops moietyi_checked_ops;

#endif
