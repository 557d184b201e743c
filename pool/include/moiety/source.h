/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sources of a pool's memory. A program may write a source of its own:
 * fill this table, with `struct_size` first, and hand it to a pool. The pool
 * reserves large pieces (segments) and releases them when it trims or ends;
 * blocks are cut from them without asking the source.
 */
#ifndef MOIETY_SOURCE_H_
#define MOIETY_SOURCE_H_

#include "moiety/status.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Properties of a source's memory: bits of moiety_source.flags. */

/** Its memory can be shared with other processes (cuIpcGetMemHandle). */
#define MOIETY_SOURCE_LEGACY_IPC (UINT32_C(1) << 0)
/** Pinned host memory: exhausted means MOIETY_E_NO_PINNED_MEMORY. */
#define MOIETY_SOURCE_PINNED (UINT32_C(1) << 1)

/**
 * A source of segments. Later versions append fields; `struct_size` tells
 * which the caller knows, and a library ignores those that it does not know.
 * The table is copied; `name` and what `context` points to must stay valid as
 * long as the pool.
 */
typedef struct moiety_source {
    /** Bytes of this struct: set by the caller. */
    uint32_t struct_size;
    /** MOIETY_SOURCE_ bits; others are refused. */
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
     *                    To be written only when MOIETY_OK is returned.
     *
     * @return MOIETY_OK
     * @return MOIETY_E_NO_DEVICE_MEMORY, MOIETY_E_NO_PINNED_MEMORY,
     *         MOIETY_E_NO_HOST_MEMORY, MOIETY_E_TOO_LARGE  The pool asks for
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
    moiety_status (*reserve)(void *context, size_t size_bytes,
                             moiety_devptr *out);

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
     * @return MOIETY_OK
     * @return MOIETY_E_DEINITIALIZED, MOIETY_E_CONTEXT_DESTROYED,
     *         MOIETY_E_FORKED  The memory is gone without it: the same as
     *         MOIETY_OK.
     * @return any other status  Nothing was released: the bytes stay reserved,
     *         unused, and the pool tries again when it trims and ends.
     *
     * Ownership: the source's again.
     * Threads:   any, several at a time. The pool holds no lock. It may block;
     *            it may not use the pool that it serves.
     * Streams:   no work that uses the memory is under way.
     * Context:   any may be current; leave it as it was.
     */
    moiety_status (*release)(void *context, moiety_devptr address,
                             size_t size_bytes);

    /** What sizes must be multiples of: a power of two up to 1 GiB, or 0 when
     *  2 MiB will do. */
    size_t granularity_bytes;
} moiety_source;

#ifdef __cplusplus
}
#endif

#endif
