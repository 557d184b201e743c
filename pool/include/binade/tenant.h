/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Tenants: parts of a program that share one pool, each within a budget of its
 * own. A tenant is a tag on its allocations. Its blocks are the pool's like all
 * others: they come from the same caches, are freed by the same functions, by
 * whatever thread, and serve any tenant next. docs/tenants.md explains more.
 */
#ifndef BINADE_TENANT_H_
#define BINADE_TENANT_H_

#include <stddef.h>
#include <stdint.h>

#include "binade/pool.h"
#include "binade/private.h"
#include "binade/status.h"
#include "binade/stream.h"
#include "binade/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A tenant's handle; 0 is never one. It is recognised when the tenant is gone,
 *  also after its pool. */
typedef uint64_t binade_tenant;

/** Bytes of a tenant's name, with its final 0. */
#define BINADE_TENANT_NAME_BYTES 32U
/** Tenants that a process can have at a time. */
#define BINADE_TENANTS_MAX 4096U

/**
 * Makes a tenant of a pool.
 *
 * @param pool          The pool. It ends its tenants when it is destroyed.
 * @param name          For people: up to 31 bytes, copied; NULL for "". Need not
 *                      be unique.
 * @param budget_bytes  Most that its live blocks hold together; 0: any amount.
 *                      A block counts with what it holds, binade_usable_size();
 *                      where the pool is checked or passes all through, with
 *                      what it would hold if it were not.
 * @param out           [out] The tenant. Written only when BINADE_OK is
 *                      returned.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID         `pool` or `out` is NULL, the pool is
 *         destroyed, `name` is too long, or `budget_bytes` is 2^62 or more.
 * @return BINADE_E_TOO_LARGE       The process has BINADE_TENANTS_MAX of them.
 * @return BINADE_E_NO_HOST_MEMORY
 * @return BINADE_E_FORKED
 *
 * Ownership: the caller's, until binade_tenant_destroy() or the pool's end.
 * Threads:   any. Takes a lock for an instant.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_tenant_create(binade_pool *pool, const char *name, uint64_t budget_bytes,
                     binade_tenant *out);

/** The tenant can be paused. Its blocks come from an arena of its own. */
#define BINADE_TENANT_PAUSABLE (UINT32_C(1) << 0)

/** For binade_tenant_create_with(). */
typedef struct binade_tenant_options {
    /** Bytes of this struct. */
    uint32_t struct_size;
    /** BINADE_TENANT_ bits. */
    uint32_t flags;
    /** As for binade_tenant_create(). */
    const char *name;
    uint64_t budget_bytes;
} binade_tenant_options;

/**
 * Makes a tenant, perhaps one that can be paused. The blocks of such a one serve it
 * alone, by a private arena (binade/private.h) that ends with it: its allocations
 * take the arena's lock, BINADE_TENANT_PAUSABLE has neither alignments above 512
 * nor binade_tenant_try_alloc() (BINADE_E_UNSUPPORTED), and a stream that captures
 * does so in a scope of that arena.
 *
 * @param pool     The pool.
 * @param options  What is wanted.
 * @param out      [out] As for binade_tenant_create().
 *
 * @return BINADE_OK
 * @return as binade_tenant_create()
 * @return BINADE_E_INVALID      also when `options` is NULL, its `struct_size` too
 *         small, or a flag not known.
 * @return BINADE_E_UNSUPPORTED  BINADE_TENANT_PAUSABLE in a pool that is not
 *         mapped, is checked, or passes all through.
 *
 * Ownership, Threads, Streams, Context: as for binade_tenant_create().
 */
BINADE_API BINADE_MUST_USE binade_status binade_tenant_create_with(
    binade_pool *pool, const binade_tenant_options *options,
    binade_tenant *out);

/**
 * Tells the arena of a tenant that can be paused, for its capture scopes and for
 * what it has: binade_private_scope_begin(), binade_private_stats().
 *
 * @param tenant  The tenant.
 * @param out     [out] The arena. Written only when BINADE_OK is returned.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID      There is no such tenant, or `out` is NULL.
 * @return BINADE_E_UNSUPPORTED  It cannot be paused.
 * @return BINADE_E_FORKED
 *
 * Ownership: the tenant's: it is not to be released.
 * Threads:   any. Wait-free.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_tenant_private(binade_tenant tenant, binade_private *out);

/**
 * Gives a tenant's device memory back to the driver and keeps its addresses, as
 * binade_private_pause().
 *
 * @param tenant  The tenant.
 * @param flags   BINADE_PAUSE_ bits.
 *
 * @return as binade_private_pause()
 * @return BINADE_E_INVALID      also when there is no such tenant.
 * @return BINADE_E_UNSUPPORTED  It cannot be paused.
 *
 * Ownership, Threads, Streams, Context: as for binade_private_pause().
 */
BINADE_API BINADE_MUST_USE binade_status
binade_tenant_pause(binade_tenant tenant, uint32_t flags);

/**
 * Gives a tenant that is paused its memory again, as binade_private_resume().
 *
 * @param tenant  The tenant.
 *
 * @return as binade_private_resume()
 * @return BINADE_E_INVALID      also when there is no such tenant.
 * @return BINADE_E_UNSUPPORTED  It cannot be paused.
 *
 * Ownership, Threads, Streams, Context: as for binade_private_resume().
 */
BINADE_API BINADE_MUST_USE binade_status
binade_tenant_resume(binade_tenant tenant);

/**
 * Ends a tenant that has no live blocks.
 *
 * @param tenant  The tenant; 0 does nothing.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  There is no such tenant, or not any more.
 * @return BINADE_E_BUSY     It has live blocks: nothing has changed. A block
 *         that was freed while it was exported is live until its exports are
 *         released.
 * @return as binade_private_release() of the arena of one that can be paused: the
 *         tenant is gone all the same, and the arena is the caller's to release.
 * @return BINADE_E_FORKED
 *
 * Ownership: ends.
 * Threads:   any, but no other call with this tenant may be under way. Takes a
 *            lock for an instant.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_tenant_destroy(binade_tenant tenant);

/**
 * Takes a block from the tenant's pool, as binade_alloc() does, if the budget
 * allows it. The block is freed into the pool by any of its functions. A
 * checked pool names the tenant where it reports the block.
 *
 * Where the budget is in the way the call returns at once: it waits for nothing,
 * and takes nothing from anybody. A tenant's block holds its size rounded up to
 * one of eight lengths per doubling, above 1 MiB to 512 bytes, so what it counts
 * depends on its size alone.
 *
 * @param tenant      The tenant.
 * @param size_bytes  Bytes wanted; 0 gives address 0 and BINADE_OK.
 * @param stream      As for binade_alloc().
 * @param out         [out] As for binade_alloc().
 *
 * @return as binade_alloc()
 * @return BINADE_E_INVALID  also when there is no such tenant.
 * @return BINADE_E_BUDGET   With this block the tenant would have more than its
 *         budget. The pool may have memory all the same.
 *
 * Ownership: as for binade_alloc().
 * Threads:   as for binade_alloc(), but never wait-free.
 * Streams:   as for binade_alloc().
 * Context:   any may be current; the pool's need not be.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_tenant_alloc(binade_tenant tenant, size_t size_bytes,
                    binade_stream stream, binade_devptr *out);

/**
 * The same, with an alignment, as binade_alloc_aligned().
 *
 * @param tenant,size_bytes,stream,out  As for binade_tenant_alloc().
 * @param alignment_bytes  A power of two up to 2 MiB.
 *
 * @return as binade_tenant_alloc()
 * @return BINADE_E_INVALID  also when `alignment_bytes` is something else.
 */
BINADE_API BINADE_MUST_USE binade_status binade_tenant_alloc_aligned(
    binade_tenant tenant, size_t size_bytes, size_t alignment_bytes,
    binade_stream stream, binade_devptr *out);

/**
 * The same as binade_tenant_alloc(), but never waits, as binade_try_alloc().
 *
 * @return as binade_tenant_alloc()
 * @return BINADE_E_BUSY  There is nothing to be had without waiting.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_tenant_try_alloc(binade_tenant tenant, size_t size_bytes,
                        binade_stream stream, binade_devptr *out);

/**
 * Changes the budget. Below what the tenant has it takes nothing away: its
 * allocations are refused until enough was freed.
 *
 * @param tenant        The tenant.
 * @param budget_bytes  As for binade_tenant_create().
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  There is no such tenant, or `budget_bytes` is 2^62
 *         or more.
 * @return BINADE_E_FORKED
 *
 * Threads:   any. Allocations that are under way may still go by the budget
 *            from before. Takes a lock for an instant.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_tenant_set_budget(binade_tenant tenant, uint64_t budget_bytes);

/** A tenant in numbers. At rest they are exact. */
typedef struct binade_tenant_info {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** 0. */
    uint32_t reserved;
    /** As it was given, with a final 0. */
    char name[BINADE_TENANT_NAME_BYTES];
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
} binade_tenant_info;

/**
 * Tells what a tenant has.
 *
 * @param tenant  The tenant.
 * @param out  [in,out] `struct_size` says how much the caller has room for and
 *             gets the bytes filled in. Written only when BINADE_OK is returned,
 *             and nothing past `struct_size`.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  There is no such tenant, `out` is NULL, or
 *         `struct_size` is less than that of the struct's first version.
 * @return BINADE_E_FORKED
 *
 * Ownership: the caller's struct.
 * Threads:   any. Wait-free.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
BINADE_API BINADE_MUST_USE binade_status
binade_tenant_stats(binade_tenant tenant, binade_tenant_info *out);

/* Callers compiled so mean their own default stream by a null stream. */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define binade_tenant_alloc(tenant, size, stream, out)                         \
    binade_tenant_alloc(tenant, size, binade_stream_of_caller(stream), out)
#define binade_tenant_alloc_aligned(tenant, size, alignment, stream, out)      \
    binade_tenant_alloc_aligned(tenant, size, alignment,                       \
                                binade_stream_of_caller(stream), out)
#define binade_tenant_try_alloc(tenant, size, stream, out)                     \
    binade_tenant_try_alloc(tenant, size, binade_stream_of_caller(stream), out)
#endif

#ifdef __cplusplus
}
#endif

#endif
