/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * A pool's private arenas, for the facade: which pages are whose, what they are
 * served and what is freed into them. Each arena is under a lock of its own,
 * which is not held while the driver, the source or another lock's holder is
 * waited for; what the lock guards is memory, by pool/graph/private_half.h.
 */
#ifndef BINADE_POOL_GRAPH_PRIVATES_H_
#define BINADE_POOL_GRAPH_PRIVATES_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "binade/private.h"
#include "pool/cache/cache.h"
#include "pool/cache/uses.h"
#include "pool/graph/kept.h"
#include "pool/graph/private_half.h"

#define BINADEI_PRIVATES_MAX 4096U

/* Outside of captures, and of captures. */
enum binadei_private_side {
    BINADEI_PRIVATE_PLAIN,
    BINADEI_PRIVATE_GRAPHS,
    BINADEI_PRIVATE_SIDES
};

/* Where an arena is whose memory can go. */
enum binadei_private_phase {
    BINADEI_PRIVATE_RUNNING,
    BINADEI_PRIVATE_PAUSING, /* a thread is at it, as with the last */
    BINADEI_PRIVATE_PAUSED,
    BINADEI_PRIVATE_RESUMING
};

/* One handle of an arena whose memory is handles of its own. */
struct binadei_private_piece {
    struct binadei_private_piece *next;
    binadei_page first;
    uint32_t page_count;
    unsigned side;
    bool is_kept;     /* its contents are with the host, while it is paused */
    uint64_t kept_at; /* there: bytes */
};

/* A place for an arena. It is there to the pool's end, and used again. */
struct binadei_private {
    pthread_mutex_t lock;
    uint32_t place; /* constant */
    /* In a pool that is checked or passes all through an arena is an account:
     * it has no memory, and what it has live is what the sums below say.
     * Constant. */
    bool is_account;
    /* All else is under the lock. */
    binade_private number; /* 0: the place is free */
    uint64_t limit_bytes;  /* UINT64_MAX: none */
    uint64_t reserved_bytes;
    uint64_t reserved_peak_bytes;
    uint64_t live_count;
    uint64_t live_bytes;
    uint64_t live_peak_bytes;
    uint32_t open_count;  /* scopes that are open */
    uint32_t graph_count; /* scopes that were not released */
    uint32_t page_end;    /* its pages are below this one */
    uint32_t flags;       /* BINADE_PRIVATE_ bits */
    enum binadei_private_phase phase;
    struct binadei_private_piece *pieces; /* if it has handles of its own */
    /* Not under the lock, but of the thread that pauses, resumes or ends it. */
    struct binadei_kept kept;
    struct binadei_half halves[BINADEI_PRIVATE_SIDES];
};

/* Edge: none; relaxed: who frees a block has its address from the allocation,
 * and so sees whose its page was then; the lock tells whether it still is.
 * Whose a page of the offset space is: 0, or the place and the side. Written
 * under the arena's lock; whose free pages went to the pool clears by a swap,
 * since another arena may have them. */
typedef _Atomic uint32_t binadei_private_owner;

struct binadei_privates {
    pthread_mutex_t lock;
    /* Edge PA: made (release) -> used (acquire). NULL before the first arena. */
    _Atomic(binadei_private_owner *) owners;
    /* Edge PA, as above. Only appended to. */
    _Atomic(struct binadei_private *) places[BINADEI_PRIVATES_MAX];
};

void binadei_privates_init(struct binadei_privates *privates);
/* No call is under way. What is in them is lost. */
void binadei_privates_fini(struct binadei_privates *privates);

/* BINADE_OK, BINADE_E_TOO_LARGE (so many arenas), BINADE_E_NO_HOST_MEMORY. */
BINADE_MUST_USE binade_status binadei_private_make(struct binadei_call *call,
                                                   uint64_t limit_bytes,
                                                   uint32_t flags,
                                                   binade_private *out);
/* NULL: there is none with this number. It may end at any time; what follows
 * takes the number with it, and returns BINADE_E_INVALID then. */
struct binadei_private *binadei_private_find(struct binadei_privates *privates,
                                             binade_private number);

/* An arena as a caller knows it. */
struct binadei_private_ref {
    struct binadei_private *arena;
    binade_private number;
};

/* That of a scope, which keeps it; NULL: the scope has none. */
struct binadei_private_ref
binadei_private_of_scope(const struct binadei_call *call, binade_scope scope);

/* A block for the call's stream: in a capture of this scope, or outside (0). */
BINADE_MUST_USE binade_status binadei_private_take(
    struct binadei_call *call, const struct binadei_private_ref *ref,
    binade_scope scope, const struct binadei_request *request, bool may_wait,
    binade_devptr *out);
BINADE_MUST_USE binade_status binadei_private_take_at(
    struct binadei_call *call, const struct binadei_private_ref *ref,
    binade_devptr address, const struct binadei_request *request);
/* A free, before the pool itself takes it: `out_is_private`, the block was an
 * arena's, and that is all. In a capture only blocks of captures of the arena
 * whose scope has it; others are the scope's to keep. */
BINADE_MUST_USE binade_status binadei_privates_free(
    struct binadei_call *call, const struct binadei_block *block,
    binade_devptr address, CUevent event, bool *out_is_private);
/* private_resize.c: a block of an arena gets so many grains where it lies, or loses
 * its end, outside of captures. False: the arena has not got them for the call's
 * stream; or the block is a capture's, or the arena's no more, or away. */
BINADE_MUST_USE bool binadei_private_grow(struct binadei_call *call,
                                          const struct binadei_block *block,
                                          uint64_t grains);
BINADE_MUST_USE bool binadei_private_cut(struct binadei_call *call,
                                         const struct binadei_block *block,
                                         uint64_t grains);
/* An account has so many bytes more, in a block; or not any more, if it is the
 * same yet. BINADE_OK, BINADE_E_INVALID, BINADE_E_TOO_LARGE, BINADE_E_BUDGET. */
BINADE_MUST_USE binade_status
binadei_private_charge(const struct binadei_private_ref *ref, uint64_t bytes);
void binadei_private_discharge(const struct binadei_private_ref *ref,
                               uint64_t bytes);
/* Whose the page of a grain is; NULL: the pool's. */
struct binadei_private *
binadei_privates_owner(struct binadei_privates *privates, binadei_grain grain);

BINADE_MUST_USE binade_status binadei_private_shrink(
    struct binadei_call *call, const struct binadei_private_ref *ref,
    uint64_t *out_bytes);
BINADE_MUST_USE binade_status binadei_private_fill(
    const struct binadei_private_ref *ref, binade_private_info *out);
/* private_pause.c: as binade_private_pause() and binade_private_resume(). */
BINADE_MUST_USE binade_status
binadei_private_pause(struct binadei_call *call,
                      const struct binadei_private_ref *ref, uint32_t flags);
BINADE_MUST_USE binade_status binadei_private_resume(
    struct binadei_call *call, const struct binadei_private_ref *ref);
/* BINADE_OK, BINADE_E_INVALID, or BINADE_E_BUSY (there are scopes, another thread
 * pauses or resumes it, or it is paused and has blocks). */
BINADE_MUST_USE binade_status binadei_private_end(
    struct binadei_call *call, const struct binadei_private_ref *ref);

/* --- what the files of this part share --- */

binade_status binadei_private_no_memory(void);
/* With the lock held after BINADE_OK; BINADE_E_INVALID: the arena is gone. */
BINADE_MUST_USE binade_status
binadei_private_enter(const struct binadei_private_ref *ref);
/* The same; BINADE_E_BUSY: it is paused. */
BINADE_MUST_USE binade_status
binadei_private_enter_running(const struct binadei_private_ref *ref);
void binadei_private_leave(struct binadei_private *arena);
/* The arena's place; NULL: there is none so far. */
struct binadei_private *
binadei_private_at(const struct binadei_privates *privates, uint32_t place);
void binadei_private_free_halves(struct binadei_private *arena);
/* What a page of a side has as its owner, and what it has; 0: it is the pool's.
 * Setting: lock held. */
uint32_t binadei_private_mark_of(const struct binadei_private *arena,
                                 unsigned side);
uint32_t binadei_private_mark_at(const struct binadei_privates *privates,
                                 binadei_page page);
void binadei_private_set_marks(const struct binadei_privates *privates,
                               binadei_page first, uint32_t page_count,
                               uint32_t mark);
/* The pool's, unless the page has another mark by now. */
void binadei_private_clear_mark(const struct binadei_privates *privates,
                                binadei_page page, uint32_t mark);
/* Pages that are done, and no arena's any more, go to the pool. */
void binadei_private_give_pages(struct binadei_call *call, binadei_page first,
                                uint32_t page_count);
void binadei_private_count_return(struct binadei_call *call,
                                  uint32_t page_count);

/* private_held.c: arenas whose memory is handles of their own. Lock held. */
static inline bool
binadei_private_has_pieces(const struct binadei_private *arena)
{
    return arena->flags != 0;
}
/* Lock held. Whether it can be ended: it is not paused with blocks in use, and no
 * thread pauses or resumes it. */
bool binadei_private_may_end(const struct binadei_private *arena);
/* What a growth by so many pages is by, if that is to be had. Lock held. */
uint32_t binadei_private_step(const struct binadei_private *arena,
                              uint32_t page_count);
/* A handle of so many pages, which are counted as blocks in use. Not within a
 * lock. As binadei_segments_hold(), once what is free was given back. */
BINADE_MUST_USE binade_status binadei_private_hold(struct binadei_call *call,
                                                   uint32_t page_count,
                                                   bool may_wait,
                                                   binadei_page *out);
/* Lock held: notes it. False: no memory. */
bool binadei_private_note_piece(struct binadei_private *arena, unsigned side,
                                binadei_page first, uint32_t page_count);
/* Lock held: the reverse, if it has handles of its own. */
void binadei_private_forget_piece(struct binadei_private *arena,
                                  binadei_page first);
/* Lock held: a handle of a half that is wholly free and done leaves the half. Its
 * pages; 0: there is none. */
uint32_t binadei_private_remove_piece(struct binadei_private *arena,
                                      unsigned side, binadei_page *out_first);
void binadei_private_free_pieces(struct binadei_private *arena);
/* Outside of the slow path, which goes on afterwards; pieces are as they were
 * found under the lock. */
void binadei_private_drop_pieces(struct binadei_call *call,
                                 struct binadei_private_piece *pieces);
/* Gives what the pool has free back to the driver: true where that was
 * something. `is_first`: threads' caches are asked. */
bool binadei_private_make_room(struct binadei_call *call, bool is_first);
/* Lock held. Whether pages that are done on one side may leave it. */
bool binadei_private_may_lend(const struct binadei_private *arena,
                              unsigned side);
/* Lock held: before memory is taken, so that others do not pass the limit.
 * BINADE_OK, BINADE_E_TOO_LARGE, BINADE_E_BUDGET. */
BINADE_MUST_USE binade_status
binadei_private_reserve(struct binadei_private *arena, uint64_t bytes);
/* Puts what waits behind an event, and drains what is over. True: memory became
 * done. Waits for all work if it must and `may_wait`: an old driver. */
bool binadei_private_poll(struct binadei_call *call,
                          struct binadei_private *arena, bool may_wait);
/* The note of the call's stream; 0: it names none. */
uint32_t binadei_private_note_of(const struct binadei_call *call);

/* Before a scope of the arena is opened, at its end and when it is released; or
 * when it was not opened after all. */
BINADE_MUST_USE binade_status binadei_private_begin_scope(
    struct binadei_call *call, const struct binadei_private_ref *ref);
void binadei_private_end_scope(struct binadei_private *arena,
                               binade_scope scope);
void binadei_private_drop_scope(struct binadei_call *call,
                                struct binadei_private *arena);

#endif
