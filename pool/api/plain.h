/*
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BINADE_POOL_API_PLAIN_H_
#define BINADE_POOL_API_PLAIN_H_

#include "pool/core/body.h"
#include "pool/core/ops.h"

/* Of an ordinary pool. */
extern const struct binadei_pool_ops binadei_plain_ops;

/* What other processes map begins on a page where it is larger than half of one,
 * so that they find it as they would an allocation of the driver's. */
static inline bool binadei_plain_is_on_page(const struct binadei_call *call,
                                            size_t size_bytes)
{
    return call->pool->body->exports && size_bytes > BINADEI_PAGE_BYTES / 2;
}

/* resize.c: of its table. */
BINADE_MUST_USE binade_status binadei_plain_resize(struct binadei_call *call,
                                                   binade_devptr address,
                                                   size_t size_bytes);

#endif
