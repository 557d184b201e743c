/*
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BINADE_POOL_API_PLAIN_H_
#define BINADE_POOL_API_PLAIN_H_

#include "pool/core/ops.h"

/* Of an ordinary pool. */
extern const struct binadei_pool_ops binadei_plain_ops;

/* resize.c: of its table. */
BINADE_MUST_USE binade_status binadei_plain_resize(struct binadei_call *call,
                                                   binade_devptr address,
                                                   size_t size_bytes);

#endif
