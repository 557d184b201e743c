/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * What many tests want of pools, in one word each: options of a pool with the
 * driver's memory, the kinds of pools that a rule is tried with, and the ways to
 * allocate.
 */
#ifndef MOIETY_TESTS_SUPPORT_TOOLS_POOLS_H_
#define MOIETY_TESTS_SUPPORT_TOOLS_POOLS_H_

#include <stdint.h>

#include "moiety/host.h"
#include "moiety/pool.h"
#include "moiety/private.h"
#include "moiety/tenant.h"

/* A kind is flags of moiety_pool_options, and with them these. */
#define KIND_MAPPED (UINT32_C(1) << 28)
#define KIND_AUTO (UINT32_C(1) << 29)
#define KIND_CHECKED (UINT32_C(1) << 30)
#define KIND_PASS_THROUGH (UINT32_C(1) << 31)
#define KIND_BITS (KIND_MAPPED | KIND_AUTO | KIND_CHECKED | KIND_PASS_THROUGH)

/* Defaults, but for memory. */
static inline moiety_pool_options driver_options(void)
{
    moiety_pool_options options = MOIETY_POOL_OPTIONS_INIT;
    options.memory = MOIETY_MEMORY_DRIVER;
    return options;
}

/* Goes over what the options say already. */
static inline void set_kind(moiety_pool_options *options, uint32_t kind)
{
    options->flags |= kind & ~KIND_BITS;
    if (kind & KIND_MAPPED)
        options->memory = MOIETY_MEMORY_MAPPED;
    if (kind & KIND_AUTO)
        options->memory = MOIETY_MEMORY_AUTO;
    if (kind & KIND_CHECKED)
        options->mode = options->mode == MOIETY_MODE_PASS_THROUGH
                            ? MOIETY_MODE_CHECKED_PASS_THROUGH
                            : MOIETY_MODE_CHECKED;
    if (kind & KIND_PASS_THROUGH)
        options->mode = options->mode == MOIETY_MODE_CHECKED
                            ? MOIETY_MODE_CHECKED_PASS_THROUGH
                            : MOIETY_MODE_PASS_THROUGH;
}

static inline int is_checked_mode(const moiety_pool_options *options)
{
    return options->mode == MOIETY_MODE_CHECKED ||
           options->mode == MOIETY_MODE_CHECKED_PASS_THROUGH;
}

/* What a test says in numbers, 0 for none, as options say it. */
static inline uint32_t wait_of(uint64_t wait_ms)
{
    return wait_ms ? (uint32_t)wait_ms : MOIETY_WAIT_NONE;
}

static inline uint64_t bytes_of(uint64_t bytes)
{
    return bytes ? bytes : MOIETY_BYTES_NONE;
}

/* --- tenants and arenas --- */

static inline moiety_status create_tenant(moiety_pool *pool, const char *name,
                                          uint64_t budget_bytes,
                                          moiety_tenant *out)
{
    moiety_tenant_options options = MOIETY_TENANT_OPTIONS_INIT;
    options.name = name;
    options.budget_bytes = budget_bytes;
    return moiety_tenant_create(pool, &options, out);
}

static inline moiety_status
create_arena(moiety_pool *pool, uint64_t limit_bytes, moiety_private *out)
{
    moiety_private_options options = MOIETY_PRIVATE_OPTIONS_INIT;
    options.limit_bytes = limit_bytes;
    return moiety_private_create(pool, &options, out);
}

/* --- ways to allocate --- */

static inline moiety_status alloc_by(moiety_pool *pool, uint32_t flags,
                                     size_t size_bytes, moiety_stream stream,
                                     moiety_devptr *out)
{
    moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
    options.flags = flags;
    return moiety_alloc_with(pool, size_bytes, stream, &options, out);
}

static inline moiety_status alloc_no_wait(moiety_pool *pool, size_t size_bytes,
                                          moiety_stream stream,
                                          moiety_devptr *out)
{
    return alloc_by(pool, MOIETY_ALLOC_NO_WAIT, size_bytes, stream, out);
}

static inline moiety_status alloc_no_call(moiety_pool *pool, size_t size_bytes,
                                          moiety_stream stream,
                                          moiety_devptr *out)
{
    return alloc_by(pool, MOIETY_ALLOC_NO_CALL, size_bytes, stream, out);
}

static inline moiety_status alloc_zeroed(moiety_pool *pool, size_t size_bytes,
                                         moiety_stream stream,
                                         moiety_devptr *out)
{
    return alloc_by(pool, MOIETY_ALLOC_ZEROED, size_bytes, stream, out);
}

static inline moiety_status alloc_aligned(moiety_pool *pool, size_t size_bytes,
                                          size_t alignment_bytes,
                                          moiety_stream stream,
                                          moiety_devptr *out)
{
    moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
    options.alignment_bytes = alignment_bytes;
    return moiety_alloc_with(pool, size_bytes, stream, &options, out);
}

static inline moiety_status
alloc_for_tenant_by(moiety_tenant tenant, uint32_t flags,
                    size_t alignment_bytes, size_t size_bytes,
                    moiety_stream stream, moiety_devptr *out)
{
    moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
    options.flags = flags;
    options.alignment_bytes = alignment_bytes;
    options.tenant = tenant;
    return moiety_alloc_with(NULL, size_bytes, stream, &options, out);
}

static inline moiety_status alloc_for_tenant(moiety_tenant tenant,
                                             size_t size_bytes,
                                             moiety_stream stream,
                                             moiety_devptr *out)
{
    return alloc_for_tenant_by(tenant, 0, 0, size_bytes, stream, out);
}

static inline moiety_status alloc_for_tenant_aligned(moiety_tenant tenant,
                                                     size_t size_bytes,
                                                     size_t alignment_bytes,
                                                     moiety_stream stream,
                                                     moiety_devptr *out)
{
    return alloc_for_tenant_by(tenant, 0, alignment_bytes, size_bytes, stream,
                               out);
}

static inline moiety_status alloc_for_tenant_no_wait(moiety_tenant tenant,
                                                     size_t size_bytes,
                                                     moiety_stream stream,
                                                     moiety_devptr *out)
{
    return alloc_for_tenant_by(tenant, MOIETY_ALLOC_NO_WAIT, 0, size_bytes,
                               stream, out);
}

static inline moiety_status alloc_of_arena(moiety_private arena,
                                           size_t size_bytes,
                                           moiety_stream stream,
                                           moiety_devptr *out)
{
    moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
    options.private_arena = arena;
    return moiety_alloc_with(NULL, size_bytes, stream, &options, out);
}

static inline moiety_status host_alloc_no_wait(moiety_host *host,
                                               size_t size_bytes,
                                               moiety_stream stream, void **out)
{
    moiety_alloc_options options = MOIETY_ALLOC_OPTIONS_INIT;
    options.flags = MOIETY_ALLOC_NO_WAIT;
    return moiety_host_alloc_with(host, size_bytes, stream, &options, out);
}

#endif
