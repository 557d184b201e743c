/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Pools that tell the program of each allocation and free
 * (docs/dev/adr/0031-what-a-pool-tells-and-asks.md): a table of operations
 * around that of the pool's kind.
 */
#ifndef MOIETY_POOL_OBSERVE_TOLD_TOLD_H_
#define MOIETY_POOL_OBSERVE_TOLD_TOLD_H_

#include "pool/core/body.h"

struct moietyi_told;

/* If the options name callbacks, the body gets its `told` and another table;
 * the table of its kind is set. No other thread has the handle yet. MOIETY_OK,
 * MOIETY_E_INVALID or MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status
moietyi_told_create(struct moietyi_pool_body *body);
/* NULL is fine. */
void moietyi_told_destroy(struct moietyi_told *told);
/* The pool's copy; NULL of NULL. */
const moiety_allocation_callbacks *
moietyi_told_callbacks(const struct moietyi_told *told);

#endif
