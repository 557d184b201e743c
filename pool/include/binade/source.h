/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where a pool's memory comes from. A program may write a source of its own:
 * fill this table, with `struct_size` first, and hand it to a pool. The pool
 * reserves large pieces (segments) and releases them when it trims or ends;
 * blocks are cut from them without asking the source.
 */
#ifndef BINADE_SOURCE_H_
#define BINADE_SOURCE_H_

#include "binade/status.h"
#include "binade/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a source's memory is: bits of binade_source.flags. */

/** Its memory can be shared with other processes (cuIpcGetMemHandle). */
#define BINADE_SOURCE_LEGACY_IPC (UINT32_C(1) << 0)
/** Pinned host memory: exhausted means BINADE_E_NO_PINNED_MEMORY. */
#define BINADE_SOURCE_PINNED (UINT32_C(1) << 1)

/**
 * A source of segments. Later versions append fields; `struct_size` tells
 * which the caller knows, and a library ignores those that it does not know.
 * The table is copied; `name` and what `context` points to must stay valid as
 * long as the pool.
 */
typedef struct binade_source {
    /** Bytes of this struct: set by the caller. */
    uint32_t struct_size;
    /** BINADE_SOURCE_ bits; others are refused. */
    uint32_t flags;
    /** For messages and reports; not NULL. */
    const char *name;
    /** Passed to the functions as it is; may be NULL. */
    void *context;

    /**
     * Reserves memory that belongs to this pool alone until it is released.
     *
     * @param context     This table's `context`.
     * @param size_bytes  Bytes wanted: a multiple of 2 MiB and of
     *                    `granularity_bytes`, not 0.
     * @param out         [out] Address, best a multiple of 2 MiB: of memory
     *                    that is not, the pool leaves the ragged ends unused.
     *                    To be written only when BINADE_OK is returned.
     *
     * @return BINADE_OK
     * @return BINADE_E_NO_DEVICE_MEMORY, BINADE_E_NO_PINNED_MEMORY,
     *         BINADE_E_NO_HOST_MEMORY, BINADE_E_TOO_LARGE  The pool asks for
     *         less, as long as that serves the request.
     * @return any other status  Ends the growth; the pool's caller gets it.
     *
     * Ownership: the pool's, until it releases the whole.
     * Threads:   any, but one reserve of a pool at a time; a release may run
     *            beside it. The pool holds no lock. It may block; it may not
     *            use the pool that it serves.
     * Streams:   the memory must be usable on all of them at once.
     * Context:   any may be current; leave it as it was.
     */
    binade_status (*reserve)(void *context, size_t size_bytes,
                             binade_devptr *out);

    /**
     * Takes back what one call of `reserve` returned, whole. The pool calls it
     * once for each, and again where that failed; also for memory that it
     * refused because it overlaps other memory of the source or is out of
     * reach.
     *
     * @param context     This table's `context`.
     * @param address     As it was returned.
     * @param size_bytes  As it was asked for.
     *
     * @return BINADE_OK
     * @return BINADE_E_DEINITIALIZED, BINADE_E_CONTEXT_DESTROYED,
     *         BINADE_E_FORKED  The memory is gone without it: the same as
     *         BINADE_OK.
     * @return any other status  Nothing was released: the bytes stay reserved,
     *         unused, and the pool tries again when it trims and ends.
     *
     * Ownership: the source's again.
     * Threads:   any, several at a time. The pool holds no lock. It may block;
     *            it may not use the pool that it serves.
     * Streams:   no work that uses the memory is under way.
     * Context:   any may be current; leave it as it was.
     */
    binade_status (*release)(void *context, binade_devptr address,
                             size_t size_bytes);

    /** What sizes must be multiples of: a power of two up to 1 GiB, or 0 when
     *  2 MiB will do. */
    size_t granularity_bytes;
} binade_source;

#ifdef __cplusplus
}
#endif

#endif
