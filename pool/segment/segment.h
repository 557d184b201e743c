/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Segments: the pieces of memory that a pool reserves from its source, and
 * their places in the pool's one offset space, over which one space records
 * what is free (docs/dev/adr/0004-one-offset-space.md). Between two segments
 * one page of offset space is never free, so that no run crosses a border.
 *
 * The lock guards the list of segments. It is never held while the source
 * works: a flag says that a thread grows, and others wait on a condition.
 */
#ifndef MOIETY_POOL_SEGMENT_SEGMENT_H_
#define MOIETY_POOL_SEGMENT_SEGMENT_H_

#include <stdbool.h>
#include <stdint.h>

#include "moiety/segment.h"
#include "moiety/source.h"
#include "moiety/status.h"
#include "pool/heap/heap.h"
#include "pool/heap/space.h"
#include "pool/segment/lookup.h"

/* Bit of moiety_source.flags for our own sources: their failures make a
 * message. */
#define MOIETYI_SOURCE_EXPLAINS (UINT32_C(1) << 31)

struct moietyi_segments;
struct moietyi_mapper;
struct moietyi_streams;

struct moietyi_segments_options {
    /* Copied. NULL, wrong size, flags or functions: MOIETY_E_INVALID. */
    const moiety_source *source;
    /* NULL, or the mapper of the memory; outlives the segments. A segment is
     * then one handle: neighbours touch, and a wholly free one may move. The
     * source only gives its name. */
    const struct moietyi_mapper *mapper;
    /* Copied. NULL, or the source that replaces a mapper that refuses to map,
     * while no other device may access the memory. */
    const moiety_source *fallback;
    uint64_t peers; /* whose devices may access it, by ordinal a bit each */
    /* Empty, of `page_capacity` pages; outlives the segments. */
    struct moietyi_space *space;
    uint32_t page_capacity; /* of the offset space; at least 2 */
    uint64_t limit_bytes;   /* never reserve more; UINT64_MAX: none */
    bool is_limited; /* the limit is the program's, who wants it used up */
    /* The first is the least that a segment has, the largest, which is no less,
     * bounds those that requests share: multiples of 2 MiB, not 0. */
    uint64_t first_bytes;
    uint64_t largest_bytes;
    /* Of mapped memory: how long a new handle may always be, in pages; a power of
     * two, 0 for 4 MiB. */
    uint32_t handle_pages;
    /* Growth that begins below it ends there if the need does; 0: none. */
    uint64_t watermark_bytes;
};

/* No memory is reserved yet. MOIETY_OK, MOIETY_E_INVALID,
 * MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status
moietyi_segments_create(const struct moietyi_segments_options *options,
                        struct moietyi_segments **out);
/* Releases all memory, also blocks in use. No other call may be under way, nor
 * work that uses the memory. Calls the source; may block in it. MOIETY_OK, or
 * the source's error for memory that it did not take back at the fourth try:
 * that is lost. NULL is OK. */
moiety_status moietyi_segments_destroy(struct moietyi_segments *segments);

/* The table that the fast path reads; constant, valid until the end.
 * Wait-free. */
const struct moietyi_lookup *
moietyi_segments_lookup(const struct moietyi_segments *segments);

/* Makes room for one run of `needed_bytes` (at least 1): adds a segment, unless
 * others have made that room meanwhile. After MOIETY_OK the caller searches
 * again, and may find that somebody was faster.
 * Any thread, no lock held. One thread grows at a time, others wait for it;
 * blocks in the source.
 * MOIETY_OK
 * MOIETY_E_TOO_LARGE         more than the limit or the offset space
 * MOIETY_E_NO_DEVICE_MEMORY  (_PINNED_ for a source of pinned memory) limit or
 *                            offset space are used up
 * MOIETY_E_NO_HOST_MEMORY    for the pool's own records
 * MOIETY_E_INVALID           the source returned what cannot be used
 * or what the source said. After a failure nothing has changed. */
MOIETY_MUST_USE moiety_status
moietyi_segments_grow(struct moietyi_segments *segments, uint64_t needed_bytes);

/* The same, but MOIETY_E_WOULD_BLOCK where another thread grows already. */
MOIETY_MUST_USE moiety_status moietyi_segments_try_grow(
    struct moietyi_segments *segments, uint64_t needed_bytes);

/* Whether new memory is mapped. Once the fallback has replaced the mapper, it
 * never is again. Wait-free. */
bool moietyi_segments_are_mapped(const struct moietyi_segments *segments);
/* The name of the source of new memory. Wait-free. */
const char *
moietyi_segments_source_name(const struct moietyi_segments *segments);

/* Lets a device access all mapped memory, present and future; 0 to 63, and a
 * valid peer (mapper.h). Any thread, no lock held; waits for a grower, blocks
 * in the driver. MOIETY_OK; MOIETY_E_UNSUPPORTED: the fallback has replaced the
 * mapper, and no device can access its memory; or the driver's error: then
 * nothing has changed. */
MOIETY_MUST_USE moiety_status
moietyi_segments_add_peer(struct moietyi_segments *segments, int32_t device);

/* What the caller knows when it extends mapped memory. */
struct moietyi_extension {
    uint64_t needed_bytes; /* in a row */
    /* Whose free memory the new memory joins, and which handles may move to it;
     * NULL: none. */
    const struct moietyi_view *view;
    /* The last epoch of the contexts that is over. */
    uint64_t passed_epoch;
    /* Returns the epoch that is recorded after all work queued so far. Called
     * once a handle is out of the heaps: until then another thread of the
     * stream may queue work there. NULL: a handle moves only if all of it is
     * done. */
    uint64_t (*next_epoch)(const struct moietyi_streams *streams);
    const struct moietyi_streams *streams;
};

/* moietyi_segments_grow() for mapped memory, which it extends: the missing
 * pages in front of or behind the longest free run are mapped there, wholly
 * free handles first. A handle of memory that the view's stream freed moves at
 * once, to more of that stream's memory; the place that it leaves is used again
 * after its `next_epoch`. Within a slow path; waits neither for the device nor
 * for another thread: MOIETY_E_WOULD_BLOCK if one grows. */
MOIETY_MUST_USE moiety_status
moietyi_segments_extend(struct moietyi_segments *segments,
                        const struct moietyi_extension *extension);
/* The first epoch behind `passed_epoch` that a place left by a handle waits
 * for; 0: none. Any thread; blocks on the lock. */
uint64_t moietyi_segments_left_at(struct moietyi_segments *segments,
                                  uint64_t passed_epoch);
/* Unmaps the places that handles left and whose epoch is over: until then the
 * handle's memory cannot go back to the driver. Any thread, no lock held. */
void moietyi_segments_unmap_left(struct moietyi_segments *segments,
                                 uint64_t passed_epoch);
/* Waits until nobody grows. No lock held, outside of slow paths. */
void moietyi_segments_await_growth(struct moietyi_segments *segments);

/* --- mapped memory that a holder has as whole handles (held.c) --- */

/* One new handle of so many pages, at a place where it touches no other held
 * one. Its pages are in no heap, so it neither moves nor is trimmed. Once the
 * holder gives all of them to the pool, it is a handle like any other. Outside
 * of slow paths, no lock held; waits for a grower if it may, or returns
 * MOIETY_E_WOULD_BLOCK, and blocks in the driver. MOIETY_OK, or as
 * moietyi_segments_grow(): nothing has changed. */
MOIETY_MUST_USE moiety_status
moietyi_segments_hold(struct moietyi_segments *segments, uint32_t page_count,
                      uint64_t passed_epoch, bool may_wait, moietyi_page *out);

/* A held handle, by its first page; in a list of its holder's. */
struct moietyi_handle {
    struct moietyi_handle *next;
    moietyi_page first;
};

/* Gives the memory of all of them back to the driver, and keeps their places:
 * work that used them is over. As above, and waits for a grower. MOIETY_OK,
 * MOIETY_E_IN_USE (one is pinned), or the driver's error: then all are as they
 * were, or, if the driver refused that too (`out_are_away`), away with the
 * memory that they had, for moietyi_segments_refill(). */
moiety_status moietyi_segments_vacate(struct moietyi_segments *segments,
                                      const struct moietyi_handle *held,
                                      bool *out_are_away);
/* Maps them again; they stay away, so no watcher is notified and no thread can
 * pin one. Contents are unknown if the memory had gone. As above; or as
 * moietyi_segments_grow(): handles that got memory have lost it again, or, if
 * the driver refuses that, keep it for the next time. */
MOIETY_MUST_USE moiety_status moietyi_segments_refill(
    struct moietyi_segments *segments, const struct moietyi_handle *held);
/* After a refill: they are back, with other ids. Waits for a grower. */
void moietyi_segments_restore(struct moietyi_segments *segments,
                              const struct moietyi_handle *held);
/* Undoes a refill and keeps contents, as far as the driver lets it. */
void moietyi_segments_empty(struct moietyi_segments *segments,
                            const struct moietyi_handle *held);
/* Whether a refill may succeed now, as far as limit and device show. Outside of
 * slow paths; asks the driver. */
bool moietyi_segments_have_room(struct moietyi_segments *segments,
                                const struct moietyi_handle *held);
/* Ends them, with the memory that they still have. They are away, and no page
 * of them is in use. As above; memory that the driver does not take back is
 * tried again by trims. */
void moietyi_segments_drop(struct moietyi_segments *segments,
                           const struct moietyi_handle *held);

/* Adds segments until `total_bytes` are reserved, used or not, in pieces of the
 * largest size and a last one as small as possible; growth steps stay as they
 * were. Any thread, no lock held; as moietyi_segments_grow(). Segments added
 * before a failure stay. */
MOIETY_MUST_USE moiety_status moietyi_segments_grow_to(
    struct moietyi_segments *segments, uint64_t total_bytes);

/* For callers that must not wait for the device, as most sources do when they
 * take memory back. Mapped memory needs no rule. */
struct moietyi_release_rule {
    /* Whether the source takes memory back at once. Asked before each segment. */
    bool (*may_release)(void *context);
    void *context;
};

/* Releases wholly free segments that are not pinned or mapped twice, lowest
 * address first, as long as `keep_bytes` stay reserved, and tries earlier
 * refusals again. `out_bytes` gets the bytes that the source took back. `rule`
 * may be NULL; segments that it forbids stay. Any thread, no lock held; blocks
 * in the source. MOIETY_OK, or the source's first refusal. */
moiety_status moietyi_segments_trim(struct moietyi_segments *segments,
                                    uint64_t keep_bytes,
                                    const struct moietyi_release_rule *rule,
                                    uint64_t *out_bytes);

/* The same for a pool without watchers, all of it, for a thread that may call
 * no function of the program; first unmaps places that handles left until
 * `passed_epoch`. Waits for the driver and for a grower. MOIETY_E_WOULD_BLOCK: there
 * is a watcher, and nothing was done. */
moiety_status moietyi_segments_trim_unwatched(
    struct moietyi_segments *segments, uint64_t passed_epoch,
    const struct moietyi_release_rule *rule, uint64_t *out_bytes);
bool moietyi_segments_are_watched(struct moietyi_segments *segments);

/* How often the source had no memory, where the limit would have allowed it.
 * Wait-free. */
uint64_t moietyi_segments_refusals(const struct moietyi_segments *segments);

/* Bytes of wholly free segments that are not pinned: what a trim would release.
 * Any thread; blocks on the lock. */
uint64_t moietyi_segments_whole_bytes(struct moietyi_segments *segments);

/* Bytes that the source has given and not taken back, and those that it is
 * asked for. Wait-free; exact at rest. */
uint64_t
moietyi_segments_reserved_bytes(const struct moietyi_segments *segments);

/* The most that is reserved from now on; bytes above it stay until a trim. Any
 * thread, no lock held; waits for a grower. `limit_bytes`: whole pages, within
 * the offset space. */
void moietyi_segments_set_limit(struct moietyi_segments *segments,
                                uint64_t limit_bytes);
/* Wait-free; UINT64_MAX: none. */
uint64_t moietyi_segments_limit(const struct moietyi_segments *segments);
/* The peak begins anew at the reserved bytes. As above. */
void moietyi_segments_reset_peak(struct moietyi_segments *segments);

/* Whether a thread is asking the source for more right now. Any thread; blocks on
 * the lock. */
bool moietyi_segments_are_growing(struct moietyi_segments *segments);

struct moietyi_segments_stats {
    uint64_t reserved_bytes;
    uint64_t peak_bytes;       /* the most that were since the last reset */
    uint64_t unreleased_bytes; /* of these: the source refused to take back */
    uint64_t grow_count;       /* segments ever added */
    uint64_t failed_grow_count;
    uint64_t trim_count; /* segments ever withdrawn */
    uint64_t move_count; /* how often a handle ever moved */
    uint64_t moved_bytes;
    uint64_t left_bytes;  /* places that they left, and may not be used yet */
    uint64_t empty_bytes; /* held, and without memory for now */
    uint32_t segment_count;
};

/* Any thread; blocks on the lock. */
void moietyi_segments_stats(struct moietyi_segments *segments,
                            struct moietyi_segments_stats *out);

struct moietyi_segment_info {
    uint64_t id;           /* never used again in this pool */
    moiety_devptr address; /* of the first page */
    moiety_devptr memory;  /* as the source returned it */
    uint64_t memory_bytes; /* as the source was asked for */
    moietyi_page first;    /* in offset space */
    uint32_t page_count;
    bool is_fixed; /* the source's memory, at an address of its own */
};

/* The segment with the lowest first page from `from` on; those that touch are one
 * here, with the first one's id. False when there is none. To see all, go on from
 * `first + page_count`. Any thread; blocks on the lock. */
bool moietyi_segments_walk(struct moietyi_segments *segments, moietyi_page from,
                           struct moietyi_segment_info *out);

/* Keeps the segment that has `address` from being trimmed until it was unpinned
 * as often; the end of the segments ends pins too. False: no segment has it.
 * Any thread; blocks on the lock. */
bool moietyi_segments_pin(struct moietyi_segments *segments,
                          moiety_devptr address,
                          struct moietyi_segment_info *out);
/* `id` is of a segment that is pinned. */
void moietyi_segments_unpin(struct moietyi_segments *segments, uint64_t id);

/* The segment with the lowest address whose memory ends behind `address`, and how
 * often it is held. False: there is none. Any thread, outside of slow paths; waits
 * until nobody grows. */
bool moietyi_segments_find(struct moietyi_segments *segments,
                           moiety_devptr address,
                           struct moietyi_segment_info *out,
                           uint64_t *out_hold_count);
/* Pins each segment that has a part of the range, or ends one such pin of each.
 * MOIETY_OK; MOIETY_E_FOREIGN: a part of the range is in none; MOIETY_E_INVALID:
 * one is not held. Then nothing has changed. Any thread; blocks on the lock. */
MOIETY_MUST_USE moiety_status moietyi_segments_hold_range(
    struct moietyi_segments *segments, moiety_devptr address,
    uint64_t size_bytes, bool is_hold);

/* Who watches segments come and go (watch.c). */
struct moietyi_watch {
    moiety_segment_watcher watcher; /* a copy */
    const void *context;
    /* Calls the watcher, by the thread that grows, trims or moves, no lock
     * held. */
    void (*tell)(const struct moietyi_watch *watch,
                 const struct moietyi_segment_info *info, uint64_t hold_count,
                 bool is_added);
};

/* Notifies the watcher of each existing segment, and from then on of each that
 * is added or removed. Copies `watch`. Any thread, no lock held; waits for
 * growers and trims. MOIETY_OK, MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status
moietyi_segments_watch(struct moietyi_segments *segments,
                       const struct moietyi_watch *watch, uint64_t *out_id);
/* Ends a watcher: it is not called any more, and no call of it is under way. As
 * above; MOIETY_E_INVALID: no such watcher. */
MOIETY_MUST_USE moiety_status
moietyi_segments_unwatch(struct moietyi_segments *segments, uint64_t id);

/* A handle of a run of them. */
struct moietyi_piece {
    uint64_t id;
    uint64_t handle;
    uint64_t size_bytes;
};
struct moietyi_pieces {
    moiety_devptr address; /* of the first */
    uint64_t size_bytes;   /* of all */
    struct moietyi_piece *pieces;
    size_t count;
};
/* Pins the handles from `address` to `end`, of mapped memory without a hole. The
 * caller unpins them and frees `pieces`. MOIETY_OK, or without a message
 * MOIETY_E_INVALID (a hole) or MOIETY_E_NO_HOST_MEMORY. Any thread; blocks on the
 * lock. */
MOIETY_MUST_USE moiety_status moietyi_segments_pin_run(
    struct moietyi_segments *segments, moiety_devptr address, moiety_devptr end,
    struct moietyi_pieces *out);
/* Once more (`is_more`), of a run that is pinned; or once less. */
void moietyi_segments_repin(struct moietyi_segments *segments,
                            moiety_devptr address, uint64_t size_bytes,
                            bool is_more);

/* At rest: checks the numbered invariants of docs/dev/invariants.md. NULL,
 * or which one is broken; `out_at` is then the page where. */
const char *moietyi_segments_check(struct moietyi_segments *segments,
                                   moietyi_page *out_at);

#endif
