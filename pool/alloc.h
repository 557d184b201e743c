/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocation on behalf of others in this folder.
 */
#ifndef BINADE_POOL_ALLOC_H_
#define BINADE_POOL_ALLOC_H_

#include <stdbool.h>
#include <stddef.h>

#include "binade/pool.h"

struct binadei_tenant;

/* What a caller of the allocating functions asks for. */
struct binadei_wish {
    size_t size_bytes;
    size_t alignment_bytes;
    bool may_wait; /* as not for binade_try_alloc() */
    bool is_exact; /* never longer than its size makes it, whatever is cached */
    /* Who was charged for it, for pools that are checked or pass all through:
     * others' blocks bear a tag. NULL: nobody. */
    struct binadei_tenant *tenant;
};

/* As binade_alloc_aligned() without a look for a hit. */
BINADE_MUST_USE binade_status binadei_alloc(binade_pool *pool,
                                            const struct binadei_wish *wish,
                                            binade_stream stream,
                                            binade_devptr *out);

#endif
