/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tenants: parts of a program that share one pool, each within a budget of its
 * own. A tenant is a tag on its allocations. Its blocks are the pool's like all
 * others: they come from the same caches, are freed by the same functions, by
 * whatever thread, and serve any tenant next. docs/tuning.md explains more.
 *
 * moiety_alloc_with() takes a block for a tenant, which its options name, if the
 * budget allows it. Where the budget is in the way the call returns at once: it
 * waits for nothing, and takes nothing from anybody. A tenant's block holds its size
 * rounded up to one of eight lengths per doubling, above 1 MiB to 512 bytes, so what
 * it counts depends on its size alone. A checked pool names the tenant where it
 * reports the block.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_TENANT_H_
#define MOIETY_TENANT_H_

#include <stddef.h>
#include <stdint.h>

#include "moiety/pool.h"
#include "moiety/private.h"
#include "moiety/status.h"
#include "moiety/stream.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of a tenant's name, with its final 0. */
#define MOIETY_TENANT_NAME_BYTES 32U
/** Tenants that a process can have at a time. */
#define MOIETY_TENANTS_MAX 4096U

/** The tenant can be paused. Its blocks come from an arena of its own. */
#define MOIETY_TENANT_PAUSABLE (UINT32_C(1) << 0)

/** How a tenant is made. 0 is the default of every field but the first. */
typedef struct moiety_tenant_options {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** MOIETY_TENANT_ bits. */
    uint32_t flags;
    /** For people: up to 31 bytes, copied; NULL for "". Need not be unique. */
    const char *name;
    /** Most that its live blocks hold together, below 2^62; 0: any amount. A block
     *  counts with what it holds, moiety_usable_size(); where the pool is checked
     *  or passes all through, with what it would hold if it were not. */
    uint64_t budget_bytes;
} moiety_tenant_options;

/** Every field at its default. */
#ifdef __cplusplus
#define MOIETY_TENANT_OPTIONS_INIT                                             \
    {                                                                          \
        (uint32_t)sizeof(moiety_tenant_options), 0, NULL, 0                    \
    }
#else
#define MOIETY_TENANT_OPTIONS_INIT                                             \
    {                                                                          \
        .struct_size = (uint32_t)sizeof(moiety_tenant_options)                 \
    }
#endif

/**
 * Makes a tenant of a pool. The blocks of one that can be paused serve it alone, by
 * a private arena (moiety/private.h) that ends with it: its allocations take the
 * arena's lock and have no alignment above 512 (MOIETY_E_UNSUPPORTED), and a stream
 * that captures does so in a scope of that arena.
 *
 * @param pool     The pool. It ends its tenants when it is destroyed.
 * @param options  NULL for the defaults.
 * @param out      [out] The tenant. Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_E_INVALID      `pool` or `out` is NULL, or an option out of
 *         range.
 * @return MOIETY_E_NO_ROOM      The process has MOIETY_TENANTS_MAX of them.
 * @return MOIETY_E_UNSUPPORTED  MOIETY_TENANT_PAUSABLE in a pool that is not
 *         mapped, is checked, or passes all through.
 * @return MOIETY_E_NO_HOST_MEMORY
 *
 * Ownership: the caller's, until moiety_tenant_destroy() or the pool's end.
 * Threads:   any. Takes a lock for an instant.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_tenant_create(moiety_pool *pool, const moiety_tenant_options *options,
                     moiety_tenant *out);

/**
 * Tells the arena of a tenant that can be paused, for its capture scopes and for
 * what it has: moiety_private_scope_begin(), moiety_private_get_stats().
 *
 * @param tenant  The tenant.
 * @param out     [out] The arena. Written only when MOIETY_OK is returned.
 *
 * @return MOIETY_E_INVALID      There never was such a tenant, or `out` is
 *         NULL.
 * @return MOIETY_E_UNSUPPORTED  It cannot be paused.
 *
 * Ownership: the tenant's: it is not to be destroyed.
 * Threads:   any. Wait-free.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_tenant_private(moiety_tenant tenant, moiety_private *out);

/**
 * Gives a tenant's device memory back to the driver and keeps its addresses, as
 * moiety_private_pause().
 *
 * @param tenant  The tenant.
 * @param flags   MOIETY_PAUSE_ bits.
 *
 * @return as moiety_private_pause()
 * @return MOIETY_E_INVALID      also when there never was such a tenant.
 * @return MOIETY_E_UNSUPPORTED  It cannot be paused.
 *
 * Ownership, Threads, Streams, Context: as for moiety_private_pause().
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_tenant_pause(moiety_tenant tenant, uint32_t flags);

/**
 * Gives a tenant that is paused its memory again, as moiety_private_resume().
 *
 * @param tenant  The tenant.
 *
 * @return as moiety_private_resume()
 * @return MOIETY_E_INVALID      also when there never was such a tenant.
 * @return MOIETY_E_UNSUPPORTED  It cannot be paused.
 *
 * Ownership, Threads, Streams, Context: as for moiety_private_resume().
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_tenant_resume(moiety_tenant tenant);

/**
 * Ends a tenant that has no live blocks.
 *
 * @param tenant  The tenant; NULL does nothing.
 *
 * @return MOIETY_E_INVALID  There never was such a tenant.
 * @return MOIETY_E_IN_USE   It has live blocks: nothing has changed. A block
 *         that was freed while it was exported is live until its exports are
 *         released.
 * @return as moiety_private_destroy() of the arena of one that can be paused: the
 *         tenant is gone all the same, and the arena is the caller's to destroy.
 *
 * Ownership: ends.
 * Threads:   any, but no other call with this tenant may be under way. Takes a
 *            lock for an instant.
 * Context:   none; the driver is not called.
 */
MOIETY_API moiety_status moiety_tenant_destroy(moiety_tenant tenant);

/**
 * Changes the budget. Below what the tenant has it takes nothing away: its
 * allocations are refused until enough was freed.
 *
 * @param tenant        The tenant.
 * @param budget_bytes  As in moiety_tenant_options.
 *
 * @return MOIETY_E_INVALID  There never was such a tenant, or `budget_bytes` is
 *         2^62 or more.
 *
 * Threads:   any. Allocations that are under way may still go by the budget
 *            from before. Takes a lock for an instant.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_tenant_set_budget(moiety_tenant tenant, uint64_t budget_bytes);

/** A tenant in numbers. At rest they are exact. */
typedef struct moiety_tenant_stats {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** 0. */
    uint32_t reserved;
    /** As it was given, with a final 0. */
    char name[MOIETY_TENANT_NAME_BYTES];
    /** 0: none. */
    uint64_t budget_bytes;
    /** What its live blocks hold. */
    uint64_t live_bytes;
    /** The most that they ever held; with a budget of 2 MiB and more, or none,
     *  up to an eighth of it and 64 MiB on top, which threads had drawn in
     *  advance. Never above the largest budget. */
    uint64_t peak_bytes;
    /** Blocks that it ever got. */
    uint64_t allocation_count;
    /** Allocations that were refused for its budget. */
    uint64_t refusal_count;
} moiety_tenant_stats;

/**
 * Tells what a tenant has.
 *
 * @param tenant  The tenant.
 * @param out  [in,out] `struct_size` says how much the caller has room for and
 *             gets the bytes filled in. Written only when MOIETY_OK is returned,
 *             and nothing past `struct_size`.
 *
 * @return MOIETY_E_INVALID  There never was such a tenant, `out` is NULL, or
 *         `struct_size` is less than that of the struct's first version.
 *
 * Ownership: the caller's struct.
 * Threads:   any. Wait-free.
 * Context:   none; the driver is not called.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_tenant_get_stats(moiety_tenant tenant, moiety_tenant_stats *out);

#ifdef __cplusplus
}
#endif

#endif
