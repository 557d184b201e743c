/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * The segments of a pool, for transports that register memory: which piece of the
 * driver's memory an address is in, how to keep it where it is, and how to be told
 * of those that come and go. A segment is what one registration can cover: a
 * reservation of the pool's source, or, of mapped memory (docs/mapped.md), one
 * piece.
 *
 * moiety/pool.h has the rules that all functions have in common.
 */
#ifndef MOIETY_SEGMENT_H_
#define MOIETY_SEGMENT_H_

#include <stddef.h>
#include <stdint.h>

#include "moiety/pool.h"
#include "moiety/status.h"
#include "moiety/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits of moiety_segment_info.flags. */

/** It is mapped: as long as nobody holds it, it may move when all of it is free. */
#define MOIETY_SEGMENT_MAPPED (UINT32_C(1) << 0)

/** A segment, at one moment. */
typedef struct moiety_segment_info {
    /** Bytes of this struct: set by the caller before the call. */
    uint32_t struct_size;
    /** MOIETY_SEGMENT_ bits. */
    uint32_t flags;
    /** Never used again in this pool. Another one at the same address says that
     *  other memory is there: what was registered by this one is stale. */
    uint64_t id;
    /** Its first address, and its bytes. */
    moiety_devptr address;
    uint64_t size_bytes;
    /** How often it is held. */
    uint64_t hold_count;
    /** Ordinal of the device that has the memory. */
    int32_t device;
    /** 0. */
    uint32_t reserved;
} moiety_segment_info;

/**
 * Tells of the segment with the lowest address that ends behind an address: the
 * one that has it, if one does. To see all, begin at 0 and go on from the end of
 * the last one.
 *
 * @param address  Any.
 * @param out      [in,out] `struct_size` is set by the caller. Written only when
 *                 MOIETY_OK is returned, and nothing past `struct_size`.
 *
 * @return MOIETY_E_INVALID  `pool` or `out` is NULL, or `struct_size` less than
 *         that of the struct's first version.
 * @return MOIETY_E_FOREIGN  All segments end at `address` or before.
 * @return MOIETY_E_UNSUPPORTED  The pool passes all through: its blocks are
 *         reservations.
 *
 * Ownership: the caller's struct. What it tells may be over when the call returns,
 *            but of a segment that is held, or in which a block is in use.
 * Threads:   Waits for a thread that grows or trims the pool. No driver call.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_segment_find(
    moiety_pool *pool, moiety_devptr address, moiety_segment_info *out);

/**
 * Keeps all segments where they are that have a part of a range, whatever is free
 * in them: they neither move nor go back to the driver until they were released
 * as often. To be called before their memory is registered, while a block in
 * them is in use.
 *
 * @param address     Where the range begins.
 * @param size_bytes  At least 1.
 *
 * @return MOIETY_E_INVALID  `pool` is NULL, or `size_bytes` 0.
 * @return MOIETY_E_FOREIGN  A part of the range is in no segment: nothing is
 *         held.
 * @return MOIETY_E_PAUSED   A part of it is in a private arena that is paused, or
 *         is about to be.
 * @return MOIETY_E_UNSUPPORTED  The pool passes all through.
 *
 * Ownership: of a hold: the caller's. The pool's end ends it: that waits for
 *            nobody who holds.
 * Threads:   Takes a lock for an instant. No driver call.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_segment_hold(
    moiety_pool *pool, moiety_devptr address, size_t size_bytes);

/**
 * Ends one hold of each segment that has a part of a range.
 *
 * @param pool,address,size_bytes  As they were held: other ranges of the same
 *                                 segments do the same.
 *
 * @return as moiety_segment_hold()
 * @return MOIETY_E_INVALID  also when one of the segments is not held: nothing
 *         has changed.
 */
MOIETY_API moiety_status moiety_segment_unhold(moiety_pool *pool,
                                               moiety_devptr address,
                                               size_t size_bytes);

/**
 * Told of a segment that has come, or is about to go.
 *
 * @param user     The watcher's.
 * @param segment  The segment, as long as the call.
 *
 * Ownership: of `*segment`: the pool's.
 * Threads:   the thread that grows, trims, moves, pauses, resumes, watches or
 *            destroys, inside its call; one at a time in a pool. It may block, and
 *            delays that call, and others that grow, trim or find segments. It may
 *            not wait for a thread that is in a call of the pool. It may use other
 *            pools, but none whose own callbacks or source call this one; a call on
 *            this one returns MOIETY_E_REENTRANT, or MOIETY_E_DESTROYED
 *            while the pool is destroyed. It may not leave by an exception or a
 *            jump.
 * Streams:   work that is queued may still use memory of a mapped segment that
 *            moves, by way of its old address.
 * Context:   whichever is current in that thread.
 */
typedef void (*moiety_segment_callback)(void *user,
                                        const moiety_segment_info *segment);

/** Who is told of segments that come and go. Later versions append fields. */
typedef struct moiety_segment_watcher {
    /** Bytes of this struct: set by the caller. */
    uint32_t struct_size;
    /** 0. */
    uint32_t flags;
    /** Passed to both as it is; may be NULL. */
    void *user;
    /** The segment is there. No block has been in it yet, unless it was there
     *  when the watch began. May be NULL. */
    moiety_segment_callback added;
    /** The segment is about to go back to the driver, or to leave its address. No
     *  block is in it any more, nor is it held, unless the pool is destroyed. May be
     *  NULL. */
    moiety_segment_callback releasing;
} moiety_segment_watcher;

/**
 * Begins to watch a pool's segments: `added` is told of each that is there, before
 * this returns, and of each that comes, before the pool gives out memory of it;
 * `releasing` of each that goes, once, while its memory is still there. A piece
 * that moves is released, and added with another id; so is the memory of a private
 * arena that is paused, and resumed. What does not come about after it was
 * added is released; what does not go after all is added again, with another id.
 *
 * @param watcher  Copied. One function at least is not NULL.
 * @param out      [out] The watch.
 *
 * @return MOIETY_E_INVALID  `pool`, `watcher`, `out` or both functions are
 *         NULL, `flags` not 0, or `struct_size` less than that of the struct's
 *         first version.
 * @return MOIETY_E_NO_HOST_MEMORY  Nothing was told.
 * @return MOIETY_E_UNSUPPORTED  The pool passes all through.
 *
 * Ownership: of `user`: the caller's, who keeps it until moiety_segment_unwatch()
 *            or the pool's end, which tells of all segments that are left.
 * Threads:   Waits for threads that grow or trim the pool. No driver call.
 */
MOIETY_API MOIETY_MUST_USE moiety_status
moiety_segment_watch(moiety_pool *pool, const moiety_segment_watcher *watcher,
                     moiety_watch *out);

/**
 * Ends a watch. Nothing is told of the segments that are there: what the caller has
 * registered is the caller's to end.
 *
 * @param watch  As moiety_segment_watch() gave it.
 *
 * @return MOIETY_OK         Neither function runs any more, nor will.
 * @return MOIETY_E_INVALID  `pool` is NULL, or there never was such a watch.
 * @return MOIETY_E_DESTROYED  also when the watch has ended before.
 * @return MOIETY_E_UNSUPPORTED  The pool passes all through.
 *
 * Ownership: of `user`: the caller's alone from now on.
 * Threads:   Waits for threads that grow or trim the pool, and for callbacks. No
 *            driver call.
 */
MOIETY_API moiety_status moiety_segment_unwatch(moiety_pool *pool,
                                                moiety_watch watch);

/**
 * Lets one more device access all memory of a pool, what it has and what it will
 * have, as if `peer_devices` had named it: kernels and copies of that device's
 * contexts can use the pool's addresses.
 *
 * @param pool    A pool of mapped memory (MOIETY_MEMORY_MAPPED).
 * @param device  Ordinal of the device, 0 to 63. One that may access the memory
 *                already changes nothing.
 *
 * @return MOIETY_E_INVALID      `pool` is NULL; there is no such device, or it
 *         is the pool's own.
 * @return MOIETY_E_UNSUPPORTED  The device cannot access the memory of the pool's
 *         (cuDeviceCanAccessPeer); the pool's memory is not mapped, or not any more:
 *         then the device has what still is.
 * @return what the driver said  The device has access to nothing: call again.
 *
 * Threads:   Waits for a thread that grows the pool; calls the driver once for
 *            each piece, 20 to 50 us.
 * Streams:   none are waited for. There is no way back: other devices' work may
 *            use the memory.
 */
MOIETY_API MOIETY_MUST_USE moiety_status moiety_pool_add_peer(moiety_pool *pool,
                                                              int32_t device);

#ifdef __cplusplus
}
#endif

#endif
