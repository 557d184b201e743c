/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The segments of a pool, for transports that register memory: which piece of the
 * driver's memory an address is in, and how to keep it where it is. A segment is
 * what one registration can cover: a reservation of the pool's source, or, of
 * mapped memory (docs/mapped.md), one piece.
 *
 * Statuses that every function below can return, besides those it names:
 * BINADE_E_FORKED in the child of a fork; BINADE_E_BUSY from inside a signal
 * handler that interrupted another call of the library in the same thread.
 */
#ifndef BINADE_SEGMENT_H_
#define BINADE_SEGMENT_H_

#include <stddef.h>
#include <stdint.h>

#include "binade/pool.h"
#include "binade/status.h"
#include "binade/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of binade_segment_info.flags. */

/** It is mapped: as long as nobody holds it, it may move when all of it is free. */
#define BINADE_SEGMENT_MAPPED (UINT32_C(1) << 0)

/** A segment, at one moment. */
typedef struct binade_segment_info {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** BINADE_SEGMENT_ bits. */
    uint32_t flags;
    /** Never used again in this pool. Another one at the same address says that
     *  other memory is there: what was registered by this one is stale. */
    uint64_t id;
    /** Where it begins, and its bytes. */
    binade_devptr address;
    uint64_t size_bytes;
    /** How often it is held. */
    uint64_t hold_count;
    /** Ordinal of the device that has the memory. */
    int32_t device;
    /** 0. */
    uint32_t reserved;
} binade_segment_info;

/**
 * Tells of the segment with the lowest address that ends behind an address: the
 * one that has it, if one does. To see all, begin at 0 and go on from the end of
 * the last one.
 *
 * @param pool     The pool.
 * @param address  Any.
 * @param out      [in,out] `struct_size` is set by the caller. Written only when
 *                 BINADE_OK is returned, and nothing past `struct_size`.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  `pool` or `out` is NULL, the pool destroyed, or
 *         `struct_size` less than that of the struct's first version.
 * @return BINADE_E_FOREIGN  All segments end at `address` or before.
 * @return BINADE_E_UNSUPPORTED  The pool passes all through: its blocks are
 *         reservations.
 *
 * Ownership: the caller's struct. What it tells may be over when the call returns,
 *            but of a segment that is held, or in which a block is in use.
 * Threads:   any, concurrently. Waits for a thread that grows or trims the pool.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
BINADE_API BINADE_MUST_USE binade_status binade_segment_find(
    binade_pool *pool, binade_devptr address, binade_segment_info *out);

/**
 * Keeps all segments where they are that have a part of a range, whatever is free
 * in them: they neither move nor go back to the driver until they were released
 * as often. To be called before their memory is registered, while a block in
 * them is in use.
 *
 * @param pool        The pool.
 * @param address     Where the range begins.
 * @param size_bytes  At least 1.
 *
 * @return BINADE_OK
 * @return BINADE_E_INVALID  `pool` is NULL or destroyed, or `size_bytes` 0.
 * @return BINADE_E_FOREIGN  A part of the range is in no segment: nothing is
 *         held.
 * @return BINADE_E_BUSY     A part of it is in a private arena that is paused.
 * @return BINADE_E_UNSUPPORTED  The pool passes all through.
 *
 * Ownership: of a hold: the caller's. The pool's end ends it: that waits for
 *            nobody who holds.
 * Threads:   any, concurrently. Takes a lock for an instant.
 * Streams:   none.
 * Context:   none; the driver is not called.
 */
BINADE_API BINADE_MUST_USE binade_status binade_segment_hold(
    binade_pool *pool, binade_devptr address, size_t size_bytes);

/**
 * Ends one hold of each segment that has a part of a range.
 *
 * @param pool,address,size_bytes  As they were held: other ranges of the same
 *                                 segments do the same.
 *
 * @return BINADE_OK
 * @return as binade_segment_hold()
 * @return BINADE_E_INVALID  also when one of the segments is not held: nothing
 *         has changed.
 */
BINADE_API BINADE_MUST_USE binade_status binade_segment_release(
    binade_pool *pool, binade_devptr address, size_t size_bytes);

#ifdef __cplusplus
}
#endif

#endif
