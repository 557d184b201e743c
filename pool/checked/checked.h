/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pools whose every call takes a path of its own: checked ones, and those that
 * pass all through to their source. The attention word keeps them from having
 * hits, and they have this table of operations.
 * docs/checked-mode.md explains it.
 */
#ifndef BINADE_POOL_CHECKED_CHECKED_H_
#define BINADE_POOL_CHECKED_CHECKED_H_

#include "binade/pool.h"
#include "pool/core/ops.h"

struct binadei_checked;
struct binadei_pool_body;

/* For a pool that is whole but for this; `source` is what it reserves from.
 * BINADE_OK, BINADE_E_NO_HOST_MEMORY, or what the driver said. */
BINADE_MUST_USE binade_status binadei_checked_create(
    struct binadei_pool_body *body, const binade_source *source);
/* NULL does nothing. BINADE_OK, or what the source said first. */
binade_status binadei_checked_destroy(struct binadei_checked *checked);

/* The number of the block that was given out last. */
uint64_t binadei_checked_sequence(struct binadei_checked *checked);
/* A live block with this number or a lower one, in the first bucket from `*bucket`
 * on that has one; 0: there is none. */
binade_devptr binadei_checked_live(struct binadei_checked *checked,
                                   uint64_t sequence, uint32_t *bucket);

/* Of such a pool. */
extern const struct binadei_pool_ops binadei_checked_ops;

#endif
