/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * An extent: free memory of one owner without a gap. Its record lies apart, in
 * a table by number; 0 is none. For the files of this folder only.
 *
 * One word says where an extent begins, its owner and its age. Only under an
 * owner's lock does a word get or lose that owner. So under the lock a word
 * with its owner is valid, and the extent may be joined; any other word is left
 * alone, however old it is. Two words could not say that: between the two loads
 * the memory could change its owner.
 *
 * `edges` has, for each grain, the number of the extent that begins or ends
 * there; `covers`, for each page, the number of the extent that has its first
 * grain. Pages whose memory is in use have 0 there, so most looks at a page end
 * there. All other entries are arbitrary, so an entry is believed only if the
 * word agrees.
 */
#ifndef MOIETY_POOL_HEAP_EXTENT_H_
#define MOIETY_POOL_HEAP_EXTENT_H_

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/heap/weaken.h"

typedef uint32_t moietyi_extent_id;

/* start 38 bits | owner 20 | spare 4 | age 1 | free 1; a block in an inbox has its
 * start alone. */
#define MOIETYI_WHERE_START_SHIFT 26U
#define MOIETYI_WHERE_OWNER_SHIFT 6U
#define MOIETYI_WHERE_AGE_SHIFT 1U
#define MOIETYI_WHERE_FREE UINT64_C(1)
#define MOIETYI_OWNERS_MAX (UINT32_C(1) << 14 | 256)

struct moietyi_extent {
    /* Edge: none; relaxed. Only the lock of the owner in it orders it. 0: no
     * extent. */
    alignas(32) _Atomic uint64_t where;
    /* Edge: none; relaxed. Exact under the owner's lock; a hint to others. */
    _Atomic uint64_t grains;
    moietyi_extent_id next; /* of its bin */
    moietyi_extent_id previous;
    /* Edge: none; relaxed. The next spare record, or the next block of an inbox: what
     * orders it is the lock of a heap, or the head of the list, HR or HI. */
    _Atomic moietyi_extent_id below;
};

static inline uint64_t moietyi_where(uint64_t start, uint32_t owner,
                                     uint32_t age)
{
    return start << MOIETYI_WHERE_START_SHIFT |
           (uint64_t)owner << MOIETYI_WHERE_OWNER_SHIFT |
           (uint64_t)age << MOIETYI_WHERE_AGE_SHIFT | MOIETYI_WHERE_FREE;
}

static inline uint64_t moietyi_where_start(uint64_t where)
{
    return where >> MOIETYI_WHERE_START_SHIFT;
}

static inline uint32_t moietyi_where_owner(uint64_t where)
{
    return (uint32_t)(where >> MOIETYI_WHERE_OWNER_SHIFT) & 0xfffffU;
}

static inline uint32_t moietyi_where_age(uint64_t where)
{
    return (uint32_t)(where >> MOIETYI_WHERE_AGE_SHIFT) & 1U;
}

/* Of a block in an inbox, which is not an extent yet. */
static inline uint64_t moietyi_where_queued(uint64_t start)
{
    return start << MOIETYI_WHERE_START_SHIFT;
}

static inline bool moietyi_where_is_free(uint64_t where)
{
    return where & MOIETYI_WHERE_FREE;
}

#endif
