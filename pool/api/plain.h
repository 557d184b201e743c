/*
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef MOIETY_POOL_API_PLAIN_H_
#define MOIETY_POOL_API_PLAIN_H_

#include "pool/core/body.h"
#include "pool/core/ops.h"

/* Of an ordinary pool. */
extern const struct moietyi_pool_ops moietyi_plain_ops;

/* A block that other processes may map begins on a page if it is longer than
 * half of one, so that they find it like an allocation of the driver. */
static inline bool moietyi_plain_is_on_page(const struct moietyi_call *call,
                                            size_t size_bytes)
{
    return call->pool->body->exports && size_bytes > MOIETYI_PAGE_BYTES / 2;
}

/* resize.c: of its table. */
MOIETY_MUST_USE moiety_status moietyi_plain_resize(struct moietyi_call *call,
                                                   moiety_devptr address,
                                                   size_t size_bytes);

#endif
