/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pools that tell the program of each allocation and free
 * (docs/adr/0031-what-a-pool-tells-and-asks.md): a table of operations around that
 * of the pool's kind.
 */
#ifndef BINADE_POOL_OBSERVE_TOLD_TOLD_H_
#define BINADE_POOL_OBSERVE_TOLD_TOLD_H_

#include "pool/core/body.h"

struct binadei_told;

/* Where the options ask for it, the body gets its `told` and another table; the one
 * of its kind is there. Nobody else has the handle yet. BINADE_OK,
 * BINADE_E_INVALID or BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status
binadei_told_create(struct binadei_pool_body *body);
/* NULL is fine. */
void binadei_told_destroy(struct binadei_told *told);
/* The pool's copy; NULL of NULL. */
const binade_allocation_callbacks *
binadei_told_callbacks(const struct binadei_told *told);

#endif
