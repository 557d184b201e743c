/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool's private arenas, for the facade: which pages are whose, what they are
 * served and what is freed into them. Each arena is under a lock of its own,
 * which is not held while the driver, the source or another lock's holder is
 * waited for; what the lock guards is memory, by pool/graph/private_half.h.
 */
#ifndef MOIETY_POOL_GRAPH_PRIVATES_H_
#define MOIETY_POOL_GRAPH_PRIVATES_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "moiety/private.h"
#include "pool/cache/cache.h"
#include "pool/cache/uses.h"
#include "pool/graph/kept.h"
#include "pool/graph/private_half.h"
#include "pool/oom/others.h"
#include "pool/segment/segment.h"

#define MOIETYI_PRIVATES_MAX 4096U

/* Outside of captures, and of captures. */
enum moietyi_private_side {
    MOIETYI_PRIVATE_PLAIN,
    MOIETYI_PRIVATE_GRAPHS,
    MOIETYI_PRIVATE_SIDES
};

/* Where an arena is whose memory can go. */
enum moietyi_private_phase {
    MOIETYI_PRIVATE_RUNNING,
    MOIETYI_PRIVATE_PAUSING, /* a thread is at it, as with the last */
    MOIETYI_PRIVATE_PAUSED,
    MOIETYI_PRIVATE_RESUMING
};

/* One handle of an arena whose memory is handles of its own. */
struct moietyi_private_piece {
    struct moietyi_handle handle; /* its next is a piece's, too */
    uint32_t page_count;
    unsigned side;
    bool is_kept; /* its contents are with the host, while it is paused */
    struct moietyi_kept_piece copy; /* there */
};

static inline struct moietyi_private_piece *
moietyi_private_piece_of(struct moietyi_handle *handle)
{
    return (struct moietyi_private_piece *)handle;
}

/* A place for an arena. It is there to the pool's end, and used again. */
struct moietyi_private {
    pthread_mutex_t lock;
    uint32_t place; /* constant */
    /* In a pool that is checked or passes all through an arena is an account:
     * it has no memory, and what it has live is what the sums below say.
     * Constant. */
    bool is_account;
    /* All else is under the lock. */
    moiety_private number; /* 0: the place is free */
    uint64_t limit_bytes;  /* UINT64_MAX: none */
    uint64_t reserved_bytes;
    uint64_t reserved_peak_bytes;
    uint64_t live_count;
    uint64_t live_bytes;
    uint64_t live_peak_bytes;
    uint32_t open_count;  /* scopes that are open */
    uint32_t graph_count; /* scopes that were not released */
    uint32_t page_end;    /* its pages are below this one */
    uint32_t flags;       /* MOIETY_PRIVATE_ bits */
    enum moietyi_private_phase phase;
    struct moietyi_handle *pieces; /* if it has handles of its own */
    /* Not under the lock, but of the thread that pauses, resumes or ends it. */
    struct moietyi_kept kept;
    struct moietyi_half halves[MOIETYI_PRIVATE_SIDES];
};

/* Edge: none; relaxed: who frees a block has its address from the allocation,
 * and so sees whose its page was then; the lock tells whether it still is.
 * Whose a page of the offset space is: 0, or the place and the side. Written
 * under the arena's lock; whose free pages went to the pool clears by a swap,
 * since another arena may have them. */
typedef _Atomic uint32_t moietyi_private_owner;

struct moietyi_alloc_args;

struct moietyi_privates {
    pthread_mutex_t lock;
    /* Edge PA: made (release) -> used (acquire). NULL before the first arena. */
    _Atomic(moietyi_private_owner *) owners;
    /* Edge PA, as above. Only appended to. */
    _Atomic(struct moietyi_private *) places[MOIETYI_PRIVATES_MAX];
};

void moietyi_privates_init(struct moietyi_privates *privates);
/* No call is under way. Memory in them is lost. */
void moietyi_privates_fini(struct moietyi_privates *privates);

/* MOIETY_OK, MOIETY_E_TOO_LARGE (so many arenas), MOIETY_E_NO_HOST_MEMORY. */
MOIETY_MUST_USE moiety_status moietyi_private_make(struct moietyi_call *call,
                                                   uint64_t limit_bytes,
                                                   uint32_t flags,
                                                   moiety_private *out);
/* NULL: there is none with this number. It may end at any time; what follows
 * takes the number with it, and returns MOIETY_E_INVALID then. */
struct moietyi_private *moietyi_private_find(struct moietyi_privates *privates,
                                             moiety_private number);

/* An arena as a caller knows it. */
struct moietyi_private_ref {
    struct moietyi_private *arena;
    moiety_private number;
};

/* That of a scope, which keeps it; NULL: the scope has none. */
struct moietyi_private_ref
moietyi_private_of_scope(const struct moietyi_call *call, moiety_scope scope);

/* A block for the call's stream: in a capture of this scope, or outside (0). */
MOIETY_MUST_USE moiety_status moietyi_private_take(
    struct moietyi_call *call, const struct moietyi_private_ref *ref,
    moiety_scope scope, const struct moietyi_request *request, bool may_wait,
    moiety_devptr *out);
/* moiety_alloc_with() for an arena. `pool` is NULL or to be the arena's; `out` is not
 * NULL. */
MOIETY_MUST_USE moiety_status
moietyi_private_alloc(moiety_pool *pool, moiety_private arena,
                      const struct moietyi_alloc_args *args,
                      moiety_stream stream, moiety_devptr *out);
MOIETY_MUST_USE moiety_status moietyi_private_take_at(
    struct moietyi_call *call, const struct moietyi_private_ref *ref,
    moiety_devptr address, const struct moietyi_request *request);
/* A free, before the pool itself takes it: `out_is_private`, the block was an
 * arena's, and that is all. In a capture only blocks of captures of the arena
 * whose scope has it; others are the scope's to keep. */
MOIETY_MUST_USE moiety_status moietyi_privates_free(
    struct moietyi_call *call, const struct moietyi_block *block,
    moiety_devptr address, CUevent event, bool *out_is_private);
/* A block of an arena gets so many grains where it lies, or loses
 * its end, outside of captures. MOIETY_OK; MOIETY_E_NO_ROOM: the arena has not got
 * them for the call's stream; MOIETY_E_IN_USE: the block is a capture's, or another
 * thread changes the arena; MOIETY_E_PAUSED. */
MOIETY_MUST_USE moiety_status
moietyi_private_grow(struct moietyi_call *call,
                     const struct moietyi_block *block, uint64_t grains);
MOIETY_MUST_USE moiety_status
moietyi_private_cut(struct moietyi_call *call,
                    const struct moietyi_block *block, uint64_t grains);
/* An account has so many bytes more, in a block; or not any more, if it is the
 * same yet. MOIETY_OK, MOIETY_E_INVALID, MOIETY_E_TOO_LARGE, MOIETY_E_BUDGET. */
MOIETY_MUST_USE moiety_status
moietyi_private_charge(const struct moietyi_private_ref *ref, uint64_t bytes);
void moietyi_private_discharge(const struct moietyi_private_ref *ref,
                               uint64_t bytes);
/* Whose the page of a grain is; NULL: the pool's. */
struct moietyi_private *
moietyi_privates_owner(struct moietyi_privates *privates, moietyi_grain grain);

MOIETY_MUST_USE moiety_status moietyi_private_shrink(
    struct moietyi_call *call, const struct moietyi_private_ref *ref,
    uint64_t *out_bytes);
MOIETY_MUST_USE moiety_status moietyi_private_fill(
    const struct moietyi_private_ref *ref, moiety_private_stats *out);
/* private_pause.c: as moiety_private_pause() and moiety_private_resume(). */
MOIETY_MUST_USE moiety_status
moietyi_private_pause(struct moietyi_call *call,
                      const struct moietyi_private_ref *ref, uint32_t flags);
MOIETY_MUST_USE moiety_status moietyi_private_resume(
    struct moietyi_call *call, const struct moietyi_private_ref *ref);
/* MOIETY_OK, MOIETY_E_DESTROYED, MOIETY_E_IN_USE (there are scopes, or another
 * thread pauses or resumes it), or MOIETY_E_PAUSED (and it has blocks). */
MOIETY_MUST_USE moiety_status moietyi_private_end(
    struct moietyi_call *call, const struct moietyi_private_ref *ref);

/* --- what the files of this part share --- */

moiety_status moietyi_private_no_memory(void);
/* MOIETY_E_DESTROYED. */
moiety_status moietyi_private_refuse_gone(void);
/* With the lock held after MOIETY_OK; MOIETY_E_DESTROYED: the arena is gone. */
MOIETY_MUST_USE moiety_status
moietyi_private_enter(const struct moietyi_private_ref *ref);
/* The same; MOIETY_E_PAUSED, or MOIETY_E_IN_USE: a thread pauses or resumes it. */
MOIETY_MUST_USE moiety_status
moietyi_private_enter_running(const struct moietyi_private_ref *ref);
void moietyi_private_leave(struct moietyi_private *arena);
/* The arena's place; NULL: there is none so far. */
struct moietyi_private *
moietyi_private_at(const struct moietyi_privates *privates, uint32_t place);
void moietyi_private_free_halves(struct moietyi_private *arena);
/* What a page of a side has as its owner, and what it has; 0: it is the pool's.
 * Setting: lock held. */
uint32_t moietyi_private_mark_of(const struct moietyi_private *arena,
                                 unsigned side);
uint32_t moietyi_private_mark_at(const struct moietyi_privates *privates,
                                 moietyi_page page);
void moietyi_private_set_marks(const struct moietyi_privates *privates,
                               moietyi_page first, uint32_t page_count,
                               uint32_t mark);
/* The pool's, unless the page has another mark by now. */
void moietyi_private_clear_mark(const struct moietyi_privates *privates,
                                moietyi_page page, uint32_t mark);
/* Whether all pages of grains [start, end) have that mark. Lock held. */
bool moietyi_private_has_marks(const struct moietyi_call *call, uint64_t start,
                               uint64_t end, uint32_t mark);
/* Pages that are done, and no arena's any more, go to the pool. */
void moietyi_private_give_pages(struct moietyi_call *call, moietyi_page first,
                                uint32_t page_count);
/* Pages that an arena has, and that it has no more, as the pool counts them. */
void moietyi_private_count_pages(struct moietyi_call *call,
                                 uint32_t page_count);
void moietyi_private_count_return(struct moietyi_call *call,
                                  uint32_t page_count);

/* private_held.c: arenas whose memory is handles of their own. Lock held. */
static inline bool
moietyi_private_has_pieces(const struct moietyi_private *arena)
{
    return arena->flags != 0;
}
/* Lock held, not running. MOIETY_E_PAUSED, or MOIETY_E_IN_USE: a thread pauses or
 * resumes it. */
moiety_status
moietyi_private_refuse_paused(const struct moietyi_private *arena);
/* Lock held. MOIETY_OK, MOIETY_E_PAUSED: with blocks in use, or MOIETY_E_IN_USE: a
 * thread pauses or resumes it. */
MOIETY_MUST_USE moiety_status
moietyi_private_check_end(const struct moietyi_private *arena);
/* What a growth by so many pages is by, if that is to be had. Lock held. */
uint32_t moietyi_private_step(const struct moietyi_private *arena,
                              uint32_t page_count);
/* A handle of so many pages, which are counted as blocks in use. Not within a
 * lock. As moietyi_segments_hold(), once what is free was given back, and if fewer
 * pages are of no use (`is_least`) what becomes free within wait_ms. */
MOIETY_MUST_USE moiety_status moietyi_private_hold(struct moietyi_call *call,
                                                   uint32_t page_count,
                                                   bool is_least, bool may_wait,
                                                   moietyi_page *out);
/* Lock held: notes it. False: no memory. */
bool moietyi_private_note_piece(struct moietyi_private *arena, unsigned side,
                                moietyi_page first, uint32_t page_count);
/* Lock held: the reverse, if it has handles of its own. */
void moietyi_private_forget_piece(struct moietyi_private *arena,
                                  moietyi_page first);
/* Lock held: a handle of a half that is wholly free and done leaves the half. Its
 * pages; 0: there is none. */
uint32_t moietyi_private_remove_piece(struct moietyi_private *arena,
                                      unsigned side, moietyi_page *out_first);
void moietyi_private_free_pieces(struct moietyi_private *arena);
/* Outside of the slow path, which goes on afterwards; pieces are as they were
 * found under the lock. */
void moietyi_private_drop_pieces(struct moietyi_call *call,
                                 struct moietyi_handle *pieces);
/* How a thread asks for memory again that the pool was too short of. */
struct moietyi_private_asking {
    struct moietyi_call *call;
    bool is_patient; /* waits though nothing is known to become free */
    bool is_hasty;   /* waits for nothing to become free */
    bool is_late;    /* the pool's wait_ms are over */
    uint64_t round_count;
    uint64_t refusals; /* of the driver, before */
    struct moietyi_others others;
};
typedef moiety_status moietyi_private_ask(struct moietyi_call *call,
                                          const void *context);
/* As an allocation has it: what is free goes back to the driver first, of this pool
 * and of others, and what becomes free within wait_ms. */
MOIETY_MUST_USE moiety_status
moietyi_private_insist(struct moietyi_private_asking *asking,
                       moietyi_private_ask *ask, const void *context);
/* Lock held. Whether pages that are done on one side may leave it. */
bool moietyi_private_may_lend(const struct moietyi_private *arena,
                              unsigned side);
/* Lock held: before memory is taken, so that others do not pass the limit.
 * MOIETY_OK, MOIETY_E_TOO_LARGE, MOIETY_E_BUDGET. */
MOIETY_MUST_USE moiety_status
moietyi_private_reserve(struct moietyi_private *arena, uint64_t bytes);
/* Lock held: so much more is live. */
void moietyi_private_count_live(struct moietyi_private *arena, uint64_t bytes);
/* Puts what waits behind an event, and drains what is over. True: memory became
 * done. Waits for all work if it must and `may_wait`: an old driver. */
bool moietyi_private_poll(struct moietyi_call *call,
                          struct moietyi_private *arena, bool may_wait);
/* The note of the call's stream; 0: it names none. */
uint32_t moietyi_private_note_of(const struct moietyi_call *call);

/* Before a scope of the arena is opened, at its end and when it is released; or
 * when it was not opened after all. */
MOIETY_MUST_USE moiety_status moietyi_private_begin_scope(
    struct moietyi_call *call, const struct moietyi_private_ref *ref);
void moietyi_private_end_scope(struct moietyi_private *arena,
                               moiety_scope scope);
void moietyi_private_drop_scope(struct moietyi_call *call,
                                struct moietyi_private *arena);

#endif
