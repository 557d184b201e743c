/*
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BINADE_POOL_CORE_WISH_H_
#define BINADE_POOL_CORE_WISH_H_

#include <stdbool.h>
#include <stddef.h>

#include "pool/buddy/classes.h"

struct binadei_tenant;

/* What a caller of the allocating functions asks for. */
struct binadei_wish {
    size_t size_bytes;
    size_t alignment_bytes;
    bool may_wait; /* as not for binade_try_alloc() */
    bool is_exact; /* never longer than its size makes it, whatever is cached */
    /* The tenant that was charged for it, in pools that know their blocks by
     * records; in others a block bears a tag. NULL: none. */
    struct binadei_tenant *tenant;
};

/* What a tenant's block of so many bytes counts, whatever holds it. */
static inline uint64_t binadei_tenant_bytes(size_t size_bytes)
{
    return binadei_full_size_of_bytes(size_bytes).grains * BINADEI_GRAIN_BYTES;
}

#endif
